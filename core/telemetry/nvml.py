"""The NVIDIA driver's own figures, through NVML; what it does not say is None with a reason.

No function here raises because of the driver: a laptop without power figures, a MIG slice, WSL and
a card that fell off the bus are all ordinary. Cards are known by UUID, never by index.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from core.telemetry.readings import Absences, Gpu

log = logging.getLogger(__name__)

MIB = 2**20
TEMPERATURE_OF_GPU = 0  # NVML_TEMPERATURE_GPU
CLOCK_OF_SM = 1  # NVML_CLOCK_SM
MIG_ENABLED = 1  # NVML_DEVICE_MIG_ENABLE
LOST_RETRY_SECONDS = 10.0  # a lost card seldom comes back, and asking it can be slow

# Return codes of nvml.h; these numbers never change.
REASONS = {
    3: "absent.not_supported",  # NOT_SUPPORTED
    4: "absent.no_permission",  # NO_PERMISSION
    9: "absent.no_driver",  # DRIVER_NOT_LOADED
    12: "absent.no_driver",  # LIBRARY_NOT_FOUND
    13: "absent.not_supported",  # FUNCTION_NOT_FOUND: the driver is older than the query
    15: "absent.lost",  # GPU_IS_LOST
    16: "absent.lost",  # RESET_REQUIRED
    18: "absent.no_driver",  # LIB_RM_VERSION_MISMATCH: driver updated, machine not restarted
    25: "absent.not_supported",  # ARGUMENT_VERSION_MISMATCH
    26: "absent.not_supported",  # DEPRECATED
    28: "absent.lost",  # GPU_NOT_FOUND
}
FOR_GOOD = frozenset({"absent.not_supported", "absent.mig", "absent.no_permission"})

T = TypeVar("T")


class Nvml(Protocol):
    """The part of the module `pynvml` that the lab uses; tests pass a fake of the same shape."""

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...
    def nvmlDeviceGetMigMode(self, handle: Any) -> Any: ...  # [current, pending]
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> Any: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any: ...  # .gpu in percent
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # .total .free .used in bytes
    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int: ...  # milliwatts
    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int: ...  # milliwatts
    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int: ...  # degrees Celsius
    def nvmlDeviceGetClockInfo(self, handle: Any, clock: int) -> int: ...  # MHz
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any: ...  # .pid .usedGpuMemory


class GpuAbsent(Exception):
    """There is no card to read; `reason` is a catalogue id, as in `Absences`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Device:
    """A card, or one MIG slice of a card."""

    handle: Any
    uuid: str
    is_mig_slice: bool = False


@dataclass(frozen=True, slots=True)
class CardReading:
    """One look at a card; every figure is of the whole card."""

    gpu_percent: float | None = None
    card_used_mib: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    holders: dict[int, float | None] | None = None  # process id -> MiB; None where not told


def open_nvml(nvml: Nvml | None = None) -> Nvml:
    """NVML, initialised; the caller ends it with `nvmlShutdown`. Raises GpuAbsent."""
    try:
        if nvml is None:
            import pynvml  # here, so that a machine without the package still runs

            nvml = cast(Nvml, pynvml)
        nvml.nvmlInit()
    except ImportError:
        raise GpuAbsent("absent.no_driver") from None
    except Exception as error:
        raise GpuAbsent(reason_of(error)) from error
    return nvml


@contextmanager
def nvml_session(nvml: Nvml | None = None) -> Iterator[Nvml]:
    """NVML for the time of a `with` block. Raises GpuAbsent."""
    opened = open_nvml(nvml)
    try:
        yield opened
    finally:
        close_nvml(opened)


def close_nvml(nvml: Nvml) -> None:
    try:
        nvml.nvmlShutdown()
    except Exception as error:  # nothing is lost: the process gives NVML up when it ends
        log.info("NVML did not shut down: %s", error)


def list_gpus(nvml: Nvml | None = None) -> tuple[tuple[Gpu, ...], str | None]:
    """Every card (or MIG slice), and if there is none the reason why.

    A card that fails is left out, or listed with what it still says; the others are not touched.
    """
    try:
        with nvml_session(nvml) as session:
            found, failure = devices(session)
            gpus = tuple(_describe(session, device) for device in found)
    except GpuAbsent as absent:
        return (), absent.reason
    return gpus, None if gpus else failure or "absent.no_gpu"


def vram_holders(nvml: Nvml | None = None) -> dict[str, dict[int, float | None]]:
    """UUID of a card -> process id -> MiB that it holds there; None for a figure that the driver
    keeps to itself (WSL). A card that does not tell is left out."""
    try:
        with nvml_session(nvml) as session:
            told = {
                device.uuid: Card(session, device).read_holders() for device in devices(session)[0]
            }
    except GpuAbsent:
        return {}
    return {uuid: holders for uuid, holders in told.items() if holders is not None}


def find_device(nvml: Nvml, uuid: str) -> Device:
    """The card or MIG slice of this UUID. Raises GpuAbsent; never gives another one."""
    found, failure = devices(nvml)
    for device in found:
        if same_uuid(device.uuid, uuid):
            return device
    raise GpuAbsent(failure or "absent.no_gpu")


