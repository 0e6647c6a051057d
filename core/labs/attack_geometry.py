"""How far a picture may be changed: balls around the original, and the range of pixels.

All pictures here are (N, 3, height, width) in 0..1, before any normalisation; a size for each
picture is (N, 1, 1, 1) in the same units, so 2/255 is about 0.0078. None of it knows a network.
"""

from __future__ import annotations

import torch
from torch import Tensor

HALF_A_LEVEL = 1e-4  # of a colour value; less than any rounding that matters, more than float's


def check_range(pictures: Tensor) -> None:
    """Raises ValueError for pictures that leave 0..1: they were probably normalised already."""
    low, high = pictures.aminmax()
    if not (low >= 0 and high <= 1):  # also where a value is no number
        raise ValueError(f"pictures must lie in 0..1, these reach {float(low):g}..{float(high):g}")


def inside_linf(pictures: Tensor, originals: Tensor, epsilon: Tensor) -> Tensor:
    """Each value pulled back to within `epsilon` of the original's, then into 0..1.

    Source: Madry et al. 2018, arXiv:1706.06083.
    """
    change = torch.minimum(torch.maximum(pictures - originals, -epsilon), epsilon)
    return (originals + change).clamp_(0, 1)


def random_in_linf(originals: Tensor, epsilon: Tensor, *, seed: int) -> Tensor:
    """Somewhere inside the ball, evenly spread; the same for a seed on every device."""
    where = torch.rand(originals.shape, generator=torch.Generator().manual_seed(seed))
    change = (2 * where.to(originals.device) - 1) * epsilon
    return inside_linf(originals + change, originals, epsilon)


def random_signs(originals: Tensor, epsilon: Tensor, *, seed: int) -> Tensor:
    """Each value up or down by the whole `epsilon`, at random: noise as large as an attack's."""
    coins = torch.rand(originals.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    signs = coins.to(originals.device, originals.dtype) * 2 - 1
    return inside_linf(originals + signs * epsilon, originals, epsilon)


def eight_bits(pictures: Tensor, originals: Tensor, epsilon: Tensor | None) -> Tensor:
    """Rounded to whole colour values, as a file holds them, and still within `epsilon`.

    `originals` came from 8 bits themselves. A limit of 2.5/255 leaves room for two whole steps, and
    one of 0.5/255 for none: such an attack does not survive being saved.
    """
    levels = (originals * 255).round()
    change = (pictures * 255).round() - levels
    if epsilon is not None:
        whole = (epsilon * 255 + HALF_A_LEVEL).floor()
        change = torch.minimum(torch.maximum(change, -whole), whole)
    rounded: Tensor = (levels + change).clamp_(0, 255) / 255
    return rounded


def linf(pictures: Tensor, originals: Tensor) -> Tensor:
    """Largest change of any value of each picture, 0..1: (N,)."""
    return (pictures - originals).abs().flatten(1).amax(1)


def l2(pictures: Tensor, originals: Tensor) -> Tensor:
    """Length of the whole change of each picture: (N,)."""
    length: Tensor = (pictures - originals).flatten(1).norm(dim=1)
    return length
