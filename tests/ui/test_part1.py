from __future__ import annotations

import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.activities import CpuVsGpuSettings, Speedup
from core.engine.view import JobState
from core.recordings import Replay
from core.telemetry.readings import SummaryRow
from core.texts import LANGUAGES, texts
from core.ui import identity, part1, resources
from core.ui.visitor import Visitor
from tests.ui.stand_ins import CARD, GPU_PC, PC, StandInEngine, StandInRecords, job, use

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)


def page() -> None:
    from core.ui import part1

    part1.draw()


def a_replay() -> Replay:
    done = job(JobState.DONE, gpu=True)
    return Replay(
        activity="cpu-vs-gpu",
        settings={"steps": 100, "seed": 0},
        machine=GPU_PC,
        device_name=CARD.name,
        made_at="2026-03-05",
        recordings=done.recordings,
        rows=done.rows,
        values=done.result or {},
    )


class Class:
    """The page, its engine, and whoever opens it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.records = StandInRecords()
        self.replays: tuple[Replay, ...] = ()
        self.use_gpu(False)

    def use_gpu(self, there: bool) -> None:
        self.engine = StandInEngine(gpus=(CARD.uuid,) if there else ())
        machine = GPU_PC if there else PC
        use(self._patch, self.engine, records=self.records, machine=machine)

    def open(self, address: dict[str, str] | None = None, *, language: str = "vi") -> AppTest:
        self._patch.setattr(resources, "recordings", lambda _activity: self.replays)
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(TOKEN, kept=True, language=language)
        for name, value in (address or {}).items():
            app.query_params[name] = value
        return app.run()


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> Class:
    return Class(monkeypatch)


def html_of(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def headers(app: AppTest) -> list[str]:
    return [element.value for element in app.header]


def steps_of(app: AppTest) -> int:
    return app.session_state["visitor"].cpu_vs_gpu.steps


def run_pressed(app: AppTest) -> AppTest:
    return next(b for b in app.button if b.label == VI("panel.run")).click().run()


# Drawing


@pytest.mark.parametrize("state", [None, *JobState])
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_drawn_in_every_state_of_a_job(lesson, language, gpu, state):
    lesson.use_gpu(gpu)
    lesson.replays = (a_replay(),)
    if state is not None:
        lesson.engine.put(job(state, gpu=gpu, student=TOKEN))
    assert not lesson.open(language=language).exception


def test_a_result_shows_both_speedups_the_table_and_the_parameters(lesson):
    lesson.use_gpu(True)
    lesson.engine.put(job(JobState.DONE, gpu=True, student=TOKEN))
    app = lesson.open(language="en")
    shown = html_of(app)
    for figure in ("9.9 times", "24.6 times", "37.5 s", "3.8 s", "19%", "142 MiB", "62%"):
        assert figure in shown
    told = " ".join(element.value for element in app.caption)
    assert "534,081" in told
    assert "138,817" in told
    assert len(app.get("vega_lite_chart")) == 4


def test_without_a_gpu_a_recording_stands_beside_the_live_run_and_says_where_it_is_from(lesson):
    lesson.replays = (a_replay(),)
    lesson.engine.put(job(JobState.DONE, student=TOKEN))
    app = lesson.open()
    assert VI("part1.replays") in headers(app)
    badges = " ".join(element.value for element in app.markdown)
    assert CARD.name in badges
    assert "5 tháng 3, 2026" in badges
    assert len(app.get("vega_lite_chart")) == 1, "its own CPU panel"


def test_a_recording_is_replayed_through_the_same_charts_when_asked_for(lesson):
    lesson.replays = (a_replay(),)
    app = lesson.open()
    assert not app.get("vega_lite_chart")
    next(box for box in app.toggle if box.label == VI("part1.replay.play")).set_value(True)
    assert len(app.run().get("vega_lite_chart")) == 4


def test_on_a_gpu_machine_recordings_wait_in_a_closed_box(lesson):
    lesson.use_gpu(True)
    lesson.replays = (a_replay(),)
    app = lesson.open()
    assert [box.label for box in app.expander] == [VI("part1.replays.compare")]
    assert VI("part1.replays") not in headers(app)


def test_a_stopped_run_leaves_the_earlier_result_in_place(lesson):
    lesson.records.views.append(job(JobState.DONE, student=TOKEN))
    lesson.engine.put(job(JobState.STOPPED, student=TOKEN))
    app = lesson.open()
    assert VI("part1.result.earlier") in headers(app)
    assert "lab-figures" in html_of(app)


def test_a_result_of_an_unknown_shape_breaks_nothing(lesson):
    strange = replace(job(JobState.DONE, student=TOKEN), result={"speed": "very"})
    lesson.engine.put(strange)
    assert not lesson.open().exception


def test_the_charts_can_be_played_back(lesson):
    lesson.engine.put(job(JobState.DONE, student=TOKEN))
    app = lesson.open()
    whole = app.get("vega_lite_chart")[0].proto
    bytes_of_whole = [dataset.data.data for dataset in whole.datasets]
    spec = whole.spec
    scrub = next(slider for slider in app.slider if slider.label == VI("part1.scrub"))
    scrub.set_value(5).run()
    cut = app.get("vega_lite_chart")[0].proto
    assert all(
        len(dataset.data.data) < len(before)
        for dataset, before in zip(cut.datasets, bytes_of_whole, strict=True)
    )
    assert cut.spec == spec  # the axes stay


# Settings


def test_a_shared_link_sets_the_steps(lesson):
    app = lesson.open({"steps": "80"})
    assert steps_of(app) == 80
    run_pressed(app)
    assert lesson.engine.submitted[0][2] == CpuVsGpuSettings(steps=80)


@pytest.mark.parametrize("forged", ["9999", "-1", "0", "many", "", "1e2", "100; drop table"])
def test_steps_that_cannot_be_are_told_in_one_sentence_and_the_default_stays(lesson, forged):
    app = lesson.open({"steps": forged})
    assert not app.exception
    assert len(app.warning) == 1
    assert steps_of(app) == 100
    run_pressed(app)
    assert lesson.engine.submitted[0][2] == CpuVsGpuSettings()


def test_moving_the_slider_is_remembered_and_named_in_the_address(lesson):
    app = lesson.open({"steps": "9999"})
    app.slider(key=part1.SLIDER).set_value(150).run()
    assert steps_of(app) == 150
    assert app.query_params["steps"] in ("150", ["150"])
    assert not app.warning


def test_two_changes_of_the_slider_in_a_row_both_hold(lesson):
    app = lesson.open()
    for steps in (40, 60):
        app.slider(key=part1.SLIDER).set_value(steps).run()
        assert steps_of(app) == steps
        assert app.slider(key=part1.SLIDER).value == steps


def test_two_visitors_do_not_share_their_settings(lesson):
    one, other = lesson.open(), lesson.open()
    one.slider(key=part1.SLIDER).set_value(20).run()
    assert steps_of(other.run()) == 100


def test_a_shared_link_carries_the_settings_and_nobodys_identity():
    link = part1.share_link(
        "http://lab.local:8501/cpu-or-gpu?me=secret&lang=en#x", CpuVsGpuSettings(steps=80)
    )
    assert link == "http://lab.local:8501/cpu-or-gpu?steps=80"


def test_the_expected_time_grows_with_the_steps_and_is_unknown_for_another_kind_of_machine():
    earlier = job(JobState.DONE, gpu=True)  # 100 steps took 41.3 s
    assert part1.expected_seconds(earlier, CpuVsGpuSettings(steps=200), has_gpu=True) == 83
    assert part1.expected_seconds(earlier, CpuVsGpuSettings(), has_gpu=False) is None
    assert part1.expected_seconds(None, CpuVsGpuSettings(), has_gpu=True) is None


# Results


def test_a_signal_no_run_has_gets_a_sentence_instead_of_a_column():
    rows = job(JobState.DONE).rows
    table, missing = part1.summary_html(rows, EN)
    assert EN("part1.column.gpu") not in table
    assert EN("part1.column.cpu") in table
    assert {"gpu_percent", "energy", "power_watts"} <= set(missing)


def test_a_value_that_one_run_lacks_is_said_in_its_cell():
    rows = [SummaryRow("cpu", 30, gpu_percent_mean=0), SummaryRow("gpu", 0.4)]
    table, _ = part1.summary_html(rows, VI)
    assert f"<td>{VI('absent.value')}</td>" in table
    assert "<td>0%</td>" in table


@pytest.mark.parametrize("others", [10.0, 130.0])
def test_a_run_on_a_busy_machine_says_so(lesson, others):
    done = job(JobState.DONE, student=TOKEN)
    rows = tuple(replace(row, others_cpu_percent_mean=others) for row in done.rows)
    lesson.engine.put(replace(done, rows=rows))
    told = [element.value for element in lesson.open().caption]
    assert (VI("part1.others_busy", cpu=others) in told) == (others > part1.BUSY_PERCENT)


def test_a_second_run_that_was_slower_is_called_slower():
    values = part1.read_result(job(JobState.DONE).result)
    assert values is not None
    slower = replace(values, speedup=Speedup(whole=0.5, compute=1.5))
    shown = part1.figures_html(slower, (), EN)
    assert EN("part1.whole.slower") in shown
    assert EN("part1.compute.slower") not in shown
    assert "2.0 times" in shown
