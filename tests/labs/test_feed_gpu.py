import functools
import threading
import time
from contextlib import closing

import msgspec
import numpy as np
import psutil
import pytest
import torch

from core.activities import FeedGpuResult, FeedGpuSettings
from core.activities.feed_gpu import FEED_GPU
from core.context import Context
from core.data.digits import Digits, DigitsSource
from core.events import Drawn, Measured, Progressed, Result, Staged, Stopped
from core.headless import Run
from core.labs import ways
from core.labs.feed_gpu import _power_share, run
from core.problems import Problem
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine, SummaryRow

SETTINGS = FeedGpuSettings(images=1_280, batch=256)
ON_CPU = ["loader", "resident", "large", "no_wait"]


@functools.cache
def few_digits():
    images = np.random.default_rng(0).integers(0, 256, (1_300, 28, 28), dtype=np.uint8)
    return Digits(images, np.zeros(1_300, dtype=np.uint8), DigitsSource.WIDENED)


@pytest.fixture(scope="module")
def meter():
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        yield meter


def context(meter, *, device="cpu", stopped=lambda: False):
    return Context(
        device=device,
        cpu_threads=2,
        machine=Machine(cpu="a processor", cores=2, ram_mib=1_000.0),
        meter=meter,
        stopped=stopped,
        digits=few_digits,
    )


def light_step(gan, real, *, noise):
    """A step that takes no time, and whose losses tell what it was given."""
    assert real.shape == (len(noise), 1, 28, 28)
    return real.mean(), noise.mean()


@pytest.fixture
def light_steps(monkeypatch):
    monkeypatch.setattr(ways, "train_step", light_step)


@pytest.fixture(scope="module")
def finished(meter):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "train_step", light_step)
        before = psutil.Process().children(recursive=True), torch.get_num_threads()
        events = list(run(SETTINGS, context(meter)))
        assert (psutil.Process().children(recursive=True), torch.get_num_threads()) == before
    return events


def only(kind, events):
    return [event for event in events if isinstance(event, kind)]


def values_of(events):
    return msgspec.convert(only(Result, events)[-1].values, FeedGpuResult)


def test_on_a_cpu_the_four_ways_that_need_no_gpu_are_measured(finished):
    values = values_of(finished)
    assert [way.way for way in values.ways] == ON_CPU
    assert [row.name for row in finished[-1].rows] == ON_CPU
    assert [event.recording.name for event in only(Measured, finished)] == ON_CPU
    assert [line.way for line in values.timelines] == ON_CPU
    assert [found.way for found in values.diagnoses] == ON_CPU
    assert values.device_name == "a processor"


def test_a_row_is_the_median_of_its_repeats_within_their_range(finished):
    for way, row in zip(values_of(finished).ways, finished[-1].rows, strict=True):
        assert way.repeats == 3
        assert way.seconds_low <= way.seconds == row.seconds <= way.seconds_high
        assert way.images_per_second == pytest.approx(1_280 / way.seconds)


def test_the_command_line_tells_each_way_in_one_row(finished):
    line = Run(FEED_GPU, SETTINGS, context(None).machine).result_line(finished[-1])
    assert [row["way"] for row in line["rows"]] == ON_CPU
    for row, way in zip(line["rows"], values_of(finished).ways, strict=True):
        assert row["name"] == way.way
        assert row["seconds"] == way.seconds
        assert row["images_per_second"] == way.images_per_second
        assert row["data_wait_share"] == way.data_wait_share  # a number, where none was awaited too


def test_a_larger_batch_sees_as_many_images_in_fewer_steps(finished):
    by_name = {way.way: way for way in values_of(finished).ways}
    assert (by_name["resident"].steps, by_name["large"].steps) == (10, 5)
    assert by_name["resident"].images == by_name["large"].images == 1_280


def test_only_the_loader_waits_for_data_and_only_the_others_are_uploaded(finished):
    loader, *others = values_of(finished).ways
    assert loader.data_wait_share > 0.3  # its steps take no time here
    assert loader.upload_seconds is None
    assert all(way.data_wait_share == 0 for way in others)
    assert all(way.upload_seconds > 0 for way in others)
    assert values_of(finished).diagnoses[0].bottleneck == "data"


