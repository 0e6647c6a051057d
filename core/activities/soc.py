"""Part 5b and "Real or fake?": a load that never rests, and eight digits to be told apart."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.activities.base import Activity, ActivitySettings, Lane, Limit

DIGITS = 8  # of one round, half of them real


class SteadyLoadSettings(ActivitySettings, frozen=True):
    """Matrix products without a rest, as the meters see a mining program; nothing is mined."""

    seconds: Annotated[int, Limit(1, 30)] = 10
    percent: Annotated[int, Limit(10, 100, step=10)] = 100  # of the time busy; less: throttled


class SteadyLoadResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "steady-load"."""

    products: int  # that were computed
    side: int  # of the square matrices
    percent: int  # as asked for
    busy_percent: float  # of the time, by the clock of the work itself
    device_name: str


class RealOrFakeSettings(ActivitySettings, frozen=True):
    """One round: four real digits and four by the student's own G, shuffled by the seed."""

    seed: Annotated[int, Limit(0, 9_999)] = 0


class RealOrFakeResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "real-or-fake". `Drawn`: "digit-0" to "digit-7"."""

    truths: tuple[bool, ...]  # whether each is real
    beliefs: tuple[float, ...]  # D's, that each is real, 0 to 1


STEADY_LOAD = Activity(
    id="steady-load",
    settings=SteadyLoadSettings,
    entry="core.labs.steady_load:run",
    lane=Lane.TRAIN,
    need_mib=1_000,
    work=("seconds",),
    result=SteadyLoadResult,
)
REAL_OR_FAKE = Activity(
    id="real-or-fake",
    settings=RealOrFakeSettings,
    entry="core.labs.real_or_fake:run",
    lane=Lane.INFER,
    need_mib=1_000,
    work=(),
    result=RealOrFakeResult,
    recorded=False,
)
