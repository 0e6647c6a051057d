"""Part 5b's page: five rows, traces that do not tell what they are, a load, and a rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import streamlit as st
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.activities.soc import SteadyLoadSettings
from core.engine.view import JobState
from core.records.store import MEMORY, Records
from core.soc.rule import Rule, outcome_of
from core.soc.traces import KINDS, NAMES, levels_of, question_of, simulated
from core.soc.week import week_of
from core.texts import LANGUAGES, texts
from core.ui import identity, resources
from core.ui.part5b import TABS
from core.ui.part5b_charts import sweep_spec, week_spec
from core.ui.part5b_rows import ROWS
from core.ui.part5b_rule import MINUTES, THRESHOLD, lesson
from core.ui.visitor import Visitor
from tests.soc.test_traces import replay_of, steady_run
from tests.ui import stand_ins
from tests.ui.stand_ins import StandInEngine

TOKEN, CLASSMATE = identity.new_token(), identity.new_token()
VI, EN = map(texts, LANGUAGES)
TAB = {name: number for number, name in enumerate(TABS)}
STEADY = NAMES.index("steady")


def page() -> None:
    from core.ui import part5b

    part5b.draw()


class Lesson:
    """The page, its engine and records, and whoever opens it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.engine = StandInEngine()
        self.records = Records(MEMORY)
        self.recordings: list[Any] = []
        # A page alone has no others to link to.
        patch.setattr(st, "page_link", lambda *_args, **_more: None)
        stand_ins.use(patch, self.engine, records=self.records)  # type: ignore[arg-type]
        patch.setattr(
            resources,
            "recordings",
            lambda activity: [r for r in self.recordings if r.activity == activity],
        )

    def open(
        self, tab: str = "rows", *, token: str = TOKEN, language: str = "vi", **known: Any
    ) -> AppTest:
        app = AppTest.from_function(page, default_timeout=30)
        app.session_state["visitor"] = Visitor(
            token, kept=True, language=language, part5b_tab=TAB[tab], **known
        )
        return app.run()


@pytest.fixture
def lesson_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lesson]:
    opened = Lesson(monkeypatch)
    yield opened
    opened.records.close()


def shown(app: AppTest) -> str:
    """Everything that the page says or names, keys of widgets among it."""
    texts_ = [element.proto.body for element in app.get("html")]
    told = (*app.markdown, *app.caption, *app.subheader, *app.header)
    texts_ += [element.value for element in told]
    texts_ += [f"{button.key} {button.label}" for button in app.button]
    texts_ += [str(chart.proto) for chart in app.get("vega_lite_chart")]
    return " ".join(texts_)


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_drawn_with_and_without_runs(lesson_of, tab):
    assert not lesson_of.open(tab, language="vi").exception
    job = replace(steady_run(), student=TOKEN)
    lesson_of.records.save(job)
    lesson_of.engine.put(job)
    lesson_of.recordings.append(replay_of(job))
    for name in NAMES:
        lesson_of.records.guess(TOKEN, question_of(name), "yes")
    assert not lesson_of.open(tab, language="en").exception


def test_the_five_rows_have_both_sides(lesson_of):
    app = lesson_of.open("rows")
    for name in ROWS:
        assert VI(f"part5b.row.{name}.attacker") in shown(app)
        assert VI(f"part5b.row.{name}.soc") in shown(app)


def test_nothing_tells_what_a_trace_is_before_the_answer(lesson_of):
    for place in range(len(NAMES)):
        seen = shown(lesson_of.open("exercise", soc_trace=place))
        assert VI("part5b.question") in seen
        for name in NAMES:
            assert name not in seen
            assert VI(f"part5b.kind.{name}") not in seen


