import functools
import threading
from contextlib import closing

import msgspec
import numpy as np
import psutil
import pytest
import torch

from core.activities import CpuVsGpuResult, CpuVsGpuSettings
from core.context import Context
from core.data.digits import Digits, DigitsSource
from core.events import Lost, Measured, Progressed, Result, Staged, Stopped
from core.labs import cpu_vs_gpu
from core.labs.cpu_vs_gpu import run
from core.problems import Problem
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine

SETTINGS = CpuVsGpuSettings(steps=20)
CPU_STAGES = [
    "stage.digits",
    "stage.whole_one_thread",
    "stage.whole_all_threads",
    "stage.compute_one_thread",
    "stage.compute_all_threads",
]


@functools.cache
def few_digits():
    images = np.random.default_rng(0).integers(0, 256, (2_600, 28, 28), dtype=np.uint8)
    return Digits(images, np.zeros(2_600, dtype=np.uint8), DigitsSource.WIDENED)


@pytest.fixture
def meter():
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        yield meter


def context(meter, *, device="cpu", threads=2, cores=2, stopped=lambda: False):
    return Context(
        device=device,
        cpu_threads=threads,
        machine=Machine(cpu="a processor", cores=cores, ram_mib=1_000.0),
        meter=meter,
        stopped=stopped,
        digits=few_digits,
    )


@pytest.fixture
def idle_steps(monkeypatch):
    """Steps that learn nothing and take no time, for tests about what lies between steps."""
    nothing = torch.tensor(0.0)
    monkeypatch.setattr(cpu_vs_gpu, "train_step", lambda gan, real: (nothing, nothing))


def traces():
    """What a run must put back: its loader's process and the number of CPU threads."""
    return psutil.Process().children(recursive=True), torch.get_num_threads()


@pytest.fixture(scope="module")
def finished():
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        before = traces()
        events = list(run(SETTINGS, context(meter)))
        assert traces() == before
    return events


