"""The activities of the lab: their settings, limits and lanes, declared once and without torch.

Pages make their sliders from these declarations, the command line its options, and a job checks
them again: settings out of range cannot be built, whatever the widget, the URL or the pipe said.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self, get_type_hints

import msgspec

from core.problems import Problem


class Lane(StrEnum):
    """Which kind of worker runs an activity, so that short jobs never wait behind long ones."""

    TRAIN = "train"
    INFER = "infer"


@dataclass(frozen=True, slots=True)
class Limit:
    """The allowed range of one whole-number setting, and the step of its slider."""

    low: int
    high: int
    step: int = 1


class ActivitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all settings; each field is annotated with its `Limit` and checked on construction."""

    def __post_init__(self) -> None:
        for name, limit in self.limits().items():
            value = getattr(self, name)
            if type(value) is not int:
                raise Problem("problem.setting_type", setting=name, value=str(value))
            if not limit.low <= value <= limit.high:
                raise Problem(
                    "problem.setting_range", setting=name, value=value, low=limit.low, high=limit.high
                )

    @classmethod
    def limits(cls) -> dict[str, Limit]:
        """Field name -> its range, in the order of declaration."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            name: limit
            for name, hint in hints.items()
            for limit in getattr(hint, "__metadata__", ())
            if isinstance(limit, Limit)
        }

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Settings from untrusted names and values (URL, command line, pipe).

        Raises Problem naming the setting: unknown (with the nearest name), not a whole number, or
        out of range.
        """
        for name in values:
            if name not in cls.__struct_fields__:
                near = difflib.get_close_matches(name, cls.__struct_fields__, n=1)
                raise Problem(
                    "problem.setting_unknown",
                    setting=name,
                    near=near[0] if near else ", ".join(cls.__struct_fields__),
                )
        return cls(**{name: _whole_number(name, value) for name, value in values.items()})


def _whole_number(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(str(value).strip())
    except ValueError:
        raise Problem("problem.setting_type", setting=name, value=str(value)) from None


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


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing a student can run."""

    id: str  # as the command line and the URL name it
    settings: type[ActivitySettings]
    entry: str  # "module:function" of the generator; only a worker imports it
    lane: Lane
    need_mib: int  # GPU memory to be free before it starts, CUDA context included
    work: str  # the setting that its duration grows with, for estimates of the wait
    result: type[msgspec.Struct] = msgspec.Struct  # the shape of its `Result.values`

    def size(self, settings: ActivitySettings) -> float:
        """The amount of work that these settings ask for, in units of the activity's own."""
        return float(getattr(settings, self.work))


ACTIVITIES: dict[str, Activity] = {
    activity.id: activity
    for activity in (
        Activity(
            id="cpu-vs-gpu",
            settings=CpuVsGpuSettings,
            entry="core.labs.cpu_vs_gpu:run",
            lane=Lane.TRAIN,
            need_mib=1_000,
            work="steps",
            result=CpuVsGpuResult,
        ),
    )
}


def activity_named(name: str) -> Activity:
    """The activity with this id. Raises Problem with the nearest ids if there is none."""
    if name in ACTIVITIES:
        return ACTIVITIES[name]
    near = difflib.get_close_matches(name, ACTIVITIES, n=3, cutoff=0.4) or list(ACTIVITIES)
    raise Problem("problem.activity_unknown", activity=name, near=", ".join(near))
