"""Part 4's page: what is attacked, what became of it, and pictures that do not stay."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from streamlit.testing.v1 import AppTest

from core.activities.attack import (
    LITE_0,
    LITE_1,
    RESNET_18,
    STRENGTHS,
    AttackResult,
    AttackSettings,
    AttackSweepResult,
    AttackSweepSettings,
    DefenceOutcome,
    DefencesResult,
    DefencesSettings,
    Seen,
    SweepPoint,
    TransferCell,
    TransferResult,
    TransferSettings,
)
from core.data import image_classes, photos
from core.engine.local import kept_folder
from core.engine.view import JobState, JobView
from core.problems import Notice
from core.recordings import Replay
from core.records.store import Records
from core.settings import LabSettings
from core.telemetry.readings import Recording, SummaryRow
from core.texts import LANGUAGES, texts
from core.ui import identity, part4_subject, resources
from core.ui.part4 import TABS
from core.ui.part4_charts import belief_spec, guess_spec, sweep_spec
from core.ui.part4_defences import KNOWS
from core.ui.part4_fool import METHOD, VIEW
from core.ui.part4_pictures import VIEWS, verdict_html
from core.ui.part4_subject import OWN, PICTURE, PICTURES, TARGET
from core.ui.part4_sweep import map_html
from core.ui.part4_transfer import lesson
from core.ui.visitor import Visitor
from tests.ui import stand_ins
from tests.ui.stand_ins import NO_GPU, PC, StandInEngine, StandInRecords, readings

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)
TAB = {name: number for number, name in enumerate(TABS)}
TOASTER, BANANA, CAT = 859, 954, 285


def page() -> None:
    from core.ui import part4

    part4.draw()


def png(shade: int = 0, side: int = 224) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


def finished(activity: str, settings: Any, values: Any, pictures: dict[str, bytes]) -> JobView:
    rows = (SummaryRow("attack", 1.2),)
    run = tuple(readings(1.2, gpu=False))
    return JobView(
        id=f"{activity}-1",
        student=TOKEN,
        activity=activity,
        settings=msgspec.to_builtins(settings),
        state=JobState.DONE,
        device="cpu",
        submitted_at=1_790_000_000.0,
        pictures=pictures,
        rows=rows,
        recordings=(Recording("attack", 1.2, run, absences=NO_GPU),),
        result=msgspec.to_builtins(values),
        absences=NO_GPU,
    )


def seen(guess: int = TOASTER, confidence: float = 0.97) -> Seen:
    name = image_classes.label(guess)
    return Seen(guess == TOASTER, confidence, name, guess, linf_255=2.0)


def attacked(settings: AttackSettings | None = None, **changes: Any) -> JobView:
    """A cat that has become a toaster; `changes` are of the result."""
    values = AttackResult(
        model=LITE_0,
        method="basic",
        target=TOASTER,
        target_label="toaster",
        source=CAT,
        source_label="Egyptian cat",
        before=(("Egyptian cat", 0.79), ("tiger cat", 0.09), ("tabby", 0.07)),
        before_classes=(CAT, 282, 281),
        after=(("toaster", 0.98), ("tabby", 0.01), ("coffeepot", 0.005)),
        after_classes=(TOASTER, 281, 505),
        fooled=True,
        confidence=0.98,
        linf_255=2.0,
        l2=2.08,
        fooled_8bit=True,
        eight_bit=seen(),
        fooled_png=True,
        png=seen(),
        control=seen(CAT, 0.0003),
        beliefs=(0.001, 0.4, 0.98),
        steps=2,
        milliseconds=987.0,
        noise_gain=63.5,
        difference_gain=60.0,
        picture="cat",
        fit="squash",
        device_name=PC.cpu,
    )
    names = ("original", "noise", "attacked", "difference", "control")
    pictures = {name: photos.png(photos.decoded(png(shade))) for shade, name in enumerate(names)}
    return finished(
        "attack", settings or AttackSettings(steps=2), replace(values, **changes), pictures
    )


def points(target: int, strengths: tuple[float, ...], *, fooled: bool) -> tuple[SweepPoint, ...]:
    label = image_classes.label(target)
    return tuple(SweepPoint(target, label, one, fooled, 0.9, one, fooled) for one in strengths)


def swept() -> JobView:
    values = AttackSweepResult(
        model=LITE_0,
        method="basic",
        source=CAT,
        source_label="Egyptian cat",
        source_confidence=0.79,
        points=points(TOASTER, STRENGTHS, fooled=True),
        control=points(TOASTER, STRENGTHS, fooled=False),
        map=points(TOASTER, (1.0, 4.0), fooled=True) + points(BANANA, (1.0, 4.0), fooled=False),
        weakest=0.5,
        steps=10,
        milliseconds=6_300.0,
        device_name=PC.cpu,
    )
    return finished("attack-sweep", AttackSweepSettings(), values, {"strength-2": png()})


def transferred(*, misled: bool = False) -> JobView:
    both = (LITE_0, LITE_1)
    cells = tuple(
        TransferCell(made_for, judge, judge in made_for, judge in made_for or misled, 0.5, "x", CAT)
        for made_for in ((LITE_0,), (LITE_1,), both)
        for judge in both
    )
    before = (("Egyptian cat", 0.79), ("Egyptian cat", 0.89))
    values = TransferResult(both, TOASTER, "toaster", before, cells, 8.0, 20, PC.cpu)
    return finished("transfer", TransferSettings(), values, {LITE_0: png()})


def defended() -> JobView:
    def outcome(name: str, amount: float, *, survives: bool, falls: bool) -> DefenceOutcome:
        guess = TOASTER if survives else CAT
        label = image_classes.label(guess)
        return DefenceOutcome(
            name, amount, survives, 0.3, label, guess, not survives, 15, 16, falls, 4.0, 0.6, label
        )

    outcomes = (
        outcome("none", 0, survives=True, falls=True),
        outcome("jpeg", 75, survives=False, falls=True),
        outcome("noise_vote", 8, survives=False, falls=False),
    )
    values = DefencesResult(
        LITE_0, TOASTER, "toaster", CAT, "Egyptian cat", outcomes, 2.0, 20, PC.cpu
    )
    return finished("defences", DefencesSettings(), values, {"jpeg": png()})


class Lesson:
    """The page, its engine, and whoever opens it."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.records = StandInRecords()
        self.engine = StandInEngine()
        self.settings = LabSettings(cache_dir=folder)
        self.networks: tuple[str, ...] = (LITE_0, LITE_1)
        self.folder = kept_folder(self.settings, TOKEN)
        stand_ins.use(patch, self.engine, records=self.records)
        patch.setattr(resources, "lab_settings", lambda: self.settings)
        patch.setattr(part4_subject, "classifiers_here", lambda _settings: self.networks)

    def open(self, tab: str = "fool", *, language: str = "vi", **visitor: Any) -> AppTest:
        app = AppTest.from_function(page, default_timeout=30)
        me = Visitor(TOKEN, kept=True, language=language, part4_tab=TAB[tab], **visitor)
        app.session_state["visitor"] = me
        return app.run()

    def bring(self, app: AppTest, data: bytes, name: str = "me.png") -> AppTest:
        app.pills(key=PICTURE).select(OWN).run()
        return app.file_uploader[0].upload(name, data, "image/png").run()


