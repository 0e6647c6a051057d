from __future__ import annotations

import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.activities.feed_gpu import Diagnosis, FeedGpuSettings, RaceSettings, WayResult
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.recordings import Replay
from core.records.store import MEMORY, Records
from core.telemetry.readings import Recording, SummaryRow
from core.texts import LANGUAGES, texts
from core.ui import feed_tables, identity, part2b, race_board, resources
from core.ui.feed_charts import LANES, WAYS, stair, timeline_rows, timeline_spec
from core.ui.visitor import Visitor
from tests.ui.feed_stand_ins import ON_CPU, ON_GPU, feed_job, race_job
from tests.ui.stand_ins import CARD, GPU_PC, PC, StandInEngine, use

TOKEN = identity.new_token()
VI, EN = map(texts, LANGUAGES)
QUESTION = "feed-gpu/loader"


def page() -> None:
    from core.ui import part2b

    part2b.draw()


def a_replay() -> Replay:
    done = feed_job(JobState.DONE, gpu=True)
    return Replay(
        activity="feed-gpu",
        settings=done.settings,
        machine=GPU_PC,
        device_name=CARD.name,
        made_at="2026-03-05",
        recordings=done.recordings,
        rows=done.rows,
        values=done.result or {},
    )


class Class:
    """The page, its engine, its records, and whoever opens it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.records = Records(MEMORY)
        self.replays: tuple[Replay, ...] = ()
        self.use_gpu(False)

    def use_gpu(self, there: bool) -> None:
        self.engine = StandInEngine(gpus=(CARD.uuid,) if there else ())
        machine = GPU_PC if there else PC
        use(self._patch, self.engine, records=self.records, machine=machine)  # type: ignore[arg-type]

    def finished(self, *jobs: JobView) -> None:
        for job in jobs:
            self.records.save(job)

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


def told(app: AppTest) -> str:
    kinds = (app.markdown, app.caption, app.info, app.success, app.warning)
    return " ".join(element.value for kind in kinds for element in kind)


def headers(app: AppTest) -> list[str]:
    return [element.value for element in app.header]


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=key).click().run()


def done(number: int = 1, *, gpu: bool = True, ways: tuple[str, ...] = ()) -> JobView:
    return feed_job(JobState.DONE, gpu=gpu, student=TOKEN, ways=ways, number=number)


# Drawing


@pytest.mark.parametrize("state", [None, *JobState])
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_drawn_in_every_state_of_a_job(lesson, language, gpu, state):
    lesson.use_gpu(gpu)
    lesson.replays = (a_replay(),)
    if state is not None:
        lesson.engine.put(feed_job(state, gpu=gpu, student=TOKEN))
    assert not lesson.open(language=language).exception


@pytest.mark.parametrize("state", JobState)
def test_the_page_is_drawn_in_every_state_of_a_race(lesson, state):
    lesson.engine.put(race_job(TOKEN, state=state))
    assert not lesson.open().exception


def test_while_it_runs_finished_ways_show_their_figures_and_the_others_their_turn(lesson):
    lesson.use_gpu(True)
    lesson.engine.put(feed_job(JobState.RUNNING, gpu=True, student=TOKEN))
    tiles = html_of(lesson.open(language="en")).split("<div class='lab-ways'>")[1]
    assert tiles.count("<div class='done'") == 2
    assert EN("part2b.tile.wait", wait="43%") in tiles
    assert EN("part2b.way_runs") in tiles.split("<div class='now'")[1]
    assert tiles.count(EN("part2b.way_waits")) == 3


def test_a_way_that_is_switched_off_has_no_tile():
    job = feed_job(JobState.RUNNING, gpu=True, ways=("loader", "large"))
    shown = feed_tables.so_far_html(job, EN)
    assert EN("section.large") in shown
    assert EN("section.graph") not in shown


def test_a_result_shows_every_way_with_its_range_speed_and_waits(lesson):
    lesson.use_gpu(True)
    lesson.finished(done())
    app = lesson.open(language="en")
    shown = html_of(app)
    for way in ON_GPU:
        assert EN(f"section.{way}") in shown
    for figure in ("4.8 s", "2.65–2.78", "272,291", "24%", "780 MiB", "391 W", "43%", "31%", "468"):
        assert figure in shown, figure
    assert len(app.get("vega_lite_chart")) == 2 + 4  # speeds, time lanes, and the four meters


def test_without_a_gpu_the_recorded_run_stands_beside_the_own_one_and_says_where_it_is_from(lesson):
    lesson.replays = (a_replay(),)
    lesson.finished(done(gpu=False))
    app = lesson.open()
    assert VI("part1.replays") in headers(app)
    assert CARD.name in told(app)
    assert "5 tháng 3, 2026" in told(app)
    shown = html_of(app)
    assert shown.count(f"<i></i>{VI('section.loader')}") == 2  # in both tables
    assert shown.count(f"<i></i>{VI('section.lean')}") == 1  # a way that only a card can go


def test_on_a_gpu_machine_recordings_wait_in_a_closed_box(lesson):
    lesson.use_gpu(True)
    lesson.replays = (a_replay(),)
    app = lesson.open()
    assert VI("part1.replays.compare") in [box.label for box in app.expander]
    assert VI("part1.replays") not in headers(app)


def test_a_stopped_run_leaves_the_earlier_result_in_place(lesson):
    lesson.finished(done())
    lesson.engine.put(feed_job(JobState.STOPPED, gpu=True, student=TOKEN, number=2))
    assert VI("part1.result.earlier") in headers(lesson.open())


def test_a_result_of_an_unknown_shape_breaks_nothing(lesson):
    lesson.engine.put(replace(done(), result={"speed": "very"}))
    app = lesson.open()
    assert not app.exception
    assert VI("part1.result") not in headers(app)


def test_figures_that_no_way_has_get_a_sentence_instead_of_a_column():
    ways, rows = results(gpu=False)
    table, missing = feed_tables.results_html(ways, rows, EN)
    assert EN("part2b.column.gpu") not in table
    assert EN("part2b.column.gpu_wait") not in table  # nobody waits for a GPU that is not there
    assert EN("part2b.column.cpu") in table
    assert {"gpu_percent", "power_watts", "energy", "own_vram_mib"} == set(missing)


def results(*, gpu: bool) -> tuple[tuple[WayResult, ...], tuple[SummaryRow, ...]]:
    job = feed_job(JobState.DONE, gpu=gpu)
    values = part2b.read_result(job.result)
    assert values is not None
    return values.ways, job.rows


def test_of_repeats_the_recording_is_drawn_that_the_table_sums_up():
    repeats = [Recording("graph", seconds, ()) for seconds in (0.44, 0.46, 0.51)]
    assert part2b.of_rows(repeats, [SummaryRow("graph", 0.46)]) == [repeats[1]]


# Charts


def test_all_ways_share_one_time_scale_and_only_lanes_with_work_are_drawn():
    lines = part2b.read_result(feed_job(JobState.DONE, gpu=True).result).timelines
    rows = timeline_rows(EN, lines)
    assert {row["what"] for row in rows} == {
        EN(f"part2b.work.{kind}") for kind in ("load", "launch", "wait", "step")
    }
    spec = timeline_spec(
        ("loader", "lean"), lanes=LANES, kinds=("step",), end=61.0, language="en", projector=False
    )
    assert spec["encoding"]["x"]["scale"]["domain"] == [0, 61.0]
    names = [lane.split("|")[1] for lane in spec["encoding"]["y"]["scale"]["domain"]]
    first, last = (EN(f"section.{way}") for way in ("loader", "lean"))
    assert names == [f"{first} · CPU", "GPU", "", f"{last} · CPU", "GPU"]


@pytest.mark.parametrize(("value", "end"), [(434, 500), (272_291, 300_000), (1.0, 1.5), (9.7, 10)])
def test_an_axis_ends_a_little_after_the_longest_bar(value, end):
    assert stair(value) == end


# Settings


def test_a_machine_with_a_gpu_runs_all_ways_on_a_whole_epoch(lesson):
    lesson.use_gpu(True)
    press(lesson.open(), "run-feed-gpu")
    assert lesson.engine.submitted[0][2] == FeedGpuSettings()


def test_without_a_gpu_two_ways_are_shown_as_out_of_reach_and_the_run_is_short(lesson):
    app = lesson.open()
    for way in part2b.NEED_GPU:
        toggle = app.toggle(key=f"part2b-{way}")
        assert toggle.disabled
        assert toggle.label == VI("part2b.needs_gpu", way=VI(f"section.{way}"))
    assert VI("part2b.on_cpu", images=part2b.CPU_IMAGES) in told(app)
    press(app, "run-feed-gpu")
    assert lesson.engine.submitted[0][2] == FeedGpuSettings(images=2_560, graph=0, lean=0)


def test_a_link_from_a_gpu_machine_asks_a_cpu_for_nothing_it_cannot_do(lesson):
    app = lesson.open({"graph": "1", "lean": "1"})
    press(app, "run-feed-gpu")
    settings = lesson.engine.submitted[0][2]
    assert (settings.graph, settings.lean) == (0, 0)


def test_choices_are_remembered_and_named_in_the_address(lesson):
    lesson.use_gpu(True)
    app = lesson.open()
    app.select_slider(key="part2b-batch").set_value(2_048).run()
    app.toggle(key="part2b-loader").set_value(False).run()
    assert app.session_state["visitor"].feed_gpu == FeedGpuSettings(batch=2_048, loader=0)
    assert {name: app.query_params[name] for name in ("batch", "loader")} in (
        {"batch": "2048", "loader": "0"},
        {"batch": ["2048"], "loader": ["0"]},
    )


def test_a_shared_link_sets_the_choices(lesson):
    lesson.use_gpu(True)
    app = lesson.open({"batch": "1024", "images": "10240", "lean": "0"})
    press(app, "run-feed-gpu")
    expected = FeedGpuSettings(batch=1_024, images=10_240, lean=0)
    assert lesson.engine.submitted[0][2] == expected


@pytest.mark.parametrize(
    "forged",
    [
        {"batch": "768"},  # within the limits, and not on offer
        {"batch": "9999"},
        {"batch": "many"},
        {"images": "7"},
        {"images": "60001"},
        {"loader": "2"},
        {"seed": "-1"},
        {"batch": "2048", "images": "1280"},  # not even one step
        {"images": "1; drop table"},
    ],
)
def test_what_cannot_be_is_told_in_one_sentence_and_the_defaults_stay(lesson, forged):
    lesson.use_gpu(True)
    app = lesson.open(forged)
    assert not app.exception
    assert len(app.warning) == 1
    press(app, "run-feed-gpu")
    assert lesson.engine.submitted[0][2] == FeedGpuSettings()


def test_without_any_way_there_is_nothing_to_run(lesson):
    app = lesson.open(dict.fromkeys(WAYS, "0"))
    assert VI("part2b.no_way") in told(app)
    assert "run-feed-gpu" not in [button.key for button in app.button]


def test_a_large_batch_always_has_images_for_a_step():
    offered = part2b.images_offered(FeedGpuSettings(batch=2_048, images=2_560))
    assert min(offered) >= 2_048
    with pytest.raises(Problem):
        part2b.checked({"batch": 2_048, "images": 1_280})


def test_a_shared_link_carries_the_settings_and_nobodys_identity():
    link = part2b.share_link(
        "http://lab.local:8501/feed-the-gpu?me=secret&lang=en#x", FeedGpuSettings(lean=0)
    )
    assert link == "http://lab.local:8501/feed-the-gpu?batch=512&images=60000&lean=0"


# Diagnosis


def test_the_diagnosis_is_hidden_until_the_student_has_guessed(lesson):
    lesson.use_gpu(True)
    lesson.finished(done())
    app = lesson.open(language="en")
    assert "<div class='lab-causes'>" not in html_of(app)
    assert "<div class='lab-split'>" not in html_of(app)

    press(app, "guess-launch")

    assert lesson.records.guess_of(TOKEN, QUESTION) == "launch"
    shown = html_of(app)
    assert EN("part2b.cause.data") in shown
    assert "43%" in shown.split("<div class='lab-causes'>")[1]
    assert EN("part2b.compared.other", guess=EN("part2b.guess.launch")) in told(app)
    assert "guess-launch" not in [button.key for button in app.button]


def test_a_right_guess_is_called_right(lesson):
    lesson.use_gpu(True)
    lesson.finished(done())
    lesson.records.guess(TOKEN, QUESTION, "data")
    app = lesson.open()
    assert VI("part2b.compared.same", guess=VI("part2b.guess.data")) in told(app)


def test_the_class_sees_how_many_guessed_what_and_not_who(lesson):
    lesson.use_gpu(True)
    lesson.finished(done())
    for number in range(3):
        lesson.records.rename(f"student-{number}", f"Name {number}")
        lesson.records.guess(f"student-{number}", QUESTION, "wait")
    lesson.records.guess(TOKEN, QUESTION, "data")
    shown = html_of(lesson.open(language="en"))
    assert EN.count("part2b.students", 3) in shown
    assert "Name 1" not in shown


def test_the_suggested_repair_runs_as_a_pair_with_nothing_else_changed(lesson):
    lesson.use_gpu(True)
    lesson.finished(done())
    lesson.records.guess(TOKEN, QUESTION, "data")
    press(lesson.open(), "test-0-loader")
    settings = lesson.engine.submitted[0][2]
    assert part2b.ways_of(settings) == ["loader", "resident"]
    assert (settings.batch, settings.images, settings.seed) == (512, 60_000, 0)


def test_a_wrong_guess_can_be_put_to_the_test_too():
    diagnoses = (Diagnosis("loader", "compute", "data_wait_share", 0.03, 0.1, None),)
    assert part2b.claims(diagnoses, "compute", has_gpu=False) == []
    assert part2b.claims(diagnoses, "data", has_gpu=False) == [
        part2b.Claim("loader", "data", "resident")
    ]
    assert part2b.claims(diagnoses, "launch", has_gpu=False) == []  # its repair needs a card


def test_after_the_test_the_page_keeps_the_result_and_says_whether_the_diagnosis_held(lesson):
    lesson.use_gpu(True)
    lesson.finished(done(1), done(2, ways=("loader", "resident")))
    lesson.records.guess(TOKEN, QUESTION, "data")
    app = lesson.open(language="en")
    assert EN("part1.result") in headers(app)
    assert EN("section.lean") in html_of(app)  # the whole run is still there
    assert any("1.76 times" in element.value for element in app.success)


def test_a_pair_on_another_batch_is_a_result_of_its_own():
    whole, pair = done(1), done(2, ways=("loader", "resident"))
    other = replace(pair, settings={**pair.settings, "batch": 256})
    runs = [part2b.Run(job, part2b.read_result(job.result)) for job in (whole, pair, other)]
    assert part2b.read_findings(runs[1::-1]).job is whole
    assert part2b.read_findings([runs[2], runs[0]]).job is other
    assert part2b.read_findings([]) is None


def a_way(
    seconds: tuple[float, float, float], *, wait: float = 0.43, repeats: int = 3
) -> WayResult:
    like = results(gpu=True)[0][0]
    low, median, high = seconds
    return replace(
        like,
        seconds=median,
        seconds_low=low,
        seconds_high=high,
        repeats=repeats,
        images_per_second=like.images / median,
        data_wait_share=wait,
    )


@pytest.mark.parametrize(
    ("before", "after", "ending"),
    [
        ((4.7, 4.8, 4.9), (2.6, 2.7, 2.8), "held"),
        ((4.7, 4.8, 4.9), (4.6, 4.7, 4.8), "fell"),
        ((4.0, 4.8, 5.6), (3.9, 4.2, 4.8), "open"),
    ],
)
def test_a_claim_holds_only_if_even_the_worst_repeats_show_it(before, after, ending):
    outcome = feed_tables.verdict(a_way(before), a_way(after), "data")
    assert outcome.ending == ending
    assert outcome.low <= outcome.times <= outcome.high


def test_one_measurement_each_proves_nothing():
    slow, fast = a_way((4.8,) * 3, repeats=1), a_way((2.7,) * 3, repeats=1)
    assert feed_tables.verdict(slow, fast, "data").ending == "once"


def test_a_gain_far_beyond_the_waiting_it_is_named_after_proves_nothing():
    crowded, quiet = a_way((18.0, 18.4, 18.6), wait=0.02), a_way((9.0, 9.1, 9.2), wait=0)
    assert feed_tables.verdict(crowded, quiet, "data").ending == "other"
    assert feed_tables.verdict(crowded, quiet, "compute").ending == "held"  # names no waiting


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("ending", feed_tables.Ending)
def test_every_outcome_of_a_test_has_a_sentence(language, ending):
    claim = part2b.Claim("loader", "data", "resident")
    outcome = feed_tables.Verdict(2.0, 1.9, 2.1, 1.02, ending)
    assert part2b.verdict_sentence(outcome, claim, texts(language)).count("“") == 1


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("cause", [*feed_tables.ANSWERS, "unclear"])
@pytest.mark.parametrize(
    "signal", ["data_wait_share", "gpu_wait_share", "gpu_percent", "neighbours_share"]
)
def test_every_cause_and_signal_has_words(language, cause, signal):
    found = Diagnosis("loader", cause, signal, 0.42, 0.3, None)
    shown = feed_tables.causes_html([found], texts(language))
    assert "42%" in shown
    assert "30%" in shown


# Faster is not better learnt


def test_each_way_shows_its_digits_and_scores_at_equal_epochs_and_equal_steps():
    job = feed_job(JobState.DONE, gpu=True)
    ways, _ = results(gpu=True)
    shown = feed_tables.drawn_html(ways, job.pictures, EN)
    assert shown.count("<img") == 2 * len(ways)
    assert "61%" in shown
    assert shown.count("117 steps") == 1 + len(ways)  # all at equal steps, and the large batch


def test_the_large_batch_is_compared_in_words():
    sentence = feed_tables.quality_sentence(results(gpu=True)[0], EN)
    for figure in ("7.7 times", "18%", "61%", "34%"):
        assert figure in sentence


def test_a_recording_without_pictures_still_tells_its_scores():
    ways, _ = results(gpu=True)
    shown = feed_tables.drawn_html(ways, {}, EN)
    assert "<img" not in shown
    assert "61%" in shown


# The record board


def finishes(records: Records) -> list[race_board.Finish]:
    return race_board.best(records.of_class("race", asked_by=TOKEN))


def test_the_board_has_each_students_best_the_fastest_first(lesson):
    lesson.records.rename("minh-token", "Minh")
    lesson.finished(
        race_job("minh-token", seconds=2.9, settings=RaceSettings(graph=1, lean=1)),
        race_job("other-token", seconds=4.1),
        race_job(TOKEN, seconds=9.0, number=1),
        race_job(TOKEN, seconds=3.4, number=2),
        race_job(TOKEN, seconds=None, number=3),  # did not get there
    )
    found = finishes(lesson.records)
    assert [finish.seconds for finish in found] == [2.9, 3.4, 4.1]

    shown = race_board.board_html(found, EN)
    assert shown.count("class='mine'") == 1
    for word in ("Minh", EN("part2b.board.somebody"), EN("part2b.race.lean.short"), CARD.name):
        assert word in shown
    for token in ("minh-token", "other-token", TOKEN):
        assert token not in shown


def test_an_own_place_beyond_the_first_ten_is_shown_after_them(lesson):
    for number in range(14):
        lesson.finished(race_job(f"student-{number}", seconds=1.0 + number))
    lesson.finished(race_job(TOKEN, seconds=99.0))
    shown = race_board.board_html(finishes(lesson.records), EN)
    assert shown.count("<tr class=") == race_board.ROWS + 1
    assert "<th scope='row'>15</th>" in shown


def test_a_race_to_another_goal_is_not_on_the_board(lesson):
    lesson.finished(race_job("old", seconds=0.1, goal=0.2), race_job(TOKEN, seconds=3.0))
    assert [finish.seconds for finish in finishes(lesson.records)] == [3.0]


def test_a_name_on_the_board_cannot_smuggle_in_markup(lesson):
    lesson.records.rename(TOKEN, "<img src=x>")
    lesson.finished(race_job(TOKEN))
    assert "<img" not in race_board.board_html(finishes(lesson.records), EN)


def test_a_race_is_run_with_the_switches_that_this_machine_has(lesson):
    app = lesson.open()
    app.slider(key="race-batch").set_value(256).run()
    app.toggle(key="race-no_wait").set_value(False).run()
    assert app.toggle(key="race-graph").disabled
    press(app, "run-race")
    assert lesson.engine.submitted == [(TOKEN, "race", RaceSettings(batch=256, no_wait=0))]


def test_a_finished_race_says_whether_the_goal_was_reached(lesson):
    lesson.finished(race_job(TOKEN, seconds=3.4))
    assert any("3.4 s" in element.value for element in lesson.open(language="en").success)
    lesson.finished(race_job(TOKEN, seconds=None, number=2))
    assert any("41%" in element.value for element in lesson.open(language="en").warning)


def test_an_empty_board_invites(lesson):
    assert VI("part2b.board.empty") in told(lesson.open())


def test_four_ways_are_possible_on_a_cpu():
    assert [way for way in WAYS if way not in part2b.NEED_GPU] == list(ON_CPU)
