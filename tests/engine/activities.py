"""Small activities for tests of the engine: real generators that real worker processes run."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from core.activities import Activity, ActivitySettings, Lane, Limit
from core.activities.base import TextLimit, Together
from core.context import Context, Share
from core.events import AnyEvent, Drawn, Progressed, Result, Staged, Stopped
from core.models.in_memory import models_in_memory
from core.problems import Problem

STEP_SECONDS = 0.02


class CountSettings(ActivitySettings, frozen=True):
    steps: Annotated[int, Limit(1, 100_000)] = 3


def count(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Counts its steps, tells its process id, and stops when asked."""
    for step in range(settings.steps):
        if context.stopped():
            yield Stopped()
            return
        yield from context.hold()
        if context.finishing():
            yield Result(rows=(), values={"pid": os.getpid(), "steps": step})
            return
        time.sleep(STEP_SECONDS)
        yield Progressed(step + 1, settings.steps, (settings.steps - step - 1) * STEP_SECONDS)
    yield Result(rows=(), values={"pid": os.getpid(), "steps": settings.steps})


def measure(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Works inside a section of the meter."""
    with context.meter.section("counting") as section:
        time.sleep(settings.steps * STEP_SECONDS)
    yield Result(rows=(), values={"samples": len(section.recording.readings)})


def stubborn(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Never looks whether it should stop."""
    yield Progressed(0, settings.steps)
    time.sleep(settings.steps)
    yield Result(rows=(), values={})


def with_child(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Has a child process, as a data loader would; tells both ids before it goes on counting."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield Staged(f"{os.getpid()} {child.pid}")
    yield from count(settings, context)
    child.kill()
    child.wait()


def broken(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    yield Progressed(0, settings.steps)
    raise ZeroDivisionError("a bug in a lab")


def refusing(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    yield Progressed(0, settings.steps)
    raise Problem("problem.queue_full", limit=settings.steps)


def chatty(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Prints to what a careless library takes for standard output."""
    print("this is not a frame of the protocol")
    os.write(1, b"\x00\x00\x00\x02hi")
    yield Result(rows=(), values={})


def endless_silence(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends without an outcome."""
    yield Progressed(1, 1)


HOLDINGS_MIB = 16


@functools.cache
def _something_large() -> Any:
    import torch

    return torch.zeros(HOLDINGS_MIB * 2**20 // 4)


def holding(settings: CountSettings, context: Context) -> Iterator[AnyEvent]:
    """Keeps a model in memory after it has ended, as those do that draw pictures."""
    _something_large()
    models_in_memory().note("large", _something_large.cache_clear)
    yield Drawn("picture", bytes(1_000))
    yield Result(rows=(), values={})


class WordSettings(ActivitySettings, frozen=True):
    word: Annotated[str, TextLimit(20)] = "hello"
    steps: Annotated[int, Limit(1, 100_000)] = 3
    weight: Annotated[int, Limit(1, 8)] = 1


POISON, FORGOTTEN = "poison", "forgotten"  # words that a run breaks on, or gives no outcome for


def words_together(shares: Sequence[Share], context: Context) -> Iterator[tuple[str, AnyEvent]]:
    """Counts steps for all shares at once; gives each its word, drawn and as a result."""
    pid = os.getpid()
    run = f"{pid} at {time.monotonic_ns()}"
    words = {share.job: _word(share) for share in shares}
    unfinished = {share.job: share for share in shares}
    for share in shares:
        yield share.job, Staged(str(pid))
        yield share.job, Drawn(f"{words[share.job]} of {pid}", words[share.job].encode())
    for step in range(_steps(shares)):
        if context.stopped():
            break
        time.sleep(STEP_SECONDS)
        for share in list(unfinished.values()):
            if share.stopped():
                del unfinished[share.job]
                yield share.job, Stopped()
            else:
                yield share.job, Progressed(step + 1, _steps(shares))
        if any(words[job] == POISON for job in unfinished):
            raise ZeroDivisionError("a prompt that nobody thought of")
    for job, share in unfinished.items():
        if share.stopped():
            yield job, Stopped()
        elif words[job] != FORGOTTEN:
            values = {"word": words[job], "run": run, "together": len(shares)}
            yield job, Result(rows=(), values=values)


def _word(share: Share) -> str:
    assert isinstance(share.settings, WordSettings)
    return share.settings.word


def _steps(shares: Sequence[Share]) -> int:
    assert isinstance(shares[0].settings, WordSettings)
    return shares[0].settings.steps


ACTIVITIES = {
    run.__name__: Activity(
        id=run.__name__,
        settings=CountSettings,
        entry=f"tests.engine.activities:{run.__name__}",
        lane=Lane.TRAIN,
        need_mib=0,
        work=("steps",),
    )
    for run in (count, measure, stubborn, with_child, broken, refusing, chatty, endless_silence)
}
ACTIVITIES["quick"] = Activity(
    id="quick",
    settings=CountSettings,
    entry="tests.engine.activities:count",
    lane=Lane.INFER,
    need_mib=0,
    work=("steps",),
    recorded=False,
)
ACTIVITIES["holding"] = Activity(
    id="holding",
    settings=CountSettings,
    entry="tests.engine.activities:holding",
    lane=Lane.INFER,
    need_mib=0,
    work=("steps",),
)
ACTIVITIES["words"] = Activity(
    id="words",
    settings=WordSettings,
    entry="tests.engine.activities:no_such_generator",  # jobs that go together never need it
    lane=Lane.INFER,
    need_mib=0,
    work=("weight", "steps"),
    together=Together(
        entry="tests.engine.activities:words_together",
        alike=("steps",),
        weight="weight",
        most=32,
    ),
)
