from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from streamlit.testing.v1 import AppTest

from core.activities.train_gan import (
    DrawResult,
    DrawSettings,
    EpochResult,
    InsideResult,
    InsideSettings,
    LayerMaps,
    TrainGanResult,
    TrainGanSettings,
)
from core.context import Wish
from core.engine.view import JobState, JobView
from core.events import Scored
from core.problems import Notice, Problem
from core.recordings import Replay
from core.telemetry.readings import Absences, Recording, SummaryRow
from core.texts import LANGUAGES, texts
from core.ui import identity, part2, resources, studio
from core.ui.visitor import Visitor
from tests.ui import stand_ins
from tests.ui.stand_ins import CARD, GPU_PC, NO_GPU, PC, StandInEngine, StandInRecords, readings

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)


def page() -> None:
    from core.ui import part2

    part2.draw()


def png(width: int = 4, height: int = 2) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((height, width), np.uint8)).save(file, "PNG")
    return file.getvalue()


def gif() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((2, 4), np.uint8)).save(file, "GIF")
    return file.getvalue()


def epoch(number: int, *, readable: float = 0.62, digits_seen: int = 9) -> EpochResult:
    return EpochResult(
        epoch=number,
        seconds=14.0,
        images_per_second=4_300.0,
        loss_d=0.74,
        loss_g=1.52,
        readable=readable,
        digits_seen=digits_seen,
        accuracy_real=0.87,
        accuracy_fake=0.91,
    )


def result(**changes: Any) -> TrainGanResult:
    good = TrainGanResult(
        epochs=(epoch(1, readable=0.31), epoch(2)),
        trouble=None,
        stopped_early=False,
        steps=100,
        batch=128,
        device_name=PC.cpu,
        digits="widened",
        kept=True,
    )
    return replace(good, **changes)


def training(
    state: JobState, *, gpu: bool = False, student: str = TOKEN, **changes: Any
) -> JobView:
    """A job of Part 2 in this state; `changes` are of its result."""
    view = JobView(
        id=f"train-{state}-{gpu}",
        student=student,
        activity="train-gan",
        settings={"epochs": 2, "images_per_epoch": 6_400, "seed": 0},
        state=state,
        device=CARD.uuid if gpu else "cpu",
        submitted_at=1_790_000_000.0,
    )
    if state is JobState.QUEUED:
        return replace(view, place=2, wait_seconds=40.0)
    if state is JobState.FAILED:
        return replace(view, problem=Notice("problem.worker_killed"))
    if state is JobState.STOPPED:
        return view
    view = replace(
        view,
        stage="stage.training",
        done=60,
        total=100,
        seconds_left=9.0,
        losses_d=tuple(1.386 - i / 100 for i in range(60)),
        losses_g=tuple(0.693 + i / 50 for i in range(60)),
        scores=tuple(
            Scored(
                step=20 * i,
                epoch=20 * i / 50,
                readable=0.2 * i,
                digits_seen=3 * i,
                accuracy_real=0.7,
                accuracy_fake=0.8,
                images_per_second=1_234.0,
            )
            for i in (1, 2, 3)
        ),
        pictures={"grid": png()},
        readings=tuple(readings(10, gpu=gpu)),
        absences=Absences() if gpu else NO_GPU,
    )
    if state is not JobState.DONE:
        return view
    return replace(
        view,
        stage="",
        pictures={"grid": png(), "strip": png(), "animation": gif()},
        recordings=(
            Recording("training", 28.0, tuple(readings(28, gpu=gpu)), absences=view.absences),
        ),
        rows=(SummaryRow("training", 28.0, cpu_percent_mean=180),),
        result=msgspec.to_builtins(result(**changes)),
    )


def drawing(settings: DrawSettings, state: JobState = JobState.DONE, **changes: Any) -> JobView:
    many = settings.count > 1
    view = JobView(
        id=f"draw-{settings.percent}-{settings.count}",
        student=TOKEN,
        activity="draw-digits",
        settings=msgspec.to_builtins(settings),
        state=state,
        submitted_at=1_790_000_100.0,
        pictures={"many": png()} if many else {"walk": png(), "here": png()},
        result=msgspec.to_builtins(
            DrawResult(3.2, readable=0.58 if many else None, digits_seen=10 if many else None)
        ),
    )
    return replace(view, **changes)


