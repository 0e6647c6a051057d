"""What the meter says: one reading, the recording of a section of work, and its summary row.

Every quantity may be absent. Absent is `None`, never 0, and `Absences` says why.
Memory is in MiB (2**20 bytes), power in watts, and 100 % of CPU is one full core.
"""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True):
    """One look at the card, the job and its children, `seconds` after the recording began."""

    seconds: float
    gpu_percent: float | None = None  # whole card; share of NVML's last window with work
    card_used_mib: float | None = None  # whole card, classmates included
    own_vram_mib: float | None = None  # this process: by the driver, else by PyTorch
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    reserved_mib: float | None = None  # PyTorch's cache in this process
    allocated_mib: float | None = None  # live tensors in this process
    cpu_percent: float | None = None  # this process
    children_cpu_percent: float | None = None  # its child processes, such as data loaders
    ram_mib: float | None = None  # resident memory of this process
    host_cpu_percent: float | None = None  # whole machine, 0 to 100 x cores


class Absences(msgspec.Struct, frozen=True):
    """Why a signal is never there on this device: field of `Reading` -> reason.

    Reasons are the catalogue ids `absent.no_driver`, `absent.not_supported`, `absent.mig`,
    `absent.no_permission`, `absent.no_gpu`, `absent.lost` and `absent.error`.
    """

    reasons: dict[str, str] = {}


class Recording(msgspec.Struct, frozen=True):
    """The readings of one section of work. `seconds` is exact; readings lie within it."""

    name: str  # which section: "cpu", "gpu", "one-thread", ...
    seconds: float
    readings: tuple[Reading, ...]
    data_wait_seconds: float | None = None  # time the work stood still for want of data
    absences: Absences = Absences()


class SummaryRow(msgspec.Struct, frozen=True):
    """One recording in one line, as the results table shows it."""

    name: str
    seconds: float
    gpu_percent_mean: float | None = None  # None too where too short for NVML's window
    card_used_mib_max: float | None = None
    own_vram_mib_max: float | None = None
    power_watts_max: float | None = None
    energy_wh: float | None = None
    cpu_percent_mean: float | None = None
    children_cpu_percent_mean: float | None = None
    others_cpu_percent_mean: float | None = None  # everybody else on the machine
    data_wait_share: float | None = None  # 0 to 1
    samples: int = 0


class Gpu(msgspec.Struct, frozen=True):
    """One card (or MIG slice) as NVML lists it. `uuid` is its identity; an index is not."""

    uuid: str
    name: str
    total_mib: float | None = None
    free_mib: float | None = None
    busy_percent: float | None = None
    absences: Absences = Absences()
    power_limit_watts: float | None = None  # what the driver lets it draw


class Machine(msgspec.Struct, frozen=True):
    """The computer that a number was measured on."""

    cpu: str
    cores: int  # logical processors this process may use
    ram_mib: float
    gpus: tuple[Gpu, ...] = ()
    gpu_absence: str | None = None  # why `gpus` is empty, as in `Absences`
    python: str = ""
    torch: str = ""  # empty where torch is not installed
