"""A simulated week of one shared card, minute by minute, put together from traces.

What ran when is made up by a seed; how busy the card is in each minute comes from a trace of that
kind of load. Nothing of it happened, and the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

HOUR, DAY = 60, 24 * 60
DAYS = 7  # from Monday
MINUTES = DAYS * DAY
SCHOOL_DAYS = 5
CLASS_HOURS = ((8 * HOUR, 11 * HOUR + 30), (13 * HOUR + 30, 17 * HOUR))  # on school days
READINGS_A_MINUTE = 24  # neighbours in a trace, of which a minute is the mean

IDLE = "idle"
HONEST = ("training", "starved", "images", "fed", "check")
MINERS = ("full", "throttled", "stop_and_go", "by_day")
ON_MINUTES, CYCLE_MINUTES = 12, 30  # of the miner that stops and goes

# What a session shows on the meter.
_TRACE = {"check": "fed", "full": "steady", "stop_and_go": "steady", "by_day": "steady"}


@dataclass(frozen=True, slots=True)
class Session:
    """One use of the card, or the idle time between two; minutes of the week, the end excluded."""

    kind: str
    start: int
    end: int

    @property
    def mining(self) -> bool:
        return self.kind in MINERS


@dataclass(frozen=True, slots=True, eq=False)
class Week:
    """Every minute belongs to one session."""

    sessions: tuple[Session, ...]
    levels: NDArray[np.float64]  # (MINUTES,) GPU % of the minute
    in_class: NDArray[np.bool_]  # (MINUTES,)


def week_of(seed: int, levels: Mapping[str, Sequence[float]]) -> Week:
    """The week of this seed; `levels` holds GPU % readings of each kind of trace, in order."""
    chance = Random(seed)
    busy = sorted(_planned(chance), key=lambda session: session.start)
    sessions = _without_gaps(busy)
    values = np.concatenate([_played(session, levels, chance) for session in sessions])
    return Week(sessions, values, _class_minutes())


def _class_minutes() -> NDArray[np.bool_]:
    in_class = np.zeros((DAYS, DAY), dtype=np.bool_)
    for start, end in CLASS_HOURS:
        in_class[:SCHOOL_DAYS, start:end] = True
    return in_class.ravel()


def _planned(chance: Random) -> list[Session]:
    """Who uses the card when: lessons, homework, a check each morning, and four miners."""
    mined = chance.randrange(SCHOOL_DAYS)  # the afternoon on which somebody mines in class
    plan = []
    for day in range(DAYS):
        plan.append(_at(day, 6 * HOUR + 30, "check", chance.randint(4, 8)))
        for start, end in CLASS_HOURS if day < SCHOOL_DAYS else ():
            if day == mined and start > 12 * HOUR:
                plan.append(_at(day, start + 5, "by_day", end - start - 10))
            else:
                plan += _lesson(day, start, end, chance)
    plan += _homework(chance)
    night, other = chance.sample(range(SCHOOL_DAYS - 1), 2)  # Monday to Thursday
    plan.append(_at(night, 23 * HOUR + chance.randrange(30), "full", chance.randint(240, 360)))
    plan.append(
        _at(other, 23 * HOUR + chance.randrange(30), "stop_and_go", CYCLE_MINUTES * 10),
    )
    plan.append(_at(SCHOOL_DAYS, 23 * HOUR + 10, "throttled", chance.randint(330, 430)))
    return plan


def _at(day: int, minute: int, kind: str, minutes: int) -> Session:
    start = day * DAY + minute
    return Session(kind, start, start + minutes)


def _lesson(day: int, start: int, end: int, chance: Random) -> list[Session]:
    """Three things that a class does in half a day, one after another."""
    each = (end - start) // 3
    kinds = chance.sample(["training", "starved", "images", "fed"], 3)
    return [
        _at(day, start + place * each + chance.randint(2, 12), kind, each - chance.randint(15, 30))
        for place, kind in enumerate(kinds)
    ]


def _homework(chance: Random) -> list[Session]:
    """Evenings on which somebody works late, with leave: training, and pictures for a report."""
    evenings = chance.sample(range(DAYS), 5)
    kinds = ("fed", "fed", "images", "images", "starved")
    return [
        _at(day, 19 * HOUR + chance.randrange(60), kind, chance.randint(25, 75))
        for day, kind in zip(evenings, kinds, strict=True)
    ]


def _without_gaps(busy: Sequence[Session]) -> tuple[Session, ...]:
    """The sessions with idle ones between them, from the first minute to the last."""
    whole: list[Session] = []
    now = 0
    for session in busy:
        if session.start > now:
            whole.append(Session(IDLE, now, session.start))
        whole.append(session)
        now = session.end
    if now < MINUTES:
        whole.append(Session(IDLE, now, MINUTES))
    return tuple(whole)


def _played(
    session: Session, levels: Mapping[str, Sequence[float]], chance: Random
) -> NDArray[np.float64]:
    """GPU % of each minute of the session, from the trace of its kind, begun anywhere in it."""
    length = session.end - session.start
    played = _minutes(levels[_TRACE.get(session.kind, session.kind)], length, chance)
    if session.kind == "stop_and_go":
        resting = np.arange(length) % CYCLE_MINUTES >= ON_MINUTES
        played = np.where(resting, _minutes(levels[IDLE], length, chance), played)
    return played


def _minutes(readings: Sequence[float], count: int, chance: Random) -> NDArray[np.float64]:
    known = np.asarray(readings, dtype=np.float64)
    starts = np.array([chance.randrange(len(known)) for _ in range(count)])
    places = (starts[:, None] + np.arange(READINGS_A_MINUTE)) % len(known)
    means: NDArray[np.float64] = known[places].mean(axis=1)
    return means
