"""What each collapse figure sees, and what it is blind to."""

import math
from dataclasses import replace

import pytest
import torch

from core.preflight.speech.collapse import Watch, metrics, stop_reasons, synthetic_cases


@pytest.fixture(scope="module")
def cases():
    return {name: metrics(tokens) for name, tokens in synthetic_cases().items()}


# As measured with seed 0: std_token, rank_eff, rank_raw, cos_cross, std_utt.
KNOWN = {
    "healthy": (0.0361, 758.75, 758.78, 0.0001, 0.0360),
    "collapse": (0.00004, 758.75, 1.34, 1.0, 0.000003),
    "rank 8": (0.0350, 7.99, 7.99, -0.0026, 0.0350),
    "same utterance": (0.0236, 159.76, 136.6, 0.5695, 0.0001),
}


@pytest.mark.parametrize("case", KNOWN)
def test_the_four_cases_have_the_known_figures(cases, case):
    std_token, rank_eff, rank_raw, cos_cross, std_utt = KNOWN[case]
    found = cases[case]

    assert found.std_token == pytest.approx(std_token, abs=6e-5)
    assert found.rank_eff == pytest.approx(rank_eff, abs=0.006)
    assert found.rank_raw == pytest.approx(rank_raw, abs=0.06)
    assert found.cos_cross == pytest.approx(cos_cross, abs=6e-5)
    assert found.std_utt == pytest.approx(std_utt, abs=6e-5)


def test_the_ranks_are_those_of_a_singular_value_decomposition():
    tokens = synthetic_cases(clips=4, tokens=16, width=24)["same utterance"]
    flat = tokens.reshape(-1, 24)

    def rank(matrix):
        values = torch.linalg.svdvals(matrix.double())
        return float(torch.distributions.Categorical(values).entropy().exp())

    found = metrics(tokens)
    assert found.rank_eff == pytest.approx(rank(flat.double() - flat.double().mean(0)), rel=1e-9)
    assert found.rank_raw == pytest.approx(rank(flat / flat.norm(dim=1, keepdim=True)), rel=1e-6)


def test_numbers_that_are_none_any_more_are_a_reason_to_stop(cases):
    tokens = torch.full((2, 2, 8), math.nan)

    assert len(stop_reasons(metrics(tokens), cases["healthy"])) == 5


def test_where_the_baseline_is_narrow_already_only_the_fixed_limit_acts(cases):
    base = replace(cases["healthy"], cos_cross=0.72)

    assert stop_reasons(replace(base, cos_cross=0.89), base) == ()
    assert stop_reasons(replace(base, cos_cross=0.91), base) == ("cos_cross",)
    broad = cases["healthy"]
    assert stop_reasons(replace(broad, cos_cross=0.31), broad) == ("cos_cross",)


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
