"""The teacher: a slow average of the student."""

from __future__ import annotations

import math

import torch
from torch import nn


@torch.no_grad()
def update(teacher: nn.Module, student: nn.Module, tau: float) -> None:
    """teacher <- tau * teacher + (1 - tau) * student, in float32, for what is trained.

    Frozen tables are left alone: rounding would move them a little with each step. In half
    precision the average would stand still, so that is refused.
    """
    for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
        if not fast.requires_grad:
            continue
        if slow.dtype != torch.float32:
            raise TypeError(f"the teacher has to be kept in float32, and holds {slow.dtype}")
        slow.lerp_(fast.float(), 1.0 - tau)


def half_life(tau: float) -> float:
    """Steps until half of an old weight is forgotten."""
    return math.log(0.5) / math.log(tau)
