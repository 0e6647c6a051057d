"""Which tokens the student sees, and which it has to guess: scattered at random, by the step."""

from __future__ import annotations

import torch
from torch import Tensor

LOWEST_RATIO, RATIO_SPAN = 0.4, 0.2  # of tokens that are hidden


def masks(step: int, batch: int, tokens: int = 128) -> tuple[Tensor, Tensor, float]:
    """Context (B, k) and targets (B, tokens - k), and the share that is hidden.

    Seeded with the step, so a resumed run that forgets its step repeats its masks. One share for
    the whole batch, one permutation a sample.
    """
    generator = torch.Generator().manual_seed(step)
    ratio = LOWEST_RATIO + RATIO_SPAN * float(torch.rand((), generator=generator))
    kept = int(tokens * (1.0 - ratio))
    orders = torch.stack([torch.randperm(tokens, generator=generator) for _ in range(batch)])
    return orders[:, :kept], orders[:, kept:], ratio


def visible_neighbours(context: Tensor, rows: int, columns: int) -> tuple[float, float]:
    """Of the hidden tokens of a batch: the share that has a visible neighbour above, below, left
    or right, and the mean share of neighbours that are visible. `context` is (B, k)."""
    seen = torch.zeros(len(context), rows * columns)
    seen.scatter_(1, context, 1.0)
    seen = seen.reshape(-1, 1, rows, columns)
    cross = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])[None, None]
    visible = torch.nn.functional.conv2d(seen, cross, padding=1)
    there = torch.nn.functional.conv2d(torch.ones_like(seen), cross, padding=1)
    hidden = seen == 0
    return (
        float((visible[hidden] > 0).float().mean()),
        float((visible[hidden] / there[hidden]).mean()),
    )
