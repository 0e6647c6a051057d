"""Hours and storage of the long run, as the specification has them."""

import pytest

from core.preflight.speech import budget
from core.preflight.speech.budget import Verdict


def test_the_measured_step_gives_the_hours_of_a_branch_and_of_the_plan():
    assert budget.STEPS == 87_890
    assert budget.hours(20.0) == pytest.approx(15.6, abs=0.05)
    assert [round(budget.whole(hours, n), 1) for hours in (9.4, 15.6) for n in (2, 3)] == [
        29.8,
        44.7,
        42.2,
        63.3,
    ]


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(10.0, Verdict.KEEP), (8.0, Verdict.KEEP), (12.5, Verdict.LOOK_AGAIN), (15.6, Verdict.REDO)],
)
def test_the_plan_is_kept_looked_at_or_redone_by_how_far_it_was_off(measured, verdict):
    assert budget.verdict(measured, planned=9.4) is verdict


def test_keeping_every_epoch_takes_thirty_gigabytes_and_milestones_four():
    needed = budget.storage(round(1500.1e6))

    assert needed.every_epoch == pytest.approx(30.0, abs=0.01)
    assert needed.rolling == pytest.approx(4.02, abs=0.01)
