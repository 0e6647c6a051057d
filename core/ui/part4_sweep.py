"""Part 4, strengths: the same attack from hardly anything to much, and at several targets."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from core.activities.attack import BASIC, MINIMAL, AttackSweepResult, SweepPoint
from core.engine.view import JobState, JobView
from core.texts import Texts
from core.ui.job_panel import current_job, job_panel, last_result, run_button
from core.ui.part4_charts import draw_sweep as draw_chart
from core.ui.part4_fool import draw_meter, time_of
from core.ui.part4_pictures import figure_html
from core.ui.part4_subject import (
    NETWORKS,
    draw_refusal,
    draw_slider,
    name_of,
    networks_here,
    pictures_of,
    ready,
    require_picture,
    subject_html,
    with_subject,
)
from core.ui.pixels import shaped, tiles_html
from core.ui.visitor import visitor

ACTIVITY = "attack-sweep"
SHOWN = ("0.5", "2", "8", "16")  # strengths whose pictures a job draws


def draw_sweep(say: Texts) -> None:
    """The tab: why, the button, the curve with its pictures, and the map of targets."""
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    words, controls = st.columns([3, 2], gap="large")
    words.markdown(say.prose("part4/sweep"))
    with controls, st.container(border=True):
        draw_run(ACTIVITY, "attack_sweep", ("steps",), job, say)
    if job is not None and job.state is not JobState.DONE:
        job_panel(ACTIVITY, job)
    if result is not None and (job is None or job.state.over):
        _draw_result(result, say)


def draw_run(
    activity: str, where: str, sliders: Sequence[str], job: JobView | None, say: Texts
) -> None:
    """What is attacked, a few sliders, and the button: the same in each tab but the first."""
    me = visitor()
    st.html(subject_html(say))
    for name in sliders:
        draw_slider(where, name, say, unit="/255" if name == "epsilon" else "")
    draw_refusal(say)
    if not networks_here():
        st.caption(say("part4.no_network.button"))
    elif not ready(me):
        st.caption(say("part4.own.first"))
    else:
        settings = getattr(me, where)
        if where == "attack_sweep":
            method = me.attack.method
            settings = type(settings)(
                steps=settings.steps, method=BASIC if method == MINIMAL else method
            )
        run_button(activity, with_subject(settings), job, admit=require_picture)


def _draw_result(job: JobView, say: Texts) -> None:
    values = shaped(job.result, AttackSweepResult)
    if values is None or not values.points:
        return
    target = name_of(values.points[0].target, say)
    st.header(say("part4.sweep.result", target=target), divider="blue")
    chart, told = st.columns([3, 2], gap="large")
    with chart:
        draw_chart(say, values.points, values.control, projector=visitor().projector)
    with told:
        st.html(tiles_html(figures(values, say)))
        st.markdown(say.prose("part4/sweep-read"))
    st.subheader(say("part4.sweep.pictures"))
    st.html(strip_html(values, pictures_of(job), say))
    st.header(say("part4.map"), divider="blue")
    st.html(map_html(values.map, say))
    st.caption(say("part4.map.read"))
    draw_meter(job, say)
    st.caption(
        say(
            "part4.sweep.measured_on",
            device=values.device_name,
            network=NETWORKS.get(values.model, values.model),
            method=say(f"part4.method.{values.method}"),
            steps=values.steps,
        )
    )


def figures(values: AttackSweepResult, say: Texts) -> list[tuple[str, str, float | None]]:
    """The weakest strength that fools, how many do, how many of random noise, and the time."""
    fooled = sum(point.fooled for point in values.points)
    by_noise = sum(point.fooled for point in values.control)
    weakest = (
        say("part4.sweep.none") if values.weakest is None else f"{say.number(values.weakest)}/255"
    )
    return [
        (say("part4.figure.weakest"), weakest, None),
        (
            say("part4.figure.fooled"),
            say("part4.of", some=fooled, all=len(values.points)),
            fooled / len(values.points),
        ),
        (
            say("part4.figure.by_noise"),
            say("part4.of", some=by_noise, all=len(values.control)),
            by_noise / max(1, len(values.control)),
        ),
        (say("part4.figure.all_time"), time_of(values.milliseconds, say), None),
    ]


def strip_html(values: AttackSweepResult, pictures: dict[str, bytes], say: Texts) -> str:
    """Some strengths as they look: from where on does the eye see anything?"""
    points = {f"{point.epsilon:g}": point for point in values.points}
    drawn = "".join(
        figure_html(
            pictures.get(f"strength-{name}"),
            f"{say.number(points[name].epsilon)}/255",
            say(
                "part4.sweep.fooled" if points[name].fooled else "part4.sweep.held",
                belief=say.percent(100 * points[name].confidence, digits=1),
            ),
        )
        for name in SHOWN
        if name in points
    )
    return f"<div class='p4-strip'>{drawn or html.escape(say('part4.pictures.gone'))}</div>"


def map_html(points: Sequence[SweepPoint], say: Texts) -> str:
    """One row a target, one column a strength: the deeper the colour, the surer the network."""
    strengths = sorted({point.epsilon for point in points})
    targets = list(dict.fromkeys(point.target for point in points))
    at = {(point.target, point.epsilon): point for point in points}
    head = "".join(f"<th scope='col'>{say.number(one)}/255</th>" for one in strengths)
    body = "".join(
        f"<tr><th scope='row'>{html.escape(name_of(target, say))}</th>"
        + "".join(_heat_html(at.get((target, strength)), say) for strength in strengths)
        + "</tr>"
        for target in targets
    )
    corner = html.escape(say("part4.map.target"))
    return (
        f"<div class='lab-table p4-heat'><table><thead><tr><th scope='col'>{corner}</th>{head}</tr>"
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _heat_html(point: SweepPoint | None, say: Texts) -> str:
    if point is None:
        return "<td></td>"
    mark = "✓ " if point.fooled else ""
    told = html.escape(mark + say.percent(100 * point.confidence))
    return f"<td style='{heat(point.confidence)}'>{told}</td>"


def heat(confidence: float) -> str:
    """The background of a cell, by a belief of 0 to 1; letters stay readable on both themes."""
    return f"background: rgba(217, 118, 10, {0.04 + 0.5 * min(1.0, max(0.0, confidence)):.2f})"
