"""The fixed table of positions: sines and cosines of column and row.

After the public Audio-JEPA (Tuncay, 2025), whose layout differs from other libraries': the column,
which is frequency, fills the first half, and the row, which is time, the second.
"""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10_000.0


def table(width: int, rows: int, columns: int) -> Tensor:
    """Positions of a grid, (1, rows * columns, width) in float32, row by row.

    `width` is a multiple of 4: a quarter each for sine and cosine, of column and of row.
    """
    if width % 4:
        raise ValueError(f"the width {width} is no multiple of 4")
    quarter = width // 4
    omega = BASE ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    row, column = torch.meshgrid(
        torch.arange(rows, dtype=torch.float64),
        torch.arange(columns, dtype=torch.float64),
        indexing="ij",
    )
    parts = [
        wave(place.flatten()[:, None] * omega)
        for place in (column, row)
        for wave in (torch.sin, torch.cos)
    ]
    return torch.cat(parts, dim=1).float()[None]
