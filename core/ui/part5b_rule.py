"""Part 5b, a rule: what "GPU above 90 % for some minutes" would catch, miss, and get wrong."""

from __future__ import annotations

import streamlit as st

from core.soc.rule import (
    MOST_MINUTES,
    THRESHOLDS,
    Judged,
    Outcome,
    Rule,
    Verdict,
    outcome_of,
    swept,
)
from core.soc.traces import KINDS, Trace, levels_of
from core.soc.week import DAY, HOUR, MINERS, Week, week_of
from core.texts import Texts
from core.ui.part5b_charts import draw_sweep, draw_week
from core.ui.part5b_tables import table_html
from core.ui.part5b_traces import own_traces
from core.ui.pixels import tiles_html
from core.ui.visitor import visitor

THRESHOLD, MINUTES = "soc-threshold", "soc-minutes"
STAIRS = (1, 2, 3, 5, 8, 10, 12, 15, 20, 30, 45, 60, 90, MOST_MINUTES)
MANY_ALARMS = 3  # false ones a week: more, and nobody looks any longer
WEEKS = 1000


def draw_rule(say: Texts) -> None:
    """Two sliders, what they lead to, the week as a picture, and the trade between the two."""
    me = visitor()
    traces = own_traces()
    st.markdown(say.prose("part5b/rule"))
    _draw_sliders(say)
    rule = me.soc_rule
    week = _week(me.soc_week, tuple((kind, levels_of(traces[kind])) for kind in KINDS))
    outcome = outcome_of(week, rule)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(
            say("part5b.rule.simulated", number=me.soc_week + 1),
            icon=":material/draw:",
            color="violet",
        )
        st.button(
            say("part5b.rule.other_week"),
            key="soc-other-week",
            icon=":material/casino:",
            on_click=_other_week,
        )
        st.markdown(
            say("part5b.rule.told", threshold=rule.threshold, minutes=rule.minutes),
            width="content",
        )
    st.html(tiles_html(figures(outcome, say)))
    st.markdown(lesson(outcome, say))
    draw_week(say, week, rule, outcome, projector=me.projector)
    st.caption(say("part5b.rule.class_hours"))
    trade, told = st.columns([3, 2], gap="large")
    with trade:
        points = swept(week, minutes=rule.minutes)
        draw_sweep(say, points, rule, miners=len(MINERS), projector=me.projector)
    told.markdown(say.prose("part5b/rule-read"))
    st.header(say("part5b.rule.table"), divider="blue")
    st.html(sessions_html(outcome, say))
    st.caption(say("part5b.rule.sources", sources="; ".join(_sources(traces, say))))


@st.cache_resource(max_entries=16, show_spinner=False)
def _week(seed: int, levels: tuple[tuple[str, tuple[float, ...]], ...]) -> Week:
    return week_of(seed, dict(levels))


def _draw_sliders(say: Texts) -> None:
    rule = visitor().soc_rule
    st.session_state[THRESHOLD] = rule.threshold
    st.session_state[MINUTES] = rule.minutes
    threshold, minutes = st.columns(2, gap="large")
    threshold.select_slider(
        say("part5b.rule.threshold"),
        THRESHOLDS,
        key=THRESHOLD,
        format_func=say.percent,
        on_change=_slid,
    )
    minutes.select_slider(
        say("part5b.rule.minutes"),
        STAIRS,
        key=MINUTES,
        format_func=lambda minutes: say("part5b.rule.minutes_of", n=minutes),
        on_change=_slid,
    )


def _slid() -> None:
    state = st.session_state
    visitor().soc_rule = Rule(threshold=state[THRESHOLD], minutes=state[MINUTES])


def _other_week() -> None:
    me = visitor()
    me.soc_week = (me.soc_week + 1) % WEEKS


def figures(outcome: Outcome, say: Texts) -> list[tuple[str, str, float | None]]:
    """Caught, missed, false alarms."""
    miners = outcome.caught + outcome.missed
    return [
        (
            say(f"part5b.rule.{name}"),
            say("part5b.rule.of", some=some, all=miners),
            some / max(1, miners),
        )
        for name, some in (("caught", outcome.caught), ("missed", outcome.missed))
    ] + [
        (
            say("part5b.rule.false_alarms"),
            say("part5b.rule.a_week", n=outcome.false_alarms),
            None,
        )
    ]


def lesson(outcome: Outcome, say: Texts) -> str:
    """What this very rule teaches; the miner in class hours is beyond any of them."""
    reachable = outcome.missed - 1
    many = outcome.false_alarms >= MANY_ALARMS
    if reachable > 0 and outcome.false_alarms:
        name = "both"
    elif many:
        name = "wolf"
    elif outcome.missed:
        name = "misses"
    else:
        name = "good"
    return say(
        f"part5b.rule.lesson.{name}",
        false_alarms=outcome.false_alarms,
        missed=outcome.missed,
        miners=outcome.caught + outcome.missed,
    )


def sessions_html(outcome: Outcome, say: Texts) -> str:
    """Every miner and every false alarm, in the order of the week."""
    shown = [one for one in outcome.judged if one.verdict is not Verdict.QUIET]
    columns = ("when", "kind", "verdict", "after")
    return table_html(
        [say(f"part5b.rule.column.{column}") for column in columns],
        [_session_row(one, say) for one in shown],
    )


def _session_row(one: Judged, say: Texts) -> list[str]:
    session = one.session
    day, minute = divmod(session.start, DAY)
    length = session.end - session.start
    when = say(
        "part5b.rule.when",
        day=say(f"part5b.day.{day}"),
        start=f"{minute // HOUR:02}:{minute % HOUR:02}",
        hours=(
            say("part5b.rule.minutes_of", n=length) if length < HOUR else say.seconds(60 * length)
        ),
    )
    marks = {Verdict.CAUGHT: "✓", Verdict.MISSED: "✗", Verdict.FALSE_ALARM: "!"}
    after = "" if one.rang_after is None else say("part5b.rule.minutes_of", n=one.rang_after)
    verdict = f"{marks[one.verdict]} {say(f'part5b.verdict.{one.verdict}')}"
    return [when, say(f"part5b.kind.{session.kind}"), verdict, after]


def _sources(traces: dict[str, Trace], say: Texts) -> list[str]:
    """Of each kind of load, where its figures come from."""
    found = []
    for kind in KINDS:
        # Where a trace has no card in it, the week takes the simulated one.
        origin = traces[kind].origin if traces[kind].on_card else "simulated"
        found.append(
            say(
                f"part5b.rule.source.{origin}",
                kind=say(f"part5b.kind.{kind}"),
                device=traces[kind].device_name,
            )
        )
    return found
