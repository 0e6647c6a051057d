"""Part 6: leave nothing behind."""

from __future__ import annotations

import streamlit as st

from core.texts import texts
from core.ui.visitor import visitor


def draw() -> None:
    """The whole page, for whoever is looking."""
    say = texts(visitor().language)
    st.title(say("shell.page.clean_up"))
