"""The picture at the top of the first page: handwritten-looking digits that come out of noise.

An illustration drawn here, not the work of a trained network; the page's words say so.
"""

from __future__ import annotations

import base64
import functools
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

FRAMES = 8  # home.css steps through that many
COLUMNS, ROWS = 4, 2
SIDE = 28  # pixels of one digit, as in MNIST

Stroke = tuple[tuple[int, int], ...]  # points on the way of the pen, in a box of SIDE x SIDE

_DIGITS: tuple[tuple[Stroke, ...], ...] = (
    (((8, 7), (13, 5), (18, 8), (13, 13), (19, 17), (15, 23), (8, 21)),),  # 3
    (((7, 7), (14, 7), (20, 6), (15, 14), (12, 23)),),  # 7
    (((18, 8), (13, 5), (9, 9), (14, 14), (19, 19), (14, 23), (9, 19), (13, 14), (18, 8)),),  # 8
    (((14, 5), (8, 11), (9, 19), (14, 23), (19, 17), (19, 9), (14, 5)),),  # 0
    (((19, 5), (11, 6), (10, 12), (16, 12), (19, 17), (15, 22), (8, 21)),),  # 5
    (((8, 9), (13, 5), (18, 8), (15, 15), (8, 22), (14, 21), (20, 22)),),  # 2
    (((18, 9), (14, 6), (10, 9), (12, 13), (18, 9), (18, 15), (15, 23)),),  # 9
    (((11, 6), (8, 14), (19, 14)), ((17, 8), (16, 15), (16, 23))),  # 4
)


@functools.cache
def dream_url() -> str:
    """All frames, noise first, one above the other in one PNG, as a data URL of about 25 KB."""
    digits = np.concatenate(
        [
            np.concatenate([_drawn(strokes) for strokes in _DIGITS[row : row + COLUMNS]], axis=1)
            for row in range(0, ROWS * COLUMNS, COLUMNS)
        ]
    )
    noise = np.random.default_rng(8).uniform(0.0, 1.0, digits.shape)
    frames = [
        shown * digits + (1 - shown) * noise for shown in np.linspace(0.0, 1.0, FRAMES) ** 0.8
    ]
    # Sixteen greys are enough, and halve the size.
    sheet = Image.fromarray((np.concatenate(frames) * 255).astype(np.uint8)).quantize(16)
    file = io.BytesIO()
    sheet.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _drawn(strokes: tuple[Stroke, ...]) -> NDArray[np.float64]:
    """A digit as a soft pen draws it: (SIDE, SIDE), 0 = black."""
    scale = 8
    paper = Image.new("L", (SIDE * scale, SIDE * scale))
    pen = ImageDraw.Draw(paper)
    for stroke in strokes:
        for x, y in _smooth(np.array(stroke, dtype=float)) * scale:
            pen.ellipse((x - 9, y - 9, x + 9, y + 9), fill=255)
    small = paper.filter(ImageFilter.GaussianBlur(3)).resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small, dtype=float) / 255


def _smooth(points: NDArray[np.float64], *, between: int = 40) -> NDArray[np.float64]:
    """Catmull-Rom curve through `points` (n, 2), with that many points between two of them."""
    before, after = np.vstack([points[:1], points[:-2]]), np.vstack([points[2:], points[-1:]])
    a, b = points[:-1], points[1:]
    t = np.linspace(0.0, 1.0, between)[:, None, None]  # (between, 1, 1)
    curve = 0.5 * (
        2 * a
        + (b - before) * t
        + (2 * before - 5 * a + 4 * b - after) * t**2
        + (3 * a - before - 3 * b + after) * t**3
    )  # (between, n - 1, 2)
    return np.asarray(curve.transpose(1, 0, 2).reshape(-1, 2))
