"""What a page knows about one job: the fold of all its events.

`apply` is pure: a view and an event give the next view. Views are immutable, so any number of
pages can read one while the engine replaces it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from core.events import (
    AnyEvent,
    Believed,
    Drawn,
    Failed,
    Judged,
    Lost,
    Measured,
    Paused,
    Progressed,
    Read,
    Result,
    Scored,
    Staged,
    Stopped,
)
from core.preflight.gate import Outcome
from core.problems import Notice
from core.telemetry.readings import Absences, Reading, Recording, SummaryRow

MAX_LIVE_READINGS = 240  # about what four charts can show side by side


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"  # waits for a free worker of its lane
    RUNNING = "running"  # a worker has it
    STOPPING = "stopping"  # asked to stop; the worker has not answered yet
    DONE = "done"  # finished with a result
    STOPPED = "stopped"  # ended early, because somebody asked
    FAILED = "failed"  # ended early, because something went wrong; `problem` says what

    @property
    def over(self) -> bool:
        return self in (JobState.DONE, JobState.STOPPED, JobState.FAILED)


class JobView(msgspec.Struct, frozen=True):
    """Everything a page needs to draw one job."""

    id: str
    student: str  # whose job it is: the token, never shown
    activity: str
    settings: dict[str, Any]
    state: JobState = JobState.QUEUED
    device: str = ""  # "cpu", or the UUID of the card that it runs on
    submitted_at: float = 0.0  # wall clock, Unix seconds; for display only
    place: int | None = None  # 1 = in the next run; None when not queued
    wait_seconds: float | None = None  # estimate; None when unknown or not queued
    stage: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    losses_d: tuple[float, ...] = ()
    losses_g: tuple[float, ...] = ()
    scores: tuple[Scored, ...] = ()
    beliefs: tuple[float, ...] = ()  # in an attack's target: of the original, after each step
    paused: bool = False
    gates: tuple[Outcome, ...] = ()  # of a preflight suite, as far as it is
    pictures: dict[str, bytes] = {}
    section: str | None = None
    readings: tuple[Reading, ...] = ()
    absences: Absences = Absences()
    recordings: tuple[Recording, ...] = ()
    rows: tuple[SummaryRow, ...] = ()
    result: dict[str, Any] | None = None
    problem: Notice | None = None


def apply(view: JobView, event: AnyEvent) -> JobView:  # noqa: PLR0911, PLR0912 (a case an event)
    """The view after `event`; an outcome (`Result`, `Stopped`, `Failed`) also settles its state."""
    match event:
        case Staged():
            return replace(view, stage=event.stage)
        case Progressed():
            return replace(
                view, done=event.done, total=event.total, seconds_left=event.seconds_left
            )
        case Lost():
            return replace(
                view,
                losses_d=(*view.losses_d, *event.loss_d),
                losses_g=(*view.losses_g, *event.loss_g),
            )
        case Scored():
            return replace(view, scores=(*view.scores, event))
        case Believed():
            return replace(view, beliefs=(*view.beliefs, *event.beliefs))
        case Paused():
            return replace(view, paused=event.paused)
        case Judged():
            return replace(view, gates=(*view.gates, event.outcome))
        case Drawn():
            return replace(view, pictures={**view.pictures, event.name: event.png})
        case Read():
            readings = thinned((*view.readings, *event.readings), MAX_LIVE_READINGS)
            return replace(view, section=event.section, readings=readings, absences=event.absences)
        case Measured():
            return replace(view, recordings=(*view.recordings, event.recording))
        case Result():
            return replace(
                view,
                state=JobState.DONE,
                rows=event.rows,
                result=event.values,
                seconds_left=None,
            )
        case Stopped():
            return replace(view, state=JobState.STOPPED, seconds_left=None)
        case Failed():
            return replace(view, state=JobState.FAILED, problem=event.problem, seconds_left=None)
        case _:
            assert_never(event)


def thinned(readings: tuple[Reading, ...], limit: int) -> tuple[Reading, ...]:
    """At most `limit` readings: every second one of the older half goes, so the end stays sharp."""
    while len(readings) > limit:
        half = len(readings) // 2
        readings = readings[:half:2] + readings[half:]
    return readings
