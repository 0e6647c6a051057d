"""How long an epoch takes in each way on a GPU, beside a plain re-creation of the lab's three.

    python -m tests.benchmarks.feed_gpu [--seeds 5] [--passes 5]

Plain networks and loops as the lab has them, ways a, b and c, then the app's own ways e and f at
batch 128, all in one run. Then b and f train one epoch with several seeds each, and the judge reads
what they draw. Last, what the fastest step is bound by.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.data.digits import load_digits
from core.labs.dcgan import BATCH, NOISE
from core.labs.loading import Loader, uploaded
from core.labs.ways import EagerTrainer, GraphTrainer, Kernels, Trainer, Way, all_ways
from core.models import judge
from core.settings import LabSettings
from tests.benchmarks.report import Report
from tests.labs.plain import plain_discriminator, plain_generator

DEVICE = torch.device("cuda:0")
TARGET_SECONDS, TARGET_SHARE = 0.27, 0.1
JUDGED = 1_024

# A step at batch 128: multiply-adds of each picture in G (7.0 M forward) and D (6.6 M forward).
# G forward and backward (3 times forward), D forward 3 times, backward twice in full and once to
# its input alone: 3 * 7.0 + 3 * 6.6 + 2 * 2 * 6.6 + 6.6 = 74 M.
FLOPS_A_PICTURE = 2 * 74e6


class PlainOnGpu:
    """The lab's networks and step on a GPU; both losses read at every step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.g, self.d = plain_generator().to(DEVICE), plain_discriminator().to(DEVICE)
        self.adam_g = torch.optim.Adam(self.g.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.adam_d = torch.optim.Adam(self.d.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.loss = torch.nn.BCEWithLogitsLoss()

    def step(self, real: Tensor) -> tuple[float, float]:
        size = len(real)
        one, zero = torch.ones(size, 1, device=DEVICE), torch.zeros(size, 1, device=DEVICE)
        fakes = self.g(torch.randn(size, NOISE, 1, 1, device=DEVICE))
        loss_d = self.loss(self.d(real), one) + self.loss(self.d(fakes.detach()), zero)
        self.adam_d.zero_grad()
        loss_d.backward()
        self.adam_d.step()
        loss_g = self.loss(self.d(fakes), one)
        self.adam_g.zero_grad()
        loss_g.backward()
        self.adam_g.step()
        return loss_d.item(), loss_g.item()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    digits = load_digits(LabSettings.load())
    data = uploaded(digits.images, DEVICE)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name(DEVICE)}, {digits.source}")
    report = Report()

    def plain_loader() -> None:
        lab = PlainOnGpu()
        with Loader(digits.images, seed=0) as batches:
            for _ in range(len(data) // BATCH):
                lab.step(next(batches).to(DEVICE))

    def plain_resident(batch: int) -> Callable[[], None]:
        def one_pass() -> None:
            lab = PlainOnGpu()
            order = torch.randperm(len(data), device=DEVICE)
            for start in range(0, len(data) - batch + 1, batch):
                lab.step(data[order[start : start + batch]])

        return one_pass

    def own(trainer: Trainer) -> Callable[[], None]:
        def one_pass() -> None:
            done, steps = 0, len(data) // BATCH
            while done < steps:
                read = done
                while done < steps and done - read < 50:
                    done += trainer.advance(steps - done, nullcontext)
                trainer.losses(read)

        return one_pass

    ways = {way.name: way for way in all_ways(512)}
    report.median("lab's way a: loader, 128", timed(plain_loader, 2), "s")
    plain_b = timed(plain_resident(BATCH), arguments.passes)
    report.median("lab's way b: resident, 128", plain_b, "s")
    report.median("lab's way c: resident, 512", timed(plain_resident(512), 3), "s")

    graph = GraphTrainer(ways["graph"], data, device=DEVICE, fused=False)
    seconds = timed(own(graph), arguments.passes, begin=lambda: graph.begin(0))
    report.median("way e: CUDA graph, 128", seconds, "s")
    began = time.perf_counter()
    kernels = Kernels(BATCH, DEVICE)
    for _ in kernels.waiting():
        pass
    print(f"kernels compiled: {kernels.usable}, in {time.perf_counter() - began:.1f} s, untimed")
    lean = GraphTrainer(ways["lean"], data, device=DEVICE, fused=kernels.usable)
    lean_seconds = timed(own(lean), arguments.passes, begin=lambda: lean.begin(0))
    report.median("way f: lean, 128", lean_seconds, "s", at_most=TARGET_SECONDS)
    shares = [second / statistics.median(plain_b) for second in lean_seconds]
    report.median("way f as a share of the lab's b", shares, "times", at_most=TARGET_SHARE)
    compare_learning(ways["resident"], lean, own, data, digits.images, seeds=arguments.seeds)
    roofline(statistics.median(lean_seconds) / (len(data) // BATCH), lean)
    return report.exit_code


def timed(
    one_pass: Callable[[], None], passes: int, *, begin: Callable[[], None] = lambda: None
) -> list[float]:
    """Seconds of each pass, after one that warms up."""
    seconds = []
    for number in range(passes + 1):
        begin()
        torch.cuda.synchronize(DEVICE)
        began = time.perf_counter()
        one_pass()
        torch.cuda.synchronize(DEVICE)
        if number:
            seconds.append(time.perf_counter() - began)
    return seconds


def compare_learning(
    resident: Way,
    lean: Trainer,
    own: Callable[[Trainer], Callable[[], None]],
    data: Tensor,
    images: NDArray[np.uint8],
    *,
    seeds: int,
) -> None:
    """One epoch from each seed in both ways; the judge's scores side by side."""
    reader = judge.load(DEVICE)
    noises = torch.randn(JUDGED, NOISE, 1, 1, generator=torch.Generator().manual_seed(99))
    eager = EagerTrainer(resident, images, data, device=DEVICE, fused=False)
    scores: dict[str, list[float]] = {"b": [], "f": []}
    for name, trainer in (("b", eager), ("f", lean)):
        for seed in range(seeds):
            trainer.begin(seed)
            own(trainer)()
            with torch.inference_mode():
                trainer.gan.generator.eval()
                scores[name].append(reader.score(trainer.gan.generator(noises.to(DEVICE))).readable)
                trainer.gan.generator.train()
        shown = ", ".join(f"{score:.3f}" for score in scores[name])
        mean, spread = statistics.mean(scores[name]), statistics.stdev(scores[name])
        print(f"readable after one epoch, way {name}: mean {mean:.3f}, sd {spread:.3f} ({shown})")
    # Pairs: one seed gives both the same networks and order, and some seeds start badly for both.
    pairs = [f - b for b, f in zip(scores["b"], scores["f"], strict=True)]
    apart = statistics.mean(pairs)
    error = statistics.stdev(pairs) / math.sqrt(seeds)
    verdict = "within noise" if abs(apart) <= 2 * error else "NOT within noise"
    print(f"f minus b, seed by seed: {apart:+.3f}, standard error {error:.3f}: {verdict}")


def roofline(step_seconds: float, lean: Trainer) -> None:
    """What a step must take at the least: arithmetic, memory, and the launch of its kernels."""
    count, busy = kernels_of_a_step(lean)
    product = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    flops = 2 * 8192**3 / median_seconds(lambda: product @ product)
    block = torch.empty(2**28, device=DEVICE)  # 1 GiB
    other = torch.empty_like(block)
    bandwidth = 2 * block.nbytes / median_seconds(lambda: other.copy_(block))
    empty = torch.zeros(1, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(200):
            empty.add_(1)
    floor = median_seconds(graph.replay) / 200
    needed = FLOPS_A_PICTURE * BATCH
    # Weights, gradients and Adam's two moments, read and written once: 0.67 M float32 each; the
    # activations of a step (some 30 MB in bfloat16) stay in the cache of a card with 50 MB of it.
    moved = 673e3 * 4 * 7 + BATCH * 3136
    print(f"a step takes {1e6 * step_seconds:.0f} us: {count} kernels, busy for {busy:.0f} us")
    print(f"  arithmetic {1e6 * needed / flops:.0f} us ({needed / 1e9:.1f} GFLOP at the measured")
    print(f"    {flops / 1e12:.0f} TFLOP/s in bfloat16, which layers this small do not reach)")
    print(f"  memory {1e6 * moved / bandwidth:.0f} us ({moved / 1e6:.0f} MB at the measured")
    print(f"    {bandwidth / 1e12:.1f} TB/s)")
    print(f"  launches {1e6 * count * floor:.0f} us ({count} kernels that do nothing, in a graph,")
    print(f"    {1e6 * floor:.2f} us each)")
    limit = max(needed / flops, moved / bandwidth)
    print(f"  physical limit {1e6 * limit:.0f} us: the step takes {step_seconds / limit:.0f} times")
    print(f"  bound by kernels too small to fill the chip: {busy / count:.1f} us each, of which")
    print(f"    {1e6 * floor:.1f} us pass before one can do anything")


def kernels_of_a_step(trainer: Trainer) -> tuple[int, float]:
    """How many kernels one step launches, and the microseconds that they run."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        trainer.begin(0)
        torch.cuda.synchronize(DEVICE)
    before = profiler.events()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        trainer.begin(0)
        steps = trainer.advance(10**6, nullcontext)
        torch.cuda.synchronize(DEVICE)
    after = profiler.events()
    busy = sum(event.device_time for event in after) - sum(event.device_time for event in before)
    return (len(after) - len(before)) // steps, busy / steps


def median_seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(12):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        work()
        last.record()
        torch.cuda.synchronize(DEVICE)
        times.append(first.elapsed_time(last) / 1000)
    return statistics.median(times[2:])


if __name__ == "__main__":
    raise SystemExit(main())
