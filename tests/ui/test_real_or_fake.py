"""Real or fake?: the truth comes after the marks, never before."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import streamlit as st
from msgspec.structs import replace
from PIL import Image
from streamlit.testing.v1 import AppTest

from core.activities.make_images import MINI_TURBO, ImageMade, MakeImagesResult
from core.activities.soc import DIGITS, RealOrFakeResult
from core.activities.train_gan import TrainGanResult
from core.engine.view import JobState, JobView
from core.problems import Notice
from core.records.store import MEMORY, Records
from core.soc.rounds import FIRST_ROUND, captions_of
from core.texts import LANGUAGES, texts
from core.ui import identity, real_or_fake_captions
from core.ui.real_or_fake import FAKE, REAL, TABS
from core.ui.visitor import Visitor
from tests.ui import stand_ins
from tests.ui.stand_ins import PC, StandInEngine

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)
TAB = {name: number for number, name in enumerate(TABS)}
TRUTHS = (True, False, False, True, True, False, True, False)
BELIEFS = (0.9, 0.2, 0.7, 0.8, 0.95, 0.1, 0.6, 0.3)  # six right: one fake before one real


def page() -> None:
    from core.ui import real_or_fake

    real_or_fake.draw()


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


def trained() -> JobView:
    values = TrainGanResult((), None, False, 10, 128, PC.cpu, "widened", kept=True)
    return JobView(
        "gan-1",
        TOKEN,
        "train-gan",
        {},
        state=JobState.DONE,
        submitted_at=1.0,
        result=msgspec.to_builtins(values),
    )


def a_round(number: int = 0) -> JobView:
    return JobView(
        f"round-{number}",
        TOKEN,
        "real-or-fake",
        {"seed": number},
        state=JobState.DONE,
        submitted_at=2.0 + number,
        pictures={f"digit-{place}": png(10 * place) for place in range(DIGITS)},
        result=msgspec.to_builtins(RealOrFakeResult(TRUTHS, BELIEFS)),
    )


class Game:
    """The page, its engine and records."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.engine = StandInEngine()
        self.records = Records(MEMORY)
        self.model_here = True
        # A page alone has no others to link to.
        patch.setattr(st, "page_link", lambda *_args, **_more: None)
        stand_ins.use(patch, self.engine, records=self.records)  # type: ignore[arg-type]
        patch.setattr(
            real_or_fake_captions,
            "image_models",
            lambda _settings: {MINI_TURBO: SimpleNamespace(here=self.model_here)},
        )

    def open(self, tab: str = "digits", *, language: str = "vi", **known: Any) -> AppTest:
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(
            TOKEN, kept=True, language=language, fake_tab=TAB[tab], **known
        )
        return app.run()

    def mark(self, app: AppTest, marks: tuple[bool | None, ...], *, of_round: int = 0) -> AppTest:
        for number, mark in enumerate(marks):
            if mark is not None:
                widget = app.segmented_control(key=f"fake-{of_round}-{number}")
                widget.set_value(REAL if mark else FAKE)
        check = next(b for b in app.button if b.label == VI("fake.check"))
        return check.click().run()


@pytest.fixture
def game(monkeypatch: pytest.MonkeyPatch) -> Iterator[Game]:
    opened = Game(monkeypatch)
    yield opened
    opened.records.close()


def shown(app: AppTest) -> str:
    texts_ = [element.proto.body for element in app.get("html")]
    told = (*app.markdown, *app.caption, *app.subheader, *app.info, *app.warning, *app.success)
    return " ".join(texts_ + [element.value for element in told])


def test_without_a_trained_gan_the_page_sends_to_part_2(game):
    app = game.open()
    assert VI("fake.none") in shown(app)
    assert not app.button


def test_networks_that_are_gone_are_as_if_there_were_none(game):
    game.engine.put(trained())
    gone = replace(a_round(), state=JobState.FAILED, problem=Notice("problem.nothing_trained"))
    game.engine.put(gone)
    assert VI("fake.none") in shown(game.open())
    game.engine.put(replace(trained(), submitted_at=99.0))  # and trained once more
    assert VI("fake.none") not in shown(game.open())


