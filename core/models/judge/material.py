"""What the judge learns from and is tested with: altered digits, and pictures that are no digits.

Pictures here are (N, 28, 28), 0 = paper, 1 = ink. Every function draws from the `Chance` it is
given, and leaves PyTorch's own random numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from core.data.digits import packaged_digits

SIDE = 28
AXIS = (2 * torch.arange(SIDE) - (SIDE - 1)) / SIDE  # of a picture's pixels, from -1 to 1
MIRRORED = (3, 4, 6, 7, 9)  # digits whose mirror image is no digit; that of a 2 passes for a 5


class Chance:
    """Random numbers from a seed of its own."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def uniform(self, low: float, high: float, *size: int) -> Tensor:
        return torch.rand(size, generator=self._generator) * (high - low) + low

    def normal(self, *size: int) -> Tensor:
        return torch.randn(size, generator=self._generator)

    def integers(self, low: int, high: int, *size: int) -> Tensor:
        """From `low` to `high` - 1."""
        return torch.randint(low, high, size, generator=self._generator)


@dataclass(frozen=True, slots=True)
class Split:
    """The 5,000 real digits in three parts, by class: (10, count of each, 28, 28)."""

    train: Tensor
    calibration: Tensor
    test: Tensor


def real_digits() -> Split:
    """Per digit 360 to learn from, 40 to choose the threshold with and 100 for the test.

    Raises Problem if the packaged digits are missing.
    """
    images, labels = packaged_digits()
    pictures = torch.from_numpy(images).float() / 255
    classes = torch.from_numpy(labels)
    by_class = torch.stack([pictures[classes == digit] for digit in range(10)])
    order = Chance(0).uniform(0, 1, by_class.shape[1]).argsort()
    shuffled = by_class[:, order]
    return Split(train=shuffled[:, 140:], calibration=shuffled[:, 100:140], test=shuffled[:, :100])


def flat(by_class: Tensor) -> tuple[Tensor, Tensor]:
    """(10, count, 28, 28) -> pictures (10 * count, 28, 28) and their labels."""
    return by_class.flatten(0, 1), torch.arange(10).repeat_interleave(by_class.shape[1])


def to_network(pictures: Tensor) -> Tensor:
    """(N, 28, 28) in 0..1 -> (N, 1, 28, 28) in -1..1, as the generator draws them."""
    return pictures[:, None] * 2 - 1


def altered(pictures: Tensor, chance: Chance, *, bend: float = 1.0) -> Tensor:
    """Each turned, scaled, slanted, shifted, bent and written with another pen.

    `bend` is the mean displacement of a point in pixels, apart from the rest.
    """
    count = len(pictures)
    turn = chance.uniform(-0.22, 0.22, count)  # radians: 13 degrees
    slant = chance.uniform(-0.2, 0.2, count)
    across, down = chance.uniform(0.87, 1.2, 2, count)
    shift_x, shift_y = chance.uniform(-2, 2, 2, count) * 2 / SIDE
    cos, sin = turn.cos(), turn.sin()
    x, y = AXIS[None, None, :], AXIS[None, :, None]  # (1, 1, 28), (1, 28, 1)
    from_x = _each(cos * across) * x + _each(slant - sin * across) * y + _each(shift_x)
    from_y = _each(sin * down) * x + _each(cos * down) * y + _each(shift_y)
    bends = F.interpolate(chance.normal(count, 2, 6, 6), (SIDE, SIDE), mode="bicubic")
    bend_x, bend_y = (bends * (bend * 2 / SIDE)).unbind(dim=1)
    moved = _looked_up(pictures, from_x + bend_x, from_y + bend_y)

    # Reading between pixels blurs, as a generator does; now and then the edges are made hard again.
    gain, dark = chance.uniform(1, 1.8, 2, count, 1, 1)
    inked = ((moved - 0.5) * gain + 0.5).clamp(0, 1) ** dark.reciprocal()
    return _speckled(inked, chance)


def varied(pictures: Tensor, chance: Chance) -> Tensor:
    """A third of them as they are, the rest altered.

    Digits and what is made of them to be no digit both come through here: else the network would
    tell them apart by how sharp the ink is.
    """
    untouched = chance.uniform(0, 1, len(pictures), 1, 1) < 1 / 3
    return torch.where(untouched, pictures, altered(pictures, chance))


def _speckled(pictures: Tensor, chance: Chance) -> Tensor:
    """With grain of up to 6 % of the range."""
    grain = chance.normal(*pictures.shape) * chance.uniform(0, 0.06, len(pictures), 1, 1)
    return torch.clamp(pictures + grain, 0, 1)


def _each(values: Tensor) -> Tensor:
    return values[:, None, None]  # (N,) -> (N, 1, 1)


