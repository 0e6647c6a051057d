"""What the tests of Part 3's labs share: a tiny model that has learnt nothing, and its context."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from core.activities.make_images import MINI_TURBO
from core.context import Context, never
from core.models.image_models import ImageModel, image_models
from core.settings import LabSettings
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine
from tests.models.tiny_pipeline import make_tiny_pipeline

CPU = torch.device("cpu")


def tiny_model(folder: Path, *, most_steps: int = 1) -> ImageModel:
    """mini-turbo's place among the models, with a tiny pipeline in it."""
    if not (folder / "model_index.json").is_file():
        make_tiny_pipeline(folder)
    model = image_models(LabSettings(mini_turbo_dir=folder))[MINI_TURBO]
    return replace(model, most_steps=most_steps)


@contextmanager
def lab_of(model: ImageModel, *, stopped=never, device: str = "cpu") -> Iterator[Context]:
    """A context in which this model is the lab's."""
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        yield Context(
            device=device,
            cpu_threads=1,
            machine=Machine(cpu="a processor", cores=1, ram_mib=1_000.0),
            meter=meter,
            stopped=stopped,
            digits=lambda: None,
            lab=LabSettings(mini_turbo_dir=model.folder),
        )


def pixels(png: bytes) -> NDArray[np.uint8]:
    return np.array(Image.open(io.BytesIO(png)))


def furthest(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    """The largest difference of any pixel, of 255."""
    return int(np.abs(one.astype(int) - other.astype(int)).max())
