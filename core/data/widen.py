"""60,000 digits out of 5,000 real ones, by small shifts, turns and scalings.

Every step is whole-number arithmetic and a fixed mixer of bits, so each machine and each version of
numpy makes the same bytes: one checksum can stand in the code and prove the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]  # (count, 28, 28)
Labels = NDArray[np.uint8]  # (count,)

SIDE = 28
ONE = 1 << 10  # 1.0 in the fixed-point numbers below

# How far a copy may stray from its original, in units of 1/ONE.
MOST_SHIFT = ONE * 5 // 4  # pixels, each way
MOST_STRETCH = ONE // 12  # of the size, across and down on their own
MOST_SLANT = ONE // 12  # sideways pixels for each pixel of height
MOST_HALF_TURN = ONE * 7 // 100  # tan(angle / 2); 0.07 is 8 degrees

CHUNK = 100  # images at a time: what is worked on stays in the processor's cache, twice as fast


def widen(
    images: Images, labels: Labels, *, copies: int, first: Sequence[int]
) -> tuple[Images, Labels]:
    """The originals and `copies` altered ones of each, in a fixed shuffled order.

    The originals whose numbers are in `first` come first, in that order.
    """
    count = len(images)
    wide = np.empty((count * (copies + 1), SIDE, SIDE), np.uint8)
    wide[:count] = images
    for start in range(count, len(wide), CHUNK):
        numbers = np.arange(start, min(start + CHUNK, len(wide)))
        wide[numbers] = _altered(images[numbers % count], _strays(numbers))

    order = np.argsort(_mixed(np.arange(len(wide)), salt=0))
    order = np.concatenate([first, order[~np.isin(order, first)]])
    return wide[order], np.tile(labels, copies + 1)[order]


@dataclass(frozen=True, slots=True)
class _Strays:
    """What is done to each picture of a chunk; fixed-point, one number a picture."""

    shift_x: NDArray[np.int32]
    shift_y: NDArray[np.int32]
    stretch_x: NDArray[np.int32]
    stretch_y: NDArray[np.int32]
    slant: NDArray[np.int32]
    half_turn: NDArray[np.int32]


def _strays(numbers: NDArray[np.int64]) -> _Strays:
    limits = (MOST_SHIFT, MOST_SHIFT, MOST_STRETCH, MOST_STRETCH, MOST_SLANT, MOST_HALF_TURN)
    return _Strays(
        *(
            (_mixed(numbers, salt=salt) % np.uint64(2 * limit + 1)).astype(np.int32) - limit
            for salt, limit in enumerate(limits, start=1)
        )
    )


def _altered(images: Images, strays: _Strays) -> Images:
    """Each picture shifted, turned, slanted and stretched about its centre, read bilinearly."""
    # A turn with rational sine and cosine: t = tan(angle / 2) gives both without a square root.
    t = strays.half_turn
    whole = ONE * ONE + t * t
    cos = (ONE * ONE - t * t) * ONE // whole
    sin = 2 * t * ONE * ONE // whole

    # For each target pixel, the place in the original to read: turn, then slant, then stretch.
    axis = (2 * np.arange(SIDE, dtype=np.int32) - (SIDE - 1)) * (
        ONE // 2
    )  # from the centre, in 1/ONE pixels
    x, y = axis[None, None, :], axis[None, :, None]
    cos, sin = _each(cos), _each(sin)
    turned_x = (cos * x + sin * y) // ONE
    turned_y = (cos * y - sin * x) // ONE
    slanted_x = turned_x + _each(strays.slant) * turned_y // ONE
    centre = (SIDE - 1) * (ONE // 2)
    from_x = slanted_x * (ONE + _each(strays.stretch_x)) // ONE + centre - _each(strays.shift_x)
    from_y = turned_y * (ONE + _each(strays.stretch_y)) // ONE + centre - _each(strays.shift_y)

    # Bilinear reading, from a copy with a black rim wide enough for every stray.
    rim = 8
    width = SIDE + 2 * rim
    framed = np.pad(images, ((0, 0), (rim, rim), (rim, rim))).reshape(-1).astype(np.int32)
    column, right = from_x // ONE + rim, from_x % ONE
    row, down = from_y // ONE + rim, from_y % ONE
    corner = _each(np.arange(len(images), dtype=np.int32) * (width * width)) + row * width + column
    above = framed[corner] * (ONE - right) + framed[corner + 1] * right
    below = framed[corner + width] * (ONE - right) + framed[corner + width + 1] * right
    read = (above * (ONE - down) + below * down + ONE * ONE // 2) // (ONE * ONE)
    # Reading between pixels blurs; this gives grey and white pixels the shares they had before.
    altered: Images = np.clip((read - 32) * 4 // 3, 0, 255).astype(np.uint8)
    return altered


def _each(values: NDArray[np.int32]) -> NDArray[np.int32]:
    return values[:, None, None]  # (count,) -> (count, 1, 1)


def _mixed(numbers: NDArray[np.int64], *, salt: int) -> NDArray[np.uint64]:
    """Evenly spread 64-bit values, all different for different numbers.

    The output mixer of SplitMix64 (Steele, Lea and Flood 2014): multiplications wrap at 64 bits.
    """
    z = numbers.astype(np.uint64) + np.uint64(salt << 32)
    z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
