"""Charts of Part 5b's rule: the week, one row a day, and what every other threshold would do.

Built as `core.ui.charts` are: one fixed spec a chart with fixed axes, and the data apart from it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import altair as alt
import numpy as np
import streamlit as st

from core.soc.rule import Outcome, Rule, Verdict
from core.soc.week import CLASS_HOURS, DAY, DAYS, HOUR, SCHOOL_DAYS, Week
from core.texts import Texts, texts
from core.ui.learning_charts import arrow_bytes
from core.ui.panels import BLUE, COLOURS, ORANGE

GREY = "#828a96"  # read on both themes
PINK = COLOURS[3]
VERDICTS = (Verdict.QUIET, Verdict.CAUGHT, Verdict.MISSED, Verdict.FALSE_ALARM)
TINTS = (GREY, BLUE, PINK, ORANGE)  # of the verdicts, in their order
MARKS = {Verdict.CAUGHT: "✓", Verdict.MISSED: "✗", Verdict.FALSE_ALARM: "!"}
STEP_MINUTES = 5  # of the week's curve; more points would not be seen
ROW, LOW = 0.66, 0.97  # of a day's row: the height of 100 %, and where 0 % lies from its top
PADDING = {"left": 0, "top": 6, "right": 16, "bottom": 4}


def draw_week(say: Texts, week: Week, rule: Rule, outcome: Outcome, *, projector: bool) -> None:
    """How busy the card is, each session in the colour of its verdict, above the threshold."""
    datasets = {
        "levels": level_bytes(week, outcome),
        "marks": _marks(outcome),
        "threshold": [{"y": day + LOW - ROW * rule.threshold / 100} for day in range(DAYS)],
    }
    told = say(
        "part5b.rule.week.alt",
        caught=outcome.caught,
        missed=outcome.missed,
        false_alarms=outcome.false_alarms,
        threshold=rule.threshold,
    )
    spec = week_spec(language=say.language, projector=projector)
    st.vega_lite_chart({**spec, "datasets": datasets}, alt=told)


def level_bytes(week: Week, outcome: Outcome) -> bytes:
    """The curve: `hour` of the day, `top` and `base` in rows, `verdict`, and its stretch `part`.

    A stretch is a session within a day. Neighbours share a point, so that no gap is seen.
    """
    columns: dict[str, list[float]] = {
        name: [] for name in ("hour", "top", "base", "verdict", "part")
    }
    part = 0
    for judged in outcome.judged:
        verdict = VERDICTS.index(judged.verdict)
        start, end = judged.session.start, judged.session.end
        while start < end:
            day = start // DAY
            stop = min(end, (day + 1) * DAY)
            for minute in [*range(start, stop, STEP_MINUTES), stop]:
                level = week.levels[minute : min(minute + STEP_MINUTES, stop)]
                shown = float(level.mean()) if len(level) else float(week.levels[stop - 1])
                columns["hour"].append((minute - day * DAY) / HOUR)
                columns["top"].append(day + LOW - ROW * shown / 100)
                columns["base"].append(day + LOW)
                columns["verdict"].append(verdict)
                columns["part"].append(part)
            part += 1
            start = stop
    return arrow_bytes({name: np.asarray(values) for name, values in columns.items()})


def _marks(outcome: Outcome) -> list[dict[str, Any]]:
    """A sign above each session that counts: colours alone would not do."""
    return [
        {
            "hour": min(23.7, (one.session.start % DAY) / HOUR + 0.1),
            "y": one.session.start // DAY + 0.16,
            "mark": MARKS[one.verdict],
            "verdict": VERDICTS.index(one.verdict),
        }
        for one in outcome.judged
        if one.verdict in MARKS
    ]


def _sizes(projector: bool) -> tuple[int, int]:
    return (17, 19) if projector else (12, 13)


@functools.lru_cache(maxsize=8)
def week_spec(*, language: str, projector: bool) -> dict[str, Any]:
    """The Vega-Lite spec for the datasets `levels`, `marks` and `threshold`; not to be changed."""
    say = texts(language)
    small, normal = _sizes(projector)
    days = " : ".join(
        f"datum.value == {day + 0.6} ? '{say(f'part5b.day.{day}')}'" for day in range(DAYS)
    )
    x = alt.X(
        "hour:Q",
        title=None,
        scale=alt.Scale(domain=[0, 24], nice=False),
        axis=alt.Axis(values=list(range(0, 25, 3)), grid=False, labelExpr="datum.label + ':00'"),
    )
    rows = alt.Scale(domain=[0, DAYS], reverse=True, nice=False)
    axis = alt.Axis(
        values=[day + 0.6 for day in range(DAYS)],
        labelExpr=f"{days} : ''",
        ticks=False,
        domain=False,
        grid=False,
        labelPadding=8,
        minExtent=5 * normal,
    )
    names = [f"{MARKS.get(one, '')} {say(f'part5b.verdict.{one}')}".strip() for one in VERDICTS]
    words = " : ".join(f"datum.value == {place} ? '{name}'" for place, name in enumerate(names))
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=list(range(len(VERDICTS))), range=list(TINTS)),
        legend=alt.Legend(
            orient="top",
            title=None,
            labelExpr=f"{words} : ''",
            labelFontSize=small,
            symbolType="square",
            labelLimit=300,
        ),
    )
    # Named, or Altair would move the rows to the datasets, which belong to the data.
    lessons = alt.InlineData(
        values=[
            {"from": start / HOUR, "to": end / HOUR, "y": day, "y2": day + 1}
            for day in range(SCHOOL_DAYS)
            for start, end in CLASS_HOURS
        ],
        name="lessons",
    )
    chart = (
        alt.layer(
            alt.Chart(lessons)
            .mark_rect(color=GREY, opacity=0.14)
            .encode(
                x=alt.X("from:Q", scale=alt.Scale(domain=[0, 24], nice=False)),
                x2="to:Q",
                y=alt.Y("y:Q", scale=rows, axis=axis, title=None),
                y2="y2:Q",
            ),
            alt.Chart(alt.NamedData("levels"))
            .mark_area(opacity=0.75, clip=True, interpolate="step-after")
            .encode(
                x=x,
                y=alt.Y("top:Q", scale=rows, axis=axis, title=None),
                y2="base:Q",
                color=colour,
                detail="part:N",
            ),
            alt.Chart(alt.NamedData("threshold"))
            .mark_rule(color=GREY, strokeDash=[4, 4], strokeWidth=1)
            .encode(y=alt.Y("y:Q", scale=rows)),
            alt.Chart(alt.NamedData("marks"))
            .mark_text(fontSize=normal + 3, fontWeight="bold", align="left")
            .encode(
                x=alt.X("hour:Q"), y=alt.Y("y:Q", scale=rows), text="mark:N", color="verdict:N"
            ),
        )
        .properties(
            height=DAYS * (66 if projector else 52) + 60,
            padding=PADDING,
            title=_title(say("part5b.rule.week"), normal),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))


def _title(text: str, size: int) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=size, fontWeight=600, offset=8)


# Other thresholds


def draw_sweep(
    say: Texts,
    points: Sequence[tuple[int, int, int]],
    rule: Rule,
    *,
    miners: int,
    projector: bool,
) -> None:
    """Miners caught and false alarms against the threshold; a line marks the rule's own."""
    lines = (say("part5b.rule.caught"), say("part5b.rule.false_alarms"))
    rows = [
        {"threshold": threshold, "count": count, "line": line}
        for threshold, *counts in points
        for line, count in zip(lines, counts, strict=True)
    ]
    told = "; ".join(
        say("part5b.rule.sweep.point", threshold=one, caught=caught, false_alarms=false)
        for one, caught, false in points
    )
    top = max(miners, *(false for _, _, false in points))
    spec = sweep_spec(rule.minutes, top=top, language=say.language, projector=projector)
    st.vega_lite_chart(
        {**spec, "datasets": {"points": rows, "now": [{"threshold": rule.threshold}]}},
        alt=say("part5b.rule.sweep.alt", minutes=rule.minutes, told=told),
    )


