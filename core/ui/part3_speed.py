"""Part 3, how fast it can go: a ladder of ways to draw, and what one shared copy saves."""

from __future__ import annotations

import functools
import html
from collections.abc import Sequence
from typing import Any, cast

import altair as alt
import streamlit as st

from core.activities.make_images import ImageSpeedResult, ImageSpeedSettings, Rung
from core.engine.view import JobView
from core.models.image_models import ImageModel
from core.recordings import Replay
from core.texts import Texts, texts
from core.ui import replays, resources
from core.ui.charts import number_label
from core.ui.feed_charts import FRAME, GREY, PADDING, stair
from core.ui.job_panel import current_job, job_panel, last_result, run_button
from core.ui.panels import COLOURS
from core.ui.pixels import shaped, tiles_html
from core.ui.visitor import visitor

ACTIVITY = "image-speed"
STUDENTS = 20  # of the class in the example
FASTER = 1.05  # times the plain way; less is within the noise of a busy machine


def draw_speed(model: ImageModel | None, say: Texts) -> None:
    """The tab: why, the button, the ladder with its chart, and the sum for a class."""
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    running = job is not None and not job.state.over
    words, controls = st.columns([3, 2], gap="large")
    words.markdown(say.prose("part3/speed"))
    with controls, st.container(border=True):
        st.caption(say("part3.speed.what"))
        if model is None:
            st.caption(say("part3.none.button"))
        else:
            run_button(ACTIVITY, ImageSpeedSettings(model=model.id), job)
    if model is not None or job is not None:
        job_panel(ACTIVITY, job)
    if result is not None and not running:
        _draw_result(result, say)
    _draw_replays(say)


def _draw_result(job: JobView, say: Texts) -> None:
    values = shaped(job.result, ImageSpeedResult)
    if values is None or not values.rungs:
        return
    st.header(say("part3.speed.result"), divider="blue")
    _draw_ladder(values, say)
    st.header(say("part3.share"), divider="blue")
    _draw_share(values, say)


def _draw_ladder(values: ImageSpeedResult, say: Texts) -> None:
    draw_chart(say, values.rungs, projector=visitor().projector)
    st.html(ladder_html(values.rungs, say))
    notes = [
        say("part3.speed.skipped", way=say(f"part3.rung.{name}"), why=say(reason))
        for name, reason in values.skipped.items()
    ]
    notes.append(say("part3.measured_on", device=values.device_name, model=values.model))
    st.caption("  \n".join(notes))


# What sharing saves


def best(rungs: Sequence[Rung]) -> Rung:
    return max(rungs, key=lambda rung: rung.pictures_per_second)


def _draw_share(values: ImageSpeedResult, say: Texts) -> None:
    fastest = best(values.rungs)
    a_second = fastest.pictures_per_second
    copies = STUDENTS * values.copy_mib
    st.html(
        tiles_html(
            [
                (say("part3.share.copy"), say.mib(values.copy_mib), None),
                (say("part3.share.copies", n=STUDENTS), say.mib(copies), None),
                (say("part3.share.speed"), say.number(a_second), None),
                (say("part3.share.wait", n=STUDENTS), say.seconds(STUDENTS / a_second), None),
            ]
        )
    )
    st.markdown(
        say(
            "part3.share.told",
            n=STUDENTS,
            speed=say.number(a_second),
            way=say(f"part3.rung.{fastest.name}"),
            batch=fastest.batch,
            copies=say.mib(copies),
            copy=say.mib(values.copy_mib),
        )
    )
    st.markdown(say.prose("part3/share"))


# The ladder


