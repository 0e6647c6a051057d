"""Train the judge and measure it: `python -m core.models.judge.train --out weights.npz`.

Writes the weights and, beside them, what was measured as .json. `--epochs`, `--digits` and
`--tested` make it small; the weights that come with the lab were made with the defaults.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.labs.dcgan import NOISE, Generator
from core.labs.device import cpu_threads_restored
from core.models.judge import WEIGHTS, Card
from core.models.judge.judge import NO_DIGIT, Judge, Network, read_judge, write_judge
from core.models.judge.material import (
    LEARNT,
    NO_DIGITS,
    Chance,
    flat,
    no_digits,
    real_digits,
    to_network,
    varied,
)

BATCH = 120  # altered digits in one step
EACH_KIND = 6  # and pictures of each kind that is no digit: nearly a third of the step
EACH_TESTED = 1_000  # pictures of each kind that is no digit, when the judge is measured
TEST_SEED = 1_000
THRESHOLDS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5)
READ_OF_REAL = 0.985  # share of real digits that the threshold may not fall short of
UNTRAINED = "untrained"  # pictures of generators that have learnt nothing: never met in training


def train(by_class: Tensor, *, epochs: int, seed: int = 0) -> Network:
    """A network taught with altered copies of the digits (10, each, 28, 28), new ones every epoch.

    Deterministic for one machine and version of PyTorch; PyTorch's own random numbers are left
    where they were.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network().to(memory_format=torch.channels_last)
        chance = Chance(seed + 1)
        pictures, labels = flat(by_class)
        steps_an_epoch = math.ceil(len(pictures) / BATCH)
        adam = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.02)
        rate = torch.optim.lr_scheduler.OneCycleLR(
            adam, max_lr=6e-3, total_steps=epochs * steps_an_epoch, pct_start=0.15
        )
        for epoch in range(1, epochs + 1):
            begun, losses = time.perf_counter(), []
            order = chance.uniform(0, 1, len(pictures)).argsort()
            for chosen in order.tensor_split(steps_an_epoch):
                others = [no_digits(kind, EACH_KIND, by_class, chance) for kind in LEARNT]
                digits = varied(pictures[chosen], chance)
                target = F.pad(labels[chosen], (0, EACH_KIND * len(LEARNT)), value=NO_DIGIT)
                scores = network(to_network(torch.cat([digits, *others])))
                loss = F.cross_entropy(scores, target)
                adam.zero_grad()
                torch.autograd.backward(loss)
                adam.step()
                rate.step()
                losses.append(loss.detach())
            mean, seconds = float(torch.stack(losses).mean()), time.perf_counter() - begun
            print(f"epoch {epoch}: loss {mean:.4f}, {seconds:.1f} s", file=sys.stderr)
    return network.eval()


def chosen_threshold(network: nn.Module, by_class: Tensor) -> float:
    """The strictest threshold at which enough of these real digits can still be read."""
    pictures, _ = flat(by_class)
    judge = Judge(network, 0.0, torch.device("cpu"))
    surest = judge.probabilities(to_network(pictures))[:, :NO_DIGIT].amax(dim=1)
    for threshold in THRESHOLDS:
        if float((surest >= threshold).float().mean()) >= READ_OF_REAL:
            return threshold
    return THRESHOLDS[-1]


def untrained_drawings(count: int) -> Tensor:
    """Pictures (count, 1, 28, 28) of generators as they are before the first step, 50 of each."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        drawings = []
        for seed in range(math.ceil(count / 50)):
            torch.manual_seed(seed)
            generator = Generator()
            # As the lab draws (fixed statistics), and as it trains (those of the batch).
            generator.train(seed % 2 == 1)
            drawings.append(generator(torch.randn(50, NOISE, 1, 1)))
        return torch.cat(drawings)[:count]


def others_for_test(kind: str, test: Tensor, count: int) -> Tensor:
    """Pictures (count, 1, 28, 28) that are no digits, the same ones every time."""
    if kind == UNTRAINED:
        return untrained_drawings(count)
    return to_network(no_digits(kind, count, test, Chance(TEST_SEED)))


def measured(
    judge: Judge,
    test: Tensor,
    *,
    tested: int,
    train_digits: int,
    epochs: int,
    train_cpu_seconds: float,
    calibration_digits: int,
) -> Card:
    """The judge's figures, from real digits (10, each, 28, 28) that were kept from it so far."""
    pictures, labels = flat(test)
    likeliest = judge.probabilities(to_network(pictures))[:, :NO_DIGIT].argmax(dim=1)
    read = judge.read(to_network(pictures))
    right = int((likeliest == labels).sum())
    low, high = wilson(right, len(labels))
    others = {
        kind: judge.score(others_for_test(kind, test, tested)).readable
        for kind in (*NO_DIGITS, UNTRAINED)
    }
    return Card(
        parameters=judge.parameters,
        train_digits=train_digits,
        epochs=epochs,
        train_cpu_seconds=round(train_cpu_seconds, 1),
        test_digits=len(labels),
        test_accuracy=right / len(labels),
        test_accuracy_low=round(low, 4),
        test_accuracy_high=round(high, 4),
        calibration_digits=calibration_digits,
        threshold=judge.threshold,
        readable_real=round(float((read >= 0).float().mean()), 4),
        readable_and_right=round(float((read == labels).float().mean()), 4),
        readable_others={kind: round(share, 4) for kind, share in others.items()},
        kinds_learnt=LEARNT,
    )


def wilson(right: int, count: int) -> tuple[float, float]:
    """95 % interval for a share of which `right` of `count` were seen (Wilson 1927)."""
    z = 1.96
    share = right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    return middle - half, middle + half


def made(out: Path, *, epochs: int, digits: int, tested: int, seed: int) -> Card:
    """Train on that many of the real digits, write the weights, and measure what was written."""
    split = real_digits()
    by_class = split.train[:, : max(1, digits // 10)]
    begun = time.process_time()
    network = train(by_class, epochs=epochs, seed=seed)
    train_cpu_seconds = time.process_time() - begun
    write_judge(out, network, chosen_threshold(network, split.calibration))
    return measured(
        read_judge(out, torch.device("cpu")),
        split.test,
        tested=tested,
        train_digits=by_class.shape[0] * by_class.shape[1],
        epochs=epochs,
        train_cpu_seconds=train_cpu_seconds,
        calibration_digits=split.calibration.shape[0] * split.calibration.shape[1],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train the digit judge and measure it.")
    parser.add_argument("--epochs", type=int, default=75)
    parser.add_argument("--digits", type=int, default=3_600, help="real digits to learn from")
    parser.add_argument(
        "--tested", type=int, default=EACH_TESTED, help="pictures of each kind to measure with"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the .npz file to write")
    given = parser.parse_args(arguments)

    with cpu_threads_restored():
        # One thread unless asked: where others compute too, a second one mostly waits.
        torch.set_num_threads(given.threads)
        figures = made(
            given.out,
            epochs=given.epochs,
            digits=given.digits,
            tested=given.tested,
            seed=given.seed,
        )
    told = msgspec.json.format(msgspec.json.encode(figures), indent=2)
    given.out.with_suffix(".json").write_bytes(told + b"\n")
    print(told.decode())


if __name__ == "__main__":
    main()
