"""A checkpoint is written whole, read without trust, and compared to the bit."""

import pickle

import pytest
import torch

from core.preflight.speech import checkpoint
from core.problems import Problem


def a_state():
    return {
        "student": {"weight": torch.arange(6.0).reshape(2, 3)},
        "optimiser": {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 1e-4}]},
        "step": 2,
    }


def test_what_was_saved_comes_back_to_the_bit(tmp_path):
    size = checkpoint.save(tmp_path / "state.pt", a_state())

    kept = checkpoint.load(tmp_path / "state.pt")

    assert size == (tmp_path / "state.pt").stat().st_size
    assert checkpoint.differences(a_state(), kept) == []
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]


def test_every_difference_is_named_by_its_place():
    other = a_state()
    other["student"]["weight"][1, 2] += 1e-6
    other["optimiser"]["state"][0]["exp_avg"] = torch.ones(3, dtype=torch.float64)
    other["step"] = 3
    del other["optimiser"]["param_groups"][0]["lr"]

    assert sorted(checkpoint.differences(a_state(), other)) == [
        "/optimiser/param_groups/0/lr",
        "/optimiser/state/0/exp_avg",
        "/step",
        "/student/weight",
    ]


def test_a_damaged_file_and_one_that_carries_code_are_refused(tmp_path):
    path = tmp_path / "state.pt"
    checkpoint.save(path, a_state())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(Problem, match="checkpoint_read"):
        checkpoint.load(path)

    path.write_bytes(pickle.dumps(print))
    with pytest.raises(Problem, match="checkpoint_read"):
        checkpoint.load(path)


def test_a_folder_that_takes_no_file_is_told_and_a_good_one_is_left_empty(tmp_path):
    assert checkpoint.probed(tmp_path).seconds > 0
    assert list(tmp_path.iterdir()) == []

    with pytest.raises(Problem, match=r"problem\.probe "):
        checkpoint.probed(tmp_path / "not-there")