def test_a_round_is_begun_with_one_click(game):
    game.engine.put(trained())
    game.open().button(key="fake-new").click().run()
    ((student, activity, _),) = game.engine.submitted
    assert (student, activity) == (TOKEN, "real-or-fake")


def test_nothing_of_the_truth_is_on_the_page_before_all_eight_are_marked(game):
    game.engine.put(trained())
    game.engine.put(a_round())
    app = game.open()
    before = shown(app)
    assert before.count("data:image/png") == DIGITS
    told = VI("fake.d_mark.real", belief=90.0)
    secrets = [VI("fake.truth.real"), VI("fake.truth.fake"), told]
    assert not any(f">{secret}<" in before for secret in secrets)
    game.mark(app, (*TRUTHS[:7], None))
    assert VI("fake.all_first") in shown(app)
    assert told not in shown(app)


def test_marks_are_told_beside_d_and_the_first_round_counts_for_the_class(game):
    game.records.guess(identity.new_token(), FIRST_ROUND, "4")
    game.engine.put(trained())
    game.engine.put(a_round())
    app = game.mark(game.open(), (not TRUTHS[0], not TRUTHS[1], *TRUTHS[2:]))
    told = shown(app)
    assert told.count(VI("fake.mine.right")) == 6
    assert told.count(VI("answer.real_or_fake.6")) == 2  # the student, and D
    assert VI("fake.same") in told
    assert VI("fake.class.mean", mean=VI.number(5.0, digits=1)) in told

    game.engine.put(a_round(1))
    app = game.mark(app.run(), TRUTHS, of_round=1)
    assert VI.percent(100 * 14 / 16) in shown(app)
    assert game.records.guesses(FIRST_ROUND) == {"4": 1, "6": 1}


# The sentence of a picture


def drawn(seed: int) -> JobView:
    image = ImageMade(seed, 0.2, "image-0.png", {"object": True, "colour": False})
    values = MakeImagesResult(MINI_TURBO, (image,), 1, 1, None, PC.cpu)
    prompt = captions_of(seed).prompt("vi")
    return JobView(
        f"picture-{seed}",
        TOKEN,
        "make-images",
        {"prompt": prompt, "seed": seed, "count": 1},
        state=JobState.DONE,
        pictures={"image-0": png(90)},
        result=msgspec.to_builtins(values),
    )


def test_captions_are_offered_only_where_the_model_is(game):
    game.model_here = False
    app = game.open("captions")
    assert VI("fake.captions.none") in shown(app)
    assert not app.button


def test_a_new_picture_is_drawn_from_one_of_its_four_sentences(game):
    app = game.open("captions")
    app.button(key="fake-caption-new").click().run()
    ((_, activity, settings),) = game.engine.submitted
    assert activity == "make-images"
    asked = captions_of(app.session_state["visitor"].caption_seed)
    assert settings.prompt == asked.prompt("vi")
    assert settings.prompt in asked.sentences("vi")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_choice_of_a_sentence_is_told_and_stays(game, language):
    say, asked = texts(language), captions_of(7)
    game.engine.put(drawn(7))
    app = game.open("captions", language=language, caption_seed=7)
    assert say("fake.captions.right", sentence=asked.prompt(language)) not in shown(app)
    app.button(key=f"fake-caption-{asked.right}").click().run()
    assert say("fake.captions.right", sentence=asked.prompt(language)) in shown(app)
    assert say("fake.captions.tally", right=1, all=1) in shown(app)
    assert app.button(key="fake-caption-new")


def test_a_picture_of_part_3_is_no_riddle(game):
    game.engine.put(replace(drawn(7), state=JobState.RUNNING))
    assert VI("fake.captions.busy") in shown(game.open("captions", caption_seed=8))