def ladder_html(rungs: Sequence[Rung], say: Texts) -> str:
    """One row a way and batch: its time with the spread, its speed, and how far pictures differ."""
    columns = ("way", "batch", "ms", "spread", "speed", "times", "difference")
    head = "".join(
        f"<th scope='col'>{html.escape(say(f'part3.speed.{name}'))}</th>" for name in columns
    )
    plain = {rung.batch: rung.pictures_per_second for rung in rungs if rung.name == "plain"}
    body = ""
    for rung in rungs:
        times = rung.pictures_per_second / plain[rung.batch] if plain.get(rung.batch) else None
        cells = (
            say.number(rung.batch),
            say.ms(rung.ms_median),
            f"{say.number(rung.ms_low)}–{say.number(rung.ms_high)}",
            say.number(rung.pictures_per_second),
            "" if times is None else say("part1.times", times=say.number(times, digits=2)),
            say.percent(100 * rung.difference, digits=2) if rung.name != "plain" else "",
        )
        name = html.escape(say(f"part3.rung.{rung.name}"))
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        faster = " class='faster'" if times is not None and times > FASTER else ""
        body += f"<tr{faster}><th scope='row'>{name}</th>{row}</tr>"
    return (
        f"<div class='lab-table'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def draw_chart(say: Texts, rungs: Sequence[Rung], *, projector: bool) -> None:
    """Pictures a second as bars, each way beside the plain one."""
    rows = [
        {
            "way": bar_label(rung, say),
            "speed": rung.pictures_per_second,
            "label": say.number(rung.pictures_per_second),
            "batch": f"{rung.batch}",
        }
        for rung in rungs
    ]
    spec = chart_spec(
        tuple(str(row["way"]) for row in rows),
        tuple(sorted({rung.batch for rung in rungs})),
        top=stair(max(rung.pictures_per_second for rung in rungs)),
        language=say.language,
        projector=projector,
    )
    told = "; ".join(f"{row['way']}: {row['label']}" for row in rows)
    st.vega_lite_chart(
        {**spec, "datasets": {"rungs": rows}}, alt=f"{say('part3.speed.chart')} {told}."
    )


def bar_label(rung: Rung, say: Texts) -> str:
    return f"{say(f'part3.rung.{rung.name}')} · {say('part3.speed.batch')} {rung.batch}"


@functools.lru_cache(maxsize=64)
def chart_spec(
    ways: tuple[str, ...],
    batches: tuple[int, ...],
    *,
    top: float,
    language: str,
    projector: bool,
) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `rungs`; not to be changed."""
    say = texts(language)
    small, normal = (17, 19) if projector else (12, 13)
    base = alt.Chart(alt.NamedData("rungs")).encode(
        y=alt.Y(
            "way:N",
            sort=list(ways),
            title=None,
            axis=alt.Axis(labelLimit=420, ticks=False, domain=False, labelPadding=8),
            scale=alt.Scale(paddingInner=0.3, paddingOuter=0.15),
        ),
        x=alt.X(
            "speed:Q",
            title=None,
            axis=alt.Axis(tickCount=4 if projector else 6, labelExpr=number_label(language)),
            scale=alt.Scale(domain=[0, top], nice=False),
        ),
    )
    bars = base.mark_bar(cornerRadiusEnd=4).encode(
        color=alt.Color(
            "batch:N",
            legend=None,
            scale=alt.Scale(
                domain=[str(batch) for batch in batches],
                range=[COLOURS[place % len(COLOURS)] for place in range(len(batches))],
            ),
        )
    )
    ends = base.mark_text(align="left", dx=8, fontSize=normal, fontWeight=600, color=GREY).encode(
        text="label:N"
    )
    title = alt.TitleParams(
        say("part3.speed.chart"), anchor="start", fontSize=normal, fontWeight=600, offset=8
    )
    chart = (
        alt.layer(bars, ends)
        .properties(
            padding=PADDING,
            height=len(ways) * (42 if projector else 28) + FRAME,
            title=title,
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_axisY(labelFontSize=normal)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))


# Runs on other machines


def _draw_replays(say: Texts) -> None:
    recorded = [
        (replay, values)
        for replay in resources.recordings(ACTIVITY)
        if (values := shaped(replay.values, ImageSpeedResult)) is not None and values.rungs
    ]
    if not recorded:
        return
    with st.expander(say("part1.replays.compare"), icon=":material/videocam:"):
        for replay, values in recorded:
            _draw_replay(replay, values, say)


def _draw_replay(replay: Replay, values: ImageSpeedResult, say: Texts) -> None:
    replays.draw_badge(replay, say)
    _draw_ladder(values, say)
