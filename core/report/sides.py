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
    return [
        [say(f"part5.side.{name}"), *(_told(name, one, prices, say) for one in sides)]
        for name in (
            "runs",
            "seconds",
            "own_vram",
            "gpu",
            "energy",
            "electricity",
            "rent",
            "thousand_electricity",
            "thousand_rent",
            "who",
        )
    ]


def _told(name: str, one: Side, prices: Prices, say: Texts) -> str:
    def cash(amount: float) -> str:
        return money(amount, prices.currency, say)

    if name == "who":
        return say(f"part5.side.who.{one.kind}")
    if not one.runs:
        return say("part5.not_run")
    match name:
        case "runs":
            return say.number(one.runs)
        case "seconds":
            return _range(one.seconds, say.seconds, say)
        case "own_vram":
            return _range(one.own_vram_mib, say.mib, say)
        case "gpu":
            return _range(one.gpu_percent, say.percent, say)
        case "energy":
            return _range(
                one.energy_wh, lambda wh: say("part5.wh", value=energy_text(wh, say)), say
            )
        case "electricity":
            return _range(one.electricity, cash, say)
        case "rent":
            return _range(one.rent, cash, say)
        case "thousand_electricity":
            return money(one.thousand_electricity, prices.currency, say)
    return money(one.thousand_rent, prices.currency, say)


def _range(found: Range | None, text: Callable[[float], str], say: Texts) -> str:
    if found is None:
        return say("absent.value")
    low, high = text(found.low), text(found.high)
    return low if low == high else say("part5.range", low=low, high=high)
