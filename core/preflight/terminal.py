"""A gate's outcome as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from core.preflight.export import GLYPHS, sums, verdict
from core.preflight.gate import Colour, Outcome, PreflightResult
from core.texts import Texts

INKS = {Colour.GREEN: 32, Colour.AMBER: 33, Colour.RED: 31, Colour.NOT_JUDGED: 90}


def gate_text(
    outcome: Outcome, say: Texts, *, words: str = "gate", inked: bool = False
) -> list[str]:
    """A gate on one line, and on a second what to do, where there is something.

    `words` is where the words of its suite stand.
    """
    light = f"{GLYPHS[outcome.colour]} {say(f'preflight.colour.{outcome.colour}')}"
    width = 2 + max(len(say(f"preflight.colour.{colour}")) for colour in Colour)
    padding = " " * (width - len(light))
    if inked:
        light = f"\x1b[1;{INKS[outcome.colour]}m{light}\x1b[0m"
    title, time = say(f"{words}.{outcome.gate}.title"), say.seconds(outcome.seconds)
    lines = [f"{light}{padding}  {outcome.gate}  {title}  {time}  {say.notice(outcome.message)}"]
    if outcome.hint is not None:
        hint = say("cli.preflight.hint", hint=say.notice(outcome.hint))
        lines.append(" " * (width + 2) + hint)
    return lines


def end_text(outcomes: Sequence[Outcome], say: Texts, *, suite: str) -> list[str]:
    """The whole, in one sentence and in numbers."""
    return ["", verdict(outcomes, say, suite=suite), sums(outcomes, say)]


def result_text(result: PreflightResult, say: Texts) -> list[str]:
    """All lines of a run that is over; a trap is no gate, and has no verdict."""
    trap = result.suite == "traps"
    words = "trap" if trap else "gate"
    lines = [line for outcome in result.gates for line in gate_text(outcome, say, words=words)]
    return lines if trap else [*lines, *end_text(result.gates, say, suite=result.suite)]
