"""CPU time of this process and of its children, against what the kernel says in the end."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from core.telemetry.processes import ChildrenClock, ProcessProbe, Rate

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"


def burn(seconds: float, *, then: str = "") -> list[str]:
    return [sys.executable, "-c", BURN.format(seconds=seconds) + then]


def wait_until(condition: Callable[[], bool], *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_rate_is_cpu_time_over_time_gone_by():
    rate = Rate()
    assert rate.percent(10.0, 1.0) is None  # nothing to compare with yet
    assert rate.percent(10.5, 1.75) == pytest.approx(150)
    assert rate.percent(12.5, 1.75) == 0


def test_a_rate_over_too_short_a_time_is_the_one_before():
    rate = Rate(shortest_seconds=0.04)
    rate.percent(0, 0)
    assert rate.percent(1.0, 0.5) == 50
    assert rate.percent(1.001, 0.51) == 50  # one tick in a millisecond is not 1,000 %
    assert rate.percent(2.0, 0.51) == pytest.approx(1)  # and the tick is not lost


def test_a_rate_taken_afresh_forgets_what_was_before():
    rate = Rate(shortest_seconds=0.04)
    rate.percent(0, 0)
    rate.percent(0.01, 5, afresh=True)
    assert rate.percent(1.01, 5.5) == pytest.approx(50)


def test_a_childs_cpu_time_is_counted_while_it_lives_and_after_it_has_gone():
    children = ChildrenClock()
    before = children.seconds(time.monotonic())
    child = subprocess.Popen(burn(0.5, then="input()"), stdin=subprocess.PIPE)
    try:
        wait_until(lambda: children.seconds(time.monotonic()) - before >= 0.45)
        assert child.pid in children.pids
    finally:
        child.communicate(b"\n")
    after = children.seconds(time.monotonic())
    assert after - before >= 0.45
    assert child.pid not in children.pids


def test_a_child_that_lives_and_dies_between_two_readings_is_counted_in_full():
    children = ChildrenClock()
    before = children.seconds(time.monotonic())
    ended_before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(burn(0.3), check=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - ended_before
    assert children.seconds(time.monotonic()) - before >= spent - 0.03  # ticks of 10 ms


def test_grandchildren_count_as_children():
    children = ChildrenClock()
    before = children.seconds(time.monotonic())
    grandchild = burn(0.4, then="import os; print(os.getpid(), flush=True); input()")
    nested = f"import subprocess; subprocess.run({grandchild!r})"
    child = subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        grandchild_pid = int(child.stdout.readline())  # printed once its 0.4 s are spent
        assert children.seconds(time.monotonic()) - before >= 0.37  # ticks of 10 ms
        assert {child.pid, grandchild_pid} <= children.pids
    finally:
        child.communicate("\n")


def test_the_sum_over_children_never_runs_backwards():
    children = ChildrenClock()
    sums = [children.seconds(time.monotonic())]
    running = [subprocess.Popen(burn(0.05 * n)) for n in range(1, 5)]
    while any(child.poll() is None for child in running):
        sums.append(children.seconds(time.monotonic()))
    sums.append(children.seconds(time.monotonic()))
    assert sums == sorted(sums)
    assert sums[-1] - sums[0] >= 0.4


def test_a_child_that_went_to_another_parent_does_not_hide_the_next_ones_for_long():
    children = ChildrenClock()
    totals = [50.0, 10.0, 11.0, 13.0, 14.0]  # 40 s of CPU time have left with a child
    seen = [
        children._never_backwards(total + children._base, now) for now, total in enumerate(totals)
    ]
    assert seen == [50, 50, 50, 50, 51]


def test_own_cpu_is_of_this_process_and_children_are_apart():
    probe = ProcessProbe()
    probe.read(afresh=True)
    began, own_before = time.perf_counter(), time.process_time()
    subprocess.run(burn(0.4), check=True)
    reading = probe.read()
    elapsed, own = time.perf_counter() - began, time.process_time() - own_before
    assert reading.cpu_percent == pytest.approx(100 * own / elapsed, abs=5)
    assert reading.children_cpu_percent * elapsed / 100 >= 0.35
    assert reading.ram_mib > 1
    assert reading.host_cpu_percent >= 0
