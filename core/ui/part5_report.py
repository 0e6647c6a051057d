"""Part 5, the lab report: made when it is asked for, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from core.report.cost import Prices
from core.texts import Texts
from core.ui import resources
from core.ui.part5_cost import prices_of
from core.ui.visitor import visitor

if TYPE_CHECKING:
    from core.records.store import Records
    from core.telemetry.readings import Machine


def draw_report(say: Texts) -> None:
    me = visitor()
    st.header(say("part5.report"), divider="blue")
    st.markdown(say("part5.report.text"))
    st.download_button(
        say("part5.report.download"),
        maker(me.token, resources.records(), resources.machine(), prices_of(me), say),
        file_name="gpu-lab.html",
        mime="text/html",
        type="primary",
        icon=":material/description:",
        on_click="ignore",
        key="part5-report",
    )
    st.caption(say("part5.report.takes"))


def maker(
    student: str, records: Records, machine: Machine, prices: Prices, say: Texts
) -> Callable[[], bytes]:
    """Makes the file at the click, on a thread that knows of no session."""
    turn = _turn()

    def make() -> bytes:
        from core.report.collect import report_of
        from core.report.html import report_html

        with turn:
            return report_html(report_of(student, records, machine, prices), say).encode()

    return make


@st.cache_resource(show_spinner=False)
def _turn() -> threading.Lock:
    """A class that clicks at once would start a drawing process each."""
    return threading.Lock()
