"""For tests of what a page shows: a lab of the test's own, and the browsers that visit it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from core.ui import identity, resources

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="session")
def packages_scanned_once() -> Iterator[None]:
    """Every AppTest would look through all installed packages for components: 0.3 s each time."""
    with pytest.MonkeyPatch.context() as patch:
        scan = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


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
