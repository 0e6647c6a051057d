"""Costs are worked out from the row, and what is not known is never free of charge."""

from __future__ import annotations

import csv
import io

import pytest
from msgspec.structs import replace

from core.report.cost import (
    EXAMPLES,
    USD,
    VND,
    Prices,
    a_thousand,
    electricity,
    examples,
    money,
    rent,
    side,
)
from core.report.measured import Kind, not_run, own_rows
from core.report.table import EVERYTHING, MEASURED, cells, to_csv
from core.texts import texts
from tests.report.students import PC, drawing_job, recorded_job

VI, EN = texts("vi"), texts("en")
PRICES = Prices(VND, kwh=3_000.0, hour=36_000.0)


def test_cost_of_a_training_is_energy_times_price_or_time_times_rent():
    job = recorded_job("train-gan", student="an")
    known = replace(job, rows=(replace(job.rows[0], seconds=90.0, energy_wh=2.0),))
    (row,) = own_rows([known], PC)
    assert electricity(row, PRICES) == pytest.approx(6.0)  # 0.002 kWh
    assert rent(row, PRICES) == pytest.approx(900.0)  # a fortieth of an hour
    assert row.images
    assert a_thousand(900.0, row) == pytest.approx(900.0 / row.images * 1000)


def test_energy_that_is_not_measured_costs_not_nothing_but_something_unknown():
    (drawn,) = own_rows([drawing_job(student="an")], PC)
    assert electricity(drawn, PRICES) is None
    assert money(None, VND, VI) == VI("absent.value")
    on_cpu, _ = own_rows([recorded_job("cpu-vs-gpu", student="an")], PC)
    assert on_cpu.figures.energy_wh is not None  # of the card, that idled meanwhile
    assert electricity(on_cpu, PRICES) is None
    assert side(Kind.INFERENCE, [drawn], PRICES).thousand_electricity is None


@pytest.mark.parametrize(
    ("amount", "currency", "say", "told"),
    [
        (25_000.0, VND, VI, "25.000 ₫"),
        (0.756, VND, VI, "0,76 ₫"),
        (0.0000283, USD, EN, "0.000028 USD"),
        (0.0, USD, EN, "0 USD"),
        (0.002, VND, VI, "dưới 0,01 ₫"),
        (0.0000000001, USD, EN, "below 0.000001 USD"),
    ],
)
def test_small_amounts_of_money_keep_two_figures(amount, currency, say, told):
    assert money(amount, currency, say) == told


def test_the_currency_follows_the_language_until_somebody_chooses():
    assert (examples("vi").currency, examples("en").currency) == (VND, USD)


@pytest.mark.parametrize("say", [VI, EN])
def test_the_csv_file_holds_the_table_number_by_number(say):
    jobs = [recorded_job("feed-gpu", student="an"), drawing_job(student="an")]
    rows, prices = own_rows(jobs, PC), EXAMPLES[USD]
    missing = not_run(rows)
    text = to_csv(rows, missing, prices, say).decode("utf-8-sig")
    head, *lines = csv.reader(io.StringIO(text))
    assert len(head) == len(set(head)) == len(EVERYTHING)
    for line, values in zip(lines, cells(MEASURED, rows, prices, say), strict=False):
        for told, value in zip(line, values, strict=False):
            assert told == ("" if value is None else str(value))
    assert [line[0] for line in lines[len(rows) :]] == ["1", "2", "4"]
