"""Part 1: settings and result of the comparison of two processors."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.activities.base import Activity, ActivitySettings, Lane, Limit


class CpuVsGpuSettings(ActivitySettings, frozen=True):
    """Part 1: the same GAN steps on two processors."""

    steps: Annotated[int, Limit(20, 200, step=10)] = 100
    seed: Annotated[int, Limit(0, 9_999)] = 0


class ComputeTime(msgspec.Struct, frozen=True):
    """Compute alone of one section: warmed up, batches preloaded, the device waited for."""

    name: str  # the section: "cpu", "gpu", "one_thread" or "all_threads"
    steps: int  # timed steps, each measured on its own
    ms_median: float
    ms_low: float  # first quartile
    ms_high: float  # third quartile


class Speedup(msgspec.Struct, frozen=True):
    """How many times faster the second section is than the first, said two ways."""

    whole: float  # whole job as the lab does it: start-up, loader and copies included
    compute: float  # medians of the compute alone


class CpuVsGpuResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "cpu-vs-gpu"."""

    parameters: dict[str, int]  # "generator" and "discriminator"
    sections: tuple[str, str]  # slow one first: ("cpu", "gpu") or ("one_thread", "all_threads")
    speedup: Speedup
    compute: tuple[ComputeTime, ComputeTime]
    steps: int
    batch: int
    threads: tuple[int, int]  # CPU threads in each section
    device_name: str  # of the second section: the card's or the processor's name
    digits: str  # DigitsSource of the data used


CPU_VS_GPU = Activity(
    id="cpu-vs-gpu",
    settings=CpuVsGpuSettings,
    entry="core.labs.cpu_vs_gpu:run",
    lane=Lane.TRAIN,
    need_mib=1_000,
    work=("steps",),
    result=CpuVsGpuResult,
)
