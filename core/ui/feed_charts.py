"""Charts of Part 2b: how fast each way is, and where the time of its steps goes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import altair as alt
import streamlit as st

from core.activities.feed_gpu import FeedGpuSettings, TimeLine, WayResult
from core.texts import Texts, texts
from core.ui.charts import number_label
from core.ui.panels import COLOURS

WAYS = tuple(
    name for name in FeedGpuSettings.limits() if name not in ("batch", "images", "seed")
)  # in the order of the lesson
WORK = {
    "load": "#d9760a",
    "upload": "#c2659a",
    "launch": "#2e86de",
    "wait": "#a9afb9",
    "step": "#1a9c74",
}
GREY = "#828a96"  # read on both themes
LANES = ("cpu", "gpu")
FRAME = 60  # pixels that a title and an axis take of a chart's height
PADDING = {"left": 0, "top": 6, "right": 16, "bottom": 6}  # no accent is cut off
MAX_SPANS = 600  # in one chart; more would not be told apart


def colour_of(way: str) -> str:
    """The colour of a way in every chart of this page."""
    return COLOURS[WAYS.index(way) % len(COLOURS)] if way in WAYS else COLOURS[-1]


# How fast


def draw_speeds(say: Texts, ways: Sequence[WayResult], *, projector: bool) -> None:
    """Images a second as bars, the slowest and the fastest repeat as a thin line over them."""
    rows = [
        {
            "way": say(f"section.{way.way}"),
            "speed": way.images_per_second,
            "low": way.images / way.seconds_high if way.seconds_high > 0 else None,
            "high": way.images / way.seconds_low if way.seconds_low > 0 else None,
            "label": say.number(round(way.images_per_second)),
        }
        for way in ways
    ]
    spec = speed_spec(
        tuple(way.way for way in ways),
        top=stair(max(way.images_per_second for way in ways)),
        language=say.language,
        projector=projector,
    )
    told = "; ".join(f"{row['way']}: {row['label']}" for row in rows)
    st.vega_lite_chart(
        {**spec, "datasets": {"ways": rows}}, alt=f"{say('part2b.speeds.alt')} {told}."
    )


def stair(value: float) -> float:
    """The end of an axis: 1, 2 or 5 times a power of ten, with room for a label after the bar."""
    size = 1.0
    while size * 10 <= value:
        size *= 10
    return next(size * times for times in (1.5, 2, 3, 4, 5, 7, 10, 15) if size * times > value)


@functools.lru_cache(maxsize=64)
def speed_spec(
    ways: tuple[str, ...], *, top: float, language: str, projector: bool
) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `ways`; not to be changed."""
    say = texts(language)
    small, normal = (17, 19) if projector else (12, 13)
    names = [say(f"section.{way}") for way in ways]
    base = alt.Chart(alt.NamedData("ways")).encode(
        y=alt.Y(
            "way:N",
            sort=names,
            title=None,
            axis=alt.Axis(labelLimit=400, ticks=False, domain=False, labelPadding=8),
            scale=alt.Scale(paddingInner=0.3, paddingOuter=0.15),
        )
    )
    axis = alt.Axis(tickCount=4 if projector else 6, labelExpr=number_label(language))
    scale = alt.Scale(domain=[0, top], nice=False)
    bars = base.mark_bar(cornerRadiusEnd=4).encode(
        x=alt.X("speed:Q", title=None, axis=axis, scale=scale),
        color=alt.Color(
            "way:N",
            legend=None,
            scale=alt.Scale(domain=names, range=[colour_of(way) for way in ways]),
        ),
    )
    spread = base.mark_rule(color=GREY, strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    ends = base.mark_text(align="left", dx=8, fontSize=normal, fontWeight=600, color=GREY).encode(
        x=alt.X("high:Q"), text="label:N"
    )
    chart = (
        alt.layer(bars, spread, ends)
        .properties(
            padding=PADDING,
            height=len(ways) * (44 if projector else 30) + FRAME,
            title=_title(say("part2b.speeds.title"), normal),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_axisY(labelFontSize=normal)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))


# Where the time goes


def draw_timelines(say: Texts, timelines: Sequence[TimeLine], *, projector: bool) -> None:
    """Some steps of each way as they were measured: a CPU lane over a GPU lane, one scale."""
    rows = timeline_rows(say, timelines)
    if not rows:
        return
    spans = [span for line in timelines for span in line.spans]
    spec = timeline_spec(
        tuple(line.way for line in timelines if line.spans),
        lanes=tuple(lane for lane in LANES if any(span.lane == lane for span in spans)),
        kinds=tuple(kind for kind in WORK if any(span.what == kind for span in spans)),
        end=max(float(str(row["end"])) for row in rows),
        language=say.language,
        projector=projector,
    )
    st.vega_lite_chart({**spec, "datasets": {"spans": rows}}, alt=say("part2b.timeline.alt"))


def timeline_rows(say: Texts, timelines: Sequence[TimeLine]) -> list[dict[str, object]]:
    """One row a span; `lane` names the way and the lane, in milliseconds from the way's start."""
    shown = max(1, MAX_SPANS // max(1, len(timelines)))
    return [
        {
            "lane": _lane(line.way, span.lane, say),
            "what": say(f"part2b.work.{span.what}"),
            "start": span.start_ms,
            "end": span.end_ms,
        }
        for line in timelines
        for span in line.spans[:shown]
        if span.what in WORK and span.lane in LANES
    ]


@functools.lru_cache(maxsize=64)
def timeline_spec(
    ways: tuple[str, ...],
    *,
    lanes: tuple[str, ...],
    kinds: tuple[str, ...],
    end: float,
    language: str,
    projector: bool,
) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `spans`; not to be changed."""
    say = texts(language)
    small, normal = (17, 19) if projector else (12, 13)
    domain: list[str] = []
    for way in ways:
        domain += [*(_lane(way, lane, say) for lane in lanes), f"{way}|"]  # and a gap
    chart = (
        alt.Chart(alt.NamedData("spans"))
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y(
                "lane:N",
                title=None,
                scale=alt.Scale(domain=domain[:-1], paddingInner=0.12, paddingOuter=0.05),
                axis=alt.Axis(
                    labelExpr="split(datum.label, '|')[1]",
                    labelLimit=400,
                    labelOverlap=False,
                    labelPadding=8,
                    ticks=False,
                    domain=False,
                ),
            ),
            x=alt.X(
                "start:Q",
                title=say("part2b.timeline.axis"),
                scale=alt.Scale(domain=[0, end], nice=False),
                axis=alt.Axis(tickCount=5 if projector else 8, labelExpr=number_label(language)),
            ),
            x2="end:Q",
            color=alt.Color(
                "what:N",
                scale=alt.Scale(
                    domain=[say(f"part2b.work.{kind}") for kind in kinds],
                    range=[WORK[kind] for kind in kinds],
                ),
                legend=alt.Legend(orient="top", title=None, labelFontSize=normal, labelLimit=300),
            ),
        )
        .properties(
            padding=PADDING,
            height=len(domain) * (27 if projector else 19) + 2 * FRAME,
            title=_title(say("part2b.timeline.title"), normal),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_axisY(labelFontSize=normal)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))


def _lane(way: str, lane: str, say: Texts) -> str:
    """Unique for the way; what stands after the bar is shown."""
    name = f"{say(f'section.{way}')} · " if lane == LANES[0] else ""
    return f"{way}|{name}{lane.upper()}"


def _title(text: str, size: int) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=size, fontWeight=600, offset=8)
