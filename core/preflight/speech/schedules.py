"""Learning rate and weight decay by step. Without torch: the page draws them before a run."""

from __future__ import annotations

import math


def learning_rate(
    step: int, *, ref: float, start: float, final: float, warm_up: int, total: int
) -> float:
    """The rate after `step` updates: a straight climb over `warm_up`, then a cosine to `final`.

    `total` includes the warm-up. Past it the cosine would rise again; it is not meant to be asked.
    """
    if step < warm_up:
        return start + step / warm_up * (ref - start)
    share = (step - warm_up) / max(1, total - warm_up)
    return max(final, final + 0.5 * (ref - final) * (1.0 + math.cos(math.pi * share)))


def weight_decay(step: int, *, ref: float, final: float, total: int) -> float:
    """The decay at `step`, by a cosine from `ref` to `final`, never past it."""
    value = final + 0.5 * (ref - final) * (1.0 + math.cos(math.pi * step / total))
    return max(final, value) if final <= ref else min(final, value)
