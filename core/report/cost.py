"""What a measured run costs: the electricity of an own card, or the rent of another's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from core.report.measured import Kind, Row
from core.texts import Texts

VND, USD = "vnd", "usd"
CURRENCIES = (VND, USD)
CHEAPEST = {VND: 0.01, USD: 0.000001}  # amounts below are said to be below


@dataclass(frozen=True, slots=True)
class Prices:
    """What the reader pays. Starting values are round examples to be written over."""

    currency: str
    kwh: float  # electricity, per kWh
    hour: float  # a rented cloud GPU, per hour


# About what households in Vietnam pay for a kWh, and what a small cloud GPU costs an hour.
EXAMPLES = {VND: Prices(VND, 2_500.0, 25_000.0), USD: Prices(USD, 0.10, 1.0)}


def examples(language: str) -> Prices:
    """The prices that a reader of this language starts from."""
    return EXAMPLES[VND if language == "vi" else USD]


def electricity(row: Row, prices: Prices) -> float | None:
    """None where the energy is not known: the lab has no meter for a processor's."""
    energy = row.figures.energy_wh
    return None if energy is None or not row.on_card else energy / 1000 * prices.kwh


def rent(row: Row, prices: Prices) -> float:
    """Of a cloud GPU for as long as the run took."""
    return row.figures.seconds / 3600 * prices.hour


def a_thousand(amount: float | None, row: Row) -> float | None:
    """The share of 1,000 pictures in `amount`; None where pictures were not counted."""
    return None if amount is None or not row.images else amount / row.images * 1000


def money(amount: float | None, currency: str, say: Texts) -> str:
    """`0,75 ₫`, `25.000 ₫`, `0.000028 USD`: two figures that mean something, however small."""
    if amount is None:
        return say("absent.value")
    least = CHEAPEST[currency]
    if 0 < amount < least:
        digits = round(-math.log10(least))
        return say(
            "part5.money.below", amount=_with_unit(say.number(least, digits=digits), currency, say)
        )
    digits = 0 if amount == 0 else max(0, 1 - math.floor(math.log10(amount)))
    return _with_unit(say.number(amount, digits=min(digits, 8)), currency, say)


def _with_unit(number: str, currency: str, say: Texts) -> str:
    return say(f"part5.money.{currency}", amount=number)


# Training against inference


@dataclass(frozen=True, slots=True)
class Range:
    """From the least to the most of the rows that know it; None: none does."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two kinds of work, from the student's own rows."""

    kind: Kind
    runs: int  # measured sections
    seconds: Range | None
    gpu_percent: Range | None
    own_vram_mib: Range | None
    energy_wh: Range | None  # of the card, for rows that it worked for
    electricity: Range | None
    rent: Range | None
    thousand_electricity: float | None  # the middle one of the rows that know it
    thousand_rent: float | None


def side(kind: Kind, rows: Sequence[Row], prices: Prices) -> Side:
    """Recordings are passed over: this is about what the student has measured."""
    own = [row for row in rows if row.kind is kind and not row.recorded]

    def spread(value: Callable[[Row], float | None]) -> Range | None:
        known = [one for row in own if (one := value(row)) is not None]
        return Range(min(known), max(known)) if known else None

    def middle(value: Callable[[Row, Prices], float | None]) -> float | None:
        known = [one for row in own if (one := a_thousand(value(row, prices), row)) is not None]
        return median(known) if known else None

    return Side(
        kind=kind,
        runs=len(own),
        seconds=spread(lambda row: row.figures.seconds),
        gpu_percent=spread(lambda row: row.figures.gpu_percent_mean if row.on_card else None),
        own_vram_mib=spread(lambda row: row.figures.own_vram_mib_max if row.on_card else None),
        energy_wh=spread(lambda row: row.figures.energy_wh if row.on_card else None),
        electricity=spread(lambda row: electricity(row, prices)),
        rent=spread(lambda row: rent(row, prices)),
        thousand_electricity=middle(electricity),
        thousand_rent=middle(rent),
    )
