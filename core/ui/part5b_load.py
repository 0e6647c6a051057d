"""Part 5b, a steady load of one's own: what a miner would look like on these meters."""

from __future__ import annotations

import streamlit as st
from msgspec.structs import replace

from core.activities.soc import SteadyLoadResult, SteadyLoadSettings
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.telemetry.readings import SummaryRow
from core.texts import Texts
from core.ui import charts, replays, resources
from core.ui.job_panel import current_job, job_panel, last_result, run_button
from core.ui.panels import Host
from core.ui.part4_fool import draw_meter
from core.ui.pixels import shaped, tiles_html
from core.ui.visitor import visitor

ACTIVITY = "steady-load"
SLIDERS = ("seconds", "percent")


def draw_load(say: Texts) -> None:
    """Why, two sliders, the run, and what the meters saw of it."""
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    words, controls = st.columns([3, 2], gap="large")
    words.markdown(say.prose("part5b/load"))
    with controls, st.container(border=True):
        for name in SLIDERS:
            _draw_slider(name, say)
        run_button(ACTIVITY, visitor().steady_load, job)
    if job is not None and job.state is not JobState.DONE:
        job_panel(ACTIVITY, job)
    if result is not None and (job is None or job.state.over):
        _draw_result(result, say)
    _draw_replays(say)


def _draw_slider(name: str, say: Texts) -> None:
    limit = SteadyLoadSettings.limits()[name]
    key = f"soc-load-{name}"
    st.session_state[key] = getattr(visitor().steady_load, name)
    percent = name == "percent"
    st.slider(
        say(f"part5b.load.{name}"),
        limit.low,
        limit.high,
        step=limit.step,
        key=key,
        format="%d%%" if percent else "%d s",
        help=say("part5b.load.percent.help") if percent else None,
        on_change=_slid,
        args=(name, key),
    )


def _slid(name: str, key: str) -> None:
    me = visitor()
    try:
        me.steady_load = replace(me.steady_load, **{name: st.session_state[key]})
    except Problem:  # a forged widget value: the slider goes back to what was
        return


def _draw_result(job: JobView, say: Texts) -> None:
    values = shaped(job.result, SteadyLoadResult)
    if values is None or not job.rows:
        return
    st.header(say("part5b.load.result"), divider="blue")
    st.html(tiles_html(figures(values, job.rows[0], say)))
    draw_meter(job, say)
    st.caption(_measured_on(values, say))


def figures(
    values: SteadyLoadResult, row: SummaryRow, say: Texts
) -> list[tuple[str, str, float | None]]:
    """How busy it was, by its own clock and by the meters, and what an hour of it would cost."""
    tiles: list[tuple[str, str, float | None]] = [
        (say("part5b.load.busy"), say.percent(values.busy_percent), values.busy_percent / 100)
    ]
    if row.gpu_percent_mean is not None:
        mean = row.gpu_percent_mean
        tiles.append((say("part5b.load.gpu"), say.percent(mean), mean / 100))
    if row.cpu_percent_mean is not None:
        tiles.append((say("part5b.load.cpu"), say.percent(row.cpu_percent_mean), None))
    if row.energy_wh is not None and row.seconds > 0:
        hour = row.energy_wh * 3600 / row.seconds
        tiles.append((say("part5b.load.energy"), say("part5b.load.wh", value=round(hour)), None))
    tiles.append((say("part5b.load.products"), say.number(values.products), None))
    return tiles


def _measured_on(values: SteadyLoadResult, say: Texts) -> str:
    return say(
        "part5b.load.measured_on",
        device=values.device_name,
        side=values.side,
        percent=values.percent,
    )


def _draw_replays(say: Texts) -> None:
    """The same load on other machines, as far as it was recorded there."""
    recorded = [
        (replay, values)
        for replay in resources.recordings(ACTIVITY)
        if (values := shaped(replay.values, SteadyLoadResult)) is not None
    ]
    if not recorded:
        return
    st.header(say("part5b.load.recorded"), divider="blue")
    for place, (replay, values) in enumerate(recorded):
        replays.draw_badge(replay, say)
        st.html(tiles_html(figures(values, replay.rows[0], say)))
        host = Host(replay.machine, replays.card_in(replay), threads=None)
        charts.draw_overlay(
            say,
            replay.recordings,
            host,
            key=f"replay-{ACTIVITY}-{place}-{replay.made_at}",
            projector=visitor().projector,
        )
        st.caption(_measured_on(values, say))
