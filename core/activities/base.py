"""What an activity declares: its settings with their limits, its lane, and where its code is."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, get_type_hints

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
    """Base of all settings; a field annotated with a `Limit` is checked on construction."""

    def __post_init__(self) -> None:
        for name, limit in self.limits().items():
            value = getattr(self, name)
            if type(value) is not int:
                raise Problem("problem.setting_type", setting=name, value=str(value))
            if not limit.low <= value <= limit.high:
                raise Problem(
                    "problem.setting_range",
                    setting=name,
                    value=value,
                    low=limit.low,
                    high=limit.high,
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


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing a student can run."""

    id: str  # as the command line and the URL name it
    settings: type[ActivitySettings]
    entry: str  # "module:function" of the generator; only a worker imports it
    lane: Lane
    need_mib: int  # GPU memory to be free before it starts, CUDA context included
    work: tuple[str, ...]  # settings that its duration grows with, for estimates of the wait
    result: type[msgspec.Struct] = msgspec.Struct  # the shape of its `Result.values`
    recorded: bool = True  # False: too small and too frequent to be kept in the records

    def size(self, settings: ActivitySettings) -> float:
        """The amount of work that these settings ask for, in units of the activity's own."""
        return math.prod(float(getattr(settings, name)) for name in self.work)
