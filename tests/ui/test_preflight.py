"""The preflight page: the wall as it stands, each gate opened, and who may start what."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.activities.preflight import ClassroomSettings, SpeechSettings, SpeechTrapSettings
from core.engine.view import JobState, JobView
from core.models.assets import FetchProgress
from core.models.fetches import Fetches
from core.preflight.gate import Colour, Curve, Figure, Outcome, Picture, PreflightResult, Table
from core.preflight.suites import CLASSROOM, SPEECH
from core.problems import Notice
from core.recordings import Replay
from core.records.store import Records
from core.settings import LabSettings
from core.texts import LANGUAGES, texts
from core.ui import identity, resources
from core.ui.preflight import TABS
from core.ui.preflight_controls import address_here, lr_curve
from core.ui.preflight_wall import Light, tiles, wall_html
from core.ui.visitor import Visitor
from tests.ui import stand_ins
from tests.ui.stand_ins import PC, StandInEngine

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)
TAB = {name: place for place, name in enumerate(TABS)}
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def page() -> None:
    from core.ui import preflight

    preflight.draw()


def outcome(gate: str, colour: Colour = Colour.GREEN, seconds: float = 1.5) -> Outcome:
    """One with every kind of evidence; its words are borrowed from the catalogues."""
    return Outcome(
        gate=gate,
        colour=colour,
        seconds=seconds,
        budget_seconds=10.0,
        message=Notice("problem.gate_broke", {"what": "<b>this</b>"}),
        evidence=(
            Figure("preflight.lr.rate", 1.0002e-6, "", 1e-6),
            Table("preflight.gates", ("preflight.lr.step", "preflight.lr.rate"), ((0, 1e-4),)),
            Curve(
                "preflight.lr.title",
                "preflight.lr.step",
                "preflight.lr.rate",
                (0.0, 1.0),
                {"preflight.lr.real": (0.0, 1.0)},
            ),
            Picture("preflight.wall", PNG),
        ),
        hint=None if colour is Colour.GREEN else Notice("preflight.not_yet"),
    )


def job(
    activity: str, *outcomes: Outcome, state: JobState = JobState.DONE, **changes: Any
) -> JobView:
    suite = activity.removeprefix("preflight-")
    result = PreflightResult(suite, outcomes, "2026-12-01T07:30:00+07:00", {"torch": "2"}, "CPU")
    view = JobView(
        id=f"{activity}-{changes.pop('number', 1)}",
        student=TOKEN,
        activity=activity,
        settings=changes.pop("settings", {"gates": "all"}),
        state=state,
        device="cpu",
        submitted_at=1_790_000_000.0,
        gates=outcomes,
        result=msgspec.to_builtins(result) if state is JobState.DONE else None,
    )
    return replace(view, **changes)


class Lab:
    """A server of the test's own."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.engine = StandInEngine()
        self.records = Records(folder / "lab.db")
        self.settings = LabSettings(cache_dir=folder)
        self.fetched: list[str] = []
        self.fetches = Fetches(self.settings, self._bring)
        stand_ins.use(patch, self.engine, machine=PC)
        for name, shared in (("records", self.records), ("fetches", self.fetches)):
            patch.setattr(resources, name, lambda shared=shared: shared)
        patch.setattr(resources, "lab_settings", lambda: self.settings)
        patch.setattr(resources, "recordings", lambda _activity: self.replays)
        self.replays: tuple[Replay, ...] = ()

    def _bring(self, asset: Any, _settings: LabSettings, **how: Any) -> bool:
        self.fetched.append(asset.id)
        how["on_progress"](FetchProgress("weights", 50, 100, 2.0))
        return True

    def open(self, tab: str = "classroom", *, language: str = "en", **visitor: Any) -> AppTest:
        app = AppTest.from_function(page, default_timeout=30)
        me = Visitor(TOKEN, kept=True, language=language, preflight_tab=TAB[tab], **visitor)
        app.session_state["visitor"] = me
        return app.run()


@pytest.fixture
def lab_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    return Lab(monkeypatch, tmp_path)


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def told(app: AppTest) -> str:
    elements = [*app.info, *app.warning, *app.error, *app.success, *app.caption, *app.markdown]
    return html_of(app) + " ".join(element.value for element in elements)


