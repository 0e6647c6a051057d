"""Downloads beside the pages: one at a time of each asset, and none ends without a word."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.models.assets import FetchProgress, assets
from core.models.download import FetchFailed
from core.models.fetches import Fetches
from core.problems import Notice
from core.settings import LabSettings

DEADLINE = 10.0


@pytest.fixture
def asset(tmp_path: Path) -> Any:
    return replace(assets(LabSettings(cache_dir=tmp_path))["taesd"], folder=tmp_path / "taesd")


def test_a_download_tells_how_far_it_is_and_is_begun_only_once(asset):
    came, may_end = threading.Event(), threading.Event()
    begun = []

    def bring(_asset: object, _settings: object, **how: Any) -> bool:
        begun.append(how["accepted"])
        how["on_progress"](FetchProgress("weights", 3, 9, None))
        came.set()
        return may_end.wait(DEADLINE)

    fetches = Fetches(LabSettings(), bring)
    fetches.begin(asset, accepted=True)
    assert came.wait(DEADLINE)
    fetches.begin(asset, accepted=True)
    now = fetches.of(asset.id)
    assert now is not None
    assert now.progress == FetchProgress("weights", 3, 9, None)
    assert fetches.busy
    may_end.set()
    fetches.close()
    assert fetches.of(asset.id) == replace(now, over=True, done=True)
    assert begun == [True]


def test_a_stopped_download_is_over_but_not_done(asset):
    def bring(_asset: object, _settings: object, **how: Any) -> bool:
        while not how["stopped"]():
            pass
        return False

    fetches = Fetches(LabSettings(), bring)
    fetches.begin(asset, accepted=False)
    fetches.stop(asset.id)
    fetches.close()
    now = fetches.of(asset.id)
    assert now is not None
    assert (now.over, now.done, now.problem) == (True, False, None)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            FetchFailed("problem.asset_busy", asset="x"),
            Notice("problem.asset_busy", {"asset": "x"}),
        ),
        (ZeroDivisionError(), Notice("problem.fetch_broke")),
    ],
)
def test_what_goes_wrong_is_told_and_another_try_is_possible(asset, error, told):
    def bring(_asset: object, _settings: object, **_how: Any) -> bool:
        raise error

    fetches = Fetches(LabSettings(), bring)
    for _ in range(2):
        fetches.begin(asset, accepted=False)
        fetches.close()
        now = fetches.of(asset.id)
        assert now is not None
        assert now.problem == told
    assert not fetches.busy