def only(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_without_a_gpu_one_thread_is_compared_with_all_threads(finished):
    assert [event.stage for event in only(Staged, finished)] == CPU_STAGES
    names = [event.recording.name for event in only(Measured, finished)]
    assert names == ["one_thread", "all_threads"]
    (result,) = only(Result, finished)
    assert finished[-1] is result
    values = msgspec.convert(result.values, CpuVsGpuResult)
    assert values.sections == ("one_thread", "all_threads")
    assert values.threads == (1, 2)
    assert values.device_name == "a processor"
    assert values.digits == "widened"
    assert values.parameters == {"generator": 534_081, "discriminator": 138_817}
    assert (values.steps, values.batch) == (20, 128)


def test_the_two_speedups_are_never_mixed(finished):
    (result,) = only(Result, finished)
    values = msgspec.convert(result.values, CpuVsGpuResult)
    slow, fast = result.rows
    recorded = [event.recording.seconds for event in only(Measured, finished)]
    assert [slow.seconds, fast.seconds] == recorded
    assert values.speedup.whole == slow.seconds / fast.seconds
    assert values.speedup.compute == values.compute[0].ms_median / values.compute[1].ms_median
    for row, compute in zip(result.rows, values.compute, strict=True):
        assert row.name == compute.name
        assert 0 < compute.ms_low <= compute.ms_median <= compute.ms_high
        assert row.data_wait_share > 0


def test_both_sides_start_from_the_same_weights_and_see_the_same_digits(finished):
    firsts = [event for event in only(Lost, finished) if event.first_step == 1]
    assert len(firsts) == 2
    assert firsts[0].loss_d[0] == pytest.approx(firsts[1].loss_d[0], rel=1e-4)
    assert firsts[0].loss_g[0] == pytest.approx(firsts[1].loss_g[0], rel=1e-4)


def test_the_loss_of_every_step_is_told_once_with_its_number(finished):
    expected = 1
    for event in only(Lost, finished):
        assert event.first_step == (1 if expected == 21 else expected)
        assert len(event.loss_d) == len(event.loss_g)
        expected = event.first_step + len(event.loss_d)
    assert expected == 21


def test_progress_counts_up_to_the_end_and_then_no_time_is_left(finished):
    progress = only(Progressed, finished)
    done = [event.done for event in progress]
    assert done == sorted(set(done))
    assert progress[-1].done == progress[-1].total == 2 * (20 + 17)
    assert progress[-1].seconds_left == 0
    assert all(event.seconds_left is not None for event in progress[len(progress) // 4 :])


@pytest.mark.usefixtures("idle_steps")
@pytest.mark.parametrize("stage", CPU_STAGES)
def test_a_stop_is_heeded_at_the_next_step_of_every_stage(stage, meter):
    before = traces()
    events = []
    asked = threading.Event()
    for event in run(SETTINGS, context(meter, stopped=asked.is_set)):
        events.append(event)
        if event == Staged(stage):
            asked.set()
    assert events[-2:] == [Staged(stage if stage != "stage.digits" else CPU_STAGES[1]), Stopped()]
    assert traces() == before
    assert meter.current_section is None


@pytest.mark.usefixtures("idle_steps")
def test_a_closed_run_leaves_no_process_behind(meter):
    before = traces()
    with closing(run(SETTINGS, context(meter))) as events:
        while not isinstance(next(events), Progressed):
            pass
        assert traces() != before
    assert traces() == before
    assert meter.current_section is None


def test_an_error_in_a_step_passes_and_leaves_no_process_behind(meter, monkeypatch):
    def broken(gan, real):
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(cpu_vs_gpu, "train_step", broken)
    before = traces()
    with pytest.raises(RuntimeError, match="device-side assert"):
        list(run(SETTINGS, context(meter)))
    assert traces() == before


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
    ids=["pytorch", "cuda", "cudnn"],
)
def test_a_full_card_is_told_in_a_sentence(error, meter, monkeypatch):
    def full(gan, real):
        raise error

    monkeypatch.setattr(cpu_vs_gpu, "train_step", full)
    with pytest.raises(Problem) as caught:
        list(run(SETTINGS, context(meter)))
    assert caught.value.notice.key == "problem.out_of_gpu_memory"


@pytest.mark.parametrize(("threads", "cores"), [(1, 8), (2, 1)], ids=["one_allowed", "one_core"])
def test_one_thread_and_no_gpu_leave_nothing_to_compare(threads, cores, meter):
    with pytest.raises(Problem) as caught:
        next(run(SETTINGS, context(meter, threads=threads, cores=cores)))
    assert caught.value.notice.key == "problem.nothing_to_compare"


@pytest.mark.gpu
def test_with_a_gpu_the_cpu_is_compared_with_the_card():
    from core.labs.device import chosen_device

    name, uuid = chosen_device("cuda:0")
    with open_meter(gpu_uuid=uuid, period_seconds=0.1) as meter:
        *events, result = run(SETTINGS, context(meter, device=name))
    assert [event.stage for event in only(Staged, events)] == [
        "stage.digits",
        "stage.whole_cpu",
        "stage.whole_gpu",
        "stage.compute_cpu",
        "stage.compute_gpu",
    ]
    values = msgspec.convert(result.values, CpuVsGpuResult)
    assert values.sections == ("cpu", "gpu")
    assert values.device_name == torch.cuda.get_device_name(0)
    assert values.compute[1].steps == 200
    assert values.speedup.compute > 1
    cpu, gpu = result.rows
    assert (cpu.name, gpu.name) == ("cpu", "gpu")
    assert gpu.own_vram_mib_max > 0
    losses = only(Lost, events)
    assert np.isfinite([loss for event in losses for loss in event.loss_d]).all()


def stopped_run(stage, meter):
    """Run up to the first progress of `stage`; the card's bytes reserved then and afterwards."""
    asked = threading.Event()
    reached = False
    for event in run(SETTINGS, context(meter, device="cuda:0", stopped=asked.is_set)):
        reached = reached or event == Staged(stage)
        if reached and isinstance(event, Progressed) and not asked.is_set():
            asked.set()
            during = torch.cuda.memory_reserved(0)
    assert event == Stopped()
    return during, torch.cuda.memory_reserved(0)


@pytest.mark.gpu
@pytest.mark.parametrize("stage", ["stage.whole_gpu", "stage.compute_gpu"])
def test_a_stopped_run_gives_the_memory_of_the_card_back(stage, meter):
    during, after = stopped_run(stage, meter)
    assert after < during
    # What is left is the workspace of CUDA's libraries: it does not grow from run to run.
    assert stopped_run(stage, meter)[1] == after
