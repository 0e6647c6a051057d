"""The four panels of the meter: which signals each draws, in which colours, on which axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.telemetry.readings import Gpu, Machine, Reading

# Told apart by every kind of colour vision, and at least 3:1 on the white and on the dark page.
BLUE, ORANGE = "#2e86de", "#d9760a"
# The first two are those of a panel's signals; the others are for further runs over each other.
COLOURS = (BLUE, ORANGE, "#1a9c74", "#c2659a", "#8a6fd1", "#7d8590")
DASHES: tuple[list[int], ...] = ([], [5, 3])

POWER_STAIRS = (50, 100, 150, 200, 300, 400, 500, 700, 1000, 1500)  # watts
MEMORY_STAIRS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 80, 96, 144, 192, 288)  # GiB
TIME_STAIRS = (5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 3600)


class Panel(StrEnum):
    """One of the four charts."""

    GPU = "gpu"
    VRAM = "vram"
    POWER = "power"
    CPU = "cpu"


GPU_PANELS = (Panel.GPU, Panel.VRAM, Panel.POWER)

# The fields of `Reading` that a panel draws; the second one, where there is one, is dashed.
SIGNALS: dict[Panel, tuple[str, ...]] = {
    Panel.GPU: ("gpu_percent",),
    Panel.VRAM: ("card_used_mib", "own_vram_mib"),
    Panel.POWER: ("power_watts",),
    Panel.CPU: ("cpu_percent", "children_cpu_percent"),
}


@dataclass(frozen=True, slots=True)
class Host:
    """What is known of the computer behind the readings."""

    machine: Machine
    card: Gpu | None  # the one the readings are of, if any
    threads: int | None  # CPU threads of the job


@dataclass(frozen=True, slots=True)
class Axes:
    """Where the fixed axes end."""

    seconds: float
    vram_gib: float
    power_watts: float
    cpu_percent: float
    cpu_ceiling: float | None = None  # what the threads of this lab can use at most, in percent

    def limit(self, panel: Panel) -> float:
        return {
            Panel.GPU: 100.0,
            Panel.VRAM: self.vram_gib,
            Panel.POWER: self.power_watts,
            Panel.CPU: self.cpu_percent,
        }[panel]


def axes_for(readings: Sequence[Reading], host: Host, *, seconds: float | None = None) -> Axes:
    """Axes that hold all `readings`, each as fixed as it can be.

    Memory ends at the card's total where that is known. CPU ends one core above the threads of this
    lab, for the data loader beside them. What the device does not tell goes up in stairs, so that a
    live chart is seldom drawn anew. `seconds` sets the end of the time axis exactly.
    """
    last = readings[-1].seconds if readings else 0.0
    card_gib = host.card.total_mib / 1024 if host.card and host.card.total_mib else None
    used_gib = _highest(readings, SIGNALS[Panel.VRAM]) / 1024
    busiest = _highest(readings, SIGNALS[Panel.CPU])
    cores = host.machine.cores
    if host.threads:
        cores = min(cores, host.threads + 1)
    return Axes(
        seconds=seconds if seconds is not None else _stair(last, TIME_STAIRS),
        vram_gib=max(card_gib, used_gib) if card_gib else _stair(used_gib, MEMORY_STAIRS),
        power_watts=_stair(1.1 * _highest(readings, SIGNALS[Panel.POWER]), POWER_STAIRS),
        # 5 % of tolerance: CPU clocks tick coarsely, so a full core may read 101 %.
        cpu_percent=100.0 * max(cores, math.ceil(busiest / 105)),
        cpu_ceiling=100.0 * host.threads if host.threads else None,
    )


def _highest(readings: Iterable[Reading], fields: Iterable[str]) -> float:
    names = tuple(fields)
    return max(
        (value for r in readings for f in names if (value := getattr(r, f)) is not None),
        default=0.0,
    )


def _stair(value: float, stairs: Sequence[int]) -> float:
    """The lowest stair that is not below `value`; past the last one, whole multiples of it."""
    for stair in stairs:
        if value <= stair:
            return float(stair)
    return float(stairs[-1] * math.ceil(value / stairs[-1]))


def measured(panel: Panel, runs: Iterable[Sequence[Reading]]) -> bool:
    """Whether any of the runs has a value to draw in this panel."""
    return any(
        getattr(r, f) is not None for readings in runs for r in readings for f in SIGNALS[panel]
    )
