"""The columns of the table of rows: the same on the page, in the CSV file and in the report."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.report.cost import Prices, a_thousand, electricity, money, rent
from core.report.measured import Part, Row
from core.texts import Texts

MONEY = "money"
Value = str | float | int | None  # None: not measured


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its head is the label `part5.column.<id>`."""

    id: str
    value: Callable[[Row, Prices, Texts], Value]
    text: Callable[[Value, Prices, Texts], str]  # of a value that is there, for a reader
    unit: str = ""  # of the value as it stands in a file; money has the currency's


def _figure(
    id: str, name: str, text: Callable[[Texts, float], str], unit: str, *, times: float = 1.0
) -> Column:
    def value(row: Row, _prices: Prices, _say: Texts) -> Value:
        figure = getattr(row.figures, name)
        return None if figure is None else times * figure

    return Column(id, value, lambda one, _, say: text(say, float(one or 0)), unit)


def _words(id: str, value: Callable[[Row, Texts], str]) -> Column:
    return Column(id, lambda row, _, say: value(row, say), lambda one, _p, _s: str(one))


def _money(id: str, value: Callable[[Row, Prices], float | None]) -> Column:
    return Column(
        id,
        lambda row, prices, _: value(row, prices),
        lambda one, prices, say: money(float(one or 0), prices.currency, say),
        MONEY,
    )


def _source(row: Row, say: Texts) -> str:
    if row.recorded:
        return say("part5.recorded")
    return say("part5.live" if row.complete else "part5.incomplete")


PART = _words("part", lambda row, _: row.part)
LABEL = _words("label", lambda row, say: row.label(say))
KIND = _words("kind", lambda row, say: say(f"part5.kind.{row.kind}"))
SECONDS = _figure("seconds", "seconds", Texts.seconds, "s")
GPU = _figure("gpu", "gpu_percent_mean", Texts.percent, "%")
OWN = _figure("own", "own_vram_mib_max", Texts.mib, "MiB")
CARD = _figure("card", "card_used_mib_max", Texts.mib, "MiB")
POWER = _figure("power", "power_watts_max", Texts.watts, "W")
ENERGY = _figure(
    "energy", "energy_wh", lambda say, wh: say("part5.wh", value=energy_text(wh, say)), "Wh"
)
CPU = _figure("cpu", "cpu_percent_mean", Texts.percent, "%")
CHILDREN = _figure("children", "children_cpu_percent_mean", Texts.percent, "%")
DATA_WAIT = _figure("data_wait", "data_wait_share", Texts.percent, "%", times=100.0)
IMAGES = Column(
    "images", lambda row, _p, _s: row.images, lambda one, _, say: say.number(int(one or 0))
)
DEVICE = _words("device", lambda row, _: row.device)
MACHINE = _words("machine", lambda row, _: row.machine)
SOURCE = _words("source", _source)
WHEN = _words("when", lambda row, _: row.when)
ELECTRICITY = _money("electricity", electricity)
RENT = _money("rent", rent)
THOUSAND_ELECTRICITY = _money(
    "thousand_electricity", lambda row, prices: a_thousand(electricity(row, prices), row)
)
THOUSAND_RENT = _money("thousand_rent", lambda row, prices: a_thousand(rent(row, prices), row))

MEASURED = (
    PART,
    LABEL,
    KIND,
    SECONDS,
    GPU,
    OWN,
    CARD,
    POWER,
    ENERGY,
    CPU,
    CHILDREN,
    DATA_WAIT,
    SOURCE,
    DEVICE,
    MACHINE,
    WHEN,
)
COST = (PART, LABEL, IMAGES, ELECTRICITY, RENT, THOUSAND_ELECTRICITY, THOUSAND_RENT)
EVERYTHING = (
    *MEASURED,
    *(column for column in COST if column not in MEASURED),
)
FACTS = ("part", "label", "kind", "source", "device", "machine", "when")  # never absent


def cell_text(column: Column, value: Value, prices: Prices, say: Texts) -> str:
    """A cell for a reader: what is not measured says so."""
    return say("absent.value") if value is None else column.text(value, prices, say)


def energy_text(wh: float, say: Texts) -> str:
    """Three figures, as far as a milliwatt-hour."""
    return say.number(wh, digits=4 if wh < 0.01 else 3 if wh < 1 else 2)


def head(column: Column, say: Texts) -> str:
    return say(f"part5.column.{column.id}")


def head_with_unit(column: Column, prices: Prices, say: Texts) -> str:
    """For a file, whose cells are bare numbers."""
    unit = prices.currency.upper() if column.unit == MONEY else column.unit
    return f"{head(column, say)} ({unit})" if unit else head(column, say)


def cells(
    columns: Sequence[Column], rows: Sequence[Row], prices: Prices, say: Texts
) -> list[list[Value]]:
    return [[column.value(row, prices, say) for column in columns] for row in rows]


def empty_cells(columns: Sequence[Column], part: Part, say: Texts) -> list[Value]:
    """The row of a part that has not been run: its name, and that."""
    known = {
        "part": part.id,
        "label": say(f"shell.page.{part.page}"),
        "source": say("part5.not_run"),
    }
    return [known.get(column.id, "" if column.id in FACTS else None) for column in columns]


def to_csv(rows: Sequence[Row], missing: Sequence[Part], prices: Prices, say: Texts) -> bytes:
    """All columns of all rows; numbers unrounded and with a point, absent ones empty.

    Begins with a byte order mark, without which spreadsheets misread Vietnamese.
    """
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([head_with_unit(column, prices, say) for column in EVERYTHING])
    writer.writerows(cells(EVERYTHING, rows, prices, say))
    writer.writerows(empty_cells(EVERYTHING, part, say) for part in missing)
    return file.getvalue().encode("utf-8-sig")
