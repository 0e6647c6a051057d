"""Part 3: pictures from words, drawn by one model that the whole class shares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from core.engine.view import JobState
from core.models.image_models import ImageModel
from core.texts import Texts, texts
from core.ui import charts
from core.ui.job_panel import current_job, job_panel
from core.ui.part3_eight import draw_eight
from core.ui.part3_inside import draw_inside
from core.ui.part3_model import draw_none, draw_truth, model_now
from core.ui.part3_pictures import draw_coming, draw_history, draw_set
from core.ui.part3_speed import draw_speed
from core.ui.part3_write import ACTIVITY, draw_request, take_up
from core.ui.prompt_sandbox import prompt_sandbox
from core.ui.visitor import visitor

STYLE = Path(__file__).with_name("part3.css")
PART2_STYLE = Path(__file__).with_name("part2.css")  # frames of pictures, big figures
TICK_SECONDS = 0.5  # a set is drawn in about a second: a whole one would be a long wait


def draw() -> None:
    """The whole page: a head, and tabs of which only the open one is drawn."""
    me = visitor()
    say = texts(me.language)
    model = model_now()
    charts.draw_style()
    st.html(PART2_STYLE)
    st.html(STYLE)
    _draw_head(model, say)
    labels = [say(f"part3.tab.{name}") for name in TABS]
    key = f"part3-tabs-{me.language}"  # their state is a label, which each language has its own of
    tabs = st.tabs(labels, default=labels[me.part3_tab], key=key, on_change=_keep_tab, args=(key,))
    for tab, draw_tab in zip(tabs, TABS.values(), strict=True):
        if tab.open:
            with tab:
                draw_tab(model, say)


def _keep_tab(key: str) -> None:
    me = visitor()
    say = texts(me.language)
    labels = [say(f"part3.tab.{name}") for name in TABS]
    me.part3_tab = labels.index(st.session_state[key])


def _draw_head(model: ImageModel | None, say: Texts) -> None:
    with st.container(key="part3-title"):
        st.title(say("part3.title"))
    with st.container(horizontal=True, vertical_alignment="center", key="part3-head"):
        st.badge(say("part3.badge"), icon=":material/pin_drop:", color="blue")
        if model is not None:
            draw_truth(model, say)
    if not visitor().projector:  # there the room is for the sentence and its pictures
        with st.container(key="part3-intro"):
            st.markdown(say.prose("part3/intro"))
    if model is None:
        draw_none(say)


def _draw_write(model: ImageModel | None, say: Texts) -> None:
    """A sentence on the left, its pictures on the right: nothing to scroll for."""
    job = current_job(ACTIVITY)
    take_up(visitor(), job, model)
    running = job is not None and not job.state.over
    left, right = st.columns(2, gap="large")
    with left:
        draw_request(running)
    with right:
        if job is None:
            st.html(f"<div class='lab-canvas empty easel'>{say('part3.nothing_yet')}</div>")
        elif job.state is JobState.DONE:
            draw_set(job, say)
        else:
            job_panel(ACTIVITY, job, extra=draw_coming, tick_seconds=TICK_SECONDS)
    if job is not None:
        draw_history(job, say)


def _draw_rules(_model: ImageModel | None, say: Texts) -> None:
    st.markdown(say.prose("part3/rules"))
    prompt_sandbox(say)


def _draw_take_home(_model: ImageModel | None, say: Texts) -> None:
    st.markdown(say.prose("part3/takeaway"))
    st.page_link(
        "pages/check_a_picture.py", label=say("part3.check_page"), icon=":material/verified_user:"
    )


# In the order in which a student enjoys them.
TABS: dict[str, Callable[[ImageModel | None, Texts], None]] = {
    "write": _draw_write,
    "eight": draw_eight,
    "inside": draw_inside,
    "speed": draw_speed,
    "rules": _draw_rules,
    "take_home": _draw_take_home,
}
