import pytest
import torch

from core.activities import DefencesSettings
from core.labs.attack_methods import slope_toward
from core.labs.defences import (
    blurred,
    defences,
    fewer_bits,
    jpeg,
    median,
    noise_vote,
    resized,
)


@pytest.fixture
def pictures():
    levels = torch.randint(0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    return levels / 255


def linear(classes=5):
    weights = torch.randn(3 * 32 * 32, classes, generator=torch.Generator().manual_seed(1))
    return lambda pictures: pictures.flatten(1) @ weights / 10


ALL = defences(DefencesSettings(votes=4), seed=0)


@pytest.mark.parametrize("defence", ALL, ids=lambda defence: defence.name)
def test_each_defence_keeps_size_and_range_and_lets_a_slope_through(defence, pictures):
    changed = defence.change(pictures)
    assert changed.shape == (len(pictures) * defence.copies, *pictures.shape[1:])
    assert changed.min() >= 0
    assert changed.max() <= 1
    slope, logits = slope_toward(defence.guard(linear()), pictures, torch.tensor([1, 2]))
    assert logits.shape == (2, 5)
    assert slope.shape == pictures.shape
    assert slope.abs().flatten(1).sum(1).gt(0).all(), "an attacker finds a way"


def test_only_the_first_defence_does_nothing(pictures):
    for place, defence in enumerate(ALL):
        same = torch.equal(defence.change(pictures)[: len(pictures)], pictures)
        assert same == (place == 0), defence.name


def test_through_jpeg_and_fewer_bits_the_slope_is_that_of_nothing_happened(pictures):
    targets = torch.tensor([1, 2])
    for change in (lambda p: jpeg(p, 50), lambda p: fewer_bits(p, 3)):
        there = change(pictures)
        straight, _ = slope_toward(lambda p, c=change: linear()(c(p)), pictures, targets)
        at_changed, _ = slope_toward(linear(), there, targets)
        assert torch.allclose(straight, at_changed, atol=1e-5)


def test_bits_leave_so_many_levels(pictures):
    for bits in (1, 3, 7):
        assert len(fewer_bits(pictures, bits).unique()) <= 2**bits


def test_a_worse_jpeg_changes_more(pictures):
    changes = [(jpeg(pictures, quality) - pictures).abs().mean() for quality in (95, 50, 10)]
    assert changes[0] < changes[1] < changes[2]


def test_what_is_the_same_everywhere_stays_as_it_is():
    flat = torch.full((1, 3, 32, 32), 0.5)
    for change in (median, lambda p: blurred(p, 1.0), lambda p: resized(p, 50)):
        assert torch.allclose(change(flat), flat, atol=1e-6)


def test_the_median_takes_single_dots_away():
    dotted = torch.zeros(1, 3, 32, 32)
    dotted[..., 10, 10] = 1
    assert median(dotted).max() == 0


def test_the_vote_is_the_mean_of_the_beliefs_in_the_noisy_copies(pictures):
    noisy = noise_vote(12, 3, seed=4)
    said = noisy.guard(linear())(pictures).softmax(1)
    copies = linear()(noise_vote(12, 3, seed=4).change(pictures)).softmax(1)
    assert torch.allclose(said, copies.view(3, 2, 5).mean(0), atol=1e-5)


def test_another_seed_is_other_noise(pictures):
    first, second = (noise_vote(12, 2, seed=seed).change(pictures) for seed in (0, 1))
    assert not torch.equal(first, second)
