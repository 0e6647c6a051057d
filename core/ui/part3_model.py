"""Which image model a visitor of Part 3 draws with, and the plain truth about it."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from core.activities.make_images import MINI_TURBO, SD_TURBO, BlockFacts
from core.models.image_models import ImageModel, default_image_model, image_models
from core.models.stored_blocks import MIB, stored_blocks
from core.texts import Texts
from core.ui import resources
from core.ui.visitor import visitor

# As published: sd-turbo by its model card and the course, mini-turbo by its first training.
PUBLISHED: dict[str, tuple[tuple[str, str, int], ...]] = {
    SD_TURBO: (
        ("tokenizer", "CLIPTokenizer", 0),
        ("text_encoder", "CLIPTextModel", 340_400_000),
        ("unet", "UNet2DConditionModel", 865_900_000),
        ("vae", "AutoencoderKL", 83_700_000),
        ("scheduler", "EulerDiscreteScheduler", 0),
    ),
    MINI_TURBO: (
        ("tokenizer", "CLIPTokenizer", 0),
        ("text_encoder", "CLIPTextModel", 2_010_000),
        ("unet", "UNet2DConditionModel", 8_490_000),
        ("vae", "AutoencoderKL", 950_000),
        ("scheduler", "EulerDiscreteScheduler", 0),
    ),
}


def models_here() -> dict[str, ImageModel]:
    """The models whose files are on this machine, by their ids, the best one first."""
    models = image_models(resources.lab_settings())
    return {name: model for name, model in models.items() if model.here}


def model_now() -> ImageModel | None:
    """What this visitor draws with: their choice, else the best that is here; None: none is."""
    settings = resources.lab_settings()
    here = models_here()
    chosen = visitor().image_model
    name = chosen if chosen in here else default_image_model(settings)
    return here[name] if name is not None else None


def draw_truth(model: ImageModel, say: Texts) -> None:
    """Name and size of the model in use, with all that it is and is not one click away."""
    st.badge(
        say("part3.model", model=model.id, millions=model.parameters, pixels=model.pixels),
        icon=":material/deployed_code:",
        color="green",
    )
    with st.popover(say("part3.model.truth"), icon=":material/info:", type="tertiary"):
        st.markdown(say.prose(f"part3/{model.id}"))


def draw_none(say: Texts) -> None:
    """No model is here: what that means, and what the teacher can do about it."""
    with st.container(border=True):
        st.subheader(say("part3.none"))
        st.markdown(say.prose("part3/none"))


# Blocks, without loading anything


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of one model, and where their figures are from."""

    facts: tuple[BlockFacts, ...]
    source: str  # "loaded", "files" or "published"

    def millions(self, name: str) -> float:
        return sum(block.parameters for block in self.facts if block.name == name) / 1e6

    @property
    def total_millions(self) -> float:
        return sum(block.parameters for block in self.facts) / 1e6


def blocks_of(model: ImageModel) -> Blocks:
    """The blocks as the files on disk tell them, else as they were published."""
    try:
        return Blocks(stored_blocks(model.folder), "files")
    except (OSError, ValueError, KeyError):  # not here, or not as we know it
        return published_blocks(model.id)


def published_blocks(name: str) -> Blocks:
    facts = tuple(
        BlockFacts(block, kind, count, 2 * count / MIB, "float16" if count else "")
        for block, kind, count in PUBLISHED[name]
    )
    return Blocks(facts, "published")