def keys(app: AppTest) -> set[str]:
    return {str(button.key) for button in app.button}


# The wall


def test_before_the_first_run_every_light_is_dark_and_one_click_runs_all(lab_of):
    app = lab_of.open()
    assert html_of(app).count(f"pf-tile {Light.DARK}") == len(CLASSROOM.gates)
    app.button(key="run-preflight-classroom").click().run()
    assert lab_of.engine.submitted == [(TOKEN, "preflight-classroom", ClassroomSettings())]


def test_the_wall_follows_the_job_and_keeps_the_lights_that_it_does_not_touch():
    view = job(
        "preflight-speech", outcome("G1"), state=JobState.RUNNING, settings={"gates": "G1,g2,G3"}
    )
    lights = {tile.gate: tile.light for tile in tiles(SPEECH, view, [outcome("G7", Colour.AMBER)])}
    assert lights == {
        "G1": Light.GREEN,
        "G2": Light.RUNNING,
        "G3": Light.WAITING,
        **dict.fromkeys(("G4", "G4b", "G5", "G5b", "G6"), Light.DARK),
        "G7": Light.AMBER,
    }
    queued = replace(view, state=JobState.QUEUED, gates=())
    assert [tile.light for tile in tiles(SPEECH, queued, [])][:3] == [Light.WAITING] * 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_light_is_told_by_its_word_and_its_shape_as_well(language):
    say = texts(language)
    ended = [outcome(gate.id, colour) for gate, colour in zip(SPEECH.gates, Colour, strict=False)]
    wall = wall_html(tiles(SPEECH, None, ended), say)
    for colour in Colour:
        assert f"pf-lamp {colour}" in wall
        assert say(f"preflight.colour.{colour}") in wall


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("tab", TABS)
def test_a_suite_is_drawn_in_every_state_of_its_job(lab_of, tab, state):
    first = {"classroom": CLASSROOM, "speech": SPEECH}[tab].gates[0].id
    problem = Notice("problem.worker_killed") if state is JobState.FAILED else None
    view = job(f"preflight-{tab}", outcome(first, Colour.RED), state=state, problem=problem)
    lab_of.engine.put(view)
    app = lab_of.open(tab, language="vi")
    assert not app.exception
    assert f"pf-tile {Light.RED}" in html_of(app), "what a suite came to is shown, however it ended"


def test_a_result_of_an_unknown_shape_breaks_nothing(lab_of):
    lab_of.engine.put(replace(job("preflight-classroom"), result={"gates": "some"}))
    assert not lab_of.open().exception


# A gate opened


def test_an_opened_gate_shows_message_evidence_and_what_it_is_for(lab_of):
    lab_of.engine.put(job("preflight-speech", outcome("G2", Colour.RED)))
    app = lab_of.open("speech", preflight_open={"preflight-gate-speech-G2"})
    shown = html_of(app)
    for text in ("1.0002 × 10⁻⁶", "10⁻⁴", EN("preflight.not_yet"), EN("gate.G2.skipped")):
        assert text in shown
    assert "&lt;b&gt;this&lt;/b&gt;" in shown, "what a gate says is no markup"
    assert len(app.get("vega_lite_chart")) == 2, "its curve, beside that of the settings"
    assert "data:image/png;base64" in shown
    app.button(key="preflight-run-speech-G2").click().run()
    assert lab_of.engine.submitted == [(TOKEN, "preflight-speech", SpeechSettings(gates="G2"))]


def test_the_last_run_stands_beside_the_one_before_and_can_be_carried_away(lab_of):
    for number, colour in enumerate((Colour.RED, Colour.GREEN)):
        lab_of.records.save(job("preflight-classroom", outcome("device", colour), number=number))
    app = lab_of.open()
    title = EN("gate.device.title")
    assert EN(
        "preflight.change.colour",
        title=title,
        before="red",
        after="green",
        seconds_before=1,
        seconds_after=1,
    ) in told(app)
    assert len(app.get("download_button")) == 2


