"""What happens inside an activity, as it happens: the one vocabulary of labs, engine and pages.

An activity is a generator of these events. A worker sends them over its pipe, the command line
prints them as JSON, and `core.engine.view.apply` folds them into what a page draws.
An event is something that has happened; all are frozen and hold plain data only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from core.preflight.gate import Outcome
from core.problems import Notice
from core.telemetry.readings import Absences, Reading, Recording, SummaryRow

PROTOCOL = 5  # raised when an event, or an order to run, changes shape: both ends must agree


class Event(msgspec.Struct, frozen=True, tag_field="event", tag=str.lower):
    """Base of all events; its JSON form carries the class name in lower case as `event`."""


class Staged(Event, frozen=True):
    """A stage of the work has begun. `stage` is a catalogue id, such as `stage.warm_up`."""

    stage: str


class Progressed(Event, frozen=True):
    """`done` of `total` units of the whole activity are finished; `seconds_left` is an estimate."""

    done: int
    total: int
    seconds_left: float | None = None


class Lost(Event, frozen=True):
    """Losses of the steps since the last such event, of which the first was number `first_step`."""

    first_step: int
    loss_d: tuple[float, ...]
    loss_g: tuple[float, ...]


class Scored(Event, frozen=True):
    """How good the drawings are at this step, by the digit judge, and how D does."""

    step: int  # steps done
    epoch: float  # passes over the data done, with fraction
    readable: float  # share of judged digits that the judge is sure of, 0 to 1
    digits_seen: int  # how many of the ten digits are among them
    accuracy_real: float  # share of real pictures that D calls real, since the last such event
    accuracy_fake: float  # share of fakes that D calls fake
    images_per_second: float  # training alone, since the last such event


class Believed(Event, frozen=True):
    """A network's belief in the target of an attack, 0 to 1: of the original picture (step 0) or
    after a step, since the last such event, of which the first was number `first_step`."""

    first_step: int
    beliefs: tuple[float, ...]


class Paused(Event, frozen=True):
    """The run stands still at the student's wish, or goes on again."""

    paused: bool


class Judged(Event, frozen=True):
    """A gate of a preflight suite has come to its end."""

    outcome: Outcome


class Drawn(Event, frozen=True):
    """A picture is ready: PNG bytes under a name that the page knows."""

    name: str
    png: bytes


class Read(Event, frozen=True):
    """Live readings of the meter, in seconds since the activity began."""

    section: str | None  # the section being recorded, if one is
    readings: tuple[Reading, ...]
    absences: Absences = Absences()


class Measured(Event, frozen=True):
    """A section of the work has been measured from end to end."""

    recording: Recording


class Result(Event, frozen=True):
    """The outcome. `values` has the shape that the activity declares; `rows` sum up sections."""

    rows: tuple[SummaryRow, ...]
    values: dict[str, Any]


class Stopped(Event, frozen=True):
    """The activity ended early because it was asked to."""


class Failed(Event, frozen=True):
    """The activity ended early because something went wrong, told in one sentence."""

    problem: Notice


AnyEvent = (
    Staged
    | Progressed
    | Lost
    | Scored
    | Believed
    | Paused
    | Judged
    | Drawn
    | Read
    | Measured
    | Result
    | Stopped
    | Failed
)
