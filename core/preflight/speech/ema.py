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
    pairs = [
        (slow, fast)
        for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True)
        if fast.requires_grad
    ]
    if any(slow.dtype != torch.float32 for slow, _ in pairs):
        raise TypeError("the teacher has to be kept in float32")
    torch._foreach_lerp_([slow for slow, _ in pairs], [fast for _, fast in pairs], 1.0 - tau)


def half_life(tau: float) -> float:
    """Steps until half of an old weight is forgotten."""
    return math.log(0.5) / math.log(tau)