@pytest.fixture
def lesson_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lesson:
    return Lesson(monkeypatch, tmp_path)


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def told(app: AppTest) -> str:
    elements = [*app.info, *app.success, *app.error, *app.warning, *app.caption, *app.markdown]
    return " ".join(element.value for element in elements)


def run(app: AppTest) -> Any:
    return app.button(key="run-attack")


# Every tab, in every state


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_drawn_with_everything_measured(lesson_of, tab, language):
    for job in (attacked(), swept(), transferred(), defended()):
        lesson_of.engine.put(job)
    assert not lesson_of.open(tab, language=language).exception


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_drawn_where_no_network_is_and_nothing_was_run(lesson_of, tab):
    lesson_of.networks = ()
    app = lesson_of.open(tab)
    assert not app.exception
    assert VI("part4.no_network") in [element.value for element in app.subheader]


@pytest.mark.parametrize("state", JobState)
def test_an_attack_is_drawn_in_every_state_of_its_job(lesson_of, state):
    problem = Notice("problem.worker_killed") if state is JobState.FAILED else None
    place = 3 if state is JobState.QUEUED else None
    job = replace(attacked(), state=state, place=place, problem=problem, beliefs=(0.0, 0.5))
    lesson_of.engine.put(job)
    assert not lesson_of.open().exception


def test_a_result_of_an_unknown_shape_breaks_nothing(lesson_of):
    lesson_of.engine.put(replace(attacked(), result={"fooled": "perhaps"}))
    assert not lesson_of.open().exception


