"""The engine on a real card: placement by UUID, memory that comes back, a loss that stays small."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.activities import CpuVsGpuSettings
from core.engine.dispatcher import Caps
from core.engine.local import LocalEngine
from core.engine.view import JobState
from core.settings import LabSettings
from core.telemetry.nvml import list_gpus
from tests.engine.test_local import AN, outcome, running, until

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

SETTINGS = CpuVsGpuSettings(steps=20)
NOISE_MIB = 64  # the card's own figure moves this much by itself


def used_mib(uuid: str) -> float:
    (card,) = [gpu for gpu in list_gpus()[0] if gpu.uuid == uuid]
    assert card.total_mib is not None
    assert card.free_mib is not None
    return card.total_mib - card.free_mib


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    settings = LabSettings(cache_dir=tmp_path, offline=True)
    engine = LocalEngine(settings, caps=Caps(idle_seconds=2.0))
    yield engine
    engine.close()


def test_part_1_runs_on_the_card_and_the_card_is_empty_again_afterwards(engine: LocalEngine):
    uuid = engine.gpu_uuids()[0]
    before = used_mib(uuid)
    view = outcome(engine, engine.submit(AN, "cpu-vs-gpu", SETTINGS))
    assert view.state is JobState.DONE, view.problem
    assert view.device in engine.gpu_uuids()
    cpu, gpu = view.rows
    assert (cpu.name, gpu.name) == ("cpu", "gpu")
    assert gpu.own_vram_mib_max is not None
    assert gpu.own_vram_mib_max > 100, "a CUDA context alone is larger"
    assert view.result is not None
    assert view.result["speedup"]["compute"] > 1
    until(lambda: engine.worker_pids() == ())
    assert used_mib(uuid) < before + NOISE_MIB


def test_a_worker_killed_on_the_card_gives_its_memory_back_and_is_replaced(engine: LocalEngine):
    uuid = engine.gpu_uuids()[0]
    before = used_mib(uuid)
    job = engine.submit(AN, "cpu-vs-gpu", CpuVsGpuSettings(steps=200))
    running(engine, job)
    os.kill(engine.worker_pids()[0], signal.SIGKILL)
    assert outcome(engine, job).state is JobState.FAILED
    again = outcome(engine, engine.submit(AN, "cpu-vs-gpu", SETTINGS))
    assert again.state is JobState.DONE
    until(lambda: engine.worker_pids() == ())
    assert used_mib(uuid) < before + NOISE_MIB
