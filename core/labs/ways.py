"""The ways of feeding one and the same training: what a way is, and its networks taking steps.

Whatever the way, the algorithm is `dcgan.train_step`: the same networks from the same seed, Adam as
there, BatchNorm's statistics of real and fake pictures apart, G taught on the fakes that D saw.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.labs.dcgan import BATCH, NOISE, Gan, train_step
from core.labs.fast_step import LeanStep
from core.labs.graph_steps import GraphSteps, Step, libraries_choosing
from core.labs.loading import Loader

# Steps in one graph of the lean way: enough to hide the launch of a graph (some 10 us on an H200,
# where a step is 400 us), few enough that a stop is heeded soon on a slow card.
UNROLL = 12
POLL_SECONDS = 0.1

Waiting = Callable[[], AbstractContextManager[None]]  # a block in which the data is waited for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """One way; each switch changes one thing."""

    name: str
    batch: int = BATCH
    loader: bool = False  # pictures come one by one through a loader; else all lie on the device
    reads: bool = False  # both losses are read after every step, which waits for the device
    graph: bool = False  # the step is launched as one CUDA graph
    lean: bool = False  # few fused kernels, products in bfloat16


def all_ways(large_batch: int) -> tuple[Way, ...]:
    """(a) to (f), each built on what the one before has taught."""
    resident = Way("resident", reads=True)
    no_wait = replace(resident, name="no_wait", reads=False)
    graph = replace(no_wait, name="graph", graph=True)
    return (
        replace(resident, name="loader", loader=True),
        resident,
        replace(resident, name="large", batch=large_batch),
        no_wait,
        graph,
        replace(graph, name="lean", lean=True),
    )


class Trainer(Protocol):
    """The networks of one way, and how they take their next steps."""

    gan: Gan

    def begin(self, seed: int) -> None:
        """Fresh networks, a fresh order of the pictures, fresh noise: all of this seed."""

    def advance(self, most: int, waiting: Waiting) -> int:
        """Take the next steps, at most so many; returns how many. Does not wait for a GPU."""

    def losses(self, first: int) -> tuple[list[float], list[float]]:
        """Those of D and G from step `first` (from 0) to the newest; waits for the device."""

    def another_pass(self) -> None:
        """Go on with the same networks; all pictures come once more, in another order, and `losses`
        counts from 0 again."""

    def close(self) -> None:
        """End what goes on beside the training; a `begin` starts it again."""


def trainer_of(
    way: Way, images: NDArray[np.uint8], data: Tensor | None, *, device: torch.device, fused: bool
) -> Trainer:
    """The trainer of a way for `images` (M, 28, 28), which are `data` (M, 1, 28, 28) in -1..1 on
    the device where the way has no loader. `fused`: the lean way's kernels can be compiled."""
    if way.graph:
        assert data is not None
        return GraphTrainer(way, data, device=device, fused=fused)
    return EagerTrainer(way, images, data, device=device, fused=fused)


