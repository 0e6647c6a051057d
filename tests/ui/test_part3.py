"""Part 3's page: a sentence, what becomes of it, and the pictures, with no model and no worker."""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import streamlit as st
from msgspec.structs import replace
from PIL import Image
from streamlit.testing.v1 import AppTest

from core.activities.make_images import (
    MINI_TURBO,
    SD_TURBO,
    BlockFacts,
    EightPicturesResult,
    EightPicturesSettings,
    ImageMade,
    ImageSpeedResult,
    ImageSpeedSettings,
    MakeImagesResult,
    MakeImagesSettings,
    PictureInsideResult,
    PictureInsideSettings,
    Rung,
)
from core.engine.view import JobState, JobView
from core.models.image_models import INDEX
from core.models.mini_turbo.words import understand
from core.models.stored_blocks import BLOCKS
from core.problems import Notice, Problem
from core.safety.prompts import Verdict
from core.settings import LabSettings
from core.telemetry.readings import Recording, SummaryRow
from core.texts import LANGUAGES, texts
from core.ui import identity, part3_write, resources
from core.ui.part3 import TABS
from core.ui.part3_model import published_blocks
from core.ui.part3_speed import best, ladder_html
from core.ui.part3_write import COUNT, PROMISE, PROMPT, READY, READY_PROMPTS, SEED, STEPS
from core.ui.visitor import Visitor
from tests.ui import stand_ins
from tests.ui.stand_ins import NO_GPU, PC, StandInEngine, StandInRecords, readings

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)
PROMPT_HERE = "a red sneaker on a white background"
TAB = {name: number for number, name in enumerate(TABS)}


def page() -> None:
    from core.ui import part3

    part3.draw()


def png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def finished(activity: str, settings: Any, values: Any, pictures: dict[str, bytes]) -> JobView:
    return JobView(
        id=f"{activity}-1",
        student=TOKEN,
        activity=activity,
        settings=msgspec.to_builtins(settings),
        state=JobState.DONE,
        device="cpu",
        submitted_at=1_790_000_000.0,
        pictures=pictures,
        result=msgspec.to_builtins(values),
        absences=NO_GPU,
    )


def drawn(count: int = 2, **changes: Any) -> JobView:
    """A finished set of Part 3; `changes` are of its result."""
    settings = MakeImagesSettings(prompt=PROMPT_HERE, seed=7, count=count)
    made = tuple(
        ImageMade(
            seed=7 + number,
            seconds=0.31,
            file=f"image-{number}.png",
            obeyed={"object": True, "colour": True, "background": number == 0},
        )
        for number in range(count)
    )
    values = MakeImagesResult(
        model=MINI_TURBO,
        images=made,
        together=count,
        students=1,
        load_seconds=None,
        device_name=PC.cpu,
    )
    pictures = {f"image-{number}": png() for number in range(count)}
    return finished("make-images", settings, replace(values, **changes), pictures)


FACTS = (
    BlockFacts("tokenizer", "CLIPTokenizer", 0, 0.0, ""),
    BlockFacts("text_encoder", "CLIPTextModel", 2_010_000, 7.7, "float32"),
    BlockFacts("unet", "UNet2DConditionModel", 8_490_123, 32.4, "float32"),
    BlockFacts("vae", "AutoencoderKL", 950_000, 3.6, "float32"),
    BlockFacts("scheduler", "EulerDiscreteScheduler", 0, 0.0, ""),
)


def eight() -> JobView:
    images = tuple(ImageMade(seed, 0.05, f"image-{seed}.png") for seed in range(8))
    values = EightPicturesResult(
        model=MINI_TURBO,
        blocks=FACTS,
        load_seconds=1.3,
        first_seconds=0.9,
        images=images,
        reserved_mib=None,
        device_name=PC.cpu,
    )
    pictures = {f"image-{seed}": png() for seed in range(8)}
    job = finished("eight-pictures", EightPicturesSettings(), values, pictures)
    rows = (SummaryRow("load", 1.3), SummaryRow("first", 0.9), SummaryRow("draw", 0.4))
    recordings = tuple(
        Recording(row.name, row.seconds, tuple(readings(row.seconds, gpu=False)), absences=NO_GPU)
        for row in rows
    )
    return replace(job, rows=rows, recordings=recordings)


