"""The digit judge: how many pictures of a generator can be read, and how many of the ten digits.

Importing this needs no torch, so that pages can quote the judge's own figures; `load` needs it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import torch

    from core.models.judge.judge import Judge

WEIGHTS = Path(__file__).with_name("weights.npz")


class Card(msgspec.Struct, frozen=True):
    """What was measured when the weights were trained; shares are 0 to 1.

    Every figure comes from real digits, and altered ones, that took no part in the training.
    """

    parameters: int
    train_digits: int  # real ones, that the altered ones it learnt from were made of
    epochs: int
    train_cpu_seconds: float  # on one core
    test_digits: int
    test_accuracy: float  # the likeliest of the ten digits is the right one
    test_accuracy_low: float  # 95 % interval (Wilson)
    test_accuracy_high: float
    calibration_digits: int  # real ones, that only the threshold was chosen with
    threshold: float  # a picture is readable from this probability of one digit on
    readable_real: float  # of the test digits
    readable_and_right: float  # read, and as the right digit
    readable_others: dict[str, float]  # of pictures that are no digits, by kind
    kinds_learnt: tuple[str, ...]  # of those kinds, the ones it met in training


def load(device: torch.device) -> Judge:
    """The judge on `device`; PyTorch's random numbers are the same afterwards as without it."""
    from core.models.judge.judge import read_judge

    return read_judge(WEIGHTS, device)


@cache
def card() -> Card:
    """The figures of the weights that come with the lab."""
    return read_card(WEIGHTS)


def read_card(weights: Path) -> Card:
    """The figures that stand beside a file of weights."""
    return msgspec.json.decode(weights.with_suffix(".json").read_bytes(), type=Card)


def weights_bytes() -> int:
    """Size of the file of weights."""
    return WEIGHTS.stat().st_size
