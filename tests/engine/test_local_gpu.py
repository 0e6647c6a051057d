"""The engine on a real card: placement by UUID, memory that comes back, a loss that stays small."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.activities import CpuVsGpuSettings, Lane
from core.activities.make_images import MINI_TURBO, MakeImagesSettings
from core.engine.dispatcher import Caps
from core.engine.holdings import Fate, WorkerHolding
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


def test_giving_back_ends_what_trained_and_leaves_what_drew_with_its_context_alone(tmp_path: Path):
    from tests.labs.picture_lab import tiny_model  # waits for diffusers

    model = tiny_model(tmp_path / "model")
    settings = LabSettings(cache_dir=tmp_path, offline=True, mini_turbo_dir=model.folder)
    engine = LocalEngine(settings, caps=Caps(shared_seconds=0.0))
    try:
        give_back_and_look(engine)
    finally:
        engine.close()


def give_back_and_look(engine: LocalEngine) -> None:
    uuid = engine.gpu_uuids()[0]

    def resting(lane: Lane) -> WorkerHolding | None:
        workers = engine.holdings(AN).workers
        return next((w for w in workers if w.lane is lane and w.held is not None), None)

    empty = used_mib(uuid)
    drawing = outcome(engine, engine.submit(AN, "make-images", MakeImagesSettings(count=1)))
    assert drawing.state is JobState.DONE, drawing.problem
    training = outcome(engine, engine.submit(AN, "cpu-vs-gpu", SETTINGS))
    assert training.state is JobState.DONE, training.problem
    until(lambda: resting(Lane.INFER) and resting(Lane.TRAIN))
    draws = resting(Lane.INFER)
    assert draws is not None
    assert draws.held is not None
    assert draws.models == (MINI_TURBO,)
    assert draws.held.tensors > 100
    assert draws.held.allocated_mib is not None
    assert draws.held.allocated_mib > 1
    full = used_mib(uuid)

    before = engine.give_back(AN)
    assert {w.fate for w in before.workers} == {Fate.ENDS, Fate.DROPS}
    until(lambda: len(engine.worker_pids()) == 1 and (w := resting(Lane.INFER)) and not w.models)
    floor = resting(Lane.INFER)
    assert floor is not None
    assert floor.held is not None
    assert floor.pid == draws.pid
    assert (floor.held.reserved_mib or 0.0) < NOISE_MIB
    assert floor.held.tensors == 0
    assert (floor.held.allocated_mib or 0.0) < draws.held.allocated_mib
    until(lambda: used_mib(uuid) < full - 200)  # the other context is gone
    context = used_mib(uuid) - empty
    print(f"card: {empty:.0f} MiB empty, {full:.0f} MiB in use, {context:.0f} MiB of context left")
    print(f"worker: {draws} -> {floor}")
    own = draws.own_vram_mib
    if own is not None:  # in some containers the driver speaks of other processes
        until(lambda: (w := resting(Lane.INFER)) and (w.own_vram_mib or 0.0) < own)
        left = resting(Lane.INFER)
        assert left is not None
        assert left.own_vram_mib is not None
        assert abs(left.own_vram_mib - context) < NOISE_MIB
