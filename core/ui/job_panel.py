"""Run, watch and cancel one activity: what every part with a job has on its page.

The page looks, the engine works. While a job is unfinished, one fragment ticks once a second and
draws the newest view; when the job ends, it asks for one full run, so that the page shows the
result and the ticking ends.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.activities import ActivitySettings
from core.context import PAUSE_SECONDS, Wish
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.telemetry.readings import Gpu
from core.texts import Texts, texts
from core.ui import charts, resources
from core.ui.panels import Host
from core.ui.visitor import visitor

TICK_SECONDS = 1.0

Draw = Callable[[JobView, Texts], None]  # what a part adds to the look at its running job


def current_job(activity: str) -> JobView | None:
    """The newest job of this visitor: the engine's, or from the records after a server restart."""
    student = visitor().token
    job = resources.engine().latest(student, activity)
    return job if job is not None else resources.records().latest(student, activity)


def last_result(activity: str, job: JobView | None) -> JobView | None:
    """The newest job with a result: `job`, or an earlier one if that was stopped or failed."""
    if job is not None and job.state is JobState.DONE:
        return job
    return resources.records().latest(visitor().token, activity, state=JobState.DONE)


def run_button(
    activity: str,
    settings: ActivitySettings,
    job: JobView | None,
    *,
    admit: Callable[[], None] | None = None,
    label: str = "",
) -> None:
    """Hands a job to the engine. Harmless when pressed twice: the engine has one job of a kind.

    `admit` is asked first, and raises Problem with the reason where the job may not be run.
    `label` says what is run, where "Run" alone would not.
    """
    me = visitor()
    say = texts(me.language)
    running = job is not None and not job.state.over
    again = job is not None and job.state.over
    pressed = st.button(
        label or say("panel.run_again" if again else "panel.run"),
        type="primary",
        icon=":material/play_arrow:",
        key=f"run-{activity}",
        disabled=running,
    )
    if not pressed:
        return
    try:
        if admit is not None:
            admit()
        resources.engine().submit(me.token, activity, settings)
    except Problem as problem:
        st.warning(say.notice(problem.notice), icon=":material/info:")
    else:
        st.rerun()  # the button and the panel above and below it follow at once


def job_panel(
    activity: str,
    job: JobView | None,
    *,
    head: Draw | None = None,
    extra: Draw | None = None,
    steerable: bool = False,
    tick_seconds: float = TICK_SECONDS,
) -> None:
    """The job as it stands: place in the queue, progress and gauges, or how it ended.

    `head` draws what stands above all this, whatever the state of the job.
    `extra` draws what is the activity's own, above the gauges of a running job. A job that is
    `steerable` can be paused, and ended with what it has. A job of a second or two is
    looked at more often: `tick_seconds`.
    """
    ticking = job is not None and not job.state.over
    tick = st.fragment(_tick, run_every=tick_seconds if ticking else None)
    tick(activity, ticking, head, extra, steerable)


def _tick(
    activity: str, ticking: bool, head: Draw | None, extra: Draw | None, steerable: bool
) -> None:
    me = visitor()
    say = texts(me.language)
    if ticking:
        resources.engine().seen(me.token)
    job = current_job(activity)
    if ticking and (job is None or job.state.over):
        st.rerun()  # the whole page: it has a result to show now, and no more need to tick
    if head is not None and job is not None:
        head(job, say)
    draw_job(job, say, projector=me.projector, extra=extra, steerable=steerable)


def draw_job(
    job: JobView | None,
    say: Texts,
    *,
    projector: bool,
    extra: Draw | None = None,
    steerable: bool = False,
) -> None:
    """One look at a job, whatever its state."""
    if job is None:
        st.info(say("panel.nothing_yet"), icon=":material/touch_app:")
        return
    match job.state:
        case JobState.QUEUED:
            _draw_queued(job, say)
        case JobState.RUNNING | JobState.STOPPING:
            _draw_progress(job, say, steerable=steerable)
            if extra is not None:
                extra(job, say)
            host = Host(resources.machine(), card_of(job), resources.lab_settings().cpu_threads)
            charts.draw_live(say, job.id, job.readings, job.absences, host, projector=projector)
        case JobState.DONE:
            st.success(say("panel.done"), icon=":material/check_circle:")
        case JobState.STOPPED:
            st.info(say("panel.stopped"), icon=":material/stop_circle:")
        case JobState.FAILED:
            st.error(failure_sentence(job, say), icon=":material/error:")


