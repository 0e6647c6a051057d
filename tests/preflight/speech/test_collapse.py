"""What each collapse figure sees, and what it is blind to."""

import math

import pytest
import torch

from core.preflight.speech.collapse import Watch, metrics, stop_reasons, synthetic_cases


@pytest.fixture(scope="module")
def cases():
    return {name: metrics(tokens) for name, tokens in synthetic_cases().items()}


def test_the_four_cases_lie_inside_the_known_spread(cases):
    healthy, fallen = cases["healthy"], cases["collapse"]
    assert healthy.std_token == pytest.approx(1 / math.sqrt(768), abs=1e-4)
    assert 758.6 < healthy.rank_eff < 758.9
    assert abs(healthy.cos_cross) < 0.002
    assert fallen.std_token == pytest.approx(0.00004, abs=1e-5)
    assert 1.33 < fallen.rank_raw < 1.37
    assert fallen.cos_cross == pytest.approx(1.0, abs=1e-4)
    assert cases["rank 8"].rank_eff == pytest.approx(7.99, abs=0.02)
    assert abs(cases["rank 8"].cos_cross) < 0.01
    same = cases["same utterance"]
    assert 0.0234 <= same.std_token <= 0.0248
    assert 159.5 < same.rank_eff < 160.1
    assert 0.52 < same.cos_cross < 0.58
    assert same.std_utt < 2e-4


def test_no_single_figure_sees_every_case(cases):
    alarms = {name: set(stop_reasons(found, cases["healthy"])) for name, found in cases.items()}

    assert alarms == {
        "healthy": set(),
        "collapse": {"rank_raw", "cos_cross", "std_token", "std_utt"},
        "rank 8": {"rank_eff", "rank_raw"},
        "same utterance": {"rank_eff", "rank_raw", "cos_cross", "std_utt"},
    }


def test_a_run_is_stopped_by_the_second_violation_in_a_row(cases):
    watch = Watch(cases["healthy"])
    fallen, healthy = cases["rank 8"], cases["healthy"]

    assert [watch.stop(now) for now in (fallen, healthy, fallen)] == [(), (), ()]
    assert watch.stop(fallen) == ("rank_eff", "rank_raw")


def test_one_clip_or_one_token_is_refused():
    with pytest.raises(ValueError, match="expected"):
        metrics(torch.zeros(1, 4, 8))