# What is attacked


def test_a_newcomer_runs_the_lesson_with_one_click(lesson_of):
    run(lesson_of.open()).click().run()
    assert lesson_of.engine.submitted == [(TOKEN, "attack", AttackSettings())]


def test_choices_become_the_job_and_the_other_tabs_attack_the_same(lesson_of):
    app = lesson_of.open()
    app.selectbox(key=TARGET).select(BANANA).run()
    app.selectbox(key=METHOD).select("pgd").run()
    app.pills(key=PICTURE).select("coffee").run()
    app.select_slider(key="part4-attack-epsilon").set_value(4.5).run()
    run(app).click().run()
    asked = AttackSettings(target=BANANA, method="pgd", picture="coffee", epsilon=4.5)
    assert lesson_of.engine.submitted[-1][2] == asked
    for tab, activity in (("sweep", "attack-sweep"), ("transfer", "transfer")):
        other = lesson_of.open(tab, attack=asked)
        other.button(key=f"run-{activity}").click().run()
        settings = lesson_of.engine.submitted[-1][2]
        assert (settings.target, settings.picture) == (BANANA, "coffee")
    guarded = lesson_of.open("defences", attack=asked)
    guarded.button(key="run-defences").click().run()
    assert lesson_of.engine.submitted[-1][2].epsilon == 4.5


def test_all_thousand_classes_can_be_found_each_under_a_name_of_its_own(lesson_of):
    options = lesson_of.open().selectbox(key=TARGET).options
    assert len(set(options)) == image_classes.COUNT
    assert "quả chuối (banana) · 954" in options[:250]


def test_the_page_says_which_network_is_in_use(lesson_of):
    assert VI("part4.network", network="EfficientNet-Lite0") in told(lesson_of.open())
    lesson_of.networks = (RESNET_18, LITE_0)
    assert VI("part4.network", network="ResNet-18") in told(lesson_of.open())


def test_every_sample_has_its_thumbnail_among_the_choices():
    assert set(PICTURES) == {*photos.SAMPLES, OWN}


# What became of it


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shows_the_pictures(lesson_of, view):
    lesson_of.engine.put(attacked())
    app = lesson_of.open()
    app.session_state[VIEW] = view
    app.run()
    assert not app.exception
    assert html_of(app).count("data:image/png") >= 2


def test_the_verdict_is_that_of_the_file_and_tells_each_rounding():
    values = msgspec.convert(attacked().result, AttackResult)
    assert EN("part4.verdict.fooled") in verdict_html(values, EN)
    held = replace(values, fooled=False, fooled_png=False, png=seen(CAT, 0.2))
    shown = verdict_html(held, EN)
    assert EN("part4.verdict.held") in shown
    assert shown.count("✓") == 1
    assert "✗ 20.0%" in shown


def test_a_change_that_rounding_spoils_has_a_verdict_of_its_own():
    values = msgspec.convert(attacked().result, AttackResult)
    spoilt = replace(values, fooled_8bit=False, fooled_png=False, png=seen(CAT, 0.2))
    assert EN("part4.verdict.lost") in verdict_html(spoilt, EN)


def test_a_recording_of_another_machine_stands_beside_the_own_result(lesson_of, monkeypatch):
    job = attacked(milliseconds=61.0)
    replay = Replay(
        activity="attack",
        settings=job.settings,
        machine=PC,
        device_name="Test Card 12G",
        made_at="2026-11-30",
        recordings=job.recordings,
        rows=job.rows,
        values=job.result,
    )
    monkeypatch.setattr(resources, "recordings", lambda _activity: (replay,))
    app = lesson_of.open()
    assert VI("part1.replay", device="Test Card 12G", date=VI.date("2026-11-30")) in told(app)
    assert VI.ms(61.0) in html_of(app)


def test_names_are_in_the_readers_language_and_random_noise_is_the_control(lesson_of):
    lesson_of.engine.put(attacked())
    shown = html_of(lesson_of.open())
    assert "máy nướng bánh mì" in shown
    row = shown[shown.index("<tr class='control'>") :]
    assert "mèo Ai Cập" in row[: row.index("</tr>")]


