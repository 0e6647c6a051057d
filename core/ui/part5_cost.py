"""Part 5, what it costs: prices to be written over, and what each run would have cost by them."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from core.report import table
from core.report.cost import (
    CURRENCIES,
    EXAMPLES,
    VND,
    Prices,
    a_thousand,
    electricity,
    examples,
    money,
    rent,
)
from core.report.measured import Kind, Row
from core.report.sides import BOTH, side_lines
from core.texts import Texts
from core.ui.pixels import tiles_html
from core.ui.visitor import Visitor, visitor

CURRENCY = "part5-currency"  # key of a widget
MOST = {"kwh": {"vnd": 1_000_000.0, "usd": 100.0}, "hour": {"vnd": 100_000_000.0, "usd": 10_000.0}}


def prices_of(me: Visitor) -> Prices:
    """What this reader pays: as they wrote, or the examples of their currency."""
    currency = me.currency or examples(me.language).currency
    return me.prices.get(currency, EXAMPLES[currency])


def draw_sides(own: Sequence[Row], say: Texts) -> None:
    """Training beside inference, out of the student's own rows."""
    st.header(say("part5.sides"), divider="blue")
    st.markdown(say.prose("part5/sides"))
    st.html(sides_html(own, prices_of(visitor()), say))


def sides_html(own: Sequence[Row], prices: Prices, say: Texts) -> str:
    heads = "".join(
        f"<th scope='col'>{html.escape(text)}</th>"
        for text in ("", *(say(f"part5.kind.{kind}") for kind in BOTH))
    )
    body = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(one)}</td>" for one in answers)
        + "</tr>"
        for name, *answers in side_lines(own, prices, say)
    )
    return (
        f"<div class='lab-table p5-sides'><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def draw_cost(rows: Sequence[Row], say: Texts) -> None:
    """The prices, the three answers that matter, and each row's cost."""
    st.header(say("part5.cost"), divider="blue")
    prices = _draw_prices(say)
    tiles = answers(rows, prices, say)
    if tiles:
        st.html(tiles_html(tiles))
    if rows:
        st.html(costs_html(rows, prices, say))
    st.caption(say("part5.cost.note"))


def _draw_prices(say: Texts) -> Prices:
    me = visitor()
    prices = prices_of(me)
    money_of, kwh, hour = st.columns([2, 3, 3], vertical_alignment="bottom")
    st.session_state[CURRENCY] = prices.currency
    money_of.segmented_control(
        say("part5.cost.currency"),
        CURRENCIES,
        format_func=str.upper,
        key=CURRENCY,
        required=True,
        on_change=_keep_currency,
    )
    for column, name in ((kwh, "kwh"), (hour, "hour")):
        key = f"part5-{name}-{prices.currency}"
        st.session_state[key] = getattr(prices, name)
        whole = prices.currency == VND
        column.number_input(
            f"{say(f'part5.cost.{name}')} ({prices.currency.upper()})",
            0.0,
            MOST[name][prices.currency],
            step=500.0 if whole else 0.01,
            format="%.0f" if whole else "%.2f",
            key=key,
            on_change=_keep_price,
            args=(name, prices.currency, key),
        )
    st.caption(say("part5.cost.example"))
    return prices


def _keep_currency() -> None:
    if st.session_state[CURRENCY] in CURRENCIES:
        visitor().currency = st.session_state[CURRENCY]


def _keep_price(name: str, currency: str, key: str) -> None:
    me, value = visitor(), st.session_state[key]
    if value is not None:
        before = me.prices.get(currency, EXAMPLES[currency])
        kwh, hour = (value, before.hour) if name == "kwh" else (before.kwh, value)
        me.prices[currency] = Prices(currency, float(kwh), float(hour))


def answers(rows: Sequence[Row], prices: Prices, say: Texts) -> list[tuple[str, str, float | None]]:
    """A training of the GAN, 1,000 pictures, and 1,000 pictures that fool: by the newest run of
    each, the student's own before a recording."""

    def newest(activities: Sequence[str], kind: Kind) -> Row | None:
        fitting = [
            row for row in rows if row.activity in activities and row.kind is kind and row.complete
        ]
        own = [row for row in fitting if not row.recorded]
        return next(reversed(own or fitting), None)

    told: list[tuple[str, str, float | None]] = []
    for name, activities, kind in (
        ("training", ("train-gan",), Kind.TRAINING),
        ("pictures", ("make-images", "eight-pictures"), Kind.INFERENCE),
        ("attack", ("attack",), Kind.INFERENCE),
    ):
        row = newest(activities, kind)
        if row is None:
            continue
        for how, price in (("own", electricity(row, prices)), ("hired", rent(row, prices))):
            amount = price if name == "training" else a_thousand(price, row)
            if amount is not None:
                what = say(f"part5.cost.{name}")
                if row.recorded:
                    what += f" ({say('part5.recorded')})"
                title = say(f"part5.cost.{how}", what=what)
                told.append((title, money(amount, prices.currency, say), None))
    return told


def costs_html(rows: Sequence[Row], prices: Prices, say: Texts) -> str:
    heads = "".join(
        f"<th scope='col'>{html.escape(table.head(one, say))}</th>" for one in table.COST
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(table.cell_text(column, value, prices, say))}</td>"
            for column, value in zip(table.COST, values, strict=True)
        )
        + "</tr>"
        for values in table.cells(table.COST, rows, prices, say)
    )
    return (
        f"<div class='lab-table p5-costs'><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
