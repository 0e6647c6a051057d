"""Part 5b, the exercise: traces without a label, and one question: raise an alarm?

Nothing on the page tells a trace before it is answered: widgets and pictures know it by its place.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping

import streamlit as st

from core.recordings import Replay
from core.soc.traces import ACTIVITIES, NAMES, NO, YES, Origin, Trace, question_of, traces_of
from core.texts import Texts
from core.ui import charts, resources
from core.ui.panels import Host, Panel, axes_for, measured
from core.ui.part5b_tables import table_html
from core.ui.visitor import visitor

ANSWERS = (YES, NO)
LETTERS = "ABCDEF"  # one a trace
PICK = "soc-pick"
LAST_RUNS = 6  # of each activity, to find a trace among
CHART_HEIGHT = 210


def draw_exercise(say: Texts) -> None:
    """One trace at a time, then all six with what was said of them."""
    me = visitor()
    records = resources.records()
    answers = {name: records.guess_of(me.token, question_of(name)) for name in NAMES}
    traces = own_traces()
    st.markdown(say.prose("part5b/exercise"))
    _draw_pick(answers, say)
    trace = traces[NAMES[me.soc_trace]]
    chart, asked = st.columns([3, 2], gap="large")
    with chart:
        _draw_trace(trace, me.soc_trace, say)
    with asked:
        answer = answers[trace.name]
        st.html(_situation_html(trace, say))
        if answer is None:
            _draw_question(trace, me.soc_trace, say)
        else:
            _draw_answer(trace, answer, say)
    if all(answers.values()):
        _draw_score(traces, {name: str(answer) for name, answer in answers.items()}, say)


def own_traces() -> dict[str, Trace]:
    """Of each kind the trace that this student gets."""
    jobs = [
        job
        for activity in ACTIVITIES
        for job in resources.records().of_student(
            visitor().token, activity=activity, limit=LAST_RUNS
        )
    ]
    return traces_of(jobs, recorded())


def recorded() -> list[Replay]:
    return [replay for activity in ACTIVITIES for replay in resources.recordings(activity)]


def _draw_pick(answers: Mapping[str, str | None], say: Texts) -> None:
    marks = [" ✓" if answers[name] else "" for name in NAMES]
    st.session_state[PICK] = visitor().soc_trace
    st.segmented_control(
        say("part5b.trace"),
        range(len(NAMES)),
        format_func=lambda place: LETTERS[place] + marks[place],
        key=PICK,
        on_change=_picked,
        label_visibility="collapsed",
    )


def _picked() -> None:
    place = st.session_state[PICK]
    if place is not None:  # a second click lets go of it: the trace stays
        visitor().soc_trace = place


# One trace


def _draw_trace(trace: Trace, place: int, say: Texts) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(say("part5b.trace.name", letter=LETTERS[place]), width="content")
        _draw_origin(trace, say)
    readings = charts.spread(trace.recording.readings)
    axes = axes_for(readings, _host(trace), seconds=float(math.ceil(trace.recording.seconds)))
    panels = (Panel.GPU, Panel.POWER) if trace.on_card else (Panel.CPU,)
    drawn = [panel for panel in panels if measured(panel, [readings])]
    grid = st.grid(max(1, len(drawn)), min_column_width=charts.MIN_COLUMN)
    for panel in drawn:
        with grid.cell():
            charts.draw_panel(
                panel,
                [charts.panel_bytes(panel, readings)],
                axes,
                say,
                projector=visitor().projector,
                alt_text=say(f"chart.{panel}.alt"),
                height=CHART_HEIGHT,
            )


def _draw_origin(trace: Trace, say: Texts) -> None:
    """Where the trace comes from: told at once, for it does not tell what it is."""
    match trace.origin:
        case Origin.OWN:
            told, icon, colour = (
                say("part5b.origin.own", device=trace.device_name),
                ":material/speed:",
                "green",
            )
        case Origin.RECORDED:
            told = say("part1.replay", device=trace.device_name, date=say.date(trace.made_at))
            icon, colour = ":material/videocam:", "orange"
        case Origin.SIMULATED:
            told, icon, colour = say("part5b.origin.simulated"), ":material/draw:", "violet"
    st.badge(told, icon=icon, color=colour)  # type: ignore[arg-type]


def _host(trace: Trace) -> Host:
    machine = trace.machine or resources.machine()
    card = next((gpu for gpu in machine.gpus if gpu.name == trace.device_name), None)
    return Host(machine, card, threads=None)


# The question and its answer


def _situation_html(trace: Trace, say: Texts) -> str:
    return (
        f"<div class='soc-situation'><small>{html.escape(say('part5b.made_up'))}</small>"
        f"<p>{html.escape(say(f'part5b.situation.{trace.name}'))}</p></div>"
    )


def _draw_question(trace: Trace, place: int, say: Texts) -> None:
    st.markdown(say("part5b.question"))
    with st.container(horizontal=True, key="soc-answers"):
        for answer, icon in ((YES, ":material/notifications_active:"), (NO, ":material/check:")):
            st.button(
                say(f"part5b.answer.{answer}"),
                key=f"soc-{answer}-{place}",
                icon=icon,
                on_click=_answered,
                args=(trace.name, answer),
            )
    st.caption(say("part5b.first_stays"))


def _answered(name: str, answer: str) -> None:
    resources.records().guess(visitor().token, question_of(name), answer)


def _draw_answer(trace: Trace, answer: str, say: Texts) -> None:
    st.html(verdict_html(trace, answer, say))
    st.markdown(f"**{say('part5b.split')}**")
    st.caption(say(f"question.soc.{trace.name}"))
    counts = resources.records().guesses(question_of(trace.name))
    st.html(split_html(counts, answer, say))
    st.button(
        say("part5b.next"),
        key="soc-next",
        icon=":material/arrow_forward:",
        on_click=_next,
    )


def _next() -> None:
    me = visitor()
    me.soc_trace = (me.soc_trace + 1) % len(NAMES)


def verdict_html(trace: Trace, answer: str, say: Texts) -> str:
    """What the trace was, whether the student was right, and why."""
    right = answer == trace.answer
    told = say(
        "part5b.right" if right else "part5b.wrong", answer=say(f"answer.soc.{trace.answer}")
    )
    # The texts are markdown, with nothing but bold in it.
    reason = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(say(f"part5b.reason.{trace.name}")))
    return (
        f"<div class='soc-verdict {'right' if right else 'wrong'}'>"
        f"<small>{html.escape(told)}</small>"
        f"<h4>{html.escape(say(f'part5b.kind.{trace.name}'))}</h4><p>{reason}</p></div>"
    )


def split_html(counts: Mapping[str, int], own: str, say: Texts) -> str:
    """How the class answered, as bars of counts; nobody's name."""
    total = max(1, sum(counts.values()))
    lines = [
        f"<div class='{'mine' if answer == own else ''}'>"
        f"{html.escape(say(f'answer.soc.{answer}'))}</div>"
        f"<div class='bar'><i style='width:{counts.get(answer, 0) / total:.0%}'></i></div>"
        f"<div class='count'>"
        f"{html.escape(say.count('part5b.students', counts.get(answer, 0)))}</div>"
        for answer in ANSWERS
    ]
    return f"<div class='lab-split'>{''.join(lines)}</div>"


# All six


def _draw_score(traces: Mapping[str, Trace], answers: Mapping[str, str], say: Texts) -> None:
    st.header(say("part5b.score"), divider="blue")
    right = sum(traces[name].answer == answer for name, answer in answers.items())
    st.markdown(say("part5b.score.right", right=right, all=len(NAMES)))
    columns = ("trace", "kind", "truth", "mine", "class")
    rows = []
    for letter, name in zip(LETTERS, NAMES, strict=True):
        counts = resources.records().guesses(question_of(name))
        share = 100 * counts.get(YES, 0) / max(1, sum(counts.values()))
        mark = "✓" if answers[name] == traces[name].answer else "✗"
        rows.append(
            [
                letter,
                say(f"part5b.kind.{name}"),
                say(f"answer.soc.{traces[name].answer}"),
                f"{mark} {say(f'answer.soc.{answers[name]}')}",
                say.percent(share),
            ]
        )
    st.html(table_html([say(f"part5b.score.column.{column}") for column in columns], rows))
