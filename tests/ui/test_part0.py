from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.data.digits import Digits, DigitsSource
from core.problems import Notice, Problem
from core.telemetry.readings import Absences, Gpu
from core.texts import LANGUAGES, texts
from core.ui import identity, part0
from core.ui.visitor import Visitor
from tests.ui.stand_ins import CARD, GPU_PC, StandInEngine, use

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)


def page() -> None:
    from core.ui import part0

    part0.draw()


def loaded(*notices: Notice) -> Future[Digits]:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 28, 28), dtype=np.uint8)
    pixels[0, 0, :2] = 0, 255
    labels = np.arange(60, dtype=np.uint8) % 10
    future: Future[Digits] = Future()
    future.set_result(Digits(pixels, labels, DigitsSource.WIDENED, notices))
    return future


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch):
    def open_it(digits: Future, *, language: str = "vi", gpus: tuple[Gpu, ...] = ()) -> AppTest:
        engine = StandInEngine(gpus=tuple(gpu.uuid for gpu in gpus))
        monkeypatch.setattr(part0, "gpus_now", lambda: gpus)
        monkeypatch.setattr(identity, "browser_token", lambda: TOKEN)
        use(monkeypatch, engine, digits=digits, **({"machine": GPU_PC} if gpus else {}))
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(TOKEN, kept=True, language=language)
        return app.run()

    return open_it


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def prose_of(app: AppTest) -> str:
    return " ".join(element.value for element in app.markdown)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("gpus", [(), (CARD,)])
def test_the_page_is_drawn_with_and_without_a_gpu(open_page, language, gpus):
    assert not open_page(loaded(), language=language, gpus=gpus).exception


def test_ten_digits_stand_in_a_row_each_with_its_label_and_a_description(open_page):
    shown = html_of(open_page(loaded()))
    assert shown.count("<figure>") == 10
    for label in range(10):
        assert f"<figcaption>{label}</figcaption>" in shown
        assert VI("part0.digit.alt", label=label) in shown


def test_shape_count_and_range_before_and_after_scaling_are_those_of_the_data(open_page):
    shown = html_of(open_page(loaded()))
    for value in ("(1, 28, 28)", ">60<", "0 … 255", "−1 … 1"):
        assert value in shown


def test_while_the_digits_load_the_page_says_so_and_is_there(open_page):
    app = open_page(Future())
    assert VI("part0.digits.loading") in [element.value for element in app.info]
    assert VI("part0.questions.title") in [element.value for element in app.subheader]


def test_where_the_digits_come_from_is_said_and_what_went_wrong_on_the_way(open_page):
    notice = Notice("problem.queue_full", {"limit": 3})
    app = open_page(loaded(notice))
    assert VI("data.source.widened") in prose_of(app)
    assert VI.notice(notice) in [element.value for element in app.warning]


def test_digits_that_cannot_be_had_are_told_in_a_sentence_without_a_traceback(open_page):
    broken: Future[Digits] = Future()
    broken.set_exception(Problem("problem.queue_full", limit=3))
    crashed: Future[Digits] = Future()
    crashed.set_exception(RuntimeError("Traceback"))
    for future in (broken, crashed):
        app = open_page(future)
        assert not app.exception
        assert len(app.error) == 1
        assert "Traceback" not in app.error[0].value


def test_without_a_gpu_the_page_says_what_that_means_for_the_lesson(open_page):
    app = open_page(loaded())
    assert VI.prose("part0/no-gpu").strip() in prose_of(app)
    assert VI("part0.gpu.none") in html_of(app)


def test_with_a_gpu_nothing_is_said_about_having_none(open_page):
    app = open_page(loaded(), gpus=(CARD,))
    assert VI.prose("part0/no-gpu").strip() not in prose_of(app)
    assert "Test Card 12G" in html_of(app)


def test_a_card_that_does_not_tell_how_busy_it_is_says_so_with_the_reason():
    silent = Gpu("GPU-2", "Old Card", 8192, 8000, None, Absences({"busy_percent": "absent.mig"}))
    tile = part0.gpu_tile(silent, EN, in_use=True)
    assert EN("absent.value") in tile
    assert EN("absent.mig") in tile
    assert "7.81 GiB" in tile


def test_a_card_that_the_lab_leaves_alone_is_marked():
    assert EN("part0.gpu.not_used") in part0.gpu_tile(CARD, EN, in_use=False)
    assert EN("part0.gpu.not_used") not in part0.gpu_tile(CARD, EN, in_use=True)


def test_a_processors_name_cannot_bring_markup_into_the_page():
    assert "<b>" not in part0.tile("a", "b", ["<b>"])
