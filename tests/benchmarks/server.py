"""How fast the lab starts, shows its first page and switches pages, seen from Chromium."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks.report import Report
from tests.benchmarks.serving import Server, running_server

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ADDRESSES = ("/", "/data-and-machine", "/cpu-or-gpu")
STARTS = 3  # of the server, for each address
SWITCHES = 5  # to each address

# Settled: connected, nothing runs, and nothing on the page is still a placeholder.
SETTLED = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  return app?.dataset.testConnectionState === 'CONNECTED'
    && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton]');
}"""
# The new page's title comes with its script, so the old page's calm is not taken for the new one's.
SWITCH = (
    """async path => {
  const settled = SETTLED, before = document.title, clicked = performance.now();
  [...document.querySelectorAll('[data-testid=stSidebarNavLink]')]
    .find(link => new URL(link.href).pathname === path).click();
  while (document.title === before || !settled()) await new Promise(go => setTimeout(go, 5));
  return performance.now() - clicked;
}"""
).replace("SETTLED", SETTLED)


def first_page(browser: Browser, server: Server, address: str) -> tuple[float, Page]:
    """Seconds from the address to the settled page, with an empty browser cache."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    started = time.perf_counter()
    page.goto(server.url + address)
    page.wait_for_function(SETTLED, polling=10)
    seconds = time.perf_counter() - started
    for error in page.locator("[data-testid=stAlertContentError], [data-testid=stException]").all():
        raise SystemExit(f"{address} says: {error.inner_text()}")
    return seconds, page


def main() -> int:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        print("no Chromium on PATH: nothing measured")
        return 1
    report = Report()
    starts: list[float] = []
    first: dict[str, list[float]] = {address: [] for address in ADDRESSES}
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as cache, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        for _ in range(STARTS):
            for address in ADDRESSES:
                with running_server(Path(cache)) as server:
                    starts.append(server.start_seconds)
                    seconds, page = first_page(browser, server, address)
                    first[address].append(seconds)
                    page.context.close()
        report.median("server start to healthy", starts, "s", at_most=4)
        for address in ADDRESSES:
            report.median(f"cold first page {address}", first[address], "s", at_most=2)
        with running_server(Path(cache)) as server:
            _, page = first_page(browser, server, ADDRESSES[0])
            for address in (*ADDRESSES[1:], ADDRESSES[0]):  # charts and icons arrive in the cache
                page.evaluate(SWITCH, address)
            for address in (*ADDRESSES[1:], ADDRESSES[0]):
                others = [other for other in ADDRESSES if other != address]
                switches = []
                for i in range(SWITCHES):
                    if page.url != server.url + others[i % 2]:
                        page.evaluate(SWITCH, others[i % 2])
                    switches.append(page.evaluate(SWITCH, address))
                report.median(f"page switch to {address}", switches, "ms", at_most=300)
        browser.close()
    return report.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