def test_each_way_shows_its_digits_after_equal_steps_and_after_equal_epochs(finished):
    names = [event.name for event in only(Drawn, finished)]
    assert names == [f"{kind}-{way}" for way in ON_CPU for kind in ("steps", "epochs")]
    assert all(event.png.startswith(b"\x89PNG") for event in only(Drawn, finished))
    assert all(0 <= way.readable_equal_epochs <= 1 for way in values_of(finished).ways)


def test_the_time_line_holds_consecutive_spans_of_one_clock(finished):
    for line in values_of(finished).timelines:
        assert {span.lane for span in line.spans} == {"cpu"}
        ends = [span.end_ms for span in line.spans]
        starts = [span.start_ms for span in line.spans]
        assert all(start >= end for start, end in zip(starts[1:], ends[:-1], strict=True))
        assert "step" in {span.what for span in line.spans}
    assert "load" in {span.what for span in values_of(finished).timelines[0].spans}


def test_progress_counts_up_to_the_end(finished):
    done = [event.done for event in only(Progressed, finished)]
    assert done == sorted(done)
    assert done[-1] == only(Progressed, finished)[-1].total


@pytest.mark.usefixtures("light_steps")
@pytest.mark.parametrize("way", ON_CPU)
def test_a_stop_is_heeded_in_every_way_and_leaves_no_process(way, meter):
    asked = threading.Event()
    children = psutil.Process().children(recursive=True)
    events = []
    for event in run(SETTINGS, context(meter, stopped=asked.is_set)):
        events.append(event)
        if event == Staged(f"stage.feed_{way}"):
            asked.set()
    assert events[-2:] == [Staged(f"stage.feed_{way}"), Stopped()]
    assert psutil.Process().children(recursive=True) == children


@pytest.mark.usefixtures("light_steps")
def test_a_closed_run_leaves_no_process_behind(meter):
    children = psutil.Process().children(recursive=True)
    with closing(run(SETTINGS, context(meter))) as events:
        while not isinstance(next(events), Progressed):
            pass
    assert psutil.Process().children(recursive=True) == children
    assert meter.current_section is None


def test_switched_off_ways_are_left_out_and_none_left_is_told(meter):
    off = dict.fromkeys(ON_CPU, 0)
    with pytest.raises(Problem) as caught:
        next(run(FeedGpuSettings(images=1_280, batch=256, **off), context(meter)))
    assert caught.value.notice.key == "problem.no_way_chosen"


def test_a_batch_larger_than_the_images_is_told(meter):
    with pytest.raises(Problem) as caught:
        list(run(FeedGpuSettings(images=1_280, batch=2_048), context(meter)))
    assert caught.value.notice.key == "problem.batch_over_images"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler does what PyTorch warns of
def test_on_a_gpu_all_six_ways_run_and_can_run_again_in_the_same_process():
    from core.labs.device import chosen_device

    name, uuid = chosen_device("cuda:0")
    numbers, benchmark = torch.get_rng_state(), torch.backends.cudnn.benchmark
    reserved = []
    with open_meter(gpu_uuid=uuid, period_seconds=0.1) as meter:
        for _ in range(3):
            events = list(run(SETTINGS, context(meter, device=name)))
            values = values_of(events)
            assert [way.way for way in values.ways] == [*ON_CPU, "graph", "lean"]
            assert "gpu" in {span.lane for line in values.timelines for span in line.spans}
            reserved.append(torch.cuda.memory_reserved(0))
    # The first run leaves the workspaces of CUDA's libraries; they do not grow from run to run.
    assert reserved[2] <= reserved[1]
    assert torch.equal(torch.get_rng_state(), numbers)
    assert torch.backends.cudnn.benchmark == benchmark


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stage", ["stage.feed_kernels", "stage.feed_graph", "stage.feed_lean"])
def test_on_a_gpu_a_stop_is_heeded_within_a_second(stage, meter):
    asked = threading.Event()
    asked_at = 0.0
    for event in run(SETTINGS, context(meter, device="cuda:0", stopped=asked.is_set)):
        if event == Staged(stage):
            asked.set()
            asked_at = time.perf_counter()
    assert event == Stopped()
    assert time.perf_counter() - asked_at < 1


def test_the_power_share_is_mean_power_over_the_cards_limit_and_unknown_without_either():
    row = SummaryRow("lean", seconds=36.0, energy_wh=2.0)  # 200 W
    assert _power_share(row, 700.0) == pytest.approx(200 / 700)
    assert _power_share(row, None) is None
    assert _power_share(SummaryRow("lean", seconds=0.4), 700.0) is None
