"""Which text-to-image models there are, and where their files lie. Needs no torch.

Two models behind one door: both are folders in diffusers' layout, with the same classes of blocks,
loaded by the same call with the same arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.activities.make_images import MINI_TURBO, SD_TURBO
from core.problems import Problem
from core.settings import LabSettings

MINI_TURBO_FOLDER = Path(__file__).with_name("mini_turbo") / "weights"
INDEX = "model_index.json"  # what makes a folder a pipeline of diffusers


@dataclass(frozen=True, slots=True)
class ImageModel:
    """One model: what it draws, and how much of it at once."""

    id: str
    folder: Path  # a pipeline in diffusers' layout
    variant: str | None  # of its weight files: "fp16", or None where there is only one
    pixels: int  # height and width of a picture
    most_steps: int
    most_at_once: int  # pictures in one batch on a card; halved where memory runs out
    parameters: int  # of all blocks, in millions and rounded, before anything is loaded

    @property
    def here(self) -> bool:
        """Whether its files are on this machine's disk."""
        return (self.folder / INDEX).is_file()


def image_models(settings: LabSettings) -> dict[str, ImageModel]:
    """Every model of the lab by its id, whether its files are here or not; the best one first."""
    return {
        SD_TURBO: ImageModel(
            id=SD_TURBO,
            folder=settings.models / SD_TURBO,
            variant="fp16",
            pixels=512,
            most_steps=4,
            most_at_once=8,
            parameters=1_290,
        ),
        MINI_TURBO: ImageModel(
            id=MINI_TURBO,
            folder=settings.mini_turbo_dir or MINI_TURBO_FOLDER,
            variant=None,
            pixels=64,
            most_steps=1,
            most_at_once=32,
            parameters=11,
        ),
    }


def image_model(settings: LabSettings, name: str) -> ImageModel:
    """The model of this name. Raises Problem where its files are not on this machine."""
    model = image_models(settings)[name]
    if not model.here:
        raise Problem("problem.image_model_missing", model=name)
    return model


def default_image_model(settings: LabSettings) -> str | None:
    """Id of the best model whose files are here; None where there is none."""
    here = [model.id for model in image_models(settings).values() if model.here]
    return here[0] if here else None