def failure_sentence(job: JobView, say: Texts) -> str:
    """What went wrong and what to do, without a traceback."""
    what = say.notice(job.problem) if job.problem is not None else say("panel.failed")
    return f"{what} {say('panel.failed_next')}"


def _draw_queued(job: JobView, say: Texts) -> None:
    place = say("panel.queued", place=job.place) if job.place else say("panel.queued_soon")
    wait = (
        say("panel.wait", wait=about(job.wait_seconds, say)) if job.wait_seconds is not None else ""
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"{place} {wait}".strip(), icon=":material/hourglass_top:")
        _cancel_button(job, say)


def _draw_progress(job: JobView, say: Texts, *, steerable: bool) -> None:
    if not steerable:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.progress(progress_share(job), text=progress_text(job, say))
            _cancel_button(job, say)
        return
    left, right = st.columns([1, 1], vertical_alignment="center")
    left.progress(progress_share(job), text=progress_text(job, say))
    with right.container(horizontal=True, horizontal_alignment="right"):
        _pause_button(job, say)
        _finish_button(job, say)
        _cancel_button(job, say)


def _pause_button(job: JobView, say: Texts) -> None:
    wish = Wish.RESUME if job.paused else Wish.PAUSE
    st.button(
        say(f"panel.{wish}"),
        icon=":material/play_arrow:" if job.paused else ":material/pause:",
        type="primary" if job.paused else "secondary",
        key=f"pause-{job.activity}",
        disabled=job.state is JobState.STOPPING,
        on_click=lambda: resources.engine().steer(job.id, wish, student=job.student),
    )


def _finish_button(job: JobView, say: Texts) -> None:
    st.button(
        say("panel.finish"),
        icon=":material/save:",
        key=f"finish-{job.activity}",
        disabled=job.state is JobState.STOPPING,
        help=say("panel.finish.help"),
        on_click=lambda: resources.engine().steer(job.id, Wish.FINISH, student=job.student),
    )


def _cancel_button(job: JobView, say: Texts) -> None:
    stopping = job.state is JobState.STOPPING
    st.button(
        say("panel.stopping" if stopping else "panel.cancel"),
        icon=":material/stop:",
        key=f"cancel-{job.activity}",
        disabled=stopping,
        on_click=lambda: resources.engine().cancel(job.id, student=job.student),
    )


def progress_share(job: JobView) -> float:
    """0 to 1, whatever the counts say."""
    return min(1.0, max(0.0, job.done / job.total)) if job.total > 0 else 0.0


def progress_text(job: JobView, say: Texts) -> str:
    """`Warming up · step 37 of 200 · about 12 s left`, as far as it is known."""
    if job.state is JobState.STOPPING:
        return say("panel.stopping_text")
    if job.paused:
        return say("panel.paused", minutes=round(PAUSE_SECONDS / 60))
    parts = [say(job.stage) if job.stage else say("panel.starting")]
    if job.total > 0:
        parts.append(say("panel.progress", done=job.done, total=job.total))
    if job.seconds_left is not None:
        parts.append(say("panel.left", left=about(job.seconds_left, say)))
    return " · ".join(parts)


def about(seconds: float, say: Texts) -> str:
    """An estimate: whole seconds, because a decimal would claim too much."""
    whole = max(1, round(seconds))
    return say("unit.seconds", value=whole) if whole < 60 else say.seconds(whole)


def card_of(job: JobView) -> Gpu | None:
    """The card that the job runs on, as the machine lists it."""
    return next((gpu for gpu in resources.machine().gpus if gpu.uuid == job.device), None)
