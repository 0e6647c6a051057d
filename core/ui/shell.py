"""The frame around every page: navigation, the door, the sidebar. Also the guard of the pages."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import streamlit as st
from streamlit.navigation.page import Page
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.problems import Problem
from core.texts import LANGUAGES, Texts, texts
from core.ui import identity, sidebar
from core.ui.access import same_code
from core.ui.resources import attempts, lab_settings, records
from core.ui.visitor import Visitor, visitor

ROOT = Path(__file__).parents[2]
STYLE = Path(__file__).with_name("style.css")
PROJECTOR_STYLE = Path(__file__).with_name("projector.css")

_inside: ContextVar[bool] = ContextVar("inside_the_shell", default=False)


class Entry(NamedTuple):
    """One page of the lab; its title is the label `shell.page.<name>`."""

    name: str
    url_path: str  # "" is the address of the lab itself
    icon: str

    @property
    def file(self) -> Path:
        return ROOT / "pages" / f"{self.name}.py"


ENTRIES = (
    Entry("home", "", ":material/home:"),
    Entry("data_and_machine", "data-and-machine", ":material/memory:"),
    Entry("cpu_or_gpu", "cpu-or-gpu", ":material/speed:"),
    Entry("watch_it_learn", "watch-it-learn", ":material/draw:"),
    Entry("feed_the_gpu", "feed-the-gpu", ":material/troubleshoot:"),
    Entry("pictures_from_words", "pictures-from-words", ":material/brush:"),
    Entry("fool_the_classifier", "fool-the-classifier", ":material/visibility_off:"),
    Entry("what_did_it_cost", "what-did-it-cost", ":material/payments:"),
    Entry("in_a_soc", "in-a-soc", ":material/shield:"),
    Entry("clean_up", "clean-up", ":material/mop:"),
    Entry("real_or_fake", "real-or-fake", ":material/quiz:"),
    Entry("check_a_picture", "check-a-picture", ":material/verified_user:"),
    Entry("preflight", "preflight", ":material/checklist:"),
)


def run() -> None:
    """Draw the page that was asked for, for whoever may see it. The entry script calls this."""
    me = visitor()
    st.set_page_config(layout="wide", page_icon=str(ROOT / "static" / "icon.svg"))
    st.html(STYLE)
    with st.sidebar:
        say = _language_and_size(me)
    pages = _pages(me, say)
    problem = _settings_problem()
    open_door = problem is None and _admitted(me)
    page = st.navigation(pages, position="sidebar" if open_door else "hidden", expanded=True)
    st.set_page_config(page_title=f"{page.title} · {say('app.title')}")
    st.logo(ROOT / "static" / "logo.svg", icon_image=ROOT / "static" / "icon.svg", size="large")
    if problem:
        st.title(say("app.title"))
        st.error(say.notice(problem.notice), icon=":material/settings:")
    elif not open_door:
        _gate(me, say)
    else:
        with st.sidebar:
            sidebar.draw(me, say)
        _draw(page, me)


def page_guard() -> None:
    """The first line of every page: without the shell around it, run the shell instead.

    Streamlit takes the folder name `pages/` for its older kind of multipage app. Until a run in
    the server's process has reached `st.navigation`, it serves such a file on its own, without
    the entry script and so without the door. `close_pages_trap` sees to it for our own server;
    this holds however the files are served.
    """
    if not _inside.get():
        run()
        st.stop()


def close_pages_trap() -> None:
    """Make Streamlit overlook the folder `pages/` before the first visitor comes; see `page_guard`.

    `st.navigation` sets this same switch, but only once somebody is here: a first visitor whose
    page is not called like its file would be met by a dialog saying "page not found".
    """
    PagesManager.uses_pages_directory = False


def _language_and_size(me: Visitor) -> Texts:
    """The two switches whose values live in the address, so that reloads and links keep them."""
    language = st.segmented_control(
        "Ngôn ngữ · Language",
        LANGUAGES,
        default=LANGUAGES[0],
        key="lang",
        bind="query-params",
        required=True,
        label_visibility="collapsed",
        width="stretch",
    )
    me.language = language if language in LANGUAGES else LANGUAGES[0]
    say = texts(me.language)
    me.projector = st.toggle(
        say("shell.projector"),
        key="projector",
        bind="query-params",
        help=say("shell.projector.help"),
    )
    if me.projector:
        st.html(PROJECTOR_STYLE)
    return say


def _pages(me: Visitor, say: Texts) -> list[Page]:
    pages = [
        st.Page(
            entry.file,
            title=say(f"shell.page.{entry.name}"),
            icon=entry.icon,
            url_path=entry.url_path,
            default=not entry.url_path,
        )
        for entry in ENTRIES
    ]
    context = get_script_run_ctx()
    asked = context.pages_manager.intended_page_name if context else ""
    if asked:  # by address, not by a link of ours: only on a session's first run
        known = {entry.url_path for entry in ENTRIES}
        me.unknown_address = "" if asked in known else asked
    if me.unknown_address:  # a page of that name, so that Streamlit opens no dialog of its own
        pages.append(
            st.Page(
                lambda: _no_such_page(pages, say),
                title=say("shell.unknown.title"),
                url_path=me.unknown_address,
                visibility="hidden",
            )
        )
    return pages


def _no_such_page(pages: list[Page], say: Texts) -> None:
    st.title(say("shell.unknown.title"))
    st.markdown(say("shell.unknown.text"))
    for page in pages:
        if page.visibility == "visible":
            st.page_link(page)


def _settings_problem() -> Problem | None:
    try:
        lab_settings()
    except Problem as problem:
        return problem
    return None


def _admitted(me: Visitor) -> bool:
    """Whether this visitor may come in; a reload is remembered by the student's token."""
    code = lab_settings().class_code
    if not me.admitted:
        me.admitted = not code or records().admitted(me.token, code)
    return me.admitted


def _gate(me: Visitor, say: Texts) -> None:
    with st.container(key="gate"):
        st.title(say("app.title"))
        st.markdown(say("shell.gate.text"))
        with st.form("gate", border=True):
            st.text_input(
                say("shell.gate.code"), key="gate-code", type="password", autocomplete="off"
            )
            st.form_submit_button(
                say("shell.gate.enter"), type="primary", on_click=_try_gate, args=(me,)
            )
        sidebar.refusal(me, say, "gate-wrong", "shell.gate.wrong")


def _try_gate(me: Visitor) -> None:
    typed, settings = str(st.session_state["gate-code"]), lab_settings()
    me.admitted = attempts().counts(me.token, lambda: same_code(typed, settings.class_code))
    st.session_state["gate-wrong"] = not me.admitted
    if me.admitted:
        records().admit(me.token, settings.class_code)


def _draw(page: Page, me: Visitor) -> None:
    if me.ticket:
        identity.collect_cookie(me.ticket)
    me.visited.add(page.url_path)
    inside = _inside.set(True)
    try:
        page.run()
    finally:
        _inside.reset(inside)
