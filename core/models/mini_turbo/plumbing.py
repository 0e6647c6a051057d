"""What every stage of the training shares: precision, CUDA graphs, the clock, files of weights.

On a GPU each step is sampled, run forward and backward, clipped and applied inside one CUDA graph:
nothing in it may wait for the host or copy from it. On a CPU the same step is called plainly.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from core.models.mini_turbo.blocks import SHIPPED, Sizes

SHARD_BYTES = 12_000_000  # of one file of weights
SYNC_EVERY = 10  # steps that may wait in the GPU's queue
WARM_UPS = 3  # plain runs of a step before it is captured


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where and how long a stage trains."""

    out: Path  # what it makes is written here
    given: Path | None = None  # weights of earlier stages, beside `out`
    seconds: float = 60.0
    steps: int | None = None  # ends the stage after so many steps instead: for tests
    batch: int | None = None  # the stage's own, if None
    begin: float = 0.0  # the part of the whole schedule that this call is; above 0 it resumes
    end: float = 1.0
    bank: int = 500_000  # captions and latents
    seed: int = 0
    compiled: bool = False  # torch.compile where it was measured to pay
    warm: bool = False  # only compile, on made-up data, to fill the compiler's cache
    processes: int | None = None  # that write the captions; one for each core if None
    sizes: Sizes = SHIPPED
    device: torch.device = field(default_factory=best_device)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def dtype(self) -> torch.dtype:
        """What networks compute in."""
        return torch.bfloat16 if self.on_gpu else torch.float32

    def amp(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.on_gpu)

    def compiler(self, network: nn.Module) -> nn.Module:
        if not (self.compiled and self.on_gpu):
            return network
        compiled: nn.Module = torch.compile(network, dynamic=False)  # type: ignore[assignment]
        return compiled

    def read(self, network: nn.Module, name: str) -> nn.Module:
        """`network` with the weights that an earlier stage has written, on the device, frozen."""
        network.load_state_dict(read_weights(name, self.folders))
        return network.to(self.device).eval().requires_grad_(False)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where weights are looked for, the first one first."""
        return (self.out,) if self.given is None else (self.out, self.given)


def note(what: str, **figures: object) -> None:
    """One line of progress."""
    told = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
    print(f"{time.strftime('%H:%M:%S')} {what}  {told}", file=sys.stderr, flush=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Time and rates


class Clock:
    """Progress of a stage from `begin` to `end`, by its seconds: it always ends at its budget.

    With `steps` it goes by steps instead. Share 1 is the end of the whole schedule.
    """

    def __init__(self, run: Run) -> None:
        self._run, self._started, self.steps = run, time.perf_counter(), 0

    def ticks(self) -> Iterator[float]:
        """The progress at each step, until the time is over."""
        run = self._run
        while (done := self._done()) < 1:
            yield run.begin + (run.end - run.begin) * done
            self.steps += 1
            if run.on_gpu and self.steps % SYNC_EVERY == 0:
                torch.cuda.synchronize()

    @property
    def rate(self) -> float:
        """Steps a second so far."""
        return self.steps / max(1e-9, time.perf_counter() - self._started)

    def _done(self) -> float:
        if self._run.steps is not None:
            return self.steps / self._run.steps
        return (time.perf_counter() - self._started) / self._run.seconds


def cosine(progress: float, peak: float, *, warm: float = 0.03, floor: float = 0.02) -> float:
    """A learning rate that climbs for `warm` of the time and then falls in half a wave."""
    fall = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return peak * min(1.0, progress / warm) * fall


# A network that learns


class Learner:
    """A working copy that computes, exact weights that learn, and their moving average.

    AdamW and its learning rates stay on the device, so that a CUDA graph can hold the update.
    `quicker`: parameters whose names begin so learn at `times` the rate.
    """

    def __init__(
        self,
        network: nn.Module,
        run: Run,
        *,
        rate: float,
        betas: tuple[float, float] = (0.9, 0.99),
        decay: float = 0.0,
        average: float | None = None,
        quicker: tuple[str, ...] = (),
        times: float = 1.0,
    ) -> None:
        network.to(run.device)
        self._run = run
        self.names = [name for name, _ in network.named_parameters()]
        self._exact = [p.detach().float().clone() for p in network.parameters()]
        network.to(run.dtype)
        self.working: list[Tensor] = list(network.parameters())
        self._grads = [torch.zeros_like(exact) for exact in self._exact]
        for exact, grad in zip(self._exact, self._grads, strict=True):
            exact.grad = grad
        fast = [name.startswith(quicker) if quicker else False for name in self.names]
        groups = [
            ([w for w, is_fast in zip(self._exact, fast, strict=True) if is_fast is which], factor)
            for which, factor in ((False, 1.0), (True, times))
        ]
        groups = [(parameters, factor) for parameters, factor in groups if parameters]
        self._times = [factor for _, factor in groups]
        self._adam = torch.optim.AdamW(
            [
                {"params": parameters, "lr": self._on_device(rate * factor)}
                for parameters, factor in groups
            ],
            betas=betas,
            weight_decay=decay,
            fused=run.on_gpu,
            capturable=run.on_gpu,
        )
        # The optimiser's own objects: filled in place, a captured graph sees new values.
        self._rates = [group["lr"] for group in self._adam.param_groups]
        self._average = average
        self._kept = [exact.clone() for exact in self._exact] if average else None

    def _on_device(self, rate: float) -> Tensor | float:
        return torch.tensor(rate, device=self._run.device) if self._run.on_gpu else rate

    def set_rate(self, rate: float) -> None:
        for group, lr, times in zip(self._adam.param_groups, self._rates, self._times, strict=True):
            if isinstance(lr, Tensor):
                lr.fill_(rate * times)
            else:
                group["lr"] = rate * times

    def forget(self) -> None:
        """Drop the working copy's gradients."""
        for parameter in self.working:
            parameter.grad = None

    @torch.no_grad()
    def learn(self, *, clip: float) -> None:
        """One update from the working copy's gradients."""
        torch._foreach_copy_(self._grads, [w.grad for w in self.working if w.grad is not None])
        nn.utils.clip_grad_norm_(self._exact, clip)
        self._adam.step()
        torch._foreach_copy_(self.working, self._exact)
        if self._kept is not None and self._average is not None:
            torch._foreach_lerp_(self._kept, self._exact, 1 - self._average)

    def state(self) -> dict[str, Tensor]:
        """The averaged weights, or the exact ones where no average is kept.

        None of the networks trained so has buffers that matter.
        """
        kept = self._kept if self._kept is not None else self._exact
        return {name: value.detach() for name, value in zip(self.names, kept, strict=True)}

    def frozen(self, value: bool) -> None:
        for parameter in self.working:
            parameter.requires_grad_(not value)


