from __future__ import annotations

import pytest

from core.ui.access import FIRST_WAIT_SECONDS, FREE_TRIES, LONGEST_WAIT_SECONDS, Attempts, same_code


def wrong(attempts: Attempts, token: str, times: int) -> None:
    for _ in range(times):
        assert not attempts.counts(token, lambda: False)


@pytest.fixture
def clock() -> list[float]:
    return [1_000.0]


@pytest.fixture
def attempts(clock) -> Attempts:
    return Attempts(clock=lambda: clock[0])


def test_a_code_fits_itself_whatever_its_alphabet_and_nothing_else():
    assert same_code(" mùa thu ", "mùa thu")
    assert not same_code("mua thu", "mùa thu")


def test_without_a_code_nothing_fits():
    assert not same_code("", "")


def test_a_few_slips_cost_nothing(attempts):
    wrong(attempts, "lan", FREE_TRIES - 1)
    assert attempts.wait_seconds("lan") == 0
    assert attempts.counts("lan", lambda: True)


def test_after_several_wrong_tries_even_the_right_code_has_to_wait(attempts, clock):
    wrong(attempts, "lan", FREE_TRIES)
    assert attempts.wait_seconds("lan") == FIRST_WAIT_SECONDS
    assert not attempts.counts("lan", lambda: True)

    clock[0] += FIRST_WAIT_SECONDS
    assert attempts.counts("lan", lambda: True)


def test_each_further_wrong_try_doubles_the_wait_up_to_a_limit(attempts, clock):
    wrong(attempts, "lan", FREE_TRIES)
    waits = []
    for _ in range(12):
        clock[0] += attempts.wait_seconds("lan")
        wrong(attempts, "lan", 1)
        waits.append(attempts.wait_seconds("lan"))
    assert waits[:2] == [2 * FIRST_WAIT_SECONDS, 4 * FIRST_WAIT_SECONDS]
    assert waits[-1] == LONGEST_WAIT_SECONDS


def test_nobody_waits_for_the_wrong_tries_of_somebody_else(attempts):
    wrong(attempts, "lan", FREE_TRIES)
    assert attempts.wait_seconds("minh") == 0
    assert attempts.counts("minh", lambda: True)