def taken_apart() -> JobView:
    values = PictureInsideResult(
        model=MINI_TURBO,
        tokens=("a", "red", "sneaker"),
        seats=77,
        blocks=FACTS,
        latent_shape=(4, 16, 16),
        pixels=64,
        seconds={"text": 0.004, "unet": 0.02, "vae": 0.013},
        steps=(1, 2, 4),
        device_name=PC.cpu,
    )
    names = ("noise", "latent", "steps-1", "steps-2", "steps-4")
    pictures = dict.fromkeys(names, png())
    return finished("picture-inside", PictureInsideSettings(), values, pictures)


RUNGS = (
    Rung("plain", 1, 50.0, 48.0, 55.0, 20.0, 0.0),
    Rung("plain", 8, 200.0, 190.0, 220.0, 40.0, 0.0),
    Rung("cached_words", 8, 160.0, 150.0, 170.0, 50.0, 0.004),
)


def measured() -> JobView:
    values = ImageSpeedResult(
        model=MINI_TURBO,
        rungs=RUNGS,
        skipped={},
        copy_mib=44.0,
        device_name=PC.cpu,
    )
    return finished("image-speed", ImageSpeedSettings(), values, {})


class Records(StandInRecords):
    """Remembers the decisions on sentences too."""

    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[str] = []

    def of_student(
        self, student: str, *, activity: str | None = None, limit: int | None = None
    ) -> tuple[JobView, ...]:
        fitting = [
            v for v in reversed(self.views) if (v.student, v.activity) == (student, activity)
        ]
        return tuple(fitting[:limit])

    def count_decision(self, verdict: Verdict, *, words: str | None = None) -> None:
        self.decisions.append(verdict.decision)


