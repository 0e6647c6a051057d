"""Run a suite: gate after gate, each with its time; a crash inside one is its red, and no more."""

from __future__ import annotations

import datetime
import functools
import importlib
import importlib.metadata
import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import msgspec

from core.activities.preflight import ClassroomSettings, SpeechSettings
from core.context import Context
from core.events import AnyEvent, Failed, Judged, Progressed, Result, Staged, Stopped
from core.preflight.gate import Colour, Gate, Judgement, Outcome, PreflightResult, Suite
from core.preflight.suites import CLASSROOM, SPEECH
from core.problems import Notice, Problem

PATIENCE = 10  # a gate that takes so many times its budget is red, and ended where it yields
VERSIONS = ("torch", "torchvision", "diffusers", "transformers", "timm", "streamlit", "numpy")

# Of a gate, or of a lab that it runs: progress in it is not the suite's, nor is its end the end.
KEPT_BACK = (Progressed, Judged, Result, Stopped, Failed)

log = logging.getLogger(__name__)


def run_classroom(settings: ClassroomSettings, context: Context) -> Iterator[AnyEvent]:
    """Is this machine ready for a class?"""
    return run_suite(CLASSROOM, settings, context)


def run_speech(settings: SpeechSettings, context: Context) -> Iterator[AnyEvent]:
    """Is a long speech pre-training run ready to be paid for?"""
    return run_suite(SPEECH, settings, context)


def run_suite(
    suite: Suite, settings: Any, context: Context, *, names: str | None = None
) -> Iterator[AnyEvent]:
    """The gates of these names (those that the settings choose), in the suite's order; then the
    whole as the result."""
    from core.labs.device import device_name, device_of, give_memory_back  # imports torch

    gates = suite.chosen(settings.gates if names is None else names)
    # Made inside the first gate: a bench that cannot be made is a red like any other.
    bench = functools.cache(lambda: _named(suite.bench)(settings, context))
    outcomes: list[Outcome] = []
    with device_of(context) as device:
        for number, gate in enumerate(gates):
            yield Progressed(number, len(gates))
            yield Staged(f"{suite.words}.{gate.id}.title")
            outcome = yield from judged(gate, bench, context)
            if context.stopped():
                yield Stopped()
                return
            outcomes.append(outcome)
            yield Judged(outcome)
            give_memory_back(device)
        yield Progressed(len(gates), len(gates))
        result = PreflightResult(
            suite=suite.id,
            gates=tuple(outcomes),
            made_at=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            versions=_versions(),
            cpu=context.machine.cpu,
            device_name=device_name(device, context.machine),
        )
    yield Result(rows=(), values=msgspec.to_builtins(result))


def judged(
    gate: Gate, bench: Callable[[], Any], context: Context
) -> Generator[AnyEvent, None, Outcome]:
    """Forward what the gate yields, and give how it ended. Of no use once the reader has stopped
    it: then it is left where it stands."""
    began = time.monotonic()
    judgement = yield from _judgement(gate, bench, context, began)
    seconds = time.monotonic() - began
    if seconds > PATIENCE * gate.budget_seconds and judgement.colour is not Colour.RED:
        judgement = Judgement(Colour.RED, _too_slow(gate, seconds), judgement.evidence)
    return Outcome(
        gate=gate.id,
        colour=judgement.colour,
        seconds=seconds,
        budget_seconds=gate.budget_seconds,
        message=judgement.message,
        evidence=judgement.evidence,
        hint=judgement.hint,
    )


def _judgement(
    gate: Gate, bench: Callable[[], Any], context: Context, began: float
) -> Generator[AnyEvent, None, Judgement]:
    """What the gate gives; whatever goes wrong in it becomes its judgement."""
    from core.labs.device import out_of_memory_told

    try:
        with out_of_memory_told(), closing(_named(gate.entry)(bench())) as work:
            while not context.stopped():
                seconds = time.monotonic() - began
                if seconds > PATIENCE * gate.budget_seconds:
                    return Judgement(Colour.RED, _too_slow(gate, seconds))
                try:
                    event = next(work)
                except StopIteration as end:
                    return plain(end.value)
                if not isinstance(event, KEPT_BACK):
                    yield event
        return Judgement(Colour.NOT_JUDGED, Notice("problem.gate_stopped"))
    except Problem as problem:
        return Judgement(Colour.RED, problem.notice)
    except (Exception, SystemExit) as error:  # a library may try to end the process
        log.exception("gate %s broke", gate.id)
        said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return Judgement(Colour.RED, Notice("problem.gate_broke", {"what": said}))


def plain(judgement: object) -> Judgement:
    """The same of plain data, as it has to travel; a number of NumPy's or PyTorch's becomes one.

    Raises ValidationError or TypeError where it is no judgement.
    """
    data = msgspec.to_builtins(judgement, builtin_types=(bytes,), enc_hook=_number)
    return msgspec.convert(data, Judgement)


def _number(value: Any) -> Any:
    return value.item()


def _too_slow(gate: Gate, seconds: float) -> Notice:
    return Notice("problem.gate_too_slow", {"seconds": seconds, "budget": gate.budget_seconds})


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
