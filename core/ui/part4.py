"""Part 4: fool a classifier with noise that nobody sees, then see which defences hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from core.texts import Texts, texts
from core.ui import charts
from core.ui.job_panel import current_job
from core.ui.part4_defences import draw_defences
from core.ui.part4_fool import ACTIVITY, draw_fool
from core.ui.part4_subject import draw_network, networks_here, stay, take_up
from core.ui.part4_sweep import draw_sweep
from core.ui.part4_transfer import draw_transfer
from core.ui.visitor import visitor

STYLE = Path(__file__).with_name("part4.css")
PART2_STYLE = Path(__file__).with_name("part2.css")  # frames of pictures, big figures


def draw() -> None:
    """The whole page: a head, and tabs of which only the open one is drawn."""
    me = visitor()
    say = texts(me.language)
    take_up(me, current_job(ACTIVITY))
    charts.draw_style()
    st.html(PART2_STYLE)
    st.html(STYLE)
    _draw_head(say)
    stay()
    labels = [say(f"part4.tab.{name}") for name in TABS]
    key = f"part4-tabs-{me.language}"  # their state is a label, which each language has its own of
    tabs = st.tabs(labels, default=labels[me.part4_tab], key=key, on_change=_keep_tab, args=(key,))
    for tab, draw_tab in zip(tabs, TABS.values(), strict=True):
        if tab.open:
            with tab:
                draw_tab(say)


def _keep_tab(key: str) -> None:
    me = visitor()
    say = texts(me.language)
    labels = [say(f"part4.tab.{name}") for name in TABS]
    me.part4_tab = labels.index(st.session_state[key])


def _draw_head(say: Texts) -> None:
    with st.container(key="part4-title"):
        st.title(say("part4.title"))
    with st.container(horizontal=True, vertical_alignment="center", key="part4-head"):
        st.badge(say("part4.badge"), icon=":material/pin_drop:", color="blue")
        draw_network(say)
    if not visitor().projector:  # there the room is for the picture and its verdict
        with st.container(key="part4-intro"):
            st.markdown(say.prose("part4/intro"))
    if not networks_here():
        with st.container(border=True):
            st.subheader(say("part4.no_network"))
            st.markdown(say.prose("part4/none"))


def _draw_take_home(say: Texts) -> None:
    st.markdown(say.prose("part4/takeaway"))


# In the order in which a student enjoys them.
TABS: dict[str, Callable[[Texts], None]] = {
    "fool": draw_fool,
    "sweep": draw_sweep,
    "transfer": draw_transfer,
    "defences": draw_defences,
    "take_home": _draw_take_home,
}
