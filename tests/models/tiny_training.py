"""mini-turbo's training at its smallest: what two test files share."""

from __future__ import annotations

from pathlib import Path

import torch

from core.models.mini_turbo.blocks import TINY
from core.models.mini_turbo.pictures import Material, Sources
from core.models.mini_turbo.plumbing import Run
from core.models.mini_turbo.train_student import Distilling
from core.models.mini_turbo.words import THINGS

CPU = torch.device("cpu")
HOW = Distilling(most_steps=4, pairs=16, pair_batch=8, pair_seconds=5, imitate=0.5)


def made_up_material() -> Material:
    """Grey blocks, two of each thing: no data set is needed."""
    chance = torch.Generator().manual_seed(0)
    things = torch.arange(len(THINGS)).repeat(2)
    pictures = torch.zeros(len(things), 28, 28, dtype=torch.uint8)
    pictures[:, 6:22, 8:20] = torch.randint(
        205, 255, (len(things), 16, 12), generator=chance
    ).byte()
    return Material(Sources(pictures, things), Sources(pictures, things))


def tiny_run(out: Path, **changes: object) -> Run:
    given = {
        "out": out,
        "steps": 2,
        "batch": 8,
        "bank": 48,
        "processes": 1,
        "sizes": TINY,
        "device": CPU,
    }
    return Run(**(given | changes))
