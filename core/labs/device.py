"""What every lab needs to know of the device it runs on: waiting, giving back, running out."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from core.context import Context
from core.problems import Problem
from core.telemetry.nvml import list_gpus, same_uuid
from core.telemetry.readings import Gpu, Machine


def wait_for(device: torch.device) -> None:
    """Return when the device has done all its work. A GPU computes while Python goes on, so a clock
    read before this is wrong; naming the device opens no context on another card."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def give_memory_back(device: torch.device) -> None:
    """Hand the memory that PyTorch keeps for later back to the card, for the neighbours."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # without effect where CUDA never started


def device_name(device: torch.device, machine: Machine) -> str:
    """The card's name, or the processor's."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else machine.cpu


@contextmanager
def cpu_threads_restored() -> Iterator[None]:
    """Whatever happens inside, PyTorch has as many CPU threads afterwards as before."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def out_of_memory_told() -> Iterator[None]:
    """Turns a full card into the Problem that says so; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        if not _is_out_of_gpu_memory(error):
            raise
        # The traceback holds the frames, the frames hold the tensors.
        traceback.clear_frames(error.__traceback__)
        raise Problem("problem.out_of_gpu_memory") from None


@contextmanager
def device_of(context: Context) -> Iterator[torch.device]:
    """The device of a run: its threads as allowed, its memory given back, a full card told."""
    device = torch.device(context.device)
    with cpu_threads_restored(), out_of_memory_told():
        # More threads than cores only get in each other's way.
        torch.set_num_threads(min(context.cpu_threads, context.machine.cores))
        try:
            yield device
        finally:
            give_memory_back(device)


def _is_out_of_gpu_memory(error: RuntimeError) -> bool:
    """PyTorch's own error, or what CUDA and its libraries say when not even they can start."""
    said = str(error)
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "CUDA error: out of memory" in said
        or "STATUS_ALLOC_FAILED" in said
    )


def chosen_device(wanted: str, *, allowed: str = "auto") -> tuple[str, str | None]:
    """A device as PyTorch names it, and the UUID of its card (None: the CPU).

    `wanted` is "auto", "cpu" or "cuda:N". "auto" takes the card with most free memory among those
    of the setting `LAB_DEVICES` (`allowed`: "auto", "cpu" or UUIDs), and the CPU where there is
    none. Raises Problem, naming the devices there are, if there is no such device.
    """
    if wanted == "cpu":
        return "cpu", None
    gpus, _ = list_gpus()
    cards = {f"cuda:{index}": _uuid(index, gpus) for index in range(torch.cuda.device_count())}
    if wanted in cards:
        return wanted, cards[wanted]
    if wanted != "auto":
        raise Problem("problem.device_unknown", device=wanted, near=", ".join(["cpu", *cards]))

    # NVML knows how much is free without opening a context on every card.
    free_mib = {gpu.uuid: gpu.free_mib or 0.0 for gpu in gpus}
    wished = [uuid.strip() for uuid in allowed.split(",")]
    usable = [name for name, uuid in cards.items() if allowed == "auto" or uuid in wished]
    if not usable:
        return "cpu", None
    freest = max(usable, key=lambda name: free_mib.get(cards[name], 0.0))
    return freest, cards[freest]


def _uuid(index: int, gpus: tuple[Gpu, ...]) -> str:
    """The identity of the card that PyTorch calls `cuda:index`, as NVML writes it.

    Their numbers may differ: NVML counts every card, CUDA those it may see, in an order of its own.
    """
    uuid = str(torch.cuda.get_device_properties(index).uuid)
    return next((gpu.uuid for gpu in gpus if same_uuid(gpu.uuid, uuid)), f"GPU-{uuid}")


def power_limit_watts(device: torch.device) -> float | None:
    """What the driver lets this card draw; None on a CPU and where the driver does not say."""
    if device.type != "cuda":
        return None
    gpus, _ = list_gpus()
    uuid = _uuid(device.index or 0, gpus)
    return next((gpu.power_limit_watts for gpu in gpus if gpu.uuid == uuid), None)
