import msgspec
import numpy as np
import pytest
import torch

from core.activities.make_images import (
    MakeImagesSettings,
    PictureInsideResult,
    PictureInsideSettings,
)
from core.events import Drawn, Result, Stopped
from core.labs import make_images, picture_inside
from core.labs.image_pipeline import TOLERANCE, held
from core.problems import Problem
from tests.labs.picture_lab import CPU, furthest, lab_of, pixels, tiny_model

SETTINGS = PictureInsideSettings(prompt="một chiếc váy đỏ", seed=6)


def looked(context):
    *events, result = picture_inside.run(SETTINGS, context)
    assert isinstance(result, Result)
    drawn = {event.name: pixels(event.png) for event in events if isinstance(event, Drawn)}
    return drawn, msgspec.convert(result.values, PictureInsideResult)


def test_a_picture_is_shown_from_its_words_to_its_pixels(model):
    with lab_of(model) as context:
        drawn, result = looked(context)
        asked = MakeImagesSettings(prompt=SETTINGS.prompt, seed=SETTINGS.seed)
        (same,) = [e for e in make_images.run(asked, context) if isinstance(e, Drawn)]
        blocks = held(model, CPU).blocks()

    assert "".join(result.tokens[:-4]) == "mộtchiếcváy"
    assert result.tokens[-4:] == ("▯",) * 4, "it has never met those letters"
    assert result.seats == 77
    assert result.latent_shape == (4, 16, 16)
    assert result.pixels == 64
    assert result.blocks == blocks
    assert result.steps == (1,), "this model has learnt no more"
    assert set(result.seconds) == {"text", "unet", "vae"}
    assert min(result.seconds.values()) > 0
    assert set(drawn) == {"noise", "latent", "steps-1"}
    assert furthest(drawn["steps-1"], pixels(same.png)) <= TOLERANCE["cpu"]


def test_noise_is_drawn_as_grey_channels_side_by_side_on_a_fixed_scale(model):
    with lab_of(model) as context:
        drawn, _ = looked(context)
        noise = held(model, CPU).noise([SETTINGS.seed])

    assert drawn["noise"].shape == drawn["latent"].shape == (64, 4 * 65 - 1)
    first = drawn["noise"][::4, 0:64:4]
    expected = (noise[0, 0].clamp(-3, 3) / 3 + 1).mul(127.5).round()
    assert np.array_equal(first, expected.to(torch.uint8).numpy())


def test_a_model_that_has_learnt_more_steps_shows_one_two_and_four(model, tmp_path, monkeypatch):
    able = tiny_model(model.folder, most_steps=4)
    monkeypatch.setattr(picture_inside, "image_model", lambda _lab, _name: able)
    with lab_of(able) as context:
        drawn, result = looked(context)

    assert result.steps == (1, 2, 4)
    assert furthest(drawn["steps-1"], drawn["steps-4"]) > 0


def test_it_stops_between_two_pictures(model):
    with lab_of(model, stopped=lambda: True) as context:
        *_, last = picture_inside.run(SETTINGS, context)

    assert last == Stopped()


def test_a_sentence_against_the_rules_is_not_looked_into(model):
    with lab_of(model) as context, pytest.raises(Problem):
        list(picture_inside.run(PictureInsideSettings(prompt="a naked man"), context))
