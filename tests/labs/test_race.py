import functools

import msgspec
import numpy as np
import pytest

from core.activities import RaceResult, RaceSettings
from core.context import Context
from core.data.digits import Digits, DigitsSource
from core.events import Result, Scored, Stopped
from core.labs import race, ways
from core.labs.race import run
from core.problems import Problem
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine


@functools.cache
def few_digits():
    images = np.random.default_rng(0).integers(0, 256, (1_300, 28, 28), dtype=np.uint8)
    return Digits(images, np.zeros(1_300, dtype=np.uint8), DigitsSource.WIDENED)


@pytest.fixture(autouse=True)
def light_steps(monkeypatch):
    """Steps that learn nothing and take no time: a race is about what lies around them."""
    monkeypatch.setattr(ways, "train_step", lambda gan, real, noise: (real.mean(), noise.mean()))
    monkeypatch.setattr(race, "RACE_MAX_IMAGES", 6_000)


def raced(settings, **wishes):
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        context = Context(
            device="cpu",
            cpu_threads=1,
            machine=Machine(cpu="a processor", cores=2, ram_mib=1_000.0),
            meter=meter,
            digits=few_digits,
            **{"stopped": lambda: False} | wishes,
        )
        return list(run(settings, context))


def values_of(events):
    return msgspec.convert(events[-1].values, RaceResult)


def test_a_race_that_never_reaches_the_goal_is_lost_after_the_last_image():
    values = values_of(raced(RaceSettings()))
    assert values.seconds is None
    assert 6_000 <= values.images < 6_000 + race.RACE_CHECK_IMAGES
    assert values.steps * 128 == values.images
    assert values.readable < values.goal == race.RACE_GOAL


def test_the_race_ends_at_the_first_look_that_reaches_the_goal(monkeypatch):
    monkeypatch.setattr(race, "RACE_GOAL", 0.0)
    events = raced(RaceSettings(batch=256))
    values = values_of(events)
    looks = [event for event in events if isinstance(event, Scored)]
    assert len(looks) == 1
    assert values.seconds > 0
    assert looks[0].step == values.steps


def test_the_clock_stands_still_while_the_judge_looks():
    *_, result = raced(RaceSettings(no_wait=0))
    assert isinstance(result, Result)
    (row,) = result.rows
    assert row.name == "race"
    looks_and_learning = row.seconds
    # Steps take no time here, so nearly all of the section is the judge's.
    won = [event for event in raced(RaceSettings()) if isinstance(event, Scored)]
    learning = sum(1_280 / event.images_per_second for event in won)
    assert learning < looks_and_learning


def test_a_race_can_be_stopped_or_ended_with_what_it_has():
    assert raced(RaceSettings(), stopped=lambda: True)[-1] == Stopped()
    values = values_of(raced(RaceSettings(), finishing=lambda: True))
    assert (values.seconds, values.steps) == (None, 0)


@pytest.mark.parametrize("switch", ["graph", "lean"])
def test_a_switch_that_needs_a_gpu_is_told_where_there_is_none(switch):
    with pytest.raises(Problem) as caught:
        raced(RaceSettings(**{switch: 1}))
    assert caught.value.notice.key == "problem.switch_needs_gpu"
