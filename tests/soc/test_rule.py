"""The rule on the simulated week: what it catches, misses and gets wrong."""

from __future__ import annotations

from itertools import pairwise

import pytest

from core.soc.rule import Rule, Verdict, outcome_of
from core.soc.traces import KINDS, levels_of, simulated
from core.soc.week import MINERS, MINUTES, Week, week_of

LEVELS = {kind: levels_of(simulated(kind)) for kind in KINDS}
MINUTES_TRIED = (1, 5, 12, 13, 45)


@pytest.fixture(scope="module", params=range(4), ids="week {}".format)
def week(request: pytest.FixtureRequest) -> Week:
    return week_of(request.param, LEVELS)


def verdicts(week: Week, threshold: int, minutes: int) -> dict[str, Verdict]:
    """Of each miner."""
    judged = outcome_of(week, Rule(threshold, minutes)).judged
    return {one.session.kind: one.verdict for one in judged if one.session.mining}


def test_a_week_is_whole_and_the_same_each_time(week):
    ends = [session.end for session in week.sessions]
    assert [0, *ends] == [*(session.start for session in week.sessions), MINUTES]
    assert sorted(s.kind for s in week.sessions if s.mining) == sorted(MINERS)
    again, other = week_of(1, LEVELS), week_of(1, LEVELS)
    assert again.sessions == other.sessions
    assert (again.levels == other.levels).all()
    assert ((week.levels >= 0) & (week.levels <= 100)).all()


def test_a_higher_threshold_or_more_minutes_never_give_more_alarms(week):
    for minutes in MINUTES_TRIED:
        outcomes = [outcome_of(week, Rule(one, minutes)) for one in range(1, 101, 3)]
        for lower, higher in pairwise(outcomes):
            assert higher.alarms <= lower.alarms
            assert higher.caught <= lower.caught
            assert higher.false_alarms <= lower.false_alarms
    for threshold in (20, 50, 90):
        alarms = [outcome_of(week, Rule(threshold, n)).alarms for n in MINUTES_TRIED]
        assert alarms == sorted(alarms, reverse=True)


def test_a_high_threshold_misses_the_throttled_miner_and_a_low_one_cries_wolf(week):
    strict, loose = outcome_of(week, Rule(90, 10)), outcome_of(week, Rule(30, 10))
    assert verdicts(week, 90, 10)["throttled"] is Verdict.MISSED
    assert verdicts(week, 30, 10)["throttled"] is Verdict.CAUGHT
    assert loose.false_alarms > strict.false_alarms


def test_many_minutes_miss_the_miner_that_stops_and_goes(week):
    assert verdicts(week, 90, 12)["stop_and_go"] is Verdict.CAUGHT
    assert verdicts(week, 90, 13)["stop_and_go"] is Verdict.MISSED


def test_nothing_rings_in_class_hours_whoever_mines_then(week):
    assert verdicts(week, 5, 1)["by_day"] is Verdict.MISSED
    for one in outcome_of(week, Rule(5, 1)).judged:
        if one.rang_after is not None:
            assert not week.in_class[one.session.start + one.rang_after - 1]
