"""Part 5b: what a SOC makes of it all, traces to judge, a load of one's own, a rule to try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from core.texts import Texts, texts
from core.ui import charts
from core.ui.part5b_load import draw_load
from core.ui.part5b_rows import draw_rows
from core.ui.part5b_rule import draw_rule
from core.ui.part5b_traces import draw_exercise
from core.ui.visitor import visitor

STYLE = Path(__file__).with_name("part5b.css")
PART2_STYLE = Path(__file__).with_name("part2.css")  # big figures
PART2B_STYLE = Path(__file__).with_name("feed.css")  # how the class answered


def draw() -> None:
    """The whole page: a head, and tabs of which only the open one is drawn."""
    me = visitor()
    say = texts(me.language)
    charts.draw_style()
    for style in (PART2_STYLE, PART2B_STYLE, STYLE):
        st.html(style)
    st.title(say("part5b.title"))
    st.badge(say("part5b.badge"), icon=":material/pin_drop:", color="blue")
    if not me.projector:
        st.markdown(say.prose("part5b/intro"))
    labels = [say(f"part5b.tab.{name}") for name in TABS]
    key = f"part5b-tabs-{me.language}"  # their state is a label, which each language has its own of
    tabs = st.tabs(labels, default=labels[me.part5b_tab], key=key, on_change=_keep, args=(key,))
    for tab, draw_tab in zip(tabs, TABS.values(), strict=True):
        if tab.open:
            with tab:
                draw_tab(say)


def _keep(key: str) -> None:
    me = visitor()
    say = texts(me.language)
    labels = [say(f"part5b.tab.{name}") for name in TABS]
    me.part5b_tab = labels.index(st.session_state[key])


def _draw_take_home(say: Texts) -> None:
    st.markdown(say.prose("part5b/takeaway"))


TABS: dict[str, Callable[[Texts], None]] = {
    "rows": draw_rows,
    "exercise": draw_exercise,
    "load": draw_load,
    "rule": draw_rule,
    "take_home": _draw_take_home,
}