def _looked_up(pictures: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """For each target pixel the picture at (x, y), each (N, 28, 28) in -1..1; paper outside."""
    grid = torch.stack([x, y], dim=3)  # (N, 28, 28, 2)
    found: Tensor = F.grid_sample(pictures[:, None], grid, align_corners=False)
    return found[:, 0]


def smooth_noise(count: int, chance: Chance, *, cells: int) -> Tensor:
    """Noise of mean 0 and deviation about 1 that changes over 28 / `cells` pixels."""
    noise = F.interpolate(chance.normal(count, 1, cells, cells), (SIDE, SIDE), mode="bicubic")
    return noise[:, 0] * (1.0 if cells == SIDE else 1.4)  # reading between cells evens them out


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two digits each: the second of another class than the first."""

    first: Tensor  # (N, 28, 28)
    second: Tensor
    chance: Chance


def _noise(pairs: Pairs) -> Tensor:
    """Grains of every size, from nearly flat grey to black and white."""
    parts = torch.tensor_split(torch.arange(len(pairs.first)), 4)
    fields = torch.cat(
        [
            smooth_noise(len(part), pairs.chance, cells=cells)
            for part, cells in zip(parts, (28, 14, 9, 5), strict=True)
        ]
    )
    middle = pairs.chance.uniform(0, 1, len(fields), 1, 1)
    return (fields * 10 ** pairs.chance.uniform(-2, 0.3, len(fields), 1, 1) + middle).clamp(0, 1)


def _blots(pairs: Pairs) -> Tensor:
    """Soft or sharp spots of ink in the middle of black paper."""
    count = len(pairs.first)
    fields = torch.cat(
        [
            smooth_noise(count // 2, pairs.chance, cells=5),
            smooth_noise(count - count // 2, pairs.chance, cells=8),
        ]
    )
    far = AXIS[:, None] ** 2 + AXIS[None, :] ** 2
    width = pairs.chance.uniform(0.2, 0.7, count, 1, 1)
    sharp = pairs.chance.uniform(1, 6, count, 1, 1)
    return torch.sigmoid(fields * sharp) * torch.exp(-((far / width) ** 2))


def _flat(pairs: Pairs) -> Tensor:
    """One grey all over, or a block of it: blank paper and full ink among them."""
    count = len(pairs.first)
    left, top, width, height = pairs.chance.uniform(-6, 30, 4, count, 1, 1)
    axis = torch.arange(SIDE)
    column, row = axis[None, None, :], axis[None, :, None]
    block = (column >= left) & (column < left + width) & (row >= top) & (row < top + height)
    whole = pairs.chance.uniform(0, 1, count, 1, 1) < 0.5
    grey = pairs.chance.integers(0, 5, count, 1, 1) / 4
    return _speckled((block | whole) * grey, pairs.chance)


def _halves(pairs: Pairs) -> Tensor:
    """Half of a digit, cut across or down near its middle."""
    count = len(pairs.first)
    cut = pairs.chance.integers(12, 17, count, 1, 1)
    keep = (torch.arange(SIDE)[None, None, :] < cut).expand(count, SIDE, SIDE)
    flip = pairs.chance.uniform(0, 1, count, 1, 1) < 0.5
    keep = torch.where(flip, ~keep, keep)
    turn = pairs.chance.uniform(0, 1, count, 1, 1) < 0.5
    return pairs.first * torch.where(turn, keep, keep.transpose(1, 2))


def _blends(pairs: Pairs) -> Tensor:
    """Two digits, one shining through the other or one written over the other."""
    share = pairs.chance.uniform(0.4, 0.6, len(pairs.first), 1, 1)
    mixed = pairs.first * share + pairs.second * (1 - share)
    strong = pairs.chance.uniform(1, 2, len(pairs.first), 1, 1)
    return (mixed * strong).clamp(0, 1)


def _mirrored(pairs: Pairs) -> Tensor:
    return pairs.first.flip(2)


def _torn(pairs: Pairs) -> Tensor:
    """A digit with about half of it gone, in patches."""
    return pairs.first * (smooth_noise(len(pairs.first), pairs.chance, cells=5) > 0)


def _crumpled(pairs: Pairs) -> Tensor:
    """A digit bent beyond what a hand does."""
    return altered(pairs.first, pairs.chance, bend=4.5)


def _close_ups(pairs: Pairs) -> Tensor:
    """A third of a digit, filling the picture."""
    count = len(pairs.first)
    x, y = AXIS[None, None, :] * 0.4, AXIS[None, :, None] * 0.4
    middle_x, middle_y = pairs.chance.uniform(-0.4, 0.4, 2, count, 1, 1)
    whole = torch.zeros(count, SIDE, SIDE)
    return _looked_up(pairs.first, x + middle_x + whole, y + middle_y + whole)


def _shuffled(pairs: Pairs) -> Tensor:
    """A digit in sixteen squares, put together in another order."""
    count = len(pairs.first)
    squares = F.unfold(pairs.first[:, None], 7, stride=7)  # (N, 49, 16)
    order = pairs.chance.uniform(0, 1, count, 1, 16).argsort(dim=2).expand_as(squares)
    return F.fold(squares.gather(2, order), SIDE, 7, stride=7)[:, 0]


NO_DIGITS: dict[str, Callable[[Pairs], Tensor]] = {
    "noise": _noise,
    "blots": _blots,
    "flat": _flat,
    "halves": _halves,
    "blends": _blends,
    "mirrored": _mirrored,
    "torn": _torn,
    "crumpled": _crumpled,
    "close_ups": _close_ups,
    "shuffled": _shuffled,
}
LEARNT = tuple(kind for kind in NO_DIGITS if kind != "shuffled")  # one is kept for the test alone
ONLY = {"halves": (0, 2, 3, 4, 5, 6, 7, 8, 9), "mirrored": MIRRORED}  # half a 1 is a short 1


def no_digits(kind: str, count: int, by_class: Tensor, chance: Chance) -> Tensor:
    """`count` pictures of one kind that are no digits, made of the digits (10, each, 28, 28)."""
    usable = torch.tensor(ONLY.get(kind, range(10)))
    first = usable[chance.integers(0, len(usable), count)]
    second = (first + chance.integers(1, 10, count)) % 10
    each = by_class.shape[1]
    pairs = Pairs(
        varied(by_class[first, chance.integers(0, each, count)], chance),
        varied(by_class[second, chance.integers(0, each, count)], chance),
        chance,
    )
    return NO_DIGITS[kind](pairs)
