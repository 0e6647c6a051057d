"""Charts of Part 4: the belief in the target step by step, top-5 guesses, and a sweep of strengths.

Built as `core.ui.charts` are: one fixed spec a chart with fixed axes, and the data apart from it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import altair as alt
import numpy as np
import streamlit as st

from core.activities.attack import STRENGTHS, SweepPoint
from core.texts import Texts, texts
from core.ui.charts import number_label
from core.ui.learning_charts import arrow_bytes
from core.ui.panels import BLUE, ORANGE

GREY = "#828a96"  # read on both themes
PADDING = {"left": 0, "top": 6, "right": 16, "bottom": 4}
KINDS = {"target": ORANGE, "source": BLUE, "other": GREY}  # of a guess
HEIGHT = 230  # pixels
FRAME = 62  # of these, what a title and an axis take


def _sizes(projector: bool) -> tuple[int, int]:
    """Of small and of normal letters."""
    return (17, 19) if projector else (12, 13)


def _title(text: str, size: int) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=size, fontWeight=600, offset=8)


def _percent_axis(small: int) -> alt.Axis:
    return alt.Axis(values=[0, 25, 50, 75, 100], labelExpr="datum.label + '%'", minExtent=3 * small)


def _finished(chart: alt.LayerChart | alt.FacetChart, small: int) -> dict[str, Any]:
    made = chart.configure_axis(labelFontSize=small, titleFontSize=small).configure_view(
        stroke=None
    )
    return cast(dict[str, Any], made.to_dict(validate=False))


# Step by step


def draw_beliefs(say: Texts, beliefs: Sequence[float], steps: int, *, projector: bool) -> None:
    """The belief in the target: of the original at step 0, then after each step."""
    spec = belief_spec(steps, language=say.language, projector=projector)
    shown = np.asarray(beliefs[: steps + 1], dtype=np.float64)
    table = arrow_bytes({"t": np.arange(len(shown), dtype=np.float64), "belief": 100 * shown})
    last = say.percent(100 * beliefs[-1], digits=1) if beliefs else "…"
    st.vega_lite_chart(
        {**spec, "datasets": {"run": table}},
        alt=say("part4.beliefs.alt", steps=steps, last=last),
    )


@functools.lru_cache(maxsize=64)
def belief_spec(steps: int, *, language: str, projector: bool) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `run`; not to be changed."""
    say = texts(language)
    small, normal = _sizes(projector)
    base = alt.Chart(alt.NamedData("run")).encode(
        x=alt.X(
            "t:Q",
            title=say("part4.beliefs.axis"),
            scale=alt.Scale(domain=[0, steps], nice=False),
            axis=alt.Axis(tickMinStep=1, tickCount=5, grid=False, format="d"),
        ),
        y=alt.Y(
            "belief:Q",
            title=None,
            scale=alt.Scale(domain=[0, 100], nice=False),
            axis=_percent_axis(small),
        ),
    )
    chart = alt.layer(
        base.mark_area(color=ORANGE, opacity=0.16, clip=True),
        base.mark_line(color=ORANGE, strokeWidth=4 if projector else 2.5, clip=True),
        base.mark_point(color=ORANGE, filled=True, size=30, opacity=1),
    ).properties(
        height=HEIGHT * 4 // 3 if projector else HEIGHT,
        padding=PADDING,
        title=_title(say("part4.beliefs.title"), normal),
    )
    return _finished(chart, small)


# The five best guesses


def draw_guesses(
    say: Texts,
    when: str,
    guesses: Sequence[tuple[str, float]],
    kinds: Sequence[str],
    *,
    projector: bool,
) -> None:
    """Name and belief (0 to 1) of each as bars; `when` is "before" or "after"."""
    names = tuple(name for name, _ in guesses)
    rows = [
        {
            "place": place,
            "belief": 100 * belief,
            "kind": kind,
            "label": say.percent(100 * belief, digits=1),
        }
        for place, ((_, belief), kind) in enumerate(zip(guesses, kinds, strict=True))
    ]
    told = "; ".join(f"{name} {row['label']}" for name, row in zip(names, rows, strict=True))
    spec = guess_spec(names, when, language=say.language, projector=projector)
    st.vega_lite_chart(
        {**spec, "datasets": {"guesses": rows}}, alt=f"{say(f'part4.guesses.{when}')}: {told}."
    )


