"""The traps of a long speech run: each told, and each sprung by whoever wants to see it."""

from __future__ import annotations

import streamlit as st

from core.activities.preflight import SpeechTrapSettings
from core.engine.view import JobState
from core.preflight.gate import Colour, Gate, Outcome
from core.preflight.history import merged
from core.preflight.speech.traps import TRAPS
from core.problems import Problem
from core.texts import Texts
from core.ui import resources
from core.ui.job_panel import current_job, job_panel
from core.ui.preflight_controls import REFUSED, draw_refusal
from core.ui.preflight_gate import DARK_ICON, ICONS, draw_outcome, inked, opened
from core.ui.preflight_results import own_results
from core.ui.visitor import visitor

ACTIVITY = "speech-trap"


def draw_traps(say: Texts) -> None:
    """Traps are small and safe: students spring them, too."""
    st.header(say("preflight.traps"), divider="blue")
    st.markdown(say("preflight.traps.text"))
    draw_refusal(say)
    job = current_job(ACTIVITY)
    running = job is not None and not job.state.over
    if job is not None and job.state is not JobState.DONE:
        job_panel(ACTIVITY, job)
    last = merged(own_results(ACTIVITY, job, kept=2 * len(TRAPS)))
    outcomes = {outcome.gate: outcome for outcome in last.gates} if last is not None else {}
    box = st.container(key="preflight-list-traps")
    for number, trap in enumerate(TRAPS, start=1):
        outcome = outcomes.get(trap.id)
        icon = DARK_ICON if outcome is None else ICONS[outcome.colour]
        with box:
            shown = opened(_label(number, trap, outcome, say), icon, f"preflight-trap-{trap.id}")
        if shown.open:
            with shown:
                _draw_trap(trap, outcome, running, say)


def _label(number: int, trap: Gate, outcome: Outcome | None, say: Texts) -> str:
    title = f"{number} · {say(f'trap.{trap.id}.title')}"
    return title if outcome is None else f"{title} · {_word(outcome.colour, say)}"


def _word(colour: Colour, say: Texts) -> str:
    return inked(colour, say(f"preflight.trap.{colour}"))


def _draw_trap(trap: Gate, outcome: Outcome | None, running: bool, say: Texts) -> None:
    words, shown = st.columns([2, 3], gap="large")
    with words:
        st.markdown(say(f"trap.{trap.id}.text"))
        st.button(
            say("preflight.trap.run"),
            icon=":material/play_arrow:",
            key=f"preflight-spring-{trap.id}",
            disabled=running,
            on_click=_spring,
            args=(trap.id,),
        )
        st.caption(say("preflight.budget", budget=trap.budget_seconds))
    with shown:
        if outcome is None:
            st.caption(say("preflight.trap.not_yet"))
        else:
            draw_outcome(outcome, say)


def _spring(trap: str) -> None:
    try:
        resources.engine().submit(visitor().token, ACTIVITY, SpeechTrapSettings(trap))
    except Problem as problem:
        st.session_state[REFUSED] = problem.notice
