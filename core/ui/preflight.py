"""Preflight: is this machine, or a long run, ready?"""

from __future__ import annotations

import streamlit as st

from core.texts import texts
from core.ui.visitor import visitor


def draw() -> None:
    """The whole page, for whoever is looking."""
    say = texts(visitor().language)
    st.title(say("shell.page.preflight"))
