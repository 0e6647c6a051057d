"""Downloads that go on beside the pages: each asset at most once at a time, on a thread of its own.

What a page reads of them is a frozen `Fetching`, replaced as a whole. Needs no torch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from core.models.assets import Asset, FetchProgress, fetch
from core.problems import Notice, Problem
from core.settings import LabSettings

CLOSING_SECONDS = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetching:
    """How one download stands."""

    asset: str
    progress: FetchProgress | None = None  # None: the server has not answered yet
    over: bool = False
    done: bool = False  # everything is here and proven
    problem: Notice | None = None  # why it ended, where it did not work


class Fetches:
    """Begins and ends downloads, and says how they are."""

    def __init__(self, settings: LabSettings, bring: Callable[..., bool] = fetch) -> None:
        self._settings, self._bring = settings, bring
        self._lock = threading.Lock()
        self._now: dict[str, Fetching] = {}
        self._stops: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}

    def of(self, asset: str) -> Fetching | None:
        """The download of this asset, or the last one; None: there was none."""
        return self._now.get(asset)

    @property
    def busy(self) -> bool:
        return any(not one.over for one in list(self._now.values()))

    def begin(self, asset: Asset, *, accepted: bool) -> None:
        """Harmless while it runs already. For teachers: callers make sure of that."""
        with self._lock:
            now = self._now.get(asset.id)
            if now is not None and not now.over:
                return
            self._now[asset.id] = Fetching(asset.id)
            self._stops[asset.id] = threading.Event()
            thread = threading.Thread(
                target=self._run, args=(asset, accepted), name=f"fetch-{asset.id}", daemon=True
            )
            self._threads[asset.id] = thread
        thread.start()

    def stop(self, asset: str) -> None:
        """End it after the piece that is coming; what came stays, and the next begin goes on."""
        if asset in self._stops:
            self._stops[asset].set()

    def close(self) -> None:
        """End all, and wait a moment for them."""
        for asset in list(self._stops):
            self.stop(asset)
        for thread in list(self._threads.values()):
            thread.join(CLOSING_SECONDS)

    def _run(self, asset: Asset, accepted: bool) -> None:
        def told(progress: FetchProgress) -> None:
            self._change(asset.id, progress=progress)

        try:
            done = self._bring(
                asset,
                self._settings,
                accepted=accepted,
                on_progress=told,
                stopped=self._stops[asset.id].is_set,
            )
        except Problem as problem:
            self._change(asset.id, over=True, problem=problem.notice)
        except Exception:
            _log.exception("fetching %s broke", asset.id)
            self._change(asset.id, over=True, problem=Notice("problem.fetch_broke"))
        else:
            self._change(asset.id, over=True, done=done)

    def _change(self, asset: str, **fields: object) -> None:
        with self._lock:
            self._now[asset] = replace(self._now[asset], **fields)  # type: ignore[arg-type]