def test_after_a_reload_the_last_attack_and_its_settings_are_there(lesson_of):
    settings = AttackSettings(target=BANANA, epsilon=6.0, steps=2)
    lesson_of.records.views.append(attacked(settings))
    app = lesson_of.open()
    assert app.selectbox(key=TARGET).value == BANANA
    assert VI("part4.verdict.fooled") in html_of(app)


def test_nobody_sees_the_attack_of_another_student(lesson_of):
    lesson_of.engine.put(replace(attacked(), student=identity.new_token()))
    assert VI("part4.verdict.fooled") not in html_of(lesson_of.open())


def test_charts_have_the_same_spec_whatever_the_data():
    known = {"language": "en", "projector": False}
    assert sweep_spec(**known) is sweep_spec(**known)
    assert belief_spec(20, **known) is belief_spec(20, **known)
    assert guess_spec(("it's",), "after", **known)["layer"]  # an apostrophe ends no expression


def test_the_map_marks_what_is_fooled():
    shown = map_html(points(BANANA, (1.0,), fooled=True), EN)
    assert "✓ 90%" in shown
    assert "banana" in shown


@pytest.mark.parametrize(("misled", "told_as"), [(True, "misleads"), (False, "stays")])
def test_the_lesson_of_a_transfer_is_about_the_network_that_nobody_attacked(misled, told_as):
    values = msgspec.convert(transferred(misled=misled).result, TransferResult)
    assert lesson(values) == told_as


def test_defences_stop_those_who_do_not_know_them_and_fall_to_those_who_do(lesson_of):
    lesson_of.engine.put(defended())
    app = lesson_of.open("defences", language="en")
    assert EN("part4.defences.stopped", some=2, all=2) in html_of(app)
    app.toggle(key=KNOWS).set_value(True).run()
    assert EN("part4.defences.fell", some=1, all=2) in html_of(app)


# Pictures that students bring


def test_an_upload_is_kept_as_a_plain_picture_and_attacked(lesson_of):
    app = lesson_of.open()
    lesson_of.bring(app, png(90, side=64))
    run(app).click().run()
    name = lesson_of.engine.submitted[-1][2].picture
    assert photos.has_upload(lesson_of.folder, name)
    assert app.file_uploader == []  # it is let go of, with all that the file has told


def test_a_bad_upload_is_one_sentence_and_nothing_is_lost(lesson_of):
    lesson_of.engine.put(attacked())
    app = lesson_of.open(attack_taken_up=True, attack=AttackSettings(target=BANANA))
    lesson_of.bring(app, b"not a picture", "trick.png")
    assert VI("problem.photo_none") in told(app)
    assert app.selectbox(key=TARGET).value == BANANA
    assert VI("part4.verdict.fooled") in html_of(app)
    app.pills(key=PICTURE).select("cat").run()
    assert not run(app).disabled


def test_a_student_can_have_their_picture_forgotten_at_once(lesson_of):
    app = lesson_of.open()
    lesson_of.bring(app, png(90))
    name = app.session_state["visitor"].attack.picture
    lesson_of.engine.put(attacked(AttackSettings(picture=name, steps=2)))
    assert html_of(app.run()).count("data:image/png") > 1
    app.button(key="part4-forget").click().run()
    assert not photos.has_upload(lesson_of.folder, name)
    assert app.session_state["visitor"].attack.picture == "cat"
    assert VI("part4.pictures.gone") in html_of(app)


def test_a_downloaded_picture_that_comes_back_is_still_fooled(lesson_of):
    lesson_of.engine.put(attacked())
    app = lesson_of.open()
    lesson_of.bring(app, attacked().pictures["attacked"])
    name = app.session_state["visitor"].attack.picture
    refused = Notice("problem.attack_target_is_source", {"name": "toaster"})
    again = attacked(AttackSettings(picture=name, steps=2))
    lesson_of.engine.put(replace(again, state=JobState.FAILED, problem=refused, pictures={}))
    assert VI("part4.downloaded") in html_of(app.run())


def test_the_records_keep_figures_of_an_own_picture_and_no_picture(monkeypatch, tmp_path):
    store = Records.open(LabSettings(cache_dir=tmp_path))
    monkeypatch.setattr(resources, "records", lambda: store)
    own = AttackSettings(picture=photos.name_of(png()), steps=2)
    for settings, expected in ((AttackSettings(steps=2), True), (own, False)):
        resources.remember(attacked(settings))
        kept = store.latest(TOKEN, "attack")
        assert kept is not None
        assert kept.result is not None
        assert bool(kept.pictures) is expected
    store.close()
