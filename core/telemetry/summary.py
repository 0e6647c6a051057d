"""From readings to one line of the results table, and to fewer readings that say the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

from core.telemetry.readings import Reading, Recording, SummaryRow

# These look back: the figure of a reading is about the time since the reading before.
RATES = ("gpu_percent", "cpu_percent", "children_cpu_percent", "host_cpu_percent")
LEVELS = ("power_watts", "temperature_celsius", "clock_mhz")
PEAKS = ("card_used_mib", "own_vram_mib", "reserved_mib", "allocated_mib", "ram_mib")

NVML_WINDOW_SECONDS = 1.0  # NVML's GPU % looks back 1/6 to 1 s, by product
ENERGY_COVER = 0.9  # of a section must have power readings, or its energy is not known

WeightedReadings = list[tuple[float, Reading]]  # (seconds that the reading stands for, reading)


def summarise(recording: Recording) -> SummaryRow:
    """The recording in one line; a column is None where its signal is absent.

    Means are over time, not over readings. `gpu_percent_mean` is None too for a section shorter
    than NVML's window, and `energy_wh` where power is known for less than nine tenths of it.
    """
    readings, seconds = recording.readings, recording.seconds
    weighted = list(_weighted(readings))
    waited = recording.data_wait_seconds
    return SummaryRow(
        name=recording.name,
        seconds=seconds,
        gpu_percent_mean=(
            _mean(weighted, "gpu_percent") if seconds >= NVML_WINDOW_SECONDS else None
        ),
        card_used_mib_max=_largest(readings, "card_used_mib"),
        own_vram_mib_max=_largest(readings, "own_vram_mib"),
        power_watts_max=_largest(readings, "power_watts"),
        energy_wh=_energy_wh(readings, seconds),
        cpu_percent_mean=_mean(weighted, "cpu_percent"),
        children_cpu_percent_mean=_mean(weighted, "children_cpu_percent"),
        others_cpu_percent_mean=_others(weighted),
        data_wait_share=None if waited is None or seconds <= 0 else min(1.0, waited / seconds),
        samples=len(readings),
    )


def merged(readings: tuple[Reading, ...], limit: int) -> tuple[Reading, ...]:
    """At most `limit` readings for the same time: neighbours become one, the two ends stay.

    Rates and levels of neighbours are averaged over their time, memory keeps its peak; so means,
    energy and memory peaks of a summary survive, and a power peak may lose a little.
    """
    if len(readings) <= limit:
        return readings
    inner = list(_weighted(readings))[1:-1]
    group = math.ceil(len(inner) / (limit - 2))
    parts = (inner[start : start + group] for start in range(0, len(inner), group))
    return (readings[0], *(_merge(part) for part in parts), readings[-1])


def _merge(part: WeightedReadings) -> Reading:
    readings = [reading for _, reading in part]
    means = {field: _mean(part, field) for field in RATES + LEVELS}
    peaks = {field: _largest(readings, field) for field in PEAKS}
    return Reading(seconds=readings[-1].seconds, **means, **peaks)


def _weighted(readings: Iterable[Reading]) -> Iterator[tuple[float, Reading]]:
    before = 0.0
    for reading in readings:
        yield max(0.0, reading.seconds - before), reading
        before = reading.seconds


def _mean(weighted: WeightedReadings, field: str) -> float | None:
    known = [
        (weight, value)
        for weight, reading in weighted
        if (value := getattr(reading, field)) is not None
    ]
    total = sum(weight for weight, _ in known)
    if total == 0:  # no readings, or none but of one moment
        return None
    return float(sum(weight * value for weight, value in known) / total)


def _others(weighted: WeightedReadings) -> float | None:
    """CPU of the machine less this process and its children: what others took meanwhile."""
    host, own, children = (
        _mean(weighted, field)
        for field in ("host_cpu_percent", "cpu_percent", "children_cpu_percent")
    )
    return None if host is None or own is None else max(0.0, host - own - (children or 0.0))


def _largest(readings: Iterable[Reading], field: str) -> float | None:
    known = [value for reading in readings if (value := getattr(reading, field)) is not None]
    return float(max(known)) if known else None


def _energy_wh(readings: Iterable[Reading], seconds: float) -> float | None:
    known = [(r.seconds, r.power_watts) for r in readings if r.power_watts is not None]
    if len(known) < 2 or seconds <= 0 or known[-1][0] - known[0][0] < ENERGY_COVER * seconds:
        return None
    joules = sum(
        (later - earlier) * (watts + next_watts) / 2
        for (earlier, watts), (later, next_watts) in pairwise(known)
    )
    return joules / 3600
