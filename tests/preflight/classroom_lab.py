"""A bench on this machine for the tests of the classroom gates, and what they end as."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from core.activities import ClassroomSettings
from core.context import Context, never
from core.data.digits import Digits, load_digits
from core.preflight.classroom.bench import ClassroomBench
from core.preflight.gate import Curve, Figure, Outcome, Picture, Table
from core.preflight.run import judged
from core.preflight.suites import CLASSROOM
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.texts import LANGUAGES, texts

GATES = {gate.id: gate for gate in CLASSROOM.gates}


@functools.cache
def class_digits() -> Digits:
    return load_digits(LabSettings.load())


def bench_of(
    folder: Path,
    *,
    students: int = 30,
    address: str = "",
    device: str = "cpu",
    digits: Callable[[], Digits] = class_digits,
    kind: type[ClassroomBench] = ClassroomBench,
    meter: Any = None,
    machine: dict[str, Any] | None = None,
    **lab: Any,
) -> ClassroomBench:
    """A bench whose lab keeps everything in this folder."""
    context = Context(
        device=device,
        cpu_threads=2,
        machine=replace_fields(describe_machine(), machine or {}),
        meter=meter or SimpleNamespace(),
        stopped=never,
        digits=digits,
        lab=LabSettings(**{"cache_dir": folder, "offline": True, **lab}),
    )
    return kind(ClassroomSettings(students=students, address=address), context)


def replace_fields(struct: Any, values: dict[str, Any]) -> Any:
    return type(struct)(
        **{name: getattr(struct, name) for name in struct.__struct_fields__} | values
    )


def outcome(gate: str, bench: ClassroomBench) -> Outcome:
    """How the gate ends, as the suite runs it; every text of it is there in both languages."""
    work = judged(GATES[gate], lambda: bench, bench.context)
    while True:
        try:
            next(work)
        except StopIteration as end:
            told(end.value)
            return end.value


def told(ended: Outcome) -> None:
    """A missing text is a warning, and so an error."""
    for say in map(texts, LANGUAGES):
        say.notice(ended.message)
        if ended.hint is not None:
            say.notice(ended.hint)
        for one in ended.evidence:
            match one:
                case Figure():
                    say(one.label)
                case Table():
                    say(one.title)
                    for column in one.columns:
                        say(column)
                case Picture() | Curve():
                    say(one.title)


def value(ended: Outcome, label: str) -> Any:
    return next(
        one.value for one in ended.evidence if isinstance(one, Figure) and one.label == label
    )
