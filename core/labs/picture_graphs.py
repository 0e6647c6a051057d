"""Drawing without Python in between: a whole picture as one CUDA graph, and compiled blocks."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from core.labs.device import wait_for
from core.labs.graph_steps import libraries_choosing

if TYPE_CHECKING:
    from core.labs.image_pipeline import ImagePipeline

WARM_UP = 3  # pictures before a capture; PyTorch and its libraries set themselves up in them
POLL_SECONDS = 0.25
COMPILERS = max(1, min(8, (os.cpu_count() or 1) // 2))  # for hundreds of kernels

log = logging.getLogger(__name__)


class PictureGraph:
    """`draw(ids, noise)` -> pictures, captured for the size of these and replayed."""

    def __init__(
        self,
        draw: Callable[[Tensor, Tensor], Tensor],
        *,
        ids: Tensor,
        noise: Tensor,
        pool: Any = None,
    ) -> None:
        """Graphs may share a `pool` of memory where they never overlap: nothing lasts in it."""
        self._ids, self._noise = ids, noise
        device = noise.device
        stream = _stream(device)
        with torch.inference_mode(), libraries_choosing():
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    self._pictures = torch.empty_like(draw(ids, noise))
            torch.cuda.current_stream(device).wait_stream(stream)
            wait_for(device)
            self._graph = torch.cuda.CUDAGraph()
            # "thread_local": the meter's thread may go on with what it does.
            with torch.cuda.graph(
                self._graph,
                pool=pool,
                stream=stream,
                capture_error_mode="thread_local",
            ):
                self._pictures.copy_(draw(ids, noise))

    def replay(self, ids: Tensor, noise: Tensor) -> Tensor:
        """Pictures (B, height, width, 3), overwritten by the next replay. Waits for nothing."""
        self._ids.copy_(ids)
        self._noise.copy_(noise)
        self._graph.replay()
        return self._pictures


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


def has_compiler(device: torch.device) -> bool:
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (7, 0)
    )


class Compiling:
    """U-Net and VAE being compiled, in a thread, since that takes a minute or two.

    The pipeline draws with them once `waiting` has come to its end and they are `usable`. PyTorch
    keeps them on disk too: the next process is ready in seconds.
    """

    def __init__(self, pipeline: ImagePipeline, sizes: tuple[int, ...]) -> None:
        self.usable = False
        self._pipeline, self._sizes = pipeline, sizes
        predict, decode = pipeline.own_blocks()
        self._predict = torch.compile(predict, dynamic=False)
        self._decode = torch.compile(decode, dynamic=False)
        self._threads = torch.get_num_threads()
        self._thread = threading.Thread(target=self._make, name="compiling", daemon=True)
        self._thread.start()

    def waiting(self) -> Iterator[None]:
        """Yields a few times a second until they are made, or are known to be impossible."""
        while self._thread.is_alive():
            self._thread.join(POLL_SECONDS)
            yield
        if self.usable:
            self._pipeline.draw_with(self._predict, self._decode, self._sizes)

    def _make(self) -> None:
        torch.set_num_threads(self._threads)  # a new thread starts with another number
        pipeline = self._pipeline
        try:
            from torch._inductor import config
            from torch._inductor.async_compile import shutdown_compile_workers

            with (
                torch.inference_mode(),
                config.patch(compile_threads=COMPILERS),
                libraries_choosing(),
            ):
                for size in self._sizes:
                    words = pipeline.read(pipeline.ids([""] * size).to(pipeline.device))
                    noise = pipeline.noise(range(size)).to(words)
                    for step in pipeline.plan(1):
                        self._predict(noise, step.time, words)
                    self._decode(noise)
                wait_for(pipeline.device)
            shutdown_compile_workers()  # they are processes, each with a PyTorch in memory
        except Exception:
            # Too old a card, no C compiler on the machine, ...: pictures come without.
            log.warning("the model cannot be compiled here", exc_info=True)
        else:
            self.usable = True