def inside(state: JobState = JobState.DONE) -> JobView:
    layers = (
        LayerMaps("generator-0", "generator", channels=64, shown=64, height=1, width=1),
        LayerMaps("generator-1", "generator", channels=128, shown=16, height=7, width=7),
        LayerMaps("generator-3", "generator", channels=1, shown=1, height=28, width=28),
        LayerMaps("discriminator-1", "discriminator", channels=64, shown=16, height=14, width=14),
    )
    return JobView(
        id="inside-1",
        student=TOKEN,
        activity="look-inside",
        settings=msgspec.to_builtins(InsideSettings()),
        state=state,
        submitted_at=1_790_000_100.0,
        pictures={layer.picture: png() for layer in layers},
        result=msgspec.to_builtins(InsideResult(layers, score_fake=0.31, score_real=0.93)),
    )


class Engine(StandInEngine):
    """Remembers how jobs were steered."""

    def __init__(self, *, gpus: tuple[str, ...] = ()) -> None:
        super().__init__(gpus=gpus)
        self.steered: list[tuple[str, Wish]] = []

    def steer(self, job: str, wish: Wish, *, student: str) -> None:
        self.steered.append((job, wish))


class ClassRecords(StandInRecords):
    """Answers for the whole class too."""

    def of_class(self, activity: str, *, asked_by: str) -> tuple[SimpleNamespace, ...]:
        return tuple(
            SimpleNamespace(values=view.result)
            for view in reversed(self.views)
            if view.activity == activity and view.state is JobState.DONE
        )


