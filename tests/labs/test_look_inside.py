import io

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from core.activities import InsideResult, InsideSettings
from core.context import Context, never
from core.data.digits import Digits, DigitsSource
from core.events import Drawn, Result
from core.labs import keeping
from core.labs.dcgan import Gan
from core.labs.draw_digits import noises
from core.labs.look_inside import maps_of, run
from core.problems import Problem
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine

LAYERS = [  # as the lab's table of the networks has them
    ("generator-0", 64, 64, 1),
    ("generator-1", 128, 16, 7),
    ("generator-2", 64, 16, 14),
    ("generator-3", 1, 1, 28),
    ("discriminator-0", 1, 1, 28),
    ("discriminator-1", 64, 16, 14),
    ("discriminator-2", 128, 16, 7),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    kept = tmp_path_factory.mktemp("kept")
    torch.manual_seed(0)
    keeping.save(Gan(torch.device("cpu")), kept)
    return kept


def ten_digits():
    """One flat picture of each digit, digit d with the grey 20 d."""
    images = np.repeat(np.arange(10, dtype=np.uint8) * 20, 28 * 28).reshape(10, 28, 28)
    return Digits(images, np.arange(10, dtype=np.uint8), DigitsSource.WIDENED)


def looked(folder, settings):
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        context = Context(
            device="cpu",
            cpu_threads=1,
            machine=Machine(cpu="a processor", cores=1, ram_mib=1_000.0),
            meter=meter,
            stopped=never,
            digits=ten_digits,
            keep=folder,
        )
        *events, result = run(settings, context)
    assert isinstance(result, Result)
    pictures = {event.name: event.png for event in events if isinstance(event, Drawn)}
    return pictures, msgspec.convert(result.values, InsideResult)


def test_every_layer_has_its_picture_and_its_facts_in_order(folder):
    pictures, result = looked(folder, InsideSettings())
    assert list(pictures) == [layer.picture for layer in result.layers]
    assert [
        (layer.picture, layer.channels, layer.shown, layer.height) for layer in result.layers
    ] == LAYERS
    for layer in result.layers:
        assert layer.picture.startswith(layer.network)
        with Image.open(io.BytesIO(pictures[layer.picture])) as picture:
            columns = min(layer.shown, 8)
            assert (picture.width + 1) % columns == 0
            scale = ((picture.width + 1) // columns - 1) / layer.width
            assert scale == int(scale) >= 2, "every pixel of a map is a square"


def test_beliefs_are_what_d_says_of_the_pictures_shown(folder):
    _, result = looked(folder, InsideSettings(seed=4, digit=7))
    gan = keeping.load(folder, torch.device("cpu"))
    real = torch.full((1, 1, 28, 28), 7 * 20 / 127.5 - 1)
    with torch.inference_mode():
        fake = gan.generator(noises(1, 4))
        assert result.score_fake == pytest.approx(float(gan.discriminator(fake).sigmoid()))
        assert result.score_real == pytest.approx(float(gan.discriminator(real).sigmoid()))


def test_the_maps_of_a_layer_are_what_the_next_layer_receives():
    generator = Gan(torch.device("cpu")).generator.eval()
    noise = noises(1, 0)
    with torch.inference_mode():
        given, first, second, picture = maps_of(generator, noise)
        assert torch.equal(given, noise)
        assert torch.equal(nn.Sequential(*list(generator)[3:])(first), picture)
        assert torch.equal(nn.Sequential(*list(generator)[6:])(second), picture)
        assert torch.equal(generator(noise), picture)


def test_zero_is_mid_grey_in_every_map(folder):
    # After a ReLU nothing is below zero, so no pixel of a map is darker than mid-grey.
    pictures, _ = looked(folder, InsideSettings())
    first = np.array(Image.open(io.BytesIO(pictures["generator-1"])))
    inside = np.delete(first, [56], axis=0)
    inside = np.delete(inside, range(56, first.shape[1], 57), axis=1)
    assert inside.min() == 128
    assert inside.max() == 255


def test_another_digit_is_another_picture_and_the_noise_stays(folder):
    three, _ = looked(folder, InsideSettings(digit=3))
    nine, _ = looked(folder, InsideSettings(digit=9))
    assert three["discriminator-0"] != nine["discriminator-0"]
    assert three["generator-3"] == nine["generator-3"]


def test_who_has_trained_nothing_is_told_so(tmp_path):
    with pytest.raises(Problem) as caught:
        looked(tmp_path, InsideSettings())
    assert caught.value.notice.key == "problem.nothing_trained"
