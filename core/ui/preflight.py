"""Preflight: is this machine, or a long run, ready? A wall of lights, and what is behind each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from core.preflight.suites import CLASSROOM, SPEECH
from core.texts import Texts, texts
from core.ui import charts
from core.ui.preflight_assets import draw_assets
from core.ui.preflight_suite import draw_suite
from core.ui.preflight_traps import draw_traps
from core.ui.visitor import visitor

STYLE = Path(__file__).with_name("preflight.css")


def draw() -> None:
    """The whole page: a head, and a tab a suite, of which only the open one is drawn."""
    me = visitor()
    say = texts(me.language)
    charts.draw_style()
    st.html(STYLE)
    with st.container(key="preflight-title"):
        st.title(say("shell.page.preflight"))
        if not me.projector:  # there the room is for the lights
            st.markdown(say.prose("preflight/intro"))
    labels = [say(f"preflight.tab.{name}") for name in TABS]
    key = f"preflight-tabs-{me.language}"  # their state is a label, of the reader's language
    tabs = st.tabs(
        labels, default=labels[me.preflight_tab], key=key, on_change=_keep_tab, args=(key,)
    )
    for tab, draw_tab in zip(tabs, TABS.values(), strict=True):
        if tab.open:
            with tab:
                draw_tab(say)


def _keep_tab(key: str) -> None:
    me = visitor()
    labels = [texts(me.language)(f"preflight.tab.{name}") for name in TABS]
    me.preflight_tab = labels.index(st.session_state[key])


def _draw_classroom(say: Texts) -> None:
    draw_suite(CLASSROOM, say)
    draw_assets(say)


def _draw_speech(say: Texts) -> None:
    draw_suite(SPEECH, say)
    draw_traps(say)


TABS: dict[str, Callable[[Texts], None]] = {
    "classroom": _draw_classroom,
    "speech": _draw_speech,
}
