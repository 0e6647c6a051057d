"""The arrows between the layers, read from the imports: pages -> core.ui -> the rest of core."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "pages").glob("*.py"))
SOURCES = sorted((ROOT / "core").rglob("*.py"))
MAY_IMPORT_TORCH = (
    "core.labs",
    "core.models",
    "core.preflight.classroom",
    "core.preflight.speech",
)
MAY_IMPORT_TORCH_LATE = ("core.data.fetch", "core.engine.worker", "core.__main__")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def imports(path: Path, *, at_import_time: bool = False) -> Iterator[str]:
    """Every module that a file imports, wherever in it; or only what importing it would import."""
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (at_import_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            todo.extend(ast.iter_child_nodes(node))


def those_importing(*packages: str, at_import_time: bool = False) -> set[str]:
    return {
        module_name(path)
        for path in SOURCES
        if any(within(name, *packages) for name in imports(path, at_import_time=at_import_time))
    }


def test_in_core_only_the_ui_imports_streamlit():
    users = those_importing("streamlit")
    assert users, "nothing imports streamlit: is this test looking in the right place?"
    assert {name for name in users if not within(name, "core.ui")} == set()


def test_nothing_below_the_ui_imports_the_ui_or_a_page():
    users = those_importing("core.ui", "pages", "streamlit_app")
    assert {name for name in users if not within(name, "core.ui")} == set()


def test_pages_reach_the_rest_of_core_only_through_the_ui():
    for page in [*PAGES, ROOT / "streamlit_app.py"]:
        core = {name for name in imports(page) if within(name, "core")}
        assert {name for name in core if not within(name, "core.ui")} == set(), page.name


def test_labs_know_nothing_of_the_engine_and_the_engine_nothing_of_the_labs():
    assert {name for name in those_importing("core.engine") if within(name, "core.labs")} == set()
    assert {name for name in those_importing("core.labs") if within(name, "core.engine")} == set()


def test_torch_is_imported_only_where_the_computing_is_done():
    torch = ("torch", "torchvision")
    late = {name for name in those_importing(*torch) if not within(name, *MAY_IMPORT_TORCH)}
    assert late <= set(MAY_IMPORT_TORCH_LATE)
    assert not late & those_importing(*torch, at_import_time=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_thin_and_starts_with_the_guard(page):
    source = page.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 40
    docstring_and_imports = (ast.Import, ast.ImportFrom, ast.Constant)
    first = next(
        statement
        for statement in ast.parse(source).body
        if not isinstance(getattr(statement, "value", statement), docstring_and_imports)
    )
    assert "page_guard()" in ast.unparse(first).splitlines()[0]


def test_walking_every_page_leaves_torch_out_of_the_web_process():
    walk = """
import sys
from streamlit.testing.v1 import AppTest
from core.ui import identity

identity.browser_token = lambda: None  # there is no browser
app = AppTest.from_file("streamlit_app.py", default_timeout=60).run()
for page in sys.argv[1:]:
    app = app.switch_page(page).run()
    assert not app.exception, (page, app.exception)
assert "core.ui.shell" in sys.modules, "the app did not run in this process"
assert "torch" not in sys.modules, "the web process has imported torch"
"""
    pages = [str(page.relative_to(ROOT)) for page in PAGES]
    process = subprocess.run(
        [sys.executable, "-c", walk, *pages],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
