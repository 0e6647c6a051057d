"""The simplest rule against mining: GPU above a threshold for some minutes outside class hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from core.soc.week import Session, Week

THRESHOLDS = tuple(range(5, 100, 5))  # percent
MOST_MINUTES = 120


@dataclass(frozen=True, slots=True)
class Rule:
    """An alarm for `minutes` in a row, all outside class hours, above `threshold` percent."""

    threshold: int = 90
    minutes: int = 10


class Verdict(StrEnum):
    """What a rule makes of one session. It rings at most once in each: then somebody looks."""

    CAUGHT = "caught"  # mining, and it rang
    MISSED = "missed"  # mining, and it did not
    FALSE_ALARM = "false_alarm"  # it rang, and nobody was mining
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Judged:
    """A session and what came of it."""

    session: Session
    verdict: Verdict
    rang_after: int | None = None  # minutes from its start to the alarm


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule makes of a week."""

    judged: tuple[Judged, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(one.verdict is verdict for one in self.judged)

    @property
    def caught(self) -> int:
        return self.count(Verdict.CAUGHT)

    @property
    def missed(self) -> int:
        return self.count(Verdict.MISSED)

    @property
    def false_alarms(self) -> int:
        return self.count(Verdict.FALSE_ALARM)

    @property
    def alarms(self) -> int:
        return self.caught + self.false_alarms


def ringing(week: Week, rule: Rule) -> NDArray[np.bool_]:
    """Of each minute, whether it ends a stretch that the rule asks for. (MINUTES,)"""
    hot = (week.levels > rule.threshold) & ~week.in_class
    minutes = np.arange(len(hot))
    last_cold = np.maximum.accumulate(np.where(hot, -1, minutes))
    return minutes - last_cold >= rule.minutes


def outcome_of(week: Week, rule: Rule) -> Outcome:
    """Every session judged: a higher threshold or more minutes never give more alarms."""
    rings = ringing(week, rule)
    return Outcome(tuple(_judged(session, rings) for session in week.sessions))


def _judged(session: Session, rings: NDArray[np.bool_]) -> Judged:
    inside = np.flatnonzero(rings[session.start : session.end])
    if not len(inside):
        return Judged(session, Verdict.MISSED if session.mining else Verdict.QUIET)
    verdict = Verdict.CAUGHT if session.mining else Verdict.FALSE_ALARM
    return Judged(session, verdict, rang_after=int(inside[0]) + 1)


def swept(
    week: Week, *, minutes: int, thresholds: Sequence[int] = THRESHOLDS
) -> list[tuple[int, int, int]]:
    """Of each threshold: itself, the miners caught, the false alarms."""
    outcomes = [(one, outcome_of(week, Rule(one, minutes))) for one in thresholds]
    return [(one, outcome.caught, outcome.false_alarms) for one, outcome in outcomes]
