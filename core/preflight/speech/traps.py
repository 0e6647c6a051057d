"""The nine traps of a long speech run, each with a demonstration that a visitor can start.

Words: `trap.<id>.title` and `trap.<id>.text`. Declared without torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.context import Context
from core.events import AnyEvent
from core.preflight.gate import Gate, Suite

if TYPE_CHECKING:
    from core.activities.preflight import SpeechTrapSettings

_DEMOS = "core.preflight.speech.trap_demos"

TRAPS = (
    Gate("positions", f"{_DEMOS}:positions", 15),
    Gate("rate", f"{_DEMOS}:rate", 5),
    Gate("collapse", f"{_DEMOS}:collapse", 40),
    Gate("rank", f"{_DEMOS}:rank", 15),
    Gate("scatter", f"{_DEMOS}:scatter", 10),
    Gate("optimiser", f"{_DEMOS}:optimiser", 10),
    Gate("storage", f"{_DEMOS}:storage", 10),
    Gate("baseline", f"{_DEMOS}:baseline", 20),
    Gate("estimate", f"{_DEMOS}:estimate", 30),
)

SUITE = Suite(id="traps", bench=f"{_DEMOS}:SmallBench", gates=TRAPS, words="trap")


def run(settings: SpeechTrapSettings, context: Context) -> Iterator[AnyEvent]:
    """One demonstration, told as a gate is."""
    from core.preflight.run import run_suite

    return run_suite(SUITE, settings, context, names=settings.trap)
