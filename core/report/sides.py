"""Training beside inference, in words: what the student's own rows say of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.report.cost import Prices, Range, Side, money, side
from core.report.measured import Kind, Row
from core.report.table import energy_text
from core.texts import Texts

BOTH = (Kind.TRAINING, Kind.INFERENCE)


def side_lines(rows: Sequence[Row], prices: Prices, say: Texts) -> list[list[str]]:
    """Question, answer of training, answer of inference; one line a question."""
    sides = [side(kind, rows, prices) for kind in BOTH]

    def cash(amount: float | None) -> str:
        return money(amount, prices.currency, say)

    def energy(wh: float) -> str:
        return say("part5.wh", value=energy_text(wh, say))

    answers: dict[str, Callable[[Side], str]] = {
        "runs": lambda one: say.number(one.runs),
        "seconds": lambda one: _range(one.seconds, say.seconds, say),
        "own_vram": lambda one: _range(one.own_vram_mib, say.mib, say),
        "gpu": lambda one: _range(one.gpu_percent, say.percent, say),
        "energy": lambda one: _range(one.energy_wh, energy, say),
        "electricity": lambda one: _range(one.electricity, cash, say),
        "rent": lambda one: _range(one.rent, cash, say),
        "thousand_electricity": lambda one: cash(one.thousand_electricity),
        "thousand_rent": lambda one: cash(one.thousand_rent),
    }
    lines = [
        [
            say(f"part5.side.{name}"),
            *(answer(one) if one.runs else say("part5.not_run") for one in sides),
        ]
        for name, answer in answers.items()
    ]
    who = [say(f"part5.side.who.{one.kind}") for one in sides]
    return [*lines, [say("part5.side.who"), *who]]


def _range(found: Range | None, text: Callable[[float], str], say: Texts) -> str:
    if found is None:
        return say("absent.value")
    low, high = text(found.low), text(found.high)
    return low if low == high else say("part5.range", low=low, high=high)
