"""Part 2b: settings and result of feeding the same training in several ways."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.activities.base import Activity, ActivitySettings, Lane, Limit

BATCHES = (256, 512, 1_024, 2_048)  # for the large way
REPEATS = 3  # of a way that is short


class FeedGpuSettings(ActivitySettings, frozen=True):
    """Which ways to run, and on how many images each. A switch is 0 or 1."""

    batch: Annotated[int, Limit(256, 2_048, step=256)] = 512
    images: Annotated[int, Limit(1_280, 60_000, step=160)] = 60_000
    seed: Annotated[int, Limit(0, 9_999)] = 0
    loader: Annotated[int, Limit(0, 1)] = 1  # (a) loader, batch 128
    resident: Annotated[int, Limit(0, 1)] = 1  # (b) all data on the device, batch 128
    large: Annotated[int, Limit(0, 1)] = 1  # (c) all on the device, the chosen batch
    no_wait: Annotated[int, Limit(0, 1)] = 1  # (d) as b, losses read at the end
    graph: Annotated[int, Limit(0, 1)] = 1  # (e) as d, the whole step one CUDA graph
    lean: Annotated[int, Limit(0, 1)] = 1  # (f) as e, bf16 and channels-last, kernels fused


class WayResult(msgspec.Struct, frozen=True):
    """One way. Times are medians of its repeats."""

    way: str  # "loader", "resident", "large", "no_wait", "graph", "lean"
    batch: int
    images: int  # of one repeat
    steps: int  # of one repeat
    seconds: float
    seconds_low: float
    seconds_high: float
    repeats: int
    images_per_second: float
    data_wait_share: float  # 0 to 1: the step stood still for want of data
    gpu_wait_share: float  # 0 to 1: the CPU stood still for want of a loss from the GPU
    upload_seconds: float | None  # bringing all data to the device, not part of `seconds`
    readable_equal_epochs: float | None  # the judge's score after one epoch
    readable_equal_steps: float | None  # and after as many steps as the way with fewest


class Span(msgspec.Struct, frozen=True):
    """A stretch of one lane of the time line, in milliseconds from its start."""

    lane: str  # "cpu" or "gpu"
    what: str  # "load", "launch", "wait", "step", "upload"
    start_ms: float
    end_ms: float


class TimeLine(msgspec.Struct, frozen=True):
    """Some consecutive steps of one way, as they were measured."""

    way: str
    spans: tuple[Span, ...]


class Diagnosis(msgspec.Struct, frozen=True):
    """The bottleneck of one way, and the signal that decided."""

    way: str
    bottleneck: str  # "data", "launch", "wait", "compute", "neighbours" or "unclear"
    signal: str  # which figure decided, such as "data_wait_share"
    value: float
    threshold: float
    repair: str | None  # the way to try next


class FeedGpuResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "feed-gpu"."""

    ways: tuple[WayResult, ...]
    timelines: tuple[TimeLine, ...]
    diagnoses: tuple[Diagnosis, ...]
    data_mib: float  # all images as float32
    device_name: str
    digits: str


FEED_GPU = Activity(
    id="feed-gpu",
    settings=FeedGpuSettings,
    entry="core.labs.feed_gpu:run",
    lane=Lane.TRAIN,
    need_mib=2_000,
    work=("images",),
    result=FeedGpuResult,
)


# The rules of the race. The goal takes about one pass over the digits: 0.2 to 3 s on an H200,
# by the switches, and minutes on two cores of a CPU.
RACE_GOAL = 0.5  # share of readable digits
RACE_CHECK_IMAGES = 2_560  # between two looks of the judge
RACE_MAX_IMAGES = 300_000  # then it is not reached


class RaceSettings(ActivitySettings, frozen=True):
    """The record board: from scratch to a fixed judge's score, as fast as these switches allow."""

    batch: Annotated[int, Limit(128, 2_048, step=128)] = 128
    no_wait: Annotated[int, Limit(0, 1)] = 1  # losses read at the end only
    graph: Annotated[int, Limit(0, 1)] = 0
    lean: Annotated[int, Limit(0, 1)] = 0
    seed: Annotated[int, Limit(0, 9_999)] = 0


class RaceResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "race"."""

    seconds: float | None  # training alone until the score was reached; None: not reached
    steps: int
    images: int
    readable: float  # at the end, 0 to 1
    goal: float
    device_name: str
    digits: str


RACE = Activity(
    id="race",
    settings=RaceSettings,
    entry="core.labs.race:run",
    lane=Lane.TRAIN,
    need_mib=2_000,
    work=(),
    result=RaceResult,
)