def test_an_answer_reveals_the_trace_and_the_first_one_stays(lesson_of):
    app = lesson_of.open("exercise", soc_trace=STEADY)
    app.button(key=f"soc-no-{STEADY}").click().run()
    assert VI("part5b.kind.steady") in shown(app)
    assert VI("part5b.wrong", answer=VI("answer.soc.yes")) in shown(app)
    lesson_of.records.guess(TOKEN, question_of("steady"), "yes")
    assert VI("part5b.wrong", answer=VI("answer.soc.yes")) in shown(app.run())
    assert f"soc-yes-{STEADY}" not in shown(app)


def test_the_answer_of_a_second_student_is_counted_and_theirs_alone_is_shown_to_them(lesson_of):
    first = lesson_of.open("exercise", soc_trace=STEADY)
    first.button(key=f"soc-no-{STEADY}").click().run()
    second = lesson_of.open("exercise", soc_trace=STEADY, token=CLASSMATE)
    assert VI("part5b.split") not in shown(second)
    second.button(key=f"soc-yes-{STEADY}").click().run()
    assert VI("part5b.right", answer=VI("answer.soc.yes")) in shown(second)
    assert lesson_of.records.guesses(question_of("steady")) == {"no": 1, "yes": 1}
    assert shown(first.run()).count(VI.count("part5b.students", 1)) == 2


def test_after_six_answers_all_six_stand_side_by_side(lesson_of):
    for name in NAMES[1:]:
        lesson_of.records.guess(TOKEN, question_of(name), "yes")
    app = lesson_of.open("exercise")
    assert VI("part5b.score") not in shown(app)
    app.button(key="soc-no-0").click().run()
    assert VI("part5b.score.right", right=3, all=6) in shown(app)


def test_a_trace_says_where_it_comes_from(lesson_of):
    app = lesson_of.open("exercise", soc_trace=STEADY)
    assert VI("part5b.origin.simulated") in shown(app)
    lesson_of.recordings.append(replay_of(steady_run()))
    told = VI("part1.replay", device="Another Card", date=VI.date("2026-11-30"))
    assert told in shown(app.run())


def test_a_load_of_ones_own_is_run_as_it_was_set(lesson_of):
    app = lesson_of.open("load")
    app.slider(key="soc-load-percent").set_value(50).run()
    app.button(key="run-steady-load").click().run()
    assert lesson_of.engine.submitted == [(TOKEN, "steady-load", SteadyLoadSettings(percent=50))]


def test_sliders_change_what_the_rule_finds_and_a_week_is_called_made_up(lesson_of):
    app = lesson_of.open("rule", language="en")
    assert EN("part5b.rule.simulated", number=1) in shown(app)
    before = shown(app)
    app.select_slider(key=THRESHOLD).set_value(30).run()
    app.select_slider(key=MINUTES).set_value(1).run()
    assert EN("part5b.rule.told", threshold=30, minutes=1) in shown(app)
    assert app.session_state["visitor"].soc_rule == Rule(30, 1)
    assert shown(app) != before
    app.button(key="soc-other-week").click().run()
    assert EN("part5b.rule.simulated", number=2) in shown(app)


def test_the_lesson_is_that_of_the_very_rule():
    week = week_of(0, {kind: levels_of(simulated(kind)) for kind in KINDS})
    assert lesson(outcome_of(week, Rule(90, 10)), EN).startswith("This rule both")
    assert "cries wolf" in lesson(outcome_of(week, Rule(20, 5)), EN)
    assert "misses" in lesson(outcome_of(week, Rule(95, 120)), EN)


def test_charts_have_the_same_spec_whatever_the_data():
    known = {"language": "en", "projector": False}
    assert week_spec(**known) is week_spec(**known)
    assert sweep_spec(10, top=5, **known) is sweep_spec(10, top=5, **known)


def test_a_stopped_load_is_told(lesson_of):
    lesson_of.engine.put(replace(steady_run(), student=TOKEN, state=JobState.STOPPED))
    app = lesson_of.open("load")
    assert VI("panel.stopped") in [element.value for element in app.info]
