"""What the long run would cost in hours and in storage, from the measured step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SAMPLES = 2_812_500  # of one branch: 2,000 hours of speech in clips of 2.56 s
BATCH = 32
STEPS = SAMPLES // BATCH  # 87,890
FINE_TUNING_HOURS, EVALUATION_HOURS = 1.5, 4.0  # beside each branch's pre-training
WARN_HOURS = 14.0
KEEP, REDO = 0.2, 0.5  # how far the measured hours may lie from the plan's

EPOCHS = 20
FP16_SHARE = 0.455  # of a whole checkpoint: student and teacher alone, in half precision, of all


class Verdict(StrEnum):
    """What to do with the plan."""

    KEEP = "keep"
    LOOK_AGAIN = "look-again"
    REDO = "redo"


def hours(ms_per_sample: float) -> float:
    """GPU hours of one branch."""
    return SAMPLES * ms_per_sample / 3.6e6


def whole(branch_hours: float, branches: int) -> float:
    """Hours of so many branches, fine-tuning and evaluation included."""
    return branches * (branch_hours + FINE_TUNING_HOURS + EVALUATION_HOURS)


def verdict(measured: float, planned: float) -> Verdict:
    """By how far the measured hours of a branch lie from the planned ones."""
    off = abs(measured - planned) / planned
    if off < KEEP:
        return Verdict.KEEP
    return Verdict.LOOK_AGAIN if off <= REDO else Verdict.REDO


@dataclass(frozen=True, slots=True)
class Storage:
    """Gigabytes (10**9 bytes) of one branch."""

    checkpoint: float  # one, with everything
    every_epoch: float  # if each of the 20 is kept
    rolling: float  # two whole ones and three half-precision milestones


def storage(checkpoint_bytes: int) -> Storage:
    """From the size of the checkpoint that was just written."""
    one = checkpoint_bytes / 1e9
    return Storage(one, EPOCHS * one, 2 * one + 3 * one * FP16_SHARE / 2)