@functools.lru_cache(maxsize=128)
def guess_spec(
    names: tuple[str, ...], when: str, *, language: str, projector: bool
) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `guesses`; not to be changed."""
    say = texts(language)
    small, normal = _sizes(projector)
    lookup = " : ".join(
        f"datum.value == {place} ? {_quoted(name)}" for place, name in enumerate(names)
    )
    base = alt.Chart(alt.NamedData("guesses")).encode(
        y=alt.Y(
            "place:O",
            title=None,
            axis=alt.Axis(
                labelExpr=f"{lookup} : ''" if names else "''",
                labelLimit=230,
                labelOverlap=False,
                labelPadding=8,
                ticks=False,
                domain=False,
                minExtent=9 * normal,
            ),
            scale=alt.Scale(paddingInner=0.3, paddingOuter=0.1),
        ),
        x=alt.X(
            "belief:Q",
            title=None,
            scale=alt.Scale(domain=[0, 118], nice=False),  # room for a label after a full bar
            axis=alt.Axis(values=[0, 50, 100], labelExpr="datum.label + '%'"),
        ),
    )
    bars = base.mark_bar(cornerRadiusEnd=4).encode(
        color=alt.Color(
            "kind:N",
            legend=None,
            scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())),
        )
    )
    ends = base.mark_text(align="left", dx=6, fontSize=normal, fontWeight=600, color=GREY).encode(
        text="label:N"
    )
    chart = alt.layer(bars, ends).properties(
        height=max(1, len(names)) * (40 if projector else 27) + FRAME,
        padding=PADDING,
        title=_title(say(f"part4.guesses.{when}"), normal),
    )
    return _finished(chart, small)


def _quoted(text: str) -> str:
    """As a Vega expression writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# Strengths


def draw_sweep(
    say: Texts,
    points: Sequence[SweepPoint],
    control: Sequence[SweepPoint],
    *,
    projector: bool,
) -> None:
    """Belief against strength: of the attack and of random noise. A full point has fooled."""
    rows = [
        {
            "epsilon": point.epsilon,
            "belief": 100 * point.confidence,
            "line": say(f"part4.sweep.{line}"),
            "fooled": point.fooled,
        }
        for line, some in (("attack", points), ("noise", control))
        for point in some
    ]
    told = "; ".join(
        say(
            "part4.sweep.told",
            epsilon=point.epsilon,
            belief=say.percent(100 * point.confidence, digits=1),
            verdict=say("part4.yes" if point.fooled else "part4.no"),
        )
        for point in points
    )
    st.vega_lite_chart(
        {**sweep_spec(language=say.language, projector=projector), "datasets": {"points": rows}},
        alt=f"{say('part4.sweep.chart')}. {told}.",
    )


@functools.lru_cache(maxsize=16)
def sweep_spec(*, language: str, projector: bool) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `points`; not to be changed."""
    say = texts(language)
    small, normal = _sizes(projector)
    lines = [say("part4.sweep.attack"), say("part4.sweep.noise")]
    base = alt.Chart(alt.NamedData("points")).encode(
        x=alt.X(
            "epsilon:Q",
            title=say("part4.sweep.axis"),
            scale=alt.Scale(domain=[0, STRENGTHS[-1]], nice=False),
            axis=alt.Axis(
                values=[0, 1, 2, 4, 6, 8, 10, 12, 16],
                grid=False,
                labelExpr=number_label(language),
            ),
        ),
        y=alt.Y(
            "belief:Q",
            title=None,
            scale=alt.Scale(domain=[0, 100], nice=False),
            axis=_percent_axis(small),
        ),
        color=alt.Color(
            "line:N",
            scale=alt.Scale(domain=lines, range=[ORANGE, GREY]),
            legend=alt.Legend(
                orient="top", title=None, labelFontSize=small, symbolType="circle", labelLimit=400
            ),
        ),
    )
    chart = alt.layer(
        base.mark_line(strokeWidth=4 if projector else 2.5),
        base.mark_point(size=95 if not projector else 160, strokeWidth=2, opacity=1).encode(
            fillOpacity=alt.condition("datum.fooled", alt.value(1), alt.value(0)),
            fill=alt.Fill(
                "line:N", scale=alt.Scale(domain=lines, range=[ORANGE, GREY]), legend=None
            ),
        ),
    ).properties(
        height=420 if projector else 330,
        padding=PADDING,
        title=_title(say("part4.sweep.chart"), normal),
    )
    return _finished(chart, small)
