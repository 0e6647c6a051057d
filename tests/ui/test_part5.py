"""Part 5's page: the student's own rows, what is missing, what it costs, and two files to keep."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.report.cost import EXAMPLES, VND, Prices
from core.report.measured import PARTS
from core.report.table import to_csv
from core.texts import texts
from core.ui import identity, resources
from core.ui.part5 import LOG, RECORDINGS, own_rows_of
from core.ui.part5_cost import CURRENCY, answers
from core.ui.part5_report import maker
from tests.report.students import PC, drawing_job, recorded_job

AN, BINH = identity.new_token(), identity.new_token()
PAGE = "pages/what_did_it_cost.py"
VI, EN = texts("vi"), texts("en")


@pytest.fixture
def measured(lab: pytest.MonkeyPatch) -> None:
    """An has trained and drawn, Bình has compared two processors."""
    lab.setattr(resources, "machine", lambda: PC)
    store = resources.records()
    store.save(recorded_job("train-gan", student=AN))
    store.save(drawing_job(student=AN))
    store.save(recorded_job("cpu-vs-gpu", student=BINH))


def table_of(page: AppTest) -> pd.DataFrame:
    return page.dataframe[0].value


def links_of(page: AppTest) -> set[str]:
    found = page.main.get("page_link")
    return {one.proto.page.rsplit("/", 1)[-1] for one in found}


def test_a_student_with_nothing_sees_what_to_do_and_a_recording_to_look_at(visit):
    page = visit(AN).switch_page(PAGE).run()
    assert not page.exception
    assert VI("part5.nothing") in [one.value for one in page.subheader]
    assert len(links_of(page)) == len(PARTS)
    sources = set(table_of(page)["source"])
    assert sources == {VI("part5.recorded"), VI("part5.not_run")}
    page.toggle(key=RECORDINGS).set_value(False).run()
    assert not page.exception
    assert set(table_of(page)["source"]) == {VI("part5.not_run")}


def test_the_page_shows_ones_own_rows_and_never_a_classmates(visit, measured):
    page = visit(AN).switch_page(PAGE).run()
    assert not page.exception
    assert list(table_of(page)["part"]) == ["2", "3", "1", "2b", "4"]  # the last three: not run
    assert links_of(page) == {"cpu-or-gpu", "feed-the-gpu", "fool-the-classifier"}
    seconds = [row.figures.seconds for row in own_rows_of(AN)]
    assert list(table_of(page)["seconds"].dropna()) == seconds
    other = visit(BINH).switch_page(PAGE).run()
    assert list(table_of(other)["label"])[:2] == [VI("section.cpu"), VI("section.gpu")]
    assert {row.run for row in own_rows_of(AN)}.isdisjoint(row.run for row in own_rows_of(BINH))


def test_prices_that_are_written_over_change_every_cost(visit, measured):
    page = visit(AN).switch_page(PAGE).run()
    rows = own_rows_of(AN)
    twice = Prices(VND, 2 * EXAMPLES[VND].kwh, 2 * EXAMPLES[VND].hour)
    page.number_input(key="part5-kwh-vnd").set_value(twice.kwh).run()
    page.number_input(key="part5-hour-vnd").set_value(twice.hour).run()
    assert not page.exception
    shown = " ".join(str(one.proto.body) for one in page.main.get("html"))
    for _, amount, _ in answers(rows, twice, VI):
        assert amount in shown
    page.segmented_control(key=CURRENCY).set_value("usd").run()
    assert not page.exception
    assert page.number_input(key="part5-kwh-usd").value == EXAMPLES["usd"].kwh
    page.toggle(key=LOG).set_value(False).run()
    assert not page.exception


def test_the_report_is_made_at_the_click_and_in_ones_own_language(measured):
    make = maker(AN, resources.records(), PC, EXAMPLES["usd"], EN)
    text = make().decode()
    assert EN("part5.report.title") in text
    assert VI("part5.report.title") not in text


def test_the_downloaded_table_has_the_rows_that_the_page_shows(visit, measured):
    page = visit(AN).switch_page(PAGE).run()
    rows = own_rows_of(AN)
    missing = [part for part in PARTS if part.id not in {row.part for row in rows}]
    text = to_csv(rows, missing, EXAMPLES[VND], VI).decode("utf-8-sig")
    lines = list(csv.reader(io.StringIO(text)))[1:]
    shown = table_of(page)
    assert [line[:2] for line in lines] == shown[["part", "label"]].to_numpy().tolist()
