"""The lab report as a file: complete, of one student, and in need of nothing from outside."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.__main__ import main
from core.records.store import Records
from core.report import svg
from core.report.collect import report_of
from core.report.cost import examples
from core.report.html import report_html
from core.report.table import MEASURED, cell_text
from core.telemetry.readings import SummaryRow
from core.texts import LANGUAGES, texts
from tests.report.students import HOSTILE, PC, drawing_job, picture, recorded_job

AN, BINH = "an-token", "binh-token"
UPLOAD = f"upload-{'a' * 32}"
SECRET = picture(77)  # pixels of a picture that a student brought


class Reader(HTMLParser):
    """What a browser would do with the file: elements, text, and what they point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.targets: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.targets += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    store = Records(tmp_path_factory.mktemp("records") / "lab.db")
    store.rename(AN, "An <b>Nguyễn</b>")
    store.rename(BINH, "Bình")
    for job in (
        recorded_job("cpu-vs-gpu", student=AN),
        recorded_job("train-gan", student=AN),
        recorded_job("feed-gpu", student=AN),
        drawing_job(student=AN),
        drawing_job(student=BINH, prompt="the green bag of Bình"),
    ):
        store.save(job)
    brought = drawing_job(student=AN, number=2)
    store.save(
        replace(
            brought,
            id="brought",
            activity="attack",
            settings={"picture": UPLOAD, "target": 859},
            rows=(SummaryRow("attack", 0.4, samples=3),),
            result=None,
            pictures={"original": SECRET},
        )
    )
    store.answer(AN, "hand.thumb", "output")
    store.guess(AN, "feed-gpu/loader", "data")
    store.guess(AN, "a question without words", "yes")
    yield store
    store.close()


@pytest.fixture(scope="module", params=LANGUAGES)
def report(records: Records, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The language and the file of the student An."""
    say = texts(request.param)
    return request.param, report_html(report_of(AN, records, PC, examples(request.param)), say)


def test_the_report_opens_offline_and_is_whole(report):
    _, text = report
    reader = Reader(text)
    assert not reader.open
    assert reader.tags.count("svg") == 4
    assert "script" not in reader.tags
    assert reader.targets
    assert all(target.startswith("data:") for target in reader.targets)
    assert not re.search(r"url\(|@import|https?://", text)


def test_every_figure_of_the_report_is_that_of_the_records(report, records):
    language, text = report
    say, made = texts(language), report_of(AN, records, PC, examples(language))
    words = set(Reader(text).words)
    for row in made.rows:
        for column in MEASURED:
            if column.id in ("seconds", "gpu", "own", "energy", "cpu", "device", "label"):
                value = column.value(row, made.prices, say)
                assert cell_text(column, value, made.prices, say) in words
    jobs = records.of_student(AN)
    assert len(made.rows) == sum(len(job.rows) for job in jobs)


def test_what_a_student_typed_is_text_and_nothing_else(report):
    language, text = report
    words = Reader(text).words
    assert "An <b>Nguyễn</b>" in words
    assert HOSTILE in words
    say = texts(language)
    assert say("question.hand.thumb") in words
    assert say("answer.hand.thumb.output") in words
    assert say("answer.feed-gpu.data") in words
    assert "a question without words" not in text


def test_the_report_tells_nothing_of_another_student_nor_shows_a_picture_of_ones_own(report):
    _, text = report
    assert "Bình" not in text
    assert base64.b64encode(picture(10)).decode() in text
    assert base64.b64encode(SECRET).decode() not in text


def test_a_student_of_whom_nothing_is_known_gets_an_empty_report_that_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    out = tmp_path / "report.html"
    assert main(["report", "--student", "nobody", "--out", str(out), "--lang", "en"]) == 0
    assert str(out) in capsys.readouterr().out
    reader = Reader(out.read_text("utf-8"))
    assert not reader.open
    assert texts("en")("part5.report.nothing") in reader.words
    assert sorted(path.name for path in tmp_path.iterdir() if "report" in path.name) == [out.name]


def test_a_report_that_cannot_be_written_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    out = tmp_path / "no" / "such" / "folder" / "report.html"
    assert main(["report", "--student", AN, "--out", str(out)]) == 2
    told = capsys.readouterr()
    assert str(out) in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not told.out


def test_without_charts_the_report_says_so_and_keeps_its_tables(records, monkeypatch):
    monkeypatch.setattr(svg.sys, "executable", "/no/such/python")
    say = texts("en")
    text = report_html(report_of(BINH, records, PC, examples("en")), say)
    assert say("part5.report.no_charts") in Reader(text).words
    assert "<table>" in text
