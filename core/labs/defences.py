"""What can be done to a picture before a network looks at it, in the hope that an attack is lost.

Each defence takes pictures (N, 3, H, W) in 0..1. An attacker who knows it attacks through it, so
each also lets a slope through. Rounding has none; there the slope of "nothing happened" is used
(straight-through, Athalye et al. 2018, arXiv:1802.00420), which is all that an attack needs.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from core.activities.attack import DefencesSettings
from core.labs.attack_methods import Classify

MEDIAN_SIDE = 3  # pixels


@dataclass(frozen=True, slots=True)
class Defence:
    """One defence: what it makes of pictures, and how many noisy copies of each it makes."""

    name: str
    amount: float  # its setting, as a reader knows it; 0 where it has none
    change: Callable[[Tensor], Tensor]  # (N, 3, H, W) -> (copies x N, 3, H, W)
    copies: int = 1

    def guard(self, classify: Classify) -> Classify:
        """The network behind this defence. Where there are copies, their beliefs are averaged: a
        vote in which a surer voice counts for more, and through which a slope passes."""

        def guarded(pictures: Tensor) -> Tensor:
            logits = classify(self.change(pictures))
            if self.copies == 1:
                return logits
            votes = logits.softmax(1).view(self.copies, len(pictures), -1)
            return votes.mean(0).clamp(min=1e-12).log()

        return guarded


def defences(settings: DefencesSettings, *, seed: int) -> list[Defence]:
    """All of them, as set; the first does nothing. Another `seed` is other noise."""
    return [
        Defence("none", 0, lambda pictures: pictures),
        Defence("jpeg", settings.jpeg_quality, lambda p: jpeg(p, settings.jpeg_quality)),
        Defence("resize", settings.resize_percent, lambda p: resized(p, settings.resize_percent)),
        Defence("blur", settings.blur_tenths / 10, lambda p: blurred(p, settings.blur_tenths / 10)),
        Defence("median", MEDIAN_SIDE, median),
        noise_vote(settings.noise_255, settings.votes, seed=seed),
        Defence("bits", settings.bits, lambda pictures: fewer_bits(pictures, settings.bits)),
    ]


def jpeg(pictures: Tensor, quality: int) -> Tensor:
    """Through a real JPEG file each."""
    levels = (pictures.detach() * 255).round().clamp(0, 255).to(torch.uint8)
    files = (_through_jpeg(picture, quality) for picture in levels.permute(0, 2, 3, 1).cpu())
    read = torch.from_numpy(np.stack(list(files))).permute(0, 3, 1, 2)
    return _straight_through(pictures, read.to(pictures.device, pictures.dtype) / 255)


def _through_jpeg(picture: Tensor, quality: int) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(picture.numpy()).save(file, "JPEG", quality=quality)
    return np.array(Image.open(file))


def resized(pictures: Tensor, percent: int) -> Tensor:
    """Smaller, and back to the size it had: the finest detail is gone."""
    size = pictures.shape[-2:]
    smaller = [max(1, round(side * percent / 100)) for side in size]
    small = F.interpolate(pictures, smaller, mode="bilinear", antialias=True)
    return F.interpolate(small, tuple(size), mode="bilinear", antialias=True).clamp(0, 1)


def blurred(pictures: Tensor, spread: float) -> Tensor:
    """Each value the mean of those around it, weighted by a bell curve of this spread in pixels."""
    reach = max(1, round(3 * spread))
    places = torch.arange(-reach, reach + 1, dtype=pictures.dtype, device=pictures.device)
    bell = torch.exp(-(places**2) / (2 * spread**2))
    bell = bell / bell.sum()
    for weights, edges in (
        (bell.view(1, 1, -1, 1), (0, 0, reach, reach)),
        (bell.view(1, 1, 1, -1), (reach, reach, 0, 0)),
    ):
        padded = F.pad(pictures, edges, mode="reflect")
        pictures = F.conv2d(padded, weights.expand(3, -1, -1, -1), groups=3)
    return pictures.clamp(0, 1)


def median(pictures: Tensor) -> Tensor:
    """Each value the middle one of the nine around it."""
    edge = MEDIAN_SIDE // 2
    padded = F.pad(pictures, (edge,) * 4, mode="reflect")
    height, width = pictures.shape[-2:]
    around = [
        padded[..., top : top + height, left : left + width]
        for top in range(MEDIAN_SIDE)
        for left in range(MEDIAN_SIDE)
    ]
    return torch.stack(around).median(0).values


def noise_vote(noise_255: int, votes: int, *, seed: int) -> Defence:
    """So many copies of each picture, each with random noise of its own."""
    random = torch.Generator().manual_seed(seed)  # goes on from picture to picture

    def noisy(pictures: Tensor) -> Tensor:
        copies = pictures.repeat(votes, 1, 1, 1)
        noise = torch.randn(copies.shape, generator=random).to(copies.device, copies.dtype)
        return (copies + noise * (noise_255 / 255)).clamp(0, 1)

    return Defence("noise_vote", noise_255, noisy, copies=votes)


def fewer_bits(pictures: Tensor, bits: int) -> Tensor:
    """Each value one of 2, 4, 8, ... levels."""
    steps = 2**bits - 1
    return _straight_through(pictures, (pictures.detach() * steps).round() / steps)


def _straight_through(pictures: Tensor, changed: Tensor) -> Tensor:
    """The values of `changed`, with the slope of `pictures`."""
    return changed + pictures - pictures.detach() if pictures.requires_grad else changed