class Class:
    """The page, its engine, and whoever opens it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.records = ClassRecords()
        self.replays: tuple[Replay, ...] = ()
        self.use_gpu(False)

    def use_gpu(self, there: bool) -> None:
        self.engine = Engine(gpus=(CARD.uuid,) if there else ())
        machine = GPU_PC if there else PC
        stand_ins.use(self._patch, self.engine, records=self.records, machine=machine)

    def open(
        self, address: dict[str, str] | None = None, *, language: str = "vi", token: str = TOKEN
    ) -> AppTest:
        self._patch.setattr(resources, "recordings", lambda _activity: self.replays)
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(token, kept=True, language=language)
        for name, value in (address or {}).items():
            app.query_params[name] = value
        return app.run()


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> Class:
    monkeypatch.setattr(studio, "AT_ONCE_SECONDS", 0.0)
    return Class(monkeypatch)


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def told(app: AppTest) -> str:
    elements = [*app.info, *app.success, *app.error, *app.warning, *app.caption, *app.markdown]
    return " ".join(element.value for element in elements)


def headings(app: AppTest) -> list[str]:
    return [element.value for element in (*app.header, *app.subheader)]


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def button(app: AppTest, label: str) -> Any:
    return next(b for b in app.button if b.label == label)


def a_replay() -> Replay:
    done = training(JobState.DONE, gpu=True, device_name=CARD.name)
    return Replay(
        activity="train-gan",
        settings=done.settings,
        machine=GPU_PC,
        device_name=CARD.name,
        made_at="2026-03-05",
        recordings=done.recordings,
        rows=done.rows,
        values=done.result or {},
    )


# Drawing


@pytest.mark.parametrize("state", [None, *JobState])
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_drawn_in_every_state_of_a_training(lesson, language, gpu, state):
    lesson.use_gpu(gpu)
    lesson.replays = (a_replay(),)
    if state is not None:
        lesson.engine.put(training(state, gpu=gpu))
    app = lesson.open(language=language)
    assert not app.exception


def test_while_it_learns_the_digits_curves_and_figures_stand_above_the_gauges(lesson):
    lesson.engine.put(training(JobState.RUNNING))
    app = lesson.open(language="en")
    shown = html_of(app)
    assert "data:image/png;base64," in shown
    for figure in ("60%", "9 of 10", "1.2 of 2", "1,234"):
        assert figure in shown
    assert len(app.get("vega_lite_chart")) == 3 + 1  # and the CPU's own


def test_before_the_first_picture_an_empty_frame_stands_in_its_place(lesson):
    begun = replace(
        training(JobState.RUNNING), pictures={}, scores=(), losses_d=(), losses_g=(), readings=()
    )
    lesson.engine.put(begun)
    assert VI("part2.grid.soon") in html_of(lesson.open())


def test_a_running_training_can_be_paused_kept_and_stopped(lesson):
    view = training(JobState.RUNNING)
    lesson.engine.put(view)
    app = lesson.open()
    button(app, VI("panel.pause")).click().run()
    button(app, VI("panel.finish")).click().run()
    assert lesson.engine.steered == [(view.id, Wish.PAUSE), (view.id, Wish.FINISH)]
    button(app, VI("panel.cancel")).click().run()
    assert lesson.engine.cancelled == [view.id]


def test_a_paused_training_says_so_and_can_go_on(lesson):
    view = replace(training(JobState.RUNNING), paused=True)
    lesson.engine.put(view)
    app = lesson.open()
    assert VI("panel.pause") not in labels(app)
    button(app, VI("panel.resume")).click().run()
    assert lesson.engine.steered == [(view.id, Wish.RESUME)]


def test_a_result_shows_pictures_figures_table_and_meter(lesson):
    lesson.engine.put(training(JobState.DONE))
    app = lesson.open(language="en")
    shown = html_of(app)
    for figure in ("62%", "9 of 10", "28.0 s", "4,300", "0.74", "1.52", "91%"):
        assert figure in shown
    for name in ("part2.strip", "part2.animation", "part2.curves", "studio.walk", "studio.inside"):
        assert EN(name) in headings(app)
    assert "data:image/gif" in shown
    assert len(app.get("vega_lite_chart")) == 3 + 1
    assert len(app.get("download_button")) == 1


def test_the_page_says_how_far_the_judge_is_to_be_believed(lesson):
    from core.models import judge

    lesson.engine.put(training(JobState.DONE))
    said = told(lesson.open(language="en"))
    assert EN.percent(100 * judge.card().test_accuracy, digits=1) in said
    assert EN.number(judge.card().parameters) in said


def test_an_early_end_is_said_beside_what_was_kept(lesson):
    lesson.engine.put(training(JobState.DONE, stopped_early=True))
    assert VI.count("part2.stopped_early", 2) in told(lesson.open())


def test_a_training_kept_before_its_first_step_has_nothing_to_show_and_breaks_nothing(lesson):
    empty = training(JobState.DONE, epochs=(), stopped_early=True, kept=False, steps=0)
    lesson.engine.put(replace(empty, pictures={"grid": png()}, losses_d=(), losses_g=(), scores=()))
    app = lesson.open()
    assert not app.exception
    assert VI("studio.walk") not in headings(app)


def test_a_result_of_an_unknown_shape_breaks_nothing(lesson):
    lesson.engine.put(replace(training(JobState.DONE), result={"epochs": "many"}))
    assert not lesson.open().exception


def test_a_stopped_training_leaves_the_earlier_result_in_place(lesson):
    lesson.records.views.append(training(JobState.DONE))
    lesson.engine.put(training(JobState.STOPPED))
    assert VI("part2.result.earlier") in headings(lesson.open())


def test_without_a_gpu_a_recording_is_shown_with_where_it_is_from(lesson):
    lesson.replays = (a_replay(),)
    app = lesson.open()
    assert VI("part1.replays") in headings(app)
    assert CARD.name in told(app)
    assert "5 tháng 3, 2026" in told(app)


def test_on_a_gpu_machine_recordings_wait_in_a_closed_box(lesson):
    lesson.use_gpu(True)
    lesson.replays = (a_replay(),)
    app = lesson.open()
    assert VI("part1.replays.compare") in [box.label for box in app.expander]


@pytest.mark.parametrize("trouble", ["nan", "collapsed", "d_won"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_trouble_is_explained_and_one_click_leads_back_to_the_defaults(lesson, language, trouble):
    say = texts(language)
    lesson.engine.put(training(JobState.DONE, trouble=trouble, kept=trouble != "nan"))
    app = lesson.open({"epochs": "9", "seed": "13"}, language=language)
    assert say(f"part2.trouble.{trouble}") in headings(app)
    assert say(f"part2.trouble.{trouble}.why") in told(app)
    button(app, say("part2.trouble.back")).click().run()
    assert app.slider(key=part2.EPOCHS).value == 5
    assert app.number_input(key=part2.SEED).value == 0
    assert not {"epochs", "seed"} & set(app.query_params)


# Settings


def run_pressed(lesson: Class, app: AppTest) -> TrainGanSettings:
    button(app, VI("panel.run")).click().run()
    settings = lesson.engine.submitted[-1][2]
    assert isinstance(settings, TrainGanSettings)
    return settings


def test_without_a_gpu_the_default_epoch_is_short_and_is_called_so(lesson):
    app = lesson.open()
    assert app.selectbox(key=part2.SIZE).value == 6_400
    assert "epoch ngắn" in part2.size_in_words(6_400, VI)
    assert run_pressed(lesson, app) == TrainGanSettings(images_per_epoch=6_400)


def test_with_a_gpu_the_default_epoch_is_the_whole_data(lesson):
    lesson.use_gpu(True)
    assert run_pressed(lesson, lesson.open()) == TrainGanSettings()


def test_a_shared_link_sets_epochs_images_and_seed(lesson):
    app = lesson.open({"epochs": "2", "images_per_epoch": "2560", "seed": "77"})
    assert app.selectbox(key=part2.SIZE).value == 2_560
    assert run_pressed(lesson, app) == TrainGanSettings(2, 2_560, 77)


@pytest.mark.parametrize(
    "forged",
    [
        {"epochs": "0"},
        {"epochs": "11"},
        {"epochs": "many"},
        {"images_per_epoch": "1"},
        {"images_per_epoch": "60001"},
        {"seed": "-1"},
        {"seed": "1e3"},
        {"epochs": "2", "seed": "<script>"},
    ],
)
def test_settings_that_cannot_be_are_told_in_one_sentence_and_the_default_stays(lesson, forged):
    app = lesson.open(forged)
    assert not app.exception
    assert len(app.warning) == 1
    assert run_pressed(lesson, app) == TrainGanSettings(images_per_epoch=6_400)


def test_changes_of_the_widgets_are_remembered_and_named_in_the_address(lesson):
    app = lesson.open()
    for epochs in (3, 7):
        app.slider(key=part2.EPOCHS).set_value(epochs).run()
        assert app.slider(key=part2.EPOCHS).value == epochs
    app.number_input(key=part2.SEED).set_value(12).run()
    app.selectbox(key=part2.SIZE).set_value(12_800).run()
    assert app.query_params["epochs"] in ("7", ["7"])
    assert run_pressed(lesson, app) == TrainGanSettings(7, 12_800, 12)


def test_two_visitors_do_not_share_their_settings(lesson):
    one, other = lesson.open(), lesson.open(token=identity.new_token())
    one.slider(key=part2.EPOCHS).set_value(1).run()
    assert other.run().slider(key=part2.EPOCHS).value == 5


# The expected time


def test_the_expected_time_is_the_students_own_pace(lesson):
    lesson.records.views.append(training(JobState.DONE))  # 4,300 images a second
    said = told(lesson.open({"epochs": "5", "images_per_epoch": "60000"}))
    assert VI("part2.expected.own", seconds="1 phút 10 s") in said


def test_else_it_is_a_classmates_then_part_1s_and_else_it_is_called_unknown(lesson):
    address = {"epochs": "1", "images_per_epoch": "60000"}
    assert VI("part2.expected.unknown") in told(lesson.open(address))
    lesson.records.views.append(stand_ins.job(JobState.DONE, student="classmate"))
    part1 = 60_000 / 128 * 0.01497
    assert VI("part2.expected.part1", seconds=f"{part1:.0f} s") in told(lesson.open(address))
    lesson.records.views.append(training(JobState.DONE, student="classmate"))
    assert VI("part2.expected.class", seconds="14 s") in told(lesson.open(address))


def test_a_pace_measured_on_another_device_does_not_count(lesson):
    lesson.records.views.append(training(JobState.DONE, gpu=True, device_name=CARD.name))
    lesson.records.views.append(stand_ins.job(JobState.DONE, gpu=True, student=TOKEN))
    assert VI("part2.expected.unknown") in told(lesson.open())


# The student's own generator


def asked(lesson: Class) -> list[Any]:
    return [settings for _, _, settings in lesson.engine.submitted]


def test_dragging_the_slider_makes_one_job_at_a_time_and_the_newest_wish_comes_next(lesson):
    lesson.engine.put(training(JobState.DONE))
    app = lesson.open()
    for percent in (10, 20, 30):
        app.slider(key=studio.PERCENT).set_value(percent).run()
    assert asked(lesson) == [DrawSettings(percent=10)]
    lesson.engine.put(drawing(DrawSettings(percent=10)))
    app.run()
    assert asked(lesson) == [DrawSettings(percent=10), DrawSettings(percent=30)]
    assert VI("studio.walk.caption", percent=10) in html_of(app)  # the newest that is finished
    lesson.engine.put(drawing(DrawSettings(percent=30)))
    app.run()
    assert len(asked(lesson)) == 2
    assert VI("studio.walk.caption", percent=30) in html_of(app)


def test_a_drawing_by_the_generator_of_an_earlier_training_is_not_shown(lesson):
    lesson.engine.put(training(JobState.DONE))
    lesson.engine.put(drawing(DrawSettings(percent=10), submitted_at=1_700_000_000.0))
    assert VI("studio.walk.caption", percent=10) not in html_of(lesson.open())


def test_after_a_reload_what_was_drawn_before_is_still_there(lesson):
    lesson.engine.put(training(JobState.DONE))
    lesson.engine.put(drawing(DrawSettings(percent=10)))
    lesson.engine.put(drawing(DrawSettings(count=64)))
    shown = html_of(lesson.open())
    assert VI("studio.walk.caption", percent=10) in shown
    assert "58%" in shown


def test_64_more_are_judged_and_the_next_press_draws_others(lesson):
    lesson.engine.put(training(JobState.DONE))
    app = lesson.open()
    button(app, VI("studio.many.draw")).click().run()
    lesson.engine.put(drawing(DrawSettings(count=64)))
    app.run()
    assert "58%" in html_of(app)
    assert "10/10" in html_of(app)
    button(app, VI("studio.many.draw")).click().run()
    assert asked(lesson) == [DrawSettings(count=64), DrawSettings(seed_a=1, count=64)]


def test_a_look_inside_shows_both_networks_layer_by_layer(lesson):
    lesson.engine.put(training(JobState.DONE))
    app = lesson.open()
    button(app, VI("studio.inside.look")).click().run()
    assert asked(lesson) == [InsideSettings()]
    lesson.engine.put(inside())
    app.run()
    assert VI("studio.inside.generator") in headings(app)
    assert html_of(app).count("class='lab-layers'") == 2
    assert "64 con số ngẫu nhiên" in html_of(app)
    assert "128 kênh, hiện 16" in html_of(app)
    assert "31%" in told(app)
    assert "93%" in told(app)
    app.number_input(key=studio.INSIDE_SEED).set_value(4).run()
    assert asked(lesson)[-1] == InsideSettings(seed=4)


def test_a_drawing_that_failed_says_why(lesson):
    lesson.engine.put(training(JobState.DONE))
    failed = drawing(DrawSettings(), JobState.FAILED, problem=Notice("problem.worker_killed"))
    lesson.engine.put(failed)
    assert VI("problem.worker_killed") in told(lesson.open())


def test_a_refused_drawing_is_one_sentence_and_the_page_stays(lesson):
    lesson.engine.put(training(JobState.DONE))
    app = lesson.open()
    lesson.engine.refusal = Problem("problem.queue_full", limit=100)
    button(app, VI("studio.many.draw")).click().run()
    assert VI("problem.queue_full", limit=100) in told(app)
    assert not app.exception


def test_another_students_training_and_drawings_are_not_shown(lesson):
    lesson.engine.put(training(JobState.DONE))
    lesson.engine.put(drawing(DrawSettings()))
    app = lesson.open(token=identity.new_token())
    assert VI("panel.nothing_yet") in told(app)
    assert VI("part2.result") not in headings(app)
    assert "data:image" not in html_of(app)
