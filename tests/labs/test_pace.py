import pytest

from core.labs.pace import Pace, Phase


def walked(phase, seconds_a_step, steps, *, start=0.0):
    for step in range(1, steps + 1):
        phase.stepped(start + step * seconds_a_step)
    return phase


def test_the_first_step_sets_no_pace_because_start_up_is_in_it():
    phase = Phase(10)
    phase.stepped(60.0)
    assert phase.seconds_a_step is None
    phase.stepped(60.5)
    assert phase.seconds_a_step == 0.5


def test_a_phase_yet_to_come_is_guessed_from_the_one_it_resembles():
    cpu = Phase(10)
    gpu = Phase(10, like=cpu, times=0.1)
    assert gpu.seconds_a_step is None
    walked(cpu, 0.5, 3)
    assert gpu.seconds_a_step == 0.05
    walked(gpu, 0.2, 3)
    assert gpu.seconds_a_step == pytest.approx(0.2)


def test_no_time_left_is_told_before_anything_was_measured():
    assert Pace(Phase(10), Phase(5)).progressed().seconds_left is None


def test_the_time_left_covers_every_phase_and_ends_at_zero():
    cpu = Phase(10)
    gpu = Phase(10, like=cpu, times=0.1)
    pace = Pace(cpu, gpu)
    walked(cpu, 1.0, 6)
    progress = pace.progressed()
    assert (progress.done, progress.total) == (6, 20)
    assert progress.seconds_left == pytest.approx(4 * 1.0 + 10 * 0.1)
    walked(cpu, 1.0, 4, start=6.0)
    walked(gpu, 0.1, 10)
    assert pace.progressed().seconds_left == 0.0


def test_reports_are_rare_but_the_last_step_of_a_phase_is_always_reported():
    phase = Phase(1000)
    pace = Pace(phase, report_seconds=3600.0)
    due = [pace.stepped(phase) for _ in range(1000)]
    assert due == [True, *[False] * 998, True]
