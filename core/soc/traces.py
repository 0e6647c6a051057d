"""Traces of the meter without a label: what each is, where it was measured, and whether to worry.

A trace is one section of a run: the student's own, else one recorded on another machine, else one
made up here, which says so. Which of them a student gets never changes what is asked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from core.engine.view import JobState, JobView
from core.recordings import Replay
from core.telemetry.readings import Machine, Reading, Recording

NAMES = ("images", "starved", "throttled", "idle", "steady", "training")  # as they are asked
ALARMS = frozenset({"steady", "throttled"})  # the traces that deserve a look
FED = "fed"  # training that is not starved: of the simulated week alone
KINDS = (*NAMES, FED)
YES, NO = "yes", "no"

SIMULATED_SECONDS = 24
PERIOD_SECONDS = 0.4  # of simulated readings


class Origin(StrEnum):
    """Where a trace comes from."""

    OWN = "own"  # measured in a run of this student
    RECORDED = "recorded"  # on another machine, and kept
    SIMULATED = "simulated"  # made up here


@dataclass(frozen=True, slots=True)
class Trace:
    """A stretch of readings whose name is not told before the answer."""

    name: str
    origin: Origin
    recording: Recording
    device_name: str = ""
    made_at: str = ""  # ISO date of a recorded one
    machine: Machine | None = None  # of a recorded one

    @property
    def on_card(self) -> bool:
        return on_card(self.recording)

    @property
    def answer(self) -> str:
        """Whether to raise an alarm."""
        return YES if self.name in ALARMS else NO


def question_of(name: str) -> str:
    """The question about this trace, as the records keep answers to it."""
    return f"soc.{name}"


@dataclass(frozen=True, slots=True)
class _Source:
    """A section of an activity's runs that shows one kind of load."""

    activity: str
    section: str
    fits: Callable[[dict[str, Any]], bool] = lambda settings: True


_SOURCES: dict[str, tuple[_Source, ...]] = {
    # While the CPU does the work of Part 1, the card has nothing to do.
    "idle": (_Source("cpu-vs-gpu", "cpu"),),
    "training": (_Source("train-gan", "training"),),
    "starved": (_Source("feed-gpu", "loader"),),
    "images": (_Source("eight-pictures", "draw"), _Source("make-images", "draw")),
    "steady": (_Source("steady-load", "steady", lambda s: s.get("percent", 100) > 90),),
    "throttled": (_Source("steady-load", "steady", lambda s: s.get("percent", 100) <= 70),),
    FED: (_Source("feed-gpu", "graph"),),
}
ACTIVITIES = tuple(
    dict.fromkeys(source.activity for sources in _SOURCES.values() for source in sources)
)


def traces_of(own: Iterable[JobView], replays: Iterable[Replay]) -> dict[str, Trace]:
    """A trace of each kind: one of a card wherever there is one, the student's own first."""
    mine = [job for job in own if job.state is JobState.DONE]
    kept = list(replays)
    found = {}
    for name in KINDS:
        options = [
            trace
            for trace in (*_own(name, mine), *_recorded(name, kept))
            if _typical(name, trace.recording)
        ]
        on_cards = [trace for trace in options if trace.on_card]
        on_cpus = [trace for trace in options if _measured(trace.recording, "cpu_percent")]
        # An idle card and a busy CPU are one picture: without the card it says the opposite.
        usable = on_cards or ([] if name == "idle" else on_cpus)
        found[name] = usable[0] if usable else simulated(name)
    return found


def _own(name: str, jobs: Sequence[JobView]) -> list[Trace]:
    return [
        Trace(name, Origin.OWN, recording, str((job.result or {}).get("device_name", "")))
        for source in _SOURCES[name]
        for job in jobs
        if job.activity == source.activity and source.fits(job.settings)
        for recording in job.recordings
        if recording.name == source.section
    ]


def _recorded(name: str, replays: Sequence[Replay]) -> list[Trace]:
    return [
        Trace(name, Origin.RECORDED, recording, replay.device_name, replay.made_at, replay.machine)
        for source in _SOURCES[name]
        for replay in replays
        if replay.activity == source.activity and source.fits(replay.settings)
        for recording in replay.recordings
        if recording.name == source.section
    ]


def on_card(recording: Recording) -> bool:
    """Whether a card was read in it."""
    return _measured(recording, "gpu_percent")


def _measured(recording: Recording, field: str) -> bool:
    return sum(getattr(reading, field) is not None for reading in recording.readings) > 1


def _typical(name: str, recording: Recording) -> bool:
    """Whether it shows what its name says: on a shared machine a neighbour may be in the trace,
    and a load that others crowd out is not steady."""
    field = "gpu_percent" if on_card(recording) else "cpu_percent"
    levels = [v for reading in recording.readings if (v := getattr(reading, field)) is not None]
    if not levels:
        return False
    mean = statistics.fmean(levels)
    match name:
        case "idle":
            return mean <= 10
        case "steady":
            return mean >= 90 and _even(levels)
        case "throttled":
            return 20 <= mean <= (80 if field == "gpu_percent" else 150) and _even(levels)
    return True


def _even(levels: Sequence[float]) -> bool:
    return statistics.pstdev(levels) <= 0.2 * statistics.fmean(levels)


def levels_of(trace: Trace) -> tuple[float, ...]:
    """The GPU % of the trace, reading by reading; of the simulated one where no card was read."""
    recording = trace.recording if trace.on_card else simulated(trace.name).recording
    return tuple(r.gpu_percent for r in recording.readings if r.gpu_percent is not None)


# Made up


def simulated(name: str) -> Trace:
    """A trace of this kind as the course describes it, the same every time; GPU % alone."""
    chance = Random(name)
    shape = _SHAPES[name]
    readings = tuple(
        Reading(round(i * PERIOD_SECONDS, 2), gpu_percent=round(shape(i * PERIOD_SECONDS, chance)))
        for i in range(round(SIMULATED_SECONDS / PERIOD_SECONDS) + 1)
    )
    return Trace(name, Origin.SIMULATED, Recording(name, SIMULATED_SECONDS, readings))


def _between(low: float, high: float) -> Callable[[float, Random], float]:
    return lambda _seconds, chance: chance.uniform(low, high)


def _bursts(seconds: float, chance: Random) -> float:
    """Some pictures are drawn, then somebody looks at them and types again."""
    drawing = seconds % 8 < 4.4 or 13.2 <= seconds < 15
    return chance.uniform(80, 100) if drawing else chance.uniform(0, 3)


_SHAPES: dict[str, Callable[[float, Random], float]] = {
    "idle": _between(0, 1),
    "training": _between(18, 28),
    "starved": _between(14, 30),
    "images": _bursts,
    "steady": _between(97, 100),
    "throttled": _between(47, 54),
    FED: _between(91, 97),
}