def test_a_run_recorded_elsewhere_is_offered_with_its_machine_and_date(lab_of):
    view = job("preflight-speech", outcome("G5"))
    lab_of.replays = (
        Replay("preflight-speech", {}, PC, "Big Card", "2026-11-30", (), (), view.result),
    )
    label = EN("preflight.recorded", device="Big Card", day=EN.date("2026-11-30"))
    assert label in [expander.label for expander in lab_of.open("speech").expander]


# Settings


def test_controls_become_the_job_and_the_curve_follows_before_anything_runs(lab_of):
    app = lab_of.open("speech")
    app.select_slider(key="preflight-preflight_speech-ref_lr").set_value(1e-3).run()
    app.select_slider(key="preflight-preflight_speech-warm_up").set_value(1_000).run()
    app.selectbox(key="preflight-preflight_speech-precision").select("fp32").run()
    app.text_input(key="preflight-preflight_speech-remote").set_value("/mnt/there").run()
    assert "63%" in told(app)
    app.button(key="run-preflight-speech").click().run()
    wanted = SpeechSettings(ref_lr=1e-3, warm_up=1_000, precision="fp32", remote="/mnt/there")
    assert lab_of.engine.submitted[-1][2] == wanted


def test_the_curve_is_the_schedule_that_will_run():
    curve = lr_curve(SpeechSettings())
    at = dict(zip(curve.at, curve.lines["preflight.lr.real"], strict=True))
    assert at[0.0] == pytest.approx(1e-6)
    assert at[500.0] == max(at.values()) == pytest.approx(1e-4)
    assert at[87_890.0] == pytest.approx(0.0, abs=1e-12)


def test_the_address_is_that_of_the_browser_without_the_page():
    assert address_here("https://lab.example/gpu/preflight?lang=vi") == "https://lab.example/gpu"
    assert address_here("http://10.0.0.5:8501/preflight") == "http://10.0.0.5:8501"
    assert address_here("file:///etc/preflight") == ""


# Who may do what


def test_with_a_teachers_code_students_see_the_lights_and_start_no_suite(lab_of):
    lab_of.settings = changed(lab_of.settings, teacher_code="chalk")
    lab_of.records.save(replace(job("preflight-speech", outcome("G1")), student="the teacher"))
    app = lab_of.open("speech")
    assert f"pf-tile {Light.GREEN}" in html_of(app)
    assert not {key for key in keys(app) if key.startswith("run-")}
    assert not app.text_input
    teacher = lab_of.open("speech", teacher=True)
    assert "run-preflight-speech" in keys(teacher)
    assert [field.key for field in teacher.text_input] == ["preflight-preflight_speech-remote"]


def test_every_visitor_may_spring_a_trap_and_sees_what_it_showed(lab_of):
    lab_of.settings = changed(lab_of.settings, teacher_code="chalk")
    app = lab_of.open("speech", preflight_open={"preflight-trap-collapse"})
    app.button(key="preflight-spring-collapse").click().run()
    assert lab_of.engine.submitted == [(TOKEN, "speech-trap", SpeechTrapSettings("collapse"))]
    lab_of.engine.put(job("speech-trap", outcome("rate"), settings={"trap": "rate"}))
    shown = lab_of.open("speech", preflight_open={"preflight-trap-rate"})
    assert EN("preflight.trap.green") in " ".join(e.label for e in shown.expander)
    assert "1.0002 × 10⁻⁶" in html_of(shown)


def test_only_the_teacher_fetches_and_accepts_terms_first(lab_of):
    app = lab_of.open()
    assert not {key for key in keys(app) if "fetch" in key}
    assert any("assets fetch sd-turbo" in code.value for code in app.code)
    teacher = lab_of.open(teacher=True)
    assert teacher.button(key="preflight-fetch-sd-turbo").disabled
    teacher.checkbox(key="preflight-accept-sd-turbo").check().run()
    teacher.button(key="preflight-fetch-sd-turbo").click().run()
    lab_of.fetches.close()
    assert lab_of.fetched == ["sd-turbo"]
    assert EN("preflight.assets.done") in told(teacher.run())