class Class:
    """The page, its engine, and whoever opens it."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.records = Records()
        self.engine = StandInEngine()
        self._folder = folder
        stand_ins.use(patch, self.engine, records=self.records)
        settings = LabSettings(
            models_dir=folder / "models",
            mini_turbo_dir=folder / "mini",
            keys_dir=folder / "keys",
            cache_dir=folder / "cache",
        )
        patch.setattr(resources, "lab_settings", lambda: settings)
        patch.setattr(resources, "recordings", lambda _activity: ())
        patch.setattr(part3_write, "AT_ONCE_SECONDS", 0.0)
        # Only the lab's own entry script knows other pages; the browser's test follows the link.
        patch.setattr(st, "page_link", lambda *_args, **_more: None)

    def bring(self, *models: str) -> None:
        """Put a file where the lab looks for a model: all that the web process wants to know."""
        for model in models:
            folder = self._folder / ("mini" if model == MINI_TURBO else f"models/{model}")
            folder.mkdir(parents=True)
            (folder / INDEX).write_text("{}")

    def open(self, tab: str = "write", *, language: str = "vi", **visitor: Any) -> AppTest:
        app = AppTest.from_function(page, default_timeout=30)
        me = Visitor(TOKEN, kept=True, language=language, part3_tab=TAB[tab], **visitor)
        app.session_state["visitor"] = me
        return app.run()


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Class:
    found = Class(monkeypatch, tmp_path)
    found.bring(MINI_TURBO)
    return found


@pytest.fixture
def empty_lesson(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Class:
    return Class(monkeypatch, tmp_path)


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def told(app: AppTest) -> str:
    elements = [*app.info, *app.success, *app.error, *app.warning, *app.caption, *app.markdown]
    return " ".join(element.value for element in elements)


def run(app: AppTest) -> Any:
    return app.button(key="run-make-images")


# Every tab, in every state


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_drawn_with_everything_measured(lesson, tab, language):
    for job in (drawn(8), eight(), taken_apart(), measured()):
        lesson.engine.put(job)
    app = lesson.open(tab, language=language)
    assert not app.exception


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_drawn_where_no_model_is_and_nothing_was_run(empty_lesson, tab):
    app = empty_lesson.open(tab)
    assert not app.exception
    assert VI("part3.none") in [element.value for element in app.subheader]


@pytest.mark.parametrize("state", JobState)
def test_a_set_is_drawn_in_every_state_of_its_job(lesson, state):
    problem = Notice("problem.worker_killed") if state is JobState.FAILED else None
    place = 3 if state is JobState.QUEUED else None
    lesson.engine.put(replace(drawn(), state=state, place=place, problem=problem))
    assert not lesson.open().exception


# Writing and asking


def test_a_newcomer_finds_an_example_and_is_asked_for_a_promise_once(lesson):
    app = lesson.open()
    assert app.text_input(key=PROMPT).value == READY_PROMPTS[MINI_TURBO]["vi"][0]
    assert run(app).disabled
    app.checkbox(key=PROMISE).check().run()
    assert not run(app).disabled
    assert PROMISE not in [box.key for box in app.checkbox]


def test_a_wish_becomes_a_job_with_the_sentence_and_the_numbers(lesson):
    app = lesson.open(promised=True)
    app.text_input(key=PROMPT).set_value("  một chiếc váy màu tím  ").run()
    app.slider(key=COUNT).set_value(3).run()
    app.number_input(key=SEED).set_value(41).run()
    run(app).click().run()
    asked = MakeImagesSettings("một chiếc váy màu tím", seed=41, count=3, steps=1, model=MINI_TURBO)
    assert lesson.engine.submitted == [(TOKEN, "make-images", asked)]
    assert lesson.records.decisions == ["allow"]


def test_a_ready_made_sentence_goes_into_the_box(lesson):
    chosen = READY_PROMPTS[MINI_TURBO]["en"][1]
    app = lesson.open()
    app.pills(key=READY).select(chosen).run()
    assert app.text_input(key=PROMPT).value == chosen


@pytest.mark.parametrize("model", READY_PROMPTS)
def test_every_ready_made_sentence_passes_the_rules(lesson, model):
    for prompt in (p for some in READY_PROMPTS[model].values() for p in some):
        assert part3_write.judge(prompt).decision == "allow", prompt


def test_mini_turbo_has_no_objection_to_any_sentence_made_for_it():
    for prompt in (p for some in READY_PROMPTS[MINI_TURBO].values() for p in some):
        assert understand(prompt).hint is None, prompt


def test_a_sentence_against_the_rules_cannot_be_sent_and_the_reason_is_told(lesson):
    app = lesson.open(promised=True, prompt="a passport of Donald Trump")
    assert run(app).disabled
    notice = part3_write.judge("a passport of Donald Trump").notice
    assert html.escape(VI.notice(notice)) in html_of(app)


def test_an_empty_sentence_cannot_be_sent(lesson):
    app = lesson.open(promised=True, prompt=" ")
    assert run(app).disabled
    assert VI("part3.verdict.empty") in html_of(app)


def test_why_the_engine_refuses_is_told(lesson):
    lesson.engine.refusal = Problem("problem.image_model_missing", model=MINI_TURBO)
    app = lesson.open(promised=True)
    run(app).click().run()
    assert VI("problem.image_model_missing", model=MINI_TURBO) in told(app)


def test_what_a_student_typed_hurts_nobody(lesson):
    app = lesson.open(promised=True, prompt="<img src=x onerror=alert(1)>")
    assert "<img src=x" not in html_of(app)


def test_a_model_of_one_step_is_asked_for_one_step_and_says_why(lesson):
    app = lesson.open(promised=True, make_images=MakeImagesSettings(steps=4))
    steps = app.number_input(key=STEPS)
    assert (steps.value, steps.disabled) == (1, True)
    assert steps.help == VI("part3.steps.one")
    run(app).click().run()
    assert lesson.engine.submitted[-1][2].steps == 1


def test_with_both_models_a_student_may_choose_and_the_better_one_is_first(lesson):
    lesson.bring(SD_TURBO)
    app = lesson.open(promised=True)
    choice = app.segmented_control(key=part3_write.MODEL)
    assert choice.value == SD_TURBO
    choice.select(MINI_TURBO).run()
    run(app).click().run()
    assert lesson.engine.submitted[-1][2].model == MINI_TURBO


# Pictures


def test_a_set_shows_seconds_seeds_obedience_and_that_nothing_is_real(lesson):
    lesson.engine.put(drawn())
    app = lesson.open(language="en")
    shown = html_of(app)
    for seed in (7, 8):
        assert f"<span>seed {seed}</span><span>{EN.seconds(0.31)}</span>" in shown
    assert f"<span class='no'>✗ {EN('part3.obeyed.background')}" in shown
    assert EN("part3.invented") in shown
    assert len(app.get("image")) == 2


def test_a_shared_run_says_how_many_students_it_served(lesson):
    lesson.engine.put(drawn(together=17, students=6, load_seconds=2.5))
    app = lesson.open(language="en")
    assert EN("part3.made.together", pictures=17, students=6) in told(app)
    assert EN("part3.made.loaded", load=2.5) in told(app)


def test_every_picture_can_be_downloaded(lesson):
    lesson.engine.put(drawn(3))
    assert len(lesson.open().get("download_button")) == 3


def test_while_a_set_is_being_drawn_its_pictures_stand_among_empty_frames(lesson):
    job = replace(drawn(4), state=JobState.RUNNING, pictures={"image-0": png()}, result=None)
    lesson.engine.put(job)
    app = lesson.open()
    assert len(app.get("image")) == 1
    assert html_of(app).count(VI("part3.coming")) == 3


def test_after_a_reload_the_last_wish_and_its_pictures_are_there(lesson):
    lesson.records.views.append(drawn())
    app = lesson.open()
    assert app.text_input(key=PROMPT).value == PROMPT_HERE
    assert app.number_input(key=SEED).value == 7
    assert len(app.get("image")) == 2
    assert PROMISE not in [box.key for box in app.checkbox]


def test_an_earlier_set_can_be_asked_for_again(lesson):
    earlier = replace(drawn(), id="earlier")
    settings = {**earlier.settings, "prompt": "số chín"}
    lesson.records.views.append(replace(earlier, settings=settings))
    lesson.engine.put(drawn())
    app = lesson.open()
    assert "part3-again-earlier" not in [button.key for button in app.button]  # pictures are heavy
    app.session_state["part3-history"] = True
    app.run()
    app.button(key="part3-again-earlier").click().run()
    assert app.text_input(key=PROMPT).value == "số chín"


def test_a_result_of_an_unknown_shape_breaks_nothing(lesson):
    lesson.engine.put(replace(drawn(), result={"images": "many"}))
    assert not lesson.open().exception


# The lab's own run, the blocks, the inside, the speed


def test_the_labs_own_run_shows_eight_pictures_and_the_warm_up_as_its_own_row(lesson):
    lesson.engine.put(eight())
    app = lesson.open("eight", language="en")
    assert len(app.get("image")) == 8
    assert EN("section.first") in html_of(app)
    assert "72,000" in html_of(app)  # pictures in an hour, at 0.05 s each
    assert len(app.get("vega_lite_chart")) == 1  # nothing but the CPU was measured here


def test_four_changed_sentences_are_kept_and_run(lesson):
    app = lesson.open("eight", promised=True)
    app.text_input(key="part3-prompt_2").set_value("số chín màu đen").run()
    app.button(key="run-eight-pictures").click().run()
    settings = lesson.engine.submitted[-1][2]
    assert settings.prompts[1] == "số chín màu đen"
    assert settings.prompts[0] == EightPicturesSettings().prompt_1


def test_each_of_the_four_sentences_is_judged_and_counted_when_the_run_is_asked_for(lesson):
    app = lesson.open("eight", promised=True)
    app.button(key="run-eight-pictures").click().run()
    assert lesson.records.decisions == ["allow"] * 4


def test_one_sentence_against_the_rules_holds_up_the_labs_own_run(lesson):
    bad = EightPicturesSettings(prompt_3="my passport")
    app = lesson.open("eight", promised=True, eight_pictures=bad)
    assert "run-eight-pictures" not in [button.key for button in app.button]
    assert VI.notice(part3_write.judge("my passport").notice) in told(app)


def test_blocks_are_those_counted_on_the_loaded_model_once_there_was_a_run(lesson):
    before = html_of(lesson.open("inside", language="en"))
    lesson.engine.put(taken_apart())
    after = html_of(lesson.open("inside", language="en"))
    assert "8,490,123" in after
    assert "8,490,123" not in before


def test_published_blocks_of_sd_turbo_add_up_to_what_the_course_says():
    blocks = published_blocks(SD_TURBO)
    assert round(blocks.total_millions) == 1_290
    assert [block.name for block in blocks.facts] == list(BLOCKS)


def test_a_picture_taken_apart_shows_its_tokens_and_stages(lesson):
    lesson.engine.put(taken_apart())
    shown = html_of(lesson.open("inside", language="en"))
    assert "<span>sneaker</span>" in shown
    assert EN("part3.inside.noise", channels=4, height=16, width=16) in shown
    assert EN.count("part3.inside.step", 4) in shown


def test_the_ladder_compares_each_way_with_the_plain_one_of_its_batch():
    table = ladder_html(RUNGS, EN)
    assert EN("part1.times", times="1.25") in table
    assert best(RUNGS).name == "cached_words"


def test_what_sharing_saves_is_the_sum_of_what_was_measured(lesson):
    lesson.engine.put(measured())
    shown = html_of(lesson.open("speed", language="en"))
    assert EN.mib(20 * 44.0) in shown
    assert EN.seconds(20 / 50.0) in shown
