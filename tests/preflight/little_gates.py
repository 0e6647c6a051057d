"""A little suite for the tests of the runner: gates that end in every way there is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np

from core.activities import ActivitySettings
from core.activities.base import TextLimit
from core.context import Context, never
from core.events import Progressed, Result, Staged
from core.preflight.gate import (
    Colour,
    Curve,
    Figure,
    Gate,
    Judgement,
    Judging,
    Picture,
    Suite,
    Table,
)
from core.problems import Notice, Problem
from core.telemetry.readings import Machine

HERE = __name__


class LittleSettings(ActivitySettings, frozen=True):
    gates: Annotated[str, TextLimit(100)] = "all"


class Bench:
    """What the gates share: how often each of them came to work."""

    def __init__(self, _settings: object, context: Context) -> None:
        self.context = context
        self.ran: list[str] = []


class BrokenBench:
    def __init__(self, _settings: object, _context: Context) -> None:
        raise OSError("no room for a bench")


def suite(*gates: str, bench: str = "Bench", budget: float = 60.0) -> Suite:
    """A suite of the functions below; a name with a dot is a place of its own."""
    return Suite(
        "little",
        f"{HERE}:{bench}",
        tuple(
            Gate(name, name if ":" in name else f"{HERE}:{name}", budget_seconds=budget)
            for name in gates
        ),
    )


def context(stopped: Callable[[], bool] = never) -> Context:
    machine = Machine(cpu="Test CPU", cores=2, ram_mib=8192)
    nothing: Any = SimpleNamespace()
    return Context(
        device="cpu",
        cpu_threads=1,
        machine=machine,
        meter=nothing,
        stopped=stopped,
        digits=lambda: nothing,
    )


def good(bench: Bench) -> Judging:
    bench.ran.append("good")
    yield Staged("little.stage")
    yield Progressed(1, 2)
    yield Result(rows=(), values={"of": "a lab that the gate has run"})
    return Judgement(
        Colour.GREEN,
        Notice("little.good", {"ran": len(bench.ran)}),
        (
            Figure("little.figure", np.float32(0.5), "seconds", 1.0),  # type: ignore[arg-type]
            Table("little.table", ("little.a", "little.b"), (("x", float("nan")), ("y", True))),
            Curve("little.curve", "little.x", "little.y", (0.0, 1.0), {"little.line": (1.0, 2.0)}),
            Picture("little.picture", b"\x89PNG"),
        ),
    )


def poor(_bench: Bench) -> Judging:
    yield from ()
    return Judgement(Colour.RED, Notice("little.poor"), hint=Notice("little.hint"))


def crashes(_bench: Bench) -> Judging:
    yield Staged("gate.G1.title")
    raise ZeroDivisionError("the very thing\nand a second line")


def leaves(_bench: Bench) -> Judging:
    yield from ()
    raise SystemExit(3)


def complains(_bench: Bench) -> Judging:
    yield from ()
    raise Problem("problem.little", what="salt")


def forgets(_bench: Bench) -> Judging:
    yield from ()
    return None  # type: ignore[return-value]


def endless(_bench: Bench) -> Judging:
    while True:
        yield Staged("little.stage")


def fine(_bench: Bench) -> Judging:
    """Talks as libraries do; its words are those of the real catalogues."""
    print("a library says hello")
    yield Staged("gate.G1.title")
    return Judgement(
        Colour.AMBER, Notice("preflight.verdict.no_red"), hint=Notice("preflight.not_yet")
    )


def dawdles(_bench: Bench) -> Judging:
    """Takes too long in one go, and then calls it good."""
    yield from ()
    total = 0
    for number in range(200_000):
        total += number
    return Judgement(Colour.GREEN, Notice("little.good", {"ran": total}))