def devices(nvml: Nvml) -> tuple[list[Device], str | None]:
    """All cards that CUDA could use, and the reason why one could not be looked at, if any.

    A card in MIG mode stands for its slices: CUDA cannot use it as a whole.
    """
    found: list[Device] = []
    failure = None
    try:
        count = nvml.nvmlDeviceGetCount()
    except Exception as error:
        return [], reason_of(error)
    for index in range(count):
        try:
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            slices = _mig_slices(nvml, card)
            if slices is None:
                found.append(Device(card, as_text(nvml.nvmlDeviceGetUUID(card))))
            elif not slices:
                failure = "absent.mig"
            else:
                found.extend(slices)
        except Exception as error:
            failure = reason_of(error)
            log.warning("card %d cannot be looked at: %s", index, error)
    return found, failure


def _mig_slices(nvml: Nvml, card: Any) -> list[Device] | None:
    """The slices of a card in MIG mode; None for any other card."""
    try:
        enabled = nvml.nvmlDeviceGetMigMode(card)[0] == MIG_ENABLED
    except Exception as error:
        if reason_of(error) == "absent.lost":
            raise
        return None  # most cards do not know MIG
    if not enabled:
        return None
    slices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)
        except Exception:  # "not found": this place on the card is not in use
            continue
        uuid = as_text(nvml.nvmlDeviceGetUUID(handle))
        slices.append(Device(handle, uuid, is_mig_slice=True))
    return slices


def _describe(nvml: Nvml, device: Device) -> Gpu:
    card = Card(nvml, device)
    name = card.ask("name", lambda: as_text(nvml.nvmlDeviceGetName(device.handle)))
    memory = card.ask("total_mib", lambda: nvml.nvmlDeviceGetMemoryInfo(device.handle))
    busy = card.ask(
        "busy_percent", lambda: float(nvml.nvmlDeviceGetUtilizationRates(device.handle).gpu)
    )
    limit = card.ask(
        "power_limit_watts", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(device.handle) / 1000
    )
    reasons = card.reasons
    reasons.pop("power_limit_watts", None)  # no page shows it, so none has to explain it
    if "total_mib" in reasons:
        reasons["free_mib"] = reasons["total_mib"]
    return Gpu(
        uuid=device.uuid,
        name=name or "NVIDIA GPU",
        total_mib=memory and memory.total / MIB,
        free_mib=memory and memory.free / MIB,
        busy_percent=busy,
        power_limit_watts=limit,
        absences=Absences(reasons),
    )


class Card:
    """One device to be read again and again; remembers what it does not report."""

    def __init__(
        self, nvml: Nvml, device: Device, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.reasons: dict[str, str] = {}  # figure -> why its last query gave nothing
        self._nvml = nvml
        self._device = device
        self._clock = clock
        self._ask_again_at: dict[str, float] = {}

    def read(self) -> CardReading:
        nvml, handle = self._nvml, self._device.handle
        return CardReading(
            gpu_percent=self.ask(
                "gpu_percent", lambda: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            ),
            card_used_mib=self.ask(
                "card_used_mib", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / MIB
            ),
            power_watts=self.ask(
                "power_watts", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000
            ),
            temperature_celsius=self.ask(
                "temperature_celsius",
                lambda: float(nvml.nvmlDeviceGetTemperature(handle, TEMPERATURE_OF_GPU)),
            ),
            clock_mhz=self.ask(
                "clock_mhz", lambda: float(nvml.nvmlDeviceGetClockInfo(handle, CLOCK_OF_SM))
            ),
            holders=self.read_holders(),
        )

    def read_holders(self) -> dict[int, float | None] | None:
        """Process id -> MiB; None where the driver does not tell."""
        return self.ask("own_vram_mib", self._holders)

    def _holders(self) -> dict[int, float | None]:
        """Process id -> MiB that it holds; None for a figure the driver keeps to itself (WSL)."""
        held: dict[int, float | None] = {}
        for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._device.handle):
            used = process.usedGpuMemory
            held[process.pid] = None if used is None else used / MIB
        return held

    def ask(self, figure: str, query: Callable[[], T]) -> T | None:
        """The answer, or None and a reason. What is never there is asked for once only."""
        if self._ask_again_at.get(figure, 0.0) > self._clock():
            return None
        try:
            answer = query()
        except Exception as error:
            self._note(figure, error)
            return None
        self.reasons.pop(figure, None)
        return answer

    def _note(self, figure: str, error: Exception) -> None:
        reason = reason_of(error)
        if reason == "absent.not_supported" and self._device.is_mig_slice:
            reason = "absent.mig"
        if reason in FOR_GOOD:
            self._ask_again_at[figure] = float("inf")
        elif reason == "absent.lost":
            self._ask_again_at[figure] = self._clock() + LOST_RETRY_SECONDS
        if self.reasons.get(figure) != reason:
            log.info("%s of %s: %s (%s)", figure, self._device.uuid, reason, error)
        self.reasons[figure] = reason


def reason_of(error: Exception) -> str:
    """Why a query gave nothing, as a catalogue id. NVML's errors carry their code as `value`."""
    return REASONS.get(getattr(error, "value", -1), "absent.error")


def same_uuid(one: str | bytes, other: str | bytes) -> bool:
    """Whether two UUIDs name one device; NVML writes a kind before it ("GPU-"), PyTorch none."""
    return _bare(one) == _bare(other)


def _bare(uuid: str | bytes) -> str:
    text = as_text(uuid).strip().lower()
    return text.removeprefix("mig-").removeprefix("gpu-")


def as_text(value: str | bytes) -> str:
    """Older releases of NVML's Python package give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
