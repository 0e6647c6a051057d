"""For all tests: a lab of their own to write into, and the GPU marker."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

# As in the app: read when PyTorch is loaded. On a busy machine, threads that spin make steps slow.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session", autouse=True)
def lab_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No `LAB_*` setting of whoever runs the tests, no download, and no write to their cache."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("LAB_")]:
            patch.delenv(name)
        patch.setenv("LAB_OFFLINE", "true")
        patch.setenv("LAB_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not cuda_answers():
        pytest.skip("needs a CUDA device, and PyTorch finds none here")


@functools.cache
def cuda_answers() -> bool:
    """Asked of another process, so that torch does not enter this one."""
    question = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", question], check=False).returncode == 0
