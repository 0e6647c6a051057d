"""What an activity declares: its settings with their limits, its lane, and where its code is."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, cast, get_type_hints

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

    def parsed(self, name: str, value: object) -> int:
        """`value`, or the text of it, as a whole number. Raises Problem."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        try:
            return int(str(value).strip())
        except ValueError:
            raise Problem("problem.setting_type", setting=name, value=str(value)) from None

    def check(self, name: str, value: object) -> None:
        """Raises Problem where it is not a whole number of the range."""
        if type(value) is not int:
            raise Problem("problem.setting_type", setting=name, value=str(value))
        if not self.low <= value <= self.high:
            raise Problem(
                "problem.setting_range", setting=name, value=value, low=self.low, high=self.high
            )


@dataclass(frozen=True, slots=True)
class DecimalLimit:
    """The allowed range of one setting that may have decimals, and the step of its slider."""

    low: float
    high: float
    step: float

    def parsed(self, name: str, value: object) -> float:
        """`value`, or the text of it, as a number; a decimal comma is read too. Raises Problem."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        try:
            return float(str(value).strip().replace(",", "."))
        except ValueError:
            raise Problem("problem.setting_number", setting=name, value=str(value)) from None

    def check(self, name: str, value: object) -> None:
        """Raises Problem where it is not a number of the range."""
        if type(value) not in (int, float):
            raise Problem("problem.setting_number", setting=name, value=str(value))
        if not self.low <= cast(float, value) <= self.high:  # "nan" ends here as well
            raise Problem(
                "problem.setting_range",
                setting=name,
                value=cast(float, value),
                low=self.low,
                high=self.high,
            )


@dataclass(frozen=True, slots=True)
class TextLimit:
    """A setting that is free text, of at most so many characters and, if not said, not empty."""

    longest: int
    may_be_empty: bool = False

    def parsed(self, name: str, value: object) -> str:
        """`value` on one line; what is no text becomes none, which `check` refuses."""
        return " ".join(value.split()) if isinstance(value, str) else ""

    def check(self, name: str, value: object) -> None:
        """Raises Problem where it is no text, empty, garbled, or too long."""
        if not isinstance(value, str) or not (value.strip() or self.may_be_empty):
            raise Problem("problem.setting_empty", setting=name)
        if any("\ud800" <= character <= "\udfff" for character in value):  # half a character
            raise Problem("problem.setting_garbled", setting=name)
        if len(value) > self.longest:
            raise Problem(
                "problem.setting_too_long", setting=name, length=len(value), longest=self.longest
            )


@dataclass(frozen=True, slots=True)
class OneOf:
    """A setting that is one of these names."""

    names: tuple[str, ...]

    def parsed(self, name: str, value: object) -> str:
        return str(value).strip()

    def check(self, name: str, value: object) -> None:
        """Raises Problem with the names that there are."""
        if value not in self.names:
            raise Problem(
                "problem.setting_choice",
                setting=name,
                value=str(value),
                names=", ".join(self.names),
            )


Rule = Limit | DecimalLimit | TextLimit | OneOf


class ActivitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all settings; each field carries the rule that it is checked by on construction."""

    def __post_init__(self) -> None:
        for name, rule in self.rules().items():
            rule.check(name, getattr(self, name))

    @classmethod
    def rules(cls) -> dict[str, Rule]:
        """Field name -> its rule, in the order of declaration."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            name: rule
            for name, hint in hints.items()
            for rule in getattr(hint, "__metadata__", ())
            if isinstance(rule, Rule)
        }

    @classmethod
    def limits(cls) -> dict[str, Limit]:
        """Field name -> its range, of the whole-number settings alone."""
        return {name: rule for name, rule in cls.rules().items() if isinstance(rule, Limit)}

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Settings from untrusted names and values (URL, command line, pipe).

        Raises Problem naming the setting: unknown (with the nearest name), of the wrong kind, or
        against its rule.
        """
        rules = cls.rules()
        for name in values:
            if name not in rules:
                near = difflib.get_close_matches(name, rules, n=1)
                raise Problem(
                    "problem.setting_unknown",
                    setting=name,
                    near=near[0] if near else ", ".join(rules),
                )
        return cls(**{name: rules[name].parsed(name, value) for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class Together:
    """Jobs of different students that one run may serve at once: as one batch on one model."""

    entry: str  # "module:function" of the generator for several shares; see core.context.Share
    alike: tuple[str, ...]  # settings that must be equal
    weight: str  # the setting that counts pictures
    most: int  # pictures in one run


def no_model(_settings: Any) -> tuple[str, int]:
    return "", 0


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
    metered: bool = True  # False: it tells of figures, without a row of the meter for each part
    recorded: bool = True  # False: too small and too frequent to be kept in the records
    together: Together | None = None  # None: each job runs by itself
    # Name and MiB of the model that a job needs in memory, beyond `need_mib`; a worker that holds
    # it already needs no more for it.
    model: Callable[[Any], tuple[str, int]] = no_model

    def size(self, settings: ActivitySettings) -> float:
        """The amount of work that these settings ask for, in units of the activity's own."""
        return math.prod(float(getattr(settings, name)) for name in self.work)