@functools.lru_cache(maxsize=64)
def sweep_spec(minutes: int, *, top: int, language: str, projector: bool) -> dict[str, Any]:
    """The Vega-Lite spec for the datasets `points` and `now`; not to be changed."""
    say = texts(language)
    small, normal = _sizes(projector)
    lines = [say("part5b.rule.caught"), say("part5b.rule.false_alarms")]
    x = alt.X(
        "threshold:Q",
        title=say("part5b.rule.sweep.axis"),
        scale=alt.Scale(domain=[0, 100], nice=False),
        axis=alt.Axis(values=[0, 25, 50, 75, 100], grid=False, labelExpr="datum.label + '%'"),
    )
    base = alt.Chart(alt.NamedData("points")).encode(
        x=x,
        y=alt.Y(
            "count:Q",
            title=None,
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=alt.Axis(tickMinStep=1, format="d", minExtent=3 * small),
        ),
        color=alt.Color(
            "line:N",
            scale=alt.Scale(domain=lines, range=[BLUE, ORANGE]),
            legend=alt.Legend(orient="top", title=None, labelFontSize=small, labelLimit=300),
        ),
        strokeDash=alt.StrokeDash(
            "line:N", scale=alt.Scale(domain=lines, range=[[1, 0], [6, 4]]), legend=None
        ),
    )
    now = (
        alt.Chart(alt.NamedData("now"))
        .mark_rule(color=GREY, strokeWidth=2)
        .encode(x=alt.X("threshold:Q"))
    )
    chart = (
        alt.layer(now, base.mark_line(strokeWidth=4 if projector else 2.5, interpolate="step"))
        .properties(
            height=320 if projector else 240,
            padding=PADDING,
            title=_title(say("part5b.rule.sweep", minutes=minutes), normal),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))
