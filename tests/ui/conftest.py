"""For tests of what a page shows: a lab of the test's own, and the browsers that visit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.ui import identity, resources

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """A server's shared objects, as just after its start; `setenv` gives it settings."""
    monkeypatch.setenv("LAB_DATABASE_URL", f"sqlite:///{tmp_path / 'lab.db'}")
    resources.close()  # of whoever was here before
    st.cache_resource.clear()
    yield monkeypatch
    resources.close()
    st.cache_resource.clear()


@pytest.fixture
def visit(lab: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Opens the lab in the browser that holds this token; without one, cookies are blocked."""

    def open_lab(token: str | None = None, *, file: str = "streamlit_app.py") -> AppTest:
        lab.setattr(identity, "browser_token", lambda: token)
        return AppTest.from_file(ROOT / file, default_timeout=30).run()

    return open_lab
