"""Small grey pictures side by side: grids, PNG files (of colour pictures too), and an animation.

Digits are always mapped the same way, -1..1 to black..white, so that two pictures can be compared
and a faint digit looks faint.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Grey = NDArray[np.uint8]  # 0 black, 255 white; (H, W), or (N, H, W) for N cells of a grid

LINE = 56  # the grey of the lines between cells: seen, and darker than any stroke
GIF_GREYS = 8  # as many as strokes need; a whole palette would double the file
GIF_FRAMES = 32
GIF_BYTES = 390_000  # pictures full of noise compress badly: then there are fewer of them
LAST_FRAME_MS = 2_500  # what came of it is to be looked at


def grey(pictures: Tensor) -> Grey:
    """Pictures (N, 1, H, W) in -1..1 -> (N, H, W). What is no number becomes mid-grey."""
    flat = torch.nan_to_num(pictures.detach()[:, 0], nan=0.0)
    bytes_ = flat.add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8)
    cells: Grey = bytes_.cpu().numpy()
    return cells


def grid(cells: Grey, *, columns: int, scale: int = 1) -> Grey:
    """Cells (N, H, W), each pixel `scale` times as large, in rows, with a thin line between."""
    count, height, width = cells.shape
    height, width = height * scale, width * scale
    rows = -(-count // columns)  # rounded up
    whole = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), LINE, dtype=np.uint8)
    for place, cell in enumerate(cells):
        top, left = place // columns * (height + 1), place % columns * (width + 1)
        enlarged = cell.repeat(scale, axis=0).repeat(scale, axis=1)
        whole[top : top + height, left : left + width] = enlarged
    return whole


def png(picture: Grey) -> bytes:
    """One picture, grey (H, W) or in colour (H, W, 3), as a PNG file."""
    file = io.BytesIO()
    # The first level of compression: a tenth of the time of the sixth, and little larger.
    Image.fromarray(picture).save(file, "PNG", compress_level=1)
    return file.getvalue()


def gif(pictures: Sequence[Grey], *, frame_ms: int = 160) -> bytes:
    """Pictures (H, W) of one size as an endless animation; of many, some evenly chosen ones.

    A GIF, because slides and chats play it. The first and the last picture are always there.
    """
    count = min(len(pictures), GIF_FRAMES)
    file = _gif(pictures, count, frame_ms)
    while len(file) > GIF_BYTES and count > 2:
        count = max(2, count * 2 // 3)
        file = _gif(pictures, count, frame_ms)
    return file


def _gif(pictures: Sequence[Grey], count: int, frame_ms: int) -> bytes:
    chosen = np.linspace(0, len(pictures) - 1, count).round().astype(int)
    first, *rest = (_few_greys(pictures[place]) for place in chosen)
    file = io.BytesIO()
    first.save(
        file,
        "GIF",
        save_all=True,
        append_images=rest,
        duration=[frame_ms] * len(rest) + [LAST_FRAME_MS],
        loop=0,
        optimize=False,
    )
    return file.getvalue()


def _few_greys(picture: Grey) -> Image.Image:
    levels = GIF_GREYS - 1
    few = Image.fromarray((picture.astype(np.uint16) * levels + 127) // 255).convert("L")
    indexed = Image.frombytes("P", few.size, few.tobytes())
    indexed.putpalette([level * 255 // levels for level in range(GIF_GREYS) for _ in range(3)])
    return indexed