class Step:
    """A step without arguments: captured in a CUDA graph on a GPU, called plainly elsewhere."""

    def __init__(self, step: Callable[[], None], run: Run, name: str) -> None:
        self._step, self._graph = step, None
        if not run.on_gpu:
            return
        started = time.perf_counter()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        warm = time.perf_counter() - started
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            graph.replay()
            torch.cuda.synchronize()
        except RuntimeError as error:  # slower, but it still trains; the log has to say so
            note(f"NO GRAPH for {name}: {error!s:.300}")
            torch.cuda.synchronize()
            return
        self._graph = graph
        begun = time.perf_counter()
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
        note(f"graph of {name}", warm_up_s=warm, step_ms=(time.perf_counter() - begun) * 200)

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._step()


# Files of weights


def write_weights(state: dict[str, Tensor], name: str, folder: Path) -> None:
    """Half precision, in files `name-0.safetensors`, ... of at most 12 MB each."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{name}-[0-9].safetensors"):
        old.unlink()
    for place, shard in enumerate(_shards(state)):
        save_file(shard, folder / f"{name}-{place}.safetensors")


def _shards(state: dict[str, Tensor]) -> Iterable[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    size = 0
    for key, value in state.items():
        half = value.detach().to("cpu", torch.float16 if value.is_floating_point() else value.dtype)
        if shard and size + half.nbytes > SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[key.replace("_orig_mod.", "")] = half.contiguous()
        size += half.nbytes
    yield shard


def has_weights(name: str, folders: Iterable[Path]) -> bool:
    return any(any(folder.glob(f"{name}-[0-9].safetensors")) for folder in folders)


def read_weights(name: str, folders: Iterable[Path]) -> dict[str, Tensor]:
    """In single precision, from the first folder that has them. Raises FileNotFoundError."""
    looked_in = list(folders)
    for folder in looked_in:
        files = sorted(folder.glob(f"{name}-[0-9].safetensors"))
        if files:
            parts = [load_file(file) for file in files]
            return {
                key: value.float() if value.is_floating_point() else value
                for part in parts
                for key, value in part.items()
            }
    raise FileNotFoundError(f"no weights {name!r} in {', '.join(map(str, looked_in))}")
