"""What a gate is, and what it brings back: a colour, a sentence, and the evidence.

A gate checks one thing. Its words stand in the catalogues under its id: `gate.<id>.title`,
`gate.<id>.checks` (what it looks at) and `gate.<id>.skipped` (what is lost without it).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from core.problems import Notice, Problem

if TYPE_CHECKING:
    from core.events import AnyEvent

# A text that is an id of the catalogues is shown as what stands there. None reads "not measured".
Cell = str | int | float | bool | None


class Colour(StrEnum):
    """How a gate ended. Only red stops anybody."""

    GREEN = "green"
    AMBER = "amber"  # works, but worse than wished
    RED = "red"
    NOT_JUDGED = "not-judged"  # something that it needs is not here; the message says what


class Need(StrEnum):
    """What a gate cannot do without; its word is `gate.need.<value>`."""

    GPU = "gpu"
    NETWORK = "network"
    WEIGHTS = "weights"  # trained ones
    SPEECH = "speech"


class Figure(msgspec.Struct, frozen=True, tag="figure"):
    """One measured value beside what was expected."""

    label: str  # catalogue id
    value: Cell
    unit: str = ""  # how `core.texts` writes it: seconds, ms, mib, percent, watts; "": as it is
    expected: Cell = None  # the limit or the known value; None: there is none


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Rows of cells under headings."""

    title: str  # catalogue id
    columns: tuple[str, ...]  # catalogue ids
    rows: tuple[tuple[Cell, ...], ...]


class Curve(msgspec.Struct, frozen=True, tag="curve"):
    """One or more lines over the same places."""

    title: str  # catalogue id
    x: str  # catalogue id of the axis
    y: str
    at: tuple[float, ...]
    lines: dict[str, tuple[float, ...]]  # catalogue id of the line -> its values at `at`
    logarithmic: bool = False


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """A picture as PNG bytes."""

    title: str  # catalogue id; also its alternative text
    png: bytes


Evidence = Figure | Table | Curve | Picture


class Judgement(msgspec.Struct, frozen=True):
    """What a gate gives at its end."""

    colour: Colour
    message: Notice  # what was found, in one sentence
    evidence: tuple[Evidence, ...] = ()
    hint: Notice | None = None  # what to do, where it is not green


class Outcome(msgspec.Struct, frozen=True):
    """A gate's judgement as it is kept, shown and exported."""

    gate: str
    colour: Colour
    seconds: float
    budget_seconds: float
    message: Notice
    evidence: tuple[Evidence, ...] = ()
    hint: Notice | None = None


class PreflightResult(msgspec.Struct, frozen=True):
    """`Result.values` of a suite that ran to its end."""

    suite: str
    gates: tuple[Outcome, ...]
    made_at: str  # ISO date and time, of this machine's clock
    versions: dict[str, str]  # package -> version
    cpu: str = ""  # of this machine
    device_name: str = ""  # what the gates computed on: a card, or the CPU


# A gate's work: yields events (progress, pictures), returns its judgement. It is handed the bench
# of its suite: settings, context, and whatever several gates of one run share.
Judging = Generator["AnyEvent", None, Judgement]


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate of a suite."""

    id: str  # stable: "G1", "packages"
    entry: str  # "module:function"; function(bench) -> Judging
    budget_seconds: float  # what it may take on two CPU cores; longer is told, much longer is red
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """Gates that are run one after another."""

    id: str
    bench: str  # "module:class"; class(settings, context)
    gates: tuple[Gate, ...]
    words: str = "gate"  # where its gates' words stand: `<words>.<id>.title` and so on

    def chosen(self, names: str) -> tuple[Gate, ...]:
        """The gates that a setting names: "all", or ids separated by commas, in any case.

        Raises Problem naming an id that is none, with those that there are.
        """
        if names.strip().lower() == "all":
            return self.gates
        near = ", ".join(gate.id for gate in self.gates)
        known = {gate.id.lower() for gate in self.gates}
        asked = {name.strip().lower() for name in names.split(",") if name.strip()}
        if not asked:
            raise Problem("problem.gate_none", near=near)
        for name in sorted(asked - known):
            raise Problem("problem.gate_unknown", gate=name, near=near)
        return tuple(gate for gate in self.gates if gate.id.lower() in asked)
