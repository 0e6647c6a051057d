"""Part 6: leave nothing behind, and take five rules with you."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.engine.holdings import Holdings
from core.engine.local import delete_kept
from core.problems import Problem
from core.texts import Texts, texts
from core.ui import charts, resources
from core.ui.part6_hand import draw_hand
from core.ui.part6_held import (
    change_html,
    left_of,
    outcome_lines,
    own_html,
    settled,
    workers_html,
)
from core.ui.visitor import Visitor, start_afresh, visitor

STYLE = Path(__file__).with_name("part6.css")
TICK_SECONDS = 2.0
SOON_SECONDS = 0.5  # while memory is on its way back, or a reset waits for a job to end
RESET_DONE = "part6-reset-done"  # key: a notice to be shown once


def draw() -> None:
    """The whole page, for whoever is looking."""
    me = visitor()
    say = texts(me.language)
    charts.draw_style()
    st.html(STYLE)
    st.title(say("part6.title"))
    st.badge(say("part6.badge"), icon=":material/pin_drop:", color="blue")
    if st.session_state.pop(RESET_DONE, False):
        st.success(say("part6.reset.done"), icon=":material/check_circle:")
    st.markdown(say.prose("part6/intro"))
    st.header(say("part6.held"), divider="blue")
    waiting = me.before_giving is not None and me.after_giving is None
    st.fragment(_held, run_every=SOON_SECONDS if waiting else TICK_SECONDS)(waiting)
    idle = resources.lab_settings().idle_seconds
    with st.container(border=True):
        st.subheader(say("part6.idle.title"))
        st.markdown(say("part6.idle.now", idle=length(idle, say)))
        st.markdown(say.prose("part6/idle"))
    st.header(say("part6.hand.title"), divider="blue")
    st.fragment(draw_hand)(say)
    st.header(say("part6.reset.title"), divider="blue")
    st.fragment(_reset, run_every=SOON_SECONDS if me.resetting else None)()


def length(seconds: float, say: Texts) -> str:
    """`10 phút`, and not `10 phút 0 s`."""
    minutes, rest = divmod(seconds, 60)
    return say.seconds(seconds) if rest else say.count("part6.minutes", round(minutes))


# What is held, and giving it back


def _held(waiting: bool) -> None:
    me = visitor()
    say = texts(me.language)
    now = resources.engine().holdings(me.token)
    if waiting and me.before_giving is not None and settled(me.before_giving, now):
        me.after_giving = left_of(me.before_giving, now)
        st.rerun()  # the whole page: it ticks more slowly again
    st.html(own_html(now, resources.records().size_of(me.token), say))
    st.html(
        workers_html(
            now.workers, resources.machine().gpus, resources.lab_settings().idle_seconds, say
        )
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            say("part6.give_back"),
            type="primary",
            icon=":material/mop:",
            key="part6-give-back",
        )
        if now.queued or now.running:
            st.button(
                say("part6.stop_mine"),
                icon=":material/stop:",
                key="part6-stop",
                on_click=_stop_mine,
            )
    if pressed:
        me.before_giving, me.after_giving = resources.engine().give_back(me.token), None
        st.rerun()
    if me.before_giving is not None:
        _draw_change(me.before_giving, me.after_giving, say)


def _draw_change(before: Holdings, after: Holdings | None, say: Texts) -> None:
    st.subheader(say("part6.change"))
    st.html(change_html(before, after, say))
    lines = outcome_lines(before, resources.machine().gpus, say) or [say("part6.became.nothing")]
    if before.queued or before.running:
        lines.append(say("part6.became.job_goes_on"))
    st.markdown("\n".join(f"- {line}" for line in lines))


def _stop_mine() -> None:
    me = visitor()
    for job in resources.engine().class_jobs():
        if job.student == me.token:
            resources.engine().cancel(job.id, student=me.token)


# Everything from the start


def _reset() -> None:
    me = visitor()
    say = texts(me.language)
    if me.resetting:
        _reset_when_at_rest(me, say)
        return
    st.markdown(say.prose("part6/reset"))
    if not me.reset_asked:
        st.button(
            say("part6.reset.ask"), icon=":material/restart_alt:", key="reset-ask", on_click=_ask
        )
        return
    st.warning(say("part6.reset.sure"), icon=":material/warning:")
    with st.container(horizontal=True):
        sure = say("part6.reset.yes")
        if st.button(sure, type="primary", icon=":material/delete_forever:", key="reset-yes"):
            me.resetting = True
            _stop_mine()
            st.rerun()
        st.button(say("part6.reset.no"), key="reset-no", on_click=_do_not)


def _ask() -> None:
    visitor().reset_asked = True


def _do_not() -> None:
    visitor().reset_asked = False


def _reset_when_at_rest(me: Visitor, say: Texts) -> None:
    """A job that ends later would bring results back: so only once none is under way."""
    if not resources.engine().holdings(me.token).at_rest:
        st.info(say("part6.reset.waits"), icon=":material/hourglass_top:")
        return
    resources.engine().give_back(me.token)
    try:
        resources.records().delete_results(me.token)
        delete_kept(resources.lab_settings(), me.token)
    except Problem as problem:
        me.reset_asked = me.resetting = False
        st.error(say.notice(problem.notice), icon=":material/error:")
        return
    start_afresh()
    st.session_state[RESET_DONE] = True
    st.rerun()
