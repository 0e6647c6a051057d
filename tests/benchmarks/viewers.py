"""A class of 50 tabs on the Part 1 page, while a job computes on the same processor.

Speaks the app's own websocket protocol to a server on this machine, so no browser slows it down;
the tabs' own work (reading what arrives) is on the same processor too, and counts against the lab.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from core.ui.identity import COOKIE, new_token
from tests.benchmarks.report import Report
from tests.benchmarks.serving import Server, running_server
from tests.benchmarks.tab import Tab

VIEWERS = 50
ROUNDS = 3  # of opening all tabs at once
WATCH_SECONDS = 20.0
PAGE = "cpu-or-gpu"
RUN = "run-cpu-vs-gpu"  # the key of the page's run button
LONGEST = "steps=200"  # so that the job outlasts the watching


async def measure(server: Server, report: Report) -> None:
    async with student(server):
        pass  # the first visit imports the page; that one is in server.py
    opened: list[float] = []
    for _ in range(ROUNDS):
        async with AsyncExitStack() as stack:
            tabs = [student(server) for _ in range(VIEWERS)]
            await asyncio.gather(*(stack.enter_async_context(tab) for tab in tabs))
            opened += [tab.opened_seconds for tab in tabs]
    report.p95(f"{VIEWERS} tabs opened at once, page complete", opened, "s", at_most=2)

    async with AsyncExitStack() as stack:
        token = new_token()  # one student's job in every tab: each draws the four charts
        first = await stack.enter_async_context(student(server, token))
        await first.click(RUN)
        tabs = [await stack.enter_async_context(student(server, token)) for _ in range(VIEWERS - 1)]
        refreshed = await watch([first, *tabs], spread=True)
        report.p95(f"{VIEWERS} tabs on a running job, refresh", refreshed, "s", at_most=1)
        refreshed = await watch([first, *tabs], spread=False)
        report.p95(f"{VIEWERS} tabs on a running job, all in step, refresh", refreshed, "s")
        await first.click("cancel-cpu-vs-gpu")

    async with AsyncExitStack() as stack:
        tabs = [await stack.enter_async_context(student(server)) for _ in range(VIEWERS)]
        for tab in tabs:
            await tab.click(RUN)  # one runs, the others see their place in the queue
        refreshed = await watch(tabs, spread=True)
        report.p95(f"{VIEWERS} students with a job each, refresh", refreshed, "s", at_most=1)


def student(server: Server, token: str | None = None) -> Tab:
    return Tab(server.host, PAGE, query=LONGEST, cookie=f"{COOKIE}={token or new_token()}")


async def watch(tabs: Sequence[Tab], *, spread: bool) -> list[float]:
    """Refresh all tabs for a while; when in the second each does, is left to chance if `spread`."""

    async def one(tab: Tab, delay: float) -> list[float]:
        tab.refresh_seconds.clear()
        await asyncio.sleep(delay)
        await tab.watch(WATCH_SECONDS)
        return tab.refresh_seconds

    chance = random.Random(0)
    delays = [chance.random() if spread else 0.0 for _ in tabs]
    refreshed = await asyncio.gather(*map(one, tabs, delays))
    if min(map(len, refreshed)) < WATCH_SECONDS / 4:
        raise SystemExit(f"a tab stopped ticking: {sorted(map(len, refreshed))} refreshes")
    return [seconds for tab in refreshed for seconds in tab]


def main() -> int:
    report = Report()
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as cache,
        running_server(Path(cache)) as server,
    ):
        asyncio.run(measure(server, report))
    return report.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
