"""The fold of a job's events into what a page draws."""

from __future__ import annotations

import pytest

from core.engine.view import MAX_LIVE_READINGS, JobState, JobView, apply, thinned
from core.events import (
    AnyEvent,
    Believed,
    Drawn,
    Failed,
    Lost,
    Measured,
    Progressed,
    Read,
    Result,
    Staged,
    Stopped,
)
from core.problems import Notice
from core.telemetry.readings import Reading, Recording, SummaryRow

VIEW = JobView(id="j", student="an", activity="a", settings={}, state=JobState.RUNNING)


def folded(*events: AnyEvent) -> JobView:
    view = VIEW
    for event in events:
        view = apply(view, event)
    return view


def test_progress_replaces_progress_and_losses_add_up():
    view = folded(
        Staged("stage.a"),
        Progressed(1, 10, 9.0),
        Lost(0, (1.0, 2.0), (3.0, 4.0)),
        Progressed(2, 10, 8.0),
        Lost(2, (5.0,), (6.0,)),
    )
    assert (view.stage, view.done, view.total, view.seconds_left) == ("stage.a", 2, 10, 8.0)
    assert view.losses_d == (1.0, 2.0, 5.0)
    assert view.losses_g == (3.0, 4.0, 6.0)


def test_a_picture_replaces_the_one_of_the_same_name():
    view = folded(Drawn("grid", b"old"), Drawn("strip", b"other"), Drawn("grid", b"new"))
    assert view.pictures == {"grid": b"new", "strip": b"other"}


def test_the_first_view_is_never_changed():
    folded(Drawn("grid", b"png"), Read("s", (Reading(0.0),)))
    assert VIEW.pictures == {}
    assert VIEW.readings == ()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Result(rows=(SummaryRow("cpu", 1.0),), values={"a": 1}), JobState.DONE),
        (Stopped(), JobState.STOPPED),
        (Failed(Notice("problem.out_of_memory")), JobState.FAILED),
    ],
)
def test_an_outcome_settles_the_job_and_keeps_what_was_measured(outcome: AnyEvent, state: JobState):
    recording = Recording("cpu", 1.0, (Reading(0.0),))
    view = folded(Measured(recording), Progressed(1, 2, 5.0), outcome)
    assert view.state is state
    assert view.state.over
    assert view.seconds_left is None
    assert view.recordings == (recording,)


def test_an_hour_of_readings_stays_bounded_and_sharp_at_its_end():
    view = VIEW
    for second in range(0, 3_600, 10):
        view = apply(view, Read(None, tuple(Reading(float(second + i)) for i in range(10))))
    seconds = [reading.seconds for reading in view.readings]
    assert len(seconds) <= MAX_LIVE_READINGS
    assert seconds == sorted(seconds)
    assert seconds[0] == 0.0
    assert seconds[-20:] == [float(s) for s in range(3_580, 3_600)]


def test_few_readings_are_left_as_they_are():
    readings = tuple(Reading(float(s)) for s in range(5))
    assert thinned(readings, 10) == readings


def test_beliefs_of_an_attack_add_up():
    view = folded(Believed(0, (0.1, 0.4)), Progressed(2, 3), Believed(2, (0.9,)))
    assert view.beliefs == (0.1, 0.4, 0.9)
