"""Run a suite: gate after gate, each with its time; a crash inside one is its red, and no more."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import logging
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from core.activities.preflight import ClassroomSettings, SpeechSettings
from core.context import Context
from core.events import AnyEvent, Judged, Progressed, Result, Staged, Stopped
from core.preflight.gate import Colour, Gate, Judgement, Outcome, PreflightResult, Suite
from core.preflight.suites import CLASSROOM, SPEECH
from core.problems import Notice, Problem

PATIENCE = 10  # a gate that takes so many times its budget is ended
VERSIONS = ("torch", "torchvision", "diffusers", "transformers", "timm", "streamlit", "numpy")

log = logging.getLogger(__name__)


class Interrupted(Exception):
    """The reader wants no more of it."""


def run_classroom(settings: ClassroomSettings, context: Context) -> Iterator[AnyEvent]:
    """Is this machine ready for a class?"""
    return run_suite(CLASSROOM, settings, context)


def run_speech(settings: SpeechSettings, context: Context) -> Iterator[AnyEvent]:
    """Is a long speech pre-training run ready to be paid for?"""
    return run_suite(SPEECH, settings, context)


def run_suite(suite: Suite, settings: Any, context: Context) -> Iterator[AnyEvent]:
    """The gates that the settings choose, in the suite's order, then the whole as the result."""
    gates = suite.chosen(settings.gates)
    bench = _named(suite.bench)(settings, context)
    outcomes: list[Outcome] = []
    for number, gate in enumerate(gates):
        yield Progressed(number, len(gates))
        yield Staged(f"gate.{gate.id}.title")
        began = time.monotonic()
        try:
            judgement = yield from _judged(gate, bench, context, began)
        except Interrupted:
            yield Stopped()
            return
        outcome = Outcome(
            gate=gate.id,
            colour=judgement.colour,
            seconds=time.monotonic() - began,
            budget_seconds=gate.budget_seconds,
            message=judgement.message,
            evidence=judgement.evidence,
            hint=judgement.hint,
        )
        outcomes.append(outcome)
        yield Judged(outcome)
    yield Progressed(len(gates), len(gates))
    result = PreflightResult(
        suite=suite.id,
        gates=tuple(outcomes),
        made_at=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        versions=_versions(),
    )
    yield Result(rows=(), values=msgspec.to_builtins(result))


def _judged(gate: Gate, bench: Any, context: Context, began: float) -> Any:
    """Forward what the gate yields; whatever goes wrong in it becomes its judgement."""
    try:
        work = _named(gate.entry)(bench)
        while True:
            if context.stopped():
                raise Interrupted
            if time.monotonic() - began > PATIENCE * gate.budget_seconds:
                raise Problem("problem.gate_too_slow", seconds=PATIENCE * gate.budget_seconds)
            try:
                event = next(work)
            except StopIteration as end:
                return end.value
            # Progress inside a gate is not the suite's.
            if not isinstance(event, Progressed):
                yield event
    except Interrupted:
        raise
    except Problem as problem:
        return Judgement(Colour.RED, problem.notice)
    except Exception as error:
        log.exception("gate %s broke", gate.id)
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return Judgement(Colour.RED, Notice("problem.gate_broke", {"what": what}))


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in VERSIONS:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
