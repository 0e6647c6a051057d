"""For tests in a real browser: a server of one's own, and Chromium.

def test_something(lab_server, page):
    page.goto(lab_server.url)
    settled(page)
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from core.data.digits import load_digits
from core.settings import LabSettings

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0  # deadlines: far beyond what is usual, for a machine that is busy
STOP_SECONDS = 20.0
BROWSER_SECONDS = 30.0
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

SETTLED = """() => {
  const app = document.querySelector('[data-testid=stApp]')
  return app && app.dataset.testConnectionState === 'CONNECTED'
    && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton]')
}"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class LabServer:
    """A running lab, started with `streamlit run` as a teacher would."""

    url: str  # without a slash at the end
    process: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self) -> None:
        """End the server as an init system would; fails if it leaves a process behind."""
        children = self.children() if self.process.poll() is None else []
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"the server did not stop in {STOP_SECONDS} s:\n{self.output()}")
        _, left = psutil.wait_procs(children, timeout=STOP_SECONDS)
        for process in left:
            process.kill()
        assert not left, f"the server has left {left} behind:\n{self.output()}"


StartServer = Callable[..., LabServer]


@pytest.fixture(scope="session")
def prepared_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the digits in it, so that not every server has to prepare them."""
    cache = tmp_path_factory.mktemp("prepared")
    load_digits(LabSettings(cache_dir=cache, offline=True))
    return cache


@pytest.fixture(scope="session")
def _starter(
    tmp_path_factory: pytest.TempPathFactory, prepared_digits: Path
) -> Callable[..., LabServer]:
    def start(**environment: str) -> LabServer:
        folder = tmp_path_factory.mktemp("lab")
        shutil.copytree(prepared_digits, folder / "cache", copy_function=os.link)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LAB_")}
        own = {"LAB_CACHE_DIR": str(folder / "cache"), "LAB_OFFLINE": "true"}
        address = ["--server.address", "127.0.0.1", "--server.port", str(port)]
        with (folder / "output.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", *address],
                cwd=ROOT,
                env={**inherited, **own, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        server = LabServer(f"http://127.0.0.1:{port}", process, folder / "output.log")
        _wait_until_healthy(server)
        return server

    return start


@pytest.fixture
def start_server(_starter: StartServer, request: pytest.FixtureRequest) -> Iterator[StartServer]:
    """Starts a fresh server with these `LAB_*` variables; it is stopped after the test."""
    started: list[LabServer] = []

    def start(**environment: str) -> LabServer:
        started.append(_starter(**environment))
        return started[-1]

    yield start
    for server in started:
        _show_output(server)
        server.stop()


@pytest.fixture(scope="module")
def lab_server(_starter: StartServer) -> Iterator[LabServer]:
    """One server with the default settings for all tests of a file."""
    server = _starter()
    yield server
    _show_output(server)
    server.stop()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        pytest.skip("needs Chromium, and there is none on the path")
    return found


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def new_page(chromium: Browser) -> Iterator[Callable[[], Page]]:
    """Opens a page in a browser of its own, so with no cookies: another student."""
    contexts = []

    def open_page() -> Page:
        contexts.append(chromium.new_context(viewport={"width": 1366, "height": 768}))
        contexts[-1].set_default_timeout(BROWSER_SECONDS * 1000)
        return contexts[-1].new_page()

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[[], Page]) -> Page:
    return new_page()


def settled(page: Page) -> None:
    """Wait until the app is connected, no script runs, and nothing is left to be drawn."""
    page.wait_for_function(SETTLED)


def _wait_until_healthy(server: LabServer) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1) as answer:
                if answer.read() == b"ok":  # any unknown path answers 200 too, with a page
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    server.process.kill()
    server.process.wait()
    pytest.fail(f"the server did not come up:\n{server.output()}")


def _show_output(server: LabServer) -> None:
    """Pytest shows it with a test that failed."""
    print(f"--- output of {server.url} ---\n{server.output()}")