def fresh_gan(device: torch.device, seed: int) -> Gan:
    """The networks of a seed; the global random numbers go on afterwards as if nothing was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's alone, unlike torch.manual_seed
        return Gan(device)


def random_order(count: int, batch: int, generator: torch.Generator) -> Tensor:
    """Which pictures each step sees, in one pass over `count` of them: (steps, batch)."""
    steps = count // batch
    order = torch.randperm(count, generator=generator, device=generator.device)
    return order[: steps * batch].view(steps, batch)


class EagerTrainer:
    """Every kernel is launched by Python, one by one, as it comes."""

    def __init__(
        self,
        way: Way,
        images: NDArray[np.uint8],
        data: Tensor | None,
        *,
        device: torch.device,
        fused: bool,
    ) -> None:
        self.gan: Gan
        self._way, self._images, self._data = way, images, data
        self._device, self._fused = device, fused
        self._generator = torch.Generator(device)
        self._loader: Loader | None = None
        self._losses: list[tuple[Tensor, Tensor]] = []

    def begin(self, seed: int) -> None:
        self.close()
        self.gan = fresh_gan(self._device, seed)
        self._step = _step_of(self._way, self.gan, fused=self._fused)
        self._generator.manual_seed(seed)
        if self._way.loader:
            self._loader = Loader(self._images, seed=seed)
        self.another_pass()

    def another_pass(self) -> None:
        self._losses = []
        if not self._way.loader:  # which shuffles by itself
            self._order = random_order(len(self._images), self._way.batch, self._generator)

    def advance(self, most: int, waiting: Waiting) -> int:
        if self._loader is not None:
            with waiting():
                batch = next(self._loader)  # (128, 1, 28, 28)
            real = batch.to(self._device)
        else:
            assert self._data is not None
            real = self._data[self._order[len(self._losses)]]
        noise = torch.randn(self._way.batch, NOISE, device=self._device, generator=self._generator)
        self._losses.append(self._step(real, noise))
        return 1

    def losses(self, first: int) -> tuple[list[float], list[float]]:
        new = self._losses[first:]
        if len(new) == 1:  # as the lab reads them: two numbers, two waits
            return [new[0][0].item()], [new[0][1].item()]
        read: list[list[float]] = torch.stack([torch.stack(pair) for pair in new]).tolist()
        return [pair[0] for pair in read], [pair[1] for pair in read]

    def close(self) -> None:
        if self._loader is not None:
            self._loader.close()
            self._loader = None


class GraphTrainer:
    """Steps are captured once, here, and replayed; a new start puts new numbers in old places."""

    def __init__(self, way: Way, data: Tensor, *, device: torch.device, fused: bool) -> None:
        self.gan = fresh_gan(device, 0)
        self._way, self._device, self._count = way, device, len(data)
        self._generator = torch.Generator(device)
        self._order = random_order(self._count, way.batch, self._generator)
        _make_capturable(self.gan, fused=way.lean)
        self._step = _step_of(way, self.gan, fused=fused)
        self._steps = GraphSteps(
            self.gan,
            self._step,
            data,
            self._order,
            generator=self._generator,
            unroll=UNROLL if way.lean and not way.reads else 1,
        )

    @torch.no_grad()
    def begin(self, seed: int) -> None:
        fresh = fresh_gan(self._device, seed)
        self.gan.generator.load_state_dict(fresh.generator.state_dict())  # copied in place
        self.gan.discriminator.load_state_dict(fresh.discriminator.state_dict())
        for adam in (self.gan.generator_adam, self.gan.discriminator_adam):
            for state in adam.state.values():
                for tensor in state.values():
                    tensor.zero_()
        if isinstance(self._step, LeanStep):
            self._step.forget()
        self._generator.manual_seed(seed)
        self.another_pass()

    def another_pass(self) -> None:
        self._order.copy_(random_order(self._count, self._way.batch, self._generator))
        self._steps.rewind()

    def advance(self, most: int, waiting: Waiting) -> int:
        return self._steps.advance(most)

    def losses(self, first: int) -> tuple[list[float], list[float]]:
        loss_d, loss_g = self._steps.losses(first)
        return loss_d.tolist(), loss_g.tolist()

    def close(self) -> None:
        pass


def _step_of(way: Way, gan: Gan, *, fused: bool) -> Step:
    if not way.lean:
        return functools.partial(_plain_step, gan, nullcontext)
    dtype = _lean_dtype(gan.device)
    if fused:
        return LeanStep(gan, dtype=dtype, compiled=True)
    # Without the compiler that writing is the slower one (0.65 s an epoch on an H200 against 0.47):
    # what remains of "lean" is the data type and the layout.
    for network in (gan.generator, gan.discriminator):
        network.to(memory_format=torch.channels_last)
    autocast = functools.partial(
        torch.autocast, gan.device.type, dtype=dtype, enabled=dtype is not torch.float32
    )
    return functools.partial(_plain_step, gan, autocast)


def _plain_step(
    gan: Gan, products: Callable[[], AbstractContextManager[object]], real: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    with products():
        return train_step(gan, real, noise=noise.view(len(noise), NOISE, 1, 1))


def _lean_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float32
    return torch.bfloat16


def _make_capturable(gan: Gan, *, fused: bool) -> None:
    """Adam keeps its count of steps on the GPU, where a graph can raise it."""
    for name, network in (("generator", gan.generator), ("discriminator", gan.discriminator)):
        settings = getattr(gan, f"{name}_adam").defaults
        adam = torch.optim.Adam(
            network.parameters(),
            lr=settings["lr"],
            betas=settings["betas"],
            capturable=True,
            fused=fused or None,
        )
        setattr(gan, f"{name}_adam", adam)


class Kernels:
    """The lean way's fused kernels being made, in a thread, since that takes up to a minute.

    PyTorch keeps them for this process, and on disk for the next one.
    """

    def __init__(self, batch: int, device: torch.device) -> None:
        self.usable = False
        self._batch, self._device = batch, device
        self._cpu_threads = torch.get_num_threads()
        self._thread = threading.Thread(target=self._make, name="kernels", daemon=True)
        self._thread.start()

    def waiting(self) -> Iterator[None]:
        """Yields a few times a second until they are made, or are known to be impossible."""
        while self._thread.is_alive():
            self._thread.join(POLL_SECONDS)
            yield

    def _make(self) -> None:
        if not _has_compiler(self._device):
            return
        torch.set_num_threads(self._cpu_threads)  # a new thread starts with another number
        try:
            from torch._inductor import config

            # In this process: helpers of its own would outlive the job.
            with config.patch(compile_threads=1), libraries_choosing():
                step = LeanStep(
                    fresh_gan(self._device, 0), dtype=_lean_dtype(self._device), compiled=True
                )
                step(
                    torch.zeros(self._batch, 1, 28, 28, device=self._device),
                    torch.zeros(self._batch, NOISE, device=self._device),
                )
                torch.cuda.synchronize(self._device)
        except Exception:
            # Too old a card, no C compiler on the machine, ...: the way is run without.
            log.warning("fused kernels cannot be compiled here", exc_info=True)
        else:
            self.usable = True


def _has_compiler(device: torch.device) -> bool:
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (7, 0)
    )
