import io

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from core.activities import DrawResult, DrawSettings
from core.context import Context, never
from core.events import Drawn, Result
from core.labs import keeping
from core.labs.dcgan import Gan
from core.labs.draw_digits import WALK, between, noises, run
from core.problems import Problem
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a student keeps a GAN; untrained, since drawing asks no more of it."""
    kept = tmp_path_factory.mktemp("kept")
    torch.manual_seed(0)
    keeping.save(Gan(torch.device("cpu")), kept)
    return kept


def drawn(settings, folder):
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        context = Context(
            device="cpu",
            cpu_threads=1,
            machine=Machine(cpu="a processor", cores=1, ram_mib=1_000.0),
            meter=meter,
            stopped=never,
            digits=lambda: None,
            keep=folder,
        )
        *events, result = run(settings, context)
    assert isinstance(result, Result)
    pictures = {
        event.name: np.array(Image.open(io.BytesIO(event.png)))
        for event in events
        if isinstance(event, Drawn)
    }
    return pictures, msgspec.convert(result.values, DrawResult)


def cells(row, scale):
    """The cells of a grid of one row, at their own size."""
    side = 28 * scale
    return [row[::scale, left : left + side : scale] for left in range(0, row.shape[1], side + 1)]


def test_the_walk_goes_from_one_noise_to_the_other_and_here_lies_on_it(folder):
    for percent, place in ((0, 0), (50, WALK // 2), (100, WALK - 1)):
        pictures, result = drawn(DrawSettings(seed_a=3, seed_b=8, percent=percent), folder)
        walk = cells(pictures["walk"], 2)
        (here,) = cells(pictures["here"], 6)
        assert len(walk) == WALK
        # One grey level apart at most: a batch of nine may round differently from a batch of one.
        assert np.abs(here.astype(int) - walk[place]).max() <= 1
        assert result.milliseconds > 0
        assert result.readable is None


def test_walking_back_shows_the_same_digits_in_reverse(folder):
    there, _ = drawn(DrawSettings(seed_a=3, seed_b=8), folder)
    back, _ = drawn(DrawSettings(seed_a=8, seed_b=3), folder)
    for one, other in zip(cells(there["walk"], 2), reversed(cells(back["walk"], 2)), strict=True):
        assert np.abs(one.astype(int) - other).max() <= 1


def test_every_noise_of_the_walk_is_as_far_from_zero_as_its_ends():
    a, b = noises(1, 0), noises(1, 1)
    ends = sorted([a.norm(), b.norm()])
    for share in (0.1, 0.5, 0.9):
        assert ends[0] <= between(a, b, share).norm() <= ends[1]
    assert ((a + b) / 2).norm() < 0.9 * ends[0], "which a straight line is not"
    assert torch.allclose(between(a, b, 0.0), a)
    assert torch.allclose(between(a, b, 1.0), b, atol=1e-6)
    assert torch.allclose(between(a, a, 0.3), a)


def test_many_digits_are_drawn_at_once_and_judged(folder):
    pictures, result = drawn(DrawSettings(seed_a=3, count=64), folder)
    assert pictures["many"].shape == (4 * 57 - 1, 16 * 57 - 1)
    assert 0 <= result.readable <= 1
    assert 0 <= result.digits_seen <= 10


def test_many_begin_with_the_digit_that_the_walk_begins_with():
    assert torch.equal(noises(64, 5)[:1], noises(1, 5))
    assert not torch.equal(noises(1, 5), noises(1, 6))


@pytest.mark.parametrize("count", [1, 64])
def test_who_has_trained_nothing_is_told_so(count, tmp_path):
    for folder in (tmp_path, None):
        with pytest.raises(Problem) as caught:
            drawn(DrawSettings(count=count), folder)
        assert caught.value.notice.key == "problem.nothing_trained"
