"""The meter beside the work: live readings, and recordings of sections cut out exactly.

with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
    with meter.section("cpu") as section:
        work()
section.recording, section.row
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from core.telemetry.probe import Probe
from core.telemetry.readings import Absences, Reading, Recording, SummaryRow
from core.telemetry.sampler import Sampler
from core.telemetry.summary import RATES, merged, summarise

MAX_RECORDED = 600  # readings of one recording, whatever its length


def open_meter(
    *,
    gpu_uuid: str | None,
    period_seconds: float,
    on_reading: Callable[[Reading], None] | None = None,
) -> Meter:
    """A running meter of this process and of the card of that UUID; None: the machine only."""
    return Meter(Probe(gpu_uuid=gpu_uuid), period_seconds=period_seconds, on_reading=on_reading)


class Section:
    """A stretch of work being measured. `recording` and `row` are there once it has ended."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self.recording: Recording
        self.row: SummaryRow  # from every reading, also where the recording had to be thinned
        self._clock = clock
        self._waited: float | None = None

    @contextmanager
    def waiting_for_data(self) -> Iterator[None]:
        """Count the time of this block as time in which the work stood still for want of data."""
        began = self._clock()
        try:
            yield
        finally:
            self._waited = (self._waited or 0.0) + self._clock() - began

    def _end(
        self, readings: list[Reading], *, start: float, seconds: float, absences: Absences
    ) -> None:
        full = Recording(
            name=self.name,
            seconds=seconds,
            readings=_within(readings, start, seconds),
            data_wait_seconds=self._waited,
            absences=absences,
        )
        self.row = summarise(full)
        self.recording = replace(full, readings=merged(full.readings, MAX_RECORDED))


class Meter:
    """Live readings since it was opened, and sections of work. Close it, or use `with`."""

    def __init__(
        self,
        probe: Probe,
        *,
        period_seconds: float,
        on_reading: Callable[[Reading], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.current_section: str | None = None
        self._probe = probe
        self._clock = clock
        self._sampler = Sampler(
            probe, period_seconds=period_seconds, on_reading=on_reading, clock=clock
        )

    @property
    def history(self) -> tuple[Reading, ...]:
        """The last two minutes, oldest first, in seconds since the meter opened."""
        return self._sampler.history

    @property
    def absences(self) -> Absences:
        return self._probe.absences

    @property
    def seconds(self) -> float:
        """The time now, as the readings count it."""
        return self._clock() - self._sampler.opened_at

    @contextmanager
    def section(self, name: str) -> Iterator[Section]:
        """Measure this block; its clock starts after the first reading, stops before the last.

        One section at a time: raises RuntimeError inside another.
        """
        if self.current_section is not None:
            raise RuntimeError(f"section {name!r} inside section {self.current_section!r}")
        section = Section(name, self._clock)
        self.current_section = name
        self._sampler.start_recording()
        began = self.seconds
        try:
            yield section
        finally:
            seconds = self.seconds - began
            readings = self._sampler.stop_recording()
            self.current_section = None
            section._end(readings, start=began, seconds=seconds, absences=self.absences)

    def close(self) -> None:
        """Stop reading and wait for the thread; may be called again."""
        if self._sampler.close():
            self._probe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _within(readings: list[Reading], start: float, seconds: float) -> tuple[Reading, ...]:
    """Readings in seconds since `start`: one at 0, one at `seconds`, and those between.

    The first was taken just before the work and the last just after it. The first has no CPU or
    GPU rate, since a rate looks back.
    """
    first, *between, last = readings
    shifted = (replace(reading, seconds=reading.seconds - start) for reading in between)
    return (
        replace(first, seconds=0.0, **dict.fromkeys(RATES)),
        *(reading for reading in shifted if 0 < reading.seconds < seconds),
        replace(last, seconds=seconds),
    )
