"""Real or fake? The student plays the discriminator."""

from __future__ import annotations

import streamlit as st

from core.texts import texts
from core.ui.visitor import visitor


def draw() -> None:
    """The whole page, for whoever is looking."""
    say = texts(visitor().language)
    st.title(say("shell.page.real_or_fake"))
