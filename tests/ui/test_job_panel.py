from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core.engine.view import JobState, JobView
from core.problems import Problem
from core.texts import LANGUAGES, texts
from core.ui import identity
from core.ui.job_panel import about, failure_sentence, progress_share, progress_text
from core.ui.visitor import Visitor
from tests.ui.stand_ins import GPU_PC, StandInEngine, StandInRecords, job, use

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)


def page() -> None:
    from core.activities import CpuVsGpuSettings
    from core.ui.job_panel import current_job, job_panel, run_button

    found = current_job("cpu-vs-gpu")
    run_button("cpu-vs-gpu", CpuVsGpuSettings(steps=20), found)
    job_panel("cpu-vs-gpu", found)


@pytest.fixture
def engine() -> StandInEngine:
    return StandInEngine()


@pytest.fixture
def records() -> StandInRecords:
    return StandInRecords()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, engine: StandInEngine, records: StandInRecords) -> AppTest:
    use(monkeypatch, engine, records=records)
    monkeypatch.setattr(identity, "browser_token", lambda: TOKEN)
    return AppTest.from_function(page, default_timeout=30)


def sentences(app: AppTest) -> str:
    shown = [*app.info, *app.success, *app.error, *app.warning]
    return " ".join(element.value for element in shown)


def button(app: AppTest, label: str):
    return next(b for b in app.button if b.label == label)


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_state_of_a_job_is_drawn_without_an_exception(engine, app, language, state):
    engine.put(job(state, student=TOKEN))
    app.session_state["visitor"] = Visitor(TOKEN, kept=True, language=language)
    app.run()
    assert not app.exception


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.STOPPING])
@pytest.mark.parametrize("projector", [False, True])
def test_a_job_on_a_card_is_drawn_too_and_for_the_last_row(
    monkeypatch, engine, app, projector, state
):
    use(monkeypatch, engine, machine=GPU_PC)
    engine.put(job(state, gpu=True, student=TOKEN))
    app.session_state["visitor"] = Visitor(TOKEN, kept=True, projector=projector)
    app.run()
    assert not app.exception


def test_before_the_first_run_the_panel_says_what_to_do(app):
    assert VI("panel.nothing_yet") in sentences(app.run())


def test_a_queued_job_tells_its_place_and_the_wait(engine, app):
    engine.put(job(JobState.QUEUED, student=TOKEN))
    told = sentences(app.run())
    assert VI("panel.queued", place=3) in told
    assert "1 phút 15 s" in told


def test_pressing_run_submits_and_the_button_rests_while_the_job_runs(engine, app):
    button(app.run(), VI("panel.run")).click().run()
    assert [settings.steps for _, _, settings in engine.submitted] == [20]
    assert button(app, VI("panel.run")).disabled


def test_pressing_run_in_a_tab_that_has_not_seen_the_job_yet_starts_no_second_one(engine, app):
    other_tab = AppTest.from_function(page, default_timeout=30).run()
    app.run()
    for tab in (app, other_tab):
        button(tab, VI("panel.run")).click().run()
    assert len(engine.submitted) == 1


def test_a_refusal_is_one_plain_sentence_and_the_button_stays(engine, app):
    engine.refusal = Problem("problem.queue_full", limit=100)
    button(app.run(), VI("panel.run")).click().run()
    assert VI("problem.queue_full", limit=100) in sentences(app)
    assert not button(app, VI("panel.run")).disabled


def test_cancel_asks_the_engine_and_the_panel_shows_that_it_is_stopping(engine, app):
    engine.put(job(JobState.RUNNING, student=TOKEN))
    button(app.run(), VI("panel.cancel")).click().run()
    assert engine.cancelled == [f"job-{JobState.RUNNING}-False"]
    assert button(app, VI("panel.stopping")).disabled


def test_every_look_at_a_running_job_tells_the_engine_that_somebody_watches(engine, app):
    engine.put(job(JobState.RUNNING, student=TOKEN))
    app.run()
    app.run()
    assert engine.watched == [TOKEN, TOKEN]


def test_a_failed_job_says_why_and_offers_to_run_again(engine, app):
    failed = job(JobState.FAILED, student=TOKEN)
    engine.put(failed)
    assert failure_sentence(failed, VI) in sentences(app.run())
    assert not button(app, VI("panel.run_again")).disabled


def test_after_a_restart_of_the_server_the_last_job_comes_from_the_records(engine, records, app):
    records.views.append(job(JobState.DONE, student=TOKEN))
    assert VI("panel.done") in sentences(app.run())


def test_another_students_job_is_not_shown(engine, app):
    engine.put(job(JobState.RUNNING, student=identity.new_token()))
    assert VI("panel.nothing_yet") in sentences(app.run())


def test_gauges_of_a_job_without_gpu_are_one_quiet_card_and_one_chart(engine, app):
    engine.put(job(JobState.RUNNING, student=TOKEN))
    app.run()
    assert len(app.get("vega_lite_chart")) == 1
    assert any(VI("gauge.quiet.title") in element.proto.body for element in app.get("html"))


def test_a_job_on_a_card_has_four_gauges_and_four_charts(monkeypatch, engine, app):
    use(monkeypatch, engine, machine=GPU_PC)
    engine.put(job(JobState.RUNNING, gpu=True, student=TOKEN))
    app.run()
    assert len(app.get("vega_lite_chart")) == 4
    assert sum("lab-gauge" in element.proto.body for element in app.get("html")) == 4


def test_progress_never_leaves_its_bar():
    view = JobView("j", TOKEN, "cpu-vs-gpu", {}, done=300, total=200)
    assert progress_share(view) == 1
    assert progress_share(JobView("j", TOKEN, "cpu-vs-gpu", {})) == 0


def test_progress_says_no_more_than_is_known():
    started = JobView("j", TOKEN, "cpu-vs-gpu", {}, state=JobState.RUNNING)
    assert progress_text(started, EN) == EN("panel.starting")
    assert progress_text(job(JobState.RUNNING), EN).endswith("37 of 200 · about 24 s left")


def test_an_estimate_is_never_zero_and_has_no_decimals():
    assert [about(s, EN) for s in (0.2, 11.7, 75.4)] == ["1 s", "12 s", "1 min 15 s"]
