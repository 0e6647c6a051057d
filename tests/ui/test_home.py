"""The first page: where a student stands, where to go on, and words to look up."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.engine.view import JobState, JobView
from core.texts import LANGUAGES, texts
from core.ui import identity
from core.ui.dream import FRAMES, dream_url
from core.ui.home import (
    BESIDES,
    OUTCOMES,
    PARTS,
    ROWS,
    STYLE,
    Progress,
    matching,
    next_part,
    progress,
)
from core.ui.resources import records
from core.ui.shell import ENTRIES

DATA, CPU_OR_GPU = PARTS[:2]
COST, SOC, CLEAN_UP = PARTS[6:]
APP = Path(__file__).parents[2] / "streamlit_app.py"


def job(state: JobState, student: str = "s") -> JobView:
    return JobView(
        id=f"{student}-{state}", student=student, activity="cpu-vs-gpu", settings={}, state=state
    )


@pytest.fixture
def student(monkeypatch):
    token = identity.new_token()
    monkeypatch.setattr(identity, "browser_token", lambda: token)
    return token


def opened(language: str = "vi") -> AppTest:
    app = AppTest.from_file(APP, default_timeout=30)
    app.query_params["lang"] = language
    app.run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    """All that the page says, drawings included."""
    drawn = [element.proto.body for element in app.get("html")]
    return "\n".join([*drawn, *(m.value for m in app.main.markdown)])


def test_the_data_part_is_done_once_its_page_was_seen():
    assert progress(DATA, visited=set(), jobs=[]) is Progress.OPEN
    assert progress(DATA, visited={"data-and-machine"}, jobs=[]) is Progress.DONE


def test_whoever_has_run_something_has_come_past_the_data_part_in_whatever_tab():
    assert progress(DATA, visited=set(), jobs=[job(JobState.STOPPED)]) is Progress.DONE


def test_the_part_on_cost_is_done_once_its_page_was_seen_and_not_by_running_something():
    assert progress(COST, visited=set(), jobs=[job(JobState.DONE)]) is Progress.OPEN
    assert progress(COST, visited={"what-did-it-cost"}, jobs=[]) is Progress.DONE


@pytest.mark.parametrize(("part", "question"), [(SOC, "soc.idle"), (CLEAN_UP, "hand.thumb")])
def test_a_part_with_questions_is_done_once_one_of_its_own_was_answered(part, question):
    others = {"real_or_fake", "feed.loader"}
    assert progress(part, visited={part.page}, jobs=[], answered=others) is Progress.OPEN
    assert progress(part, visited=set(), jobs=[], answered={question}) is Progress.DONE


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], Progress.OPEN),
        ([JobState.QUEUED], Progress.RUNNING),
        ([JobState.STOPPING], Progress.RUNNING),
        ([JobState.FAILED], Progress.OPEN),
        ([JobState.STOPPED], Progress.OPEN),
        ([JobState.DONE], Progress.DONE),
        ([JobState.FAILED, JobState.DONE], Progress.DONE),  # failed after it had succeeded once
        ([JobState.RUNNING, JobState.DONE], Progress.RUNNING),
    ],
)
def test_a_part_with_a_run_is_done_when_one_run_has_reached_its_end(states, expected):
    assert progress(CPU_OR_GPU, visited=set(), jobs=[*map(job, states)]) is expected


def test_seeing_the_page_of_a_run_does_not_make_it_done():
    assert progress(CPU_OR_GPU, visited={"cpu-or-gpu"}, jobs=[]) is Progress.OPEN


@pytest.mark.parametrize(
    ("data", "cpu_or_gpu", "expected"),
    [
        (Progress.OPEN, Progress.OPEN, DATA),
        (Progress.DONE, Progress.OPEN, CPU_OR_GPU),
        (Progress.OPEN, Progress.RUNNING, CPU_OR_GPU),
        (Progress.DONE, Progress.DONE, CPU_OR_GPU),
    ],
)
def test_the_way_on_leads_to_what_runs_then_to_what_is_not_done(data, cpu_or_gpu, expected):
    state_of = {DATA: data, CPU_OR_GPU: cpu_or_gpu}
    assert next_part(state_of) is expected


def test_parts_lead_to_pages_that_the_shell_serves():
    addresses = {entry.url_path: entry.file for entry in ENTRIES}
    for part in PARTS:
        assert addresses[part.page].as_posix().endswith(part.file)
        assert addresses[part.page].exists()


def test_the_rows_of_the_map_hold_every_part_once_and_the_shell_serves_what_is_besides():
    assert tuple(part for row in ROWS for part in row) == PARTS
    assert set(BESIDES) <= {entry.name for entry in ENTRIES}


def test_every_outcome_belongs_to_a_part():
    assert {part.id for part in PARTS}.issuperset(OUTCOMES)


def test_the_glossary_is_found_without_typing_accents():
    glossary = texts("vi").prose("home/glossary")
    assert len(matching(glossary, "hat giong")) == len(matching(glossary, "HẠT GIỐNG")) == 1
    assert matching(glossary, "đa dạng ngữ nghĩa lạ") == []
    assert matching(glossary, " ") == [line for line in glossary.splitlines() if line]


def test_both_glossaries_explain_the_same_number_of_terms():
    vietnamese, english = (matching(texts(lang).prose("home/glossary"), "") for lang in LANGUAGES)
    assert len(vietnamese) == len(english) > 20
    assert all(line.startswith("**") for line in (*vietnamese, *english))


def test_the_opening_picture_is_small_enough_for_a_class_on_wifi():
    assert dream_url().startswith("data:image/png;base64,")
    assert len(dream_url()) < 40_000


def test_the_style_sheet_steps_through_as_many_frames_as_are_drawn():
    assert f"background-size: 100% {100 * FRAMES}%" in STYLE.read_text()
    assert f"steps({FRAMES}, jump-none)" in STYLE.read_text()


@pytest.mark.parametrize("language", LANGUAGES)
def test_home_shows_all_parts_outcomes_and_steps(student, language):
    say = texts(language)
    app = opened(language)
    page, headings = words(app), {heading.value for heading in app.subheader}
    for part in PARTS:
        title = say("home.part.heading", part=part.id, title=say(f"home.part.{part.id}.title"))
        assert title in page or title in headings
    for outcome in OUTCOMES:
        assert say(f"home.outcome.{outcome}") in page
    for step in range(1, 8):
        assert say(f"home.step.{step}.name") in page


def test_a_newcomer_is_sent_to_the_data_part(student):
    app = opened()
    assert app.button(key="begin").label == "Bắt đầu với Phần 0"
    app.button(key="begin").click().run()
    assert not app.exception
    assert "begin" not in {button.key for button in app.button}


def test_who_has_seen_the_data_part_goes_on_to_the_next(student):
    app = opened()
    app.switch_page("pages/data_and_machine.py").run()
    app.switch_page("pages/home.py").run()
    assert app.button(key="begin").label == "Tiếp tục: Phần 1"


def test_a_finished_run_makes_its_part_done_for_its_student_alone(student, monkeypatch):
    records().save(job(JobState.DONE, student))
    assert opened("en").button(key="begin").label == "Carry on: Part 2"
    monkeypatch.setattr(identity, "browser_token", identity.new_token)
    assert opened("en").button(key="begin").label == "Begin with Part 0"


def test_an_answer_about_the_hand_makes_the_last_part_done(student):
    def parts_done(app: AppTest) -> int:
        return sum(m.value.startswith(":green-badge") for m in app.main.markdown)

    assert parts_done(opened("en")) == 0
    records().guess(student, "hand.thumb", "output")
    assert parts_done(opened("en")) == 1


def test_searching_the_glossary_shows_only_what_matches(student):
    app = opened("en")
    app.text_input(key="glossary").input("fixed noise").run()
    assert "**Fixed noise**" in words(app)
    assert "**VRAM**" not in words(app)
    app.text_input(key="glossary").input("<b>zzz").run()
    assert app.info[0].value == texts("en")("home.search.nothing")
    assert "zzz" not in words(app)
