"""The thread: its pace, what it survives, and that it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from core.telemetry.readings import Reading
from core.telemetry.sampler import Sampler, next_deadline


class Numbered:
    """A probe whose n-th reading carries n as its MiB of memory."""

    def __init__(self, on_read: Callable[[int], None] = lambda n: None) -> None:
        self.count = 0
        self._on_read = on_read

    def read(self, seconds: float, *, afresh: bool = False) -> Reading:
        self.count += 1
        self._on_read(self.count)
        return Reading(seconds, ram_mib=self.count)


def wait_until(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def test_the_time_a_reading_takes_does_not_add_up():
    due = 0.2
    for _ in range(1000):
        due = next_deadline(due, due + 0.07, 0.2)  # each reading takes 70 ms
    assert due == pytest.approx(0.2 + 1000 * 0.2)


@pytest.mark.parametrize(
    ("late", "following"),
    [(0.0, 1.2), (0.05, 1.2), (0.19, 1.4), (0.21, 1.4), (7.05, 8.2)],
    ids=["in time", "a little late", "at the next", "past the next", "after a long stall"],
)
def test_deadlines_gone_by_are_skipped_not_caught_up_with(late, following):
    assert next_deadline(1.0, 1.0 + late, 0.2) == pytest.approx(following)


def test_there_is_a_reading_at_once():
    sampler = Sampler(Numbered(), period_seconds=60)
    assert len(sampler.history) == 1
    assert sampler.close()


def test_history_is_replaced_never_changed():
    sampler = Sampler(Numbered(), period_seconds=0.005)
    early = sampler.history
    count = len(early)
    wait_until(lambda: len(sampler.history) > count + 3)
    sampler.close()
    assert len(early) == count
    assert sampler.history[0] is early[0]


def test_history_keeps_the_last_two_minutes_only():
    sampler = Sampler(Numbered(), period_seconds=50)  # three readings are two minutes and a half
    for _ in range(5):
        sampler.start_recording()
    sampler.close()
    assert [reading.ram_mib for reading in sampler.history] == [4, 5, 6]


def test_closing_ends_the_thread_and_may_be_repeated():
    before = set(threading.enumerate())
    sampler = Sampler(Numbered(), period_seconds=30)
    (its_own,) = {one for one in threading.enumerate() if one.name == "telemetry"} - before
    began = time.monotonic()
    assert sampler.close()
    assert sampler.close()
    assert time.monotonic() - began < 5  # far less than the period
    assert not its_own.is_alive()


def test_a_listener_that_raises_is_logged_once_and_the_thread_goes_on(caplog):
    def listener(reading: Reading) -> None:
        raise RuntimeError("the pipe is gone")

    sampler = Sampler(Numbered(), period_seconds=0.005, on_reading=listener)
    wait_until(lambda: len(sampler.history) >= 5)
    sampler.close()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the pipe is gone" in caplog.text


def test_a_probe_that_raises_gives_an_empty_reading_and_the_thread_goes_on(caplog):
    def fail_on_second(n: int) -> None:
        if n in (2, 3):
            raise OSError("unreadable")

    sampler = Sampler(Numbered(fail_on_second), period_seconds=0.005)
    wait_until(lambda: len(sampler.history) >= 5)
    sampler.close()
    assert [reading.ram_mib for reading in sampler.history[:5]] == [1, None, None, 4, 5]
    assert len(caplog.records) == 1


def test_listeners_hear_every_reading_after_the_first():
    heard: list[Reading] = []
    sampler = Sampler(Numbered(), period_seconds=0.005, on_reading=heard.append)
    sampler.start_recording()
    wait_until(lambda: len(heard) >= 4)
    sampler.stop_recording()
    sampler.close()
    assert tuple(heard) == sampler.history[1:]


def test_a_recording_has_a_reading_at_each_end_however_short_it_is():
    sampler = Sampler(Numbered(), period_seconds=60)
    sampler.start_recording()
    recorded = sampler.stop_recording()
    sampler.close()
    assert [reading.ram_mib for reading in recorded] == [2, 3]


def test_the_pace_begins_anew_with_a_recording():
    """Otherwise the second reading of a recording could come a millisecond after the first."""
    sampler = Sampler(Numbered(), period_seconds=0.25)
    wait_until(lambda: time.perf_counter() - sampler.opened_at > 0.15)
    sampler.start_recording()
    wait_until(lambda: len(sampler.history) >= 3)
    first, second, *_ = sampler.stop_recording()
    sampler.close()
    assert second.seconds - first.seconds >= 0.25


def test_a_period_of_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        Sampler(Numbered(), period_seconds=0)
