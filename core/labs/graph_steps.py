"""Training steps captured once as a CUDA graph and replayed: Python launches them all at one go.

Everything that a step needs lies on the device and is found there: the pictures, the order in which
they are shown, the noise (drawn inside the graph), and the number of the step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from core.labs.dcgan import NOISE, Gan

Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # real, noise -> loss of D, loss of G

WARM_UP = 3  # steps before a capture; PyTorch and its libraries set themselves up in them


class GraphSteps:
    """Steps on `data` (M, 1, 28, 28) in the order of `batches` (steps, B), both on a GPU.

    `step` must draw no random numbers, and the optimisers must be capturable. Building this teaches
    the networks some steps: put them back before the ones that count (`dcgan.Gan` fresh, `rewind`).
    """

    def __init__(
        self,
        gan: Gan,
        step: Step,
        data: Tensor,
        batches: Tensor,
        *,
        generator: torch.Generator,
        unroll: int,
    ) -> None:
        self._step, self._data, self._batches = step, data, batches
        self._generator = generator
        self._unroll = min(unroll, len(batches))
        self._done = 0
        self._at = torch.zeros(1, dtype=torch.int64, device=gan.device)
        self._losses = torch.zeros(2, len(batches), device=gan.device)
        with libraries_choosing():
            stream = _stream(gan.device)
            stream.wait_stream(torch.cuda.current_stream(gan.device))
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    self._at.zero_()
                    self._run(1)
            torch.cuda.current_stream(gan.device).wait_stream(stream)
            torch.cuda.synchronize(gan.device)
            self._short = self._captured(1)
            self._long = self._captured(self._unroll) if self._unroll > 1 else self._short
        self.rewind()

    def rewind(self) -> None:
        """The next step is the first again."""
        self._at.zero_()
        self._done = 0

    def advance(self, most: int) -> int:
        """Launch the next steps, at most so many; returns how many. Waits for nothing."""
        long = most >= self._unroll
        (self._long if long else self._short).replay()
        count = self._unroll if long else 1
        self._done += count
        return count

    def losses(self, first: int) -> tuple[Tensor, Tensor]:
        """Those of D and G from step `first` (from 0) to the newest, still on the device."""
        return self._losses[0, first : self._done], self._losses[1, first : self._done]

    def _captured(self, count: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        # "thread_local": the meter's thread and a loader's may go on with what they do.
        with torch.cuda.graph(
            graph, stream=_stream(self._at.device), capture_error_mode="thread_local"
        ):
            self._run(count)
        return graph

    def _run(self, count: int) -> None:
        rows = self._at + torch.arange(count, device=self._at.device)
        batches = self._batches.index_select(0, rows)  # (count, B)
        real = self._data.index_select(0, batches.view(-1))
        real = real.view(count, -1, 1, 28, 28)
        noise = torch.randn(
            *batches.shape, NOISE, device=self._at.device, generator=self._generator
        )
        losses = [torch.stack(self._step(real[i], noise[i])) for i in range(count)]
        self._losses.index_copy_(1, rows, torch.stack(losses, dim=1))
        self._at += count


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of all captures on this device: cuBLAS keeps a workspace for each that it meets,
    64 MiB on an H200, to the end of the process."""
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


@contextmanager
def libraries_choosing() -> Iterator[None]:
    """cuDNN tries its kernels and takes the fastest; afterwards the flag is as it was."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
