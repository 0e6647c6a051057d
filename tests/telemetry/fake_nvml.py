"""A stand-in for NVML with the bad days of real machines, each under its own name.

It answers as the module `pynvml` does: the same function names, errors that carry the code of
nvml.h as `value`, memory in bytes, power in milliwatts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

MIB = 2**20

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
LIBRARY_NOT_FOUND = 12
GPU_IS_LOST = 15
UNKNOWN = 999

UUID = "GPU-11111111-aaaa-4000-8000-000000000001"
OTHER_UUID = "GPU-22222222-bbbb-4000-8000-000000000002"
SLICE_UUID = "MIG-33333333-cccc-5000-8000-000000000003"

Answer = Any  # a value, or a NvmlFailure to be raised


class NvmlFailure(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML code {value}")
        self.value = value


@dataclass
class FakeCard:
    """One card; set an answer to a `NvmlFailure` to make that query fail."""

    uuid: Answer = UUID
    name: Answer = "NVIDIA Test 4000"
    gpu_percent: Answer = 37
    total_mib: float = 12288
    used_mib: float = 2048
    memory: Answer = None  # a failure here wins over the two above
    power_milliwatts: Answer = 81_500
    power_limit_milliwatts: Answer = 115_000
    temperature: Answer = 54
    clock: Answer = 1710
    holders: Answer = field(default_factory=dict)  # process id -> bytes, or None for "not told"
    slices: list[FakeCard] | None = None  # a list: the card is in MIG mode
    broken: NvmlFailure | None = None  # every query fails, that of the handle too


class FakeNvml:
    """`queries` counts calls by name, so that a test can see what is no longer asked."""

    def __init__(self, *cards: FakeCard, init: NvmlFailure | None = None) -> None:
        self.cards = list(cards)
        self.init = init
        self.open = 0  # how many times initialised and not shut down
        self.queries: dict[str, int] = {}

    def nvmlInit(self) -> None:
        _raise_or(self.init)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        _raise_or(self.cards[index].broken)
        return self.cards[index]

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:
        self._asked("MigMode", card)
        if card.slices is None:
            raise NvmlFailure(NOT_SUPPORTED)
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> FakeCard:
        if card.slices is None or index >= len(card.slices):
            raise NvmlFailure(NOT_FOUND)
        return card.slices[index]

    def nvmlDeviceGetUUID(self, card: FakeCard) -> Any:
        return self._answer("UUID", card, lambda: card.uuid)

    def nvmlDeviceGetName(self, card: FakeCard) -> Any:
        return self._answer("Name", card, lambda: card.name)

    def nvmlDeviceGetUtilizationRates(self, card: FakeCard) -> Any:
        percent = self._answer("UtilizationRates", card, lambda: card.gpu_percent)
        return SimpleNamespace(gpu=percent, memory=0)

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> Any:
        self._answer("MemoryInfo", card, lambda: card.memory)
        used, total = int(card.used_mib * MIB), int(card.total_mib * MIB)
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetPowerUsage(self, card: FakeCard) -> Any:
        return self._answer("PowerUsage", card, lambda: card.power_milliwatts)

    def nvmlDeviceGetEnforcedPowerLimit(self, card: FakeCard) -> Any:
        return self._answer("EnforcedPowerLimit", card, lambda: card.power_limit_milliwatts)

    def nvmlDeviceGetTemperature(self, card: FakeCard, sensor: int) -> Any:
        return self._answer("Temperature", card, lambda: card.temperature)

    def nvmlDeviceGetClockInfo(self, card: FakeCard, clock: int) -> Any:
        return self._answer("ClockInfo", card, lambda: card.clock)

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> Any:
        holders = self._answer("ComputeRunningProcesses", card, lambda: card.holders)
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in holders.items()]

    def _answer(self, query: str, card: FakeCard, answer: Callable[[], Answer]) -> Any:
        self._asked(query, card)
        return _raise_or(answer())

    def _asked(self, query: str, card: FakeCard) -> None:
        self.queries[query] = self.queries.get(query, 0) + 1
        _raise_or(card.broken)


def _raise_or(answer: Answer) -> Any:
    if isinstance(answer, NvmlFailure):
        raise answer
    return answer


def healthy(**answers: Answer) -> FakeNvml:
    return FakeNvml(FakeCard(**answers))


def no_driver() -> FakeNvml:
    return FakeNvml(init=NvmlFailure(LIBRARY_NOT_FOUND))


def power_unsupported() -> FakeNvml:
    """Many laptops."""
    unsupported = NvmlFailure(NOT_SUPPORTED)
    return healthy(power_milliwatts=unsupported, power_limit_milliwatts=unsupported)


def mig() -> FakeNvml:
    """A card cut into slices: a slice tells its memory and its processes, nothing else."""
    unsupported = NvmlFailure(NOT_SUPPORTED)
    part = FakeCard(
        uuid=SLICE_UUID,
        name="NVIDIA Test 4000 MIG 1g.12gb",
        gpu_percent=unsupported,
        power_milliwatts=unsupported,
        power_limit_milliwatts=unsupported,
        temperature=unsupported,
        clock=unsupported,
    )
    return FakeNvml(FakeCard(slices=[part]))


def wsl(pid: int) -> FakeNvml:
    """Windows' driver lists processes without their memory, and keeps temperature to itself."""
    return healthy(holders={pid: None}, temperature=NvmlFailure(NOT_SUPPORTED))


def unified_memory() -> FakeNvml:
    """The card and the processor share one memory, so the card has none to report."""
    return healthy(memory=NvmlFailure(NOT_SUPPORTED))


def no_permission() -> FakeNvml:
    """A locked-down container: names can be read, figures of others cannot."""
    return healthy(gpu_percent=NvmlFailure(NO_PERMISSION), holders=NvmlFailure(NO_PERMISSION))


def one_failing_card() -> FakeNvml:
    """The first of two cards fell off the bus before anybody looked."""
    return FakeNvml(FakeCard(broken=NvmlFailure(GPU_IS_LOST)), FakeCard(uuid=OTHER_UUID))
