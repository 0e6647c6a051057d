"""The attacks on a tiny network, against the formula written out and against a library."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from core.activities.attack import BASIC, FGSM, METHODS, PGD
from core.labs.attack_geometry import (
    check_range,
    eight_bits,
    inside_linf,
    l2,
    linf,
    random_in_linf,
    random_signs,
)
from core.labs.attack_methods import Aim, minimal, step_count, steps_of

with warnings.catch_warnings():  # it imports a part of SciPy by an old name
    warnings.simplefilter("ignore", DeprecationWarning)
    import foolbox
    from foolbox import attacks as theirs

CLASSES = 10


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(1)
    network = (
        nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.Softplus(),  # smooth: no slope is exactly zero
            nn.Conv2d(16, 16, 3, stride=2, padding=1),
            nn.Softplus(),
            nn.Flatten(),
            nn.Linear(16 * 8 * 8, CLASSES),
        )
        .eval()
        .requires_grad_(False)
    )
    network[-1].weight.mul_(30)  # as sensitive as a trained one: small changes matter
    return network


def aim_at(count=4, *, epsilon=8.0, seed=0):
    random = torch.Generator().manual_seed(seed)
    levels = torch.randint(0, 256, (count, 3, 16, 16), generator=random)
    return Aim(
        originals=levels / 255,  # as files are: many values at the very ends of the range
        targets=torch.arange(count) % CLASSES,
        epsilon=torch.full((count, 1, 1, 1), epsilon / 255),
    )


def runner_up(network, aim):
    """The same, aimed at what each picture is taken for next: within reach of a small change."""
    return replace(aim, targets=network(aim.originals).topk(2).indices[:, 1])


def last(steps):
    return list(steps)[-1].pictures


def lab_loop(network, original, target, epsilon, steps):
    """The lab's algorithm, sentence by sentence, on one picture; the picture after each step."""
    picture, after = original.clone(), []
    for _ in range(steps):
        picture = picture.detach().requires_grad_(True)
        loss = F.cross_entropy(network(picture), torch.tensor([target]))
        loss.backward()
        with torch.no_grad():
            picture = picture - (epsilon / 8) * picture.grad.sign()
            picture = original + torch.clamp(picture - original, -epsilon, epsilon)
            picture = torch.clamp(picture, 0, 1)
        after.append(picture)
    return after


def test_basic_is_the_labs_algorithm_step_by_step(network):
    aim = aim_at(1)
    reference = lab_loop(network, aim.originals, 0, 8 / 255, 12)
    for step, expected in zip(steps_of(BASIC, network, aim, steps=12), reference, strict=True):
        assert torch.equal(step.pictures, expected)


def test_a_batch_attacks_each_picture_as_if_it_were_alone(network):
    aim = aim_at(3)
    together = last(steps_of(BASIC, network, aim, steps=5))
    for place in range(3):
        one = slice(place, place + 1)
        alone = Aim(aim.originals[one], aim.targets[one], aim.epsilon[one])
        apart = last(steps_of(BASIC, network, alone, steps=5))
        assert torch.allclose(together[one], apart, atol=1e-6)


def of_foolbox(network, attack, aim, epsilon):
    model = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
    criterion = foolbox.criteria.TargetedMisclassification(aim.targets)
    return attack.run(model, aim.originals, criterion, **epsilon)


def test_basic_and_fgsm_are_those_of_foolbox(network):
    aim, epsilon = aim_at(), {"epsilon": 8 / 255}
    basic = theirs.LinfBasicIterativeAttack(abs_stepsize=1 / 255, steps=7, random_start=False)
    assert torch.allclose(
        last(steps_of(BASIC, network, aim, steps=7)),
        of_foolbox(network, basic, aim, epsilon),
        atol=1e-6,
    )
    once = theirs.LinfBasicIterativeAttack(rel_stepsize=1.0, steps=1, random_start=False)
    assert torch.allclose(
        last(steps_of(FGSM, network, aim, steps=50)),
        of_foolbox(network, once, aim, epsilon),
        atol=1e-6,
    )


def test_pgd_is_foolboxs_from_the_same_start(network):
    aim = aim_at()
    start = random_in_linf(aim.originals, aim.epsilon, seed=5)

    class FromStart(theirs.LinfProjectedGradientDescentAttack):
        def get_random_start(self, x0, epsilon):
            return type(x0)(start)

    pgd = FromStart(rel_stepsize=2.5 / 10, steps=10, random_start=True)
    assert torch.allclose(
        last(steps_of(PGD, network, aim, steps=10, seed=5)),
        of_foolbox(network, pgd, aim, {"epsilon": 8 / 255}),
        atol=1e-6,
    )


def test_the_minimal_attack_is_foolboxs_ddn(network):
    aim = runner_up(network, aim_at())
    expected = of_foolbox(network, theirs.DDNAttack(steps=60), aim, {})
    found = last(minimal(network, aim, steps=60))
    assert torch.equal(network(found).argmax(1), aim.targets), "all are fooled"
    assert torch.allclose(l2(found, aim.originals), l2(expected, aim.originals), rtol=1e-3)
    assert torch.allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_each_attack_brings_more_belief_in_the_target_than_noise_of_its_size_does(network, method):
    aim = runner_up(network, aim_at())
    noise = random_signs(aim.originals, aim.epsilon, seed=0)
    attacked = last(steps_of(method, network, aim, steps=20))

    def belief(pictures):
        return network(pictures).softmax(1).gather(1, aim.targets[:, None])

    assert (belief(attacked) > belief(aim.originals)).all()
    assert (belief(attacked) > belief(noise)).all()


@pytest.mark.parametrize("method", [BASIC, FGSM, PGD])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5, 7.0, 16.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_step_leaves_the_ball_or_the_range_of_pixels(network, method, epsilon, seed):
    aim = aim_at(2, epsilon=epsilon, seed=seed)
    for step in steps_of(method, network, aim, steps=9, seed=seed):
        assert step.pictures.min() >= 0
        assert step.pictures.max() <= 1
        assert linf(step.pictures, aim.originals).max() <= epsilon / 255 + 1e-7
        rounded = eight_bits(step.pictures, aim.originals, aim.epsilon)
        assert torch.allclose(rounded * 255, (rounded * 255).round(), atol=1e-4)
        assert rounded.min() >= 0
        assert rounded.max() <= 1
        assert linf(rounded, aim.originals).max() <= epsilon / 255 + 1e-7


@pytest.mark.parametrize("seed", range(3))
def test_the_minimal_attack_never_leaves_the_range_of_pixels(network, seed):
    for step in minimal(network, aim_at(2, seed=seed), steps=15):
        check_range(step.pictures)


def test_less_than_one_level_does_not_survive_rounding():
    aim = aim_at(epsilon=0.5)
    moved = inside_linf(aim.originals + 1, aim.originals, aim.epsilon)
    assert linf(moved, aim.originals).max() > 0
    assert torch.equal(eight_bits(moved, aim.originals, aim.epsilon), aim.originals)


def test_the_belief_of_a_step_is_that_of_the_pictures_it_began_with(network):
    aim = aim_at(1)
    first, second = list(steps_of(BASIC, network, aim, steps=2))
    assert first.belief == pytest.approx(network(aim.originals).softmax(1)[0, 0].item())
    assert second.belief == pytest.approx(network(first.pictures).softmax(1)[0, 0].item())


def test_fgsm_takes_one_step_and_the_others_as_many_as_asked(network):
    for method in METHODS:
        taken = len(list(steps_of(method, network, aim_at(1), steps=3)))
        assert taken == step_count(method, 3) == (1 if method == FGSM else 3)


def test_random_noise_is_the_same_for_a_seed_and_as_large_as_an_attack():
    aim = aim_at()
    noise = random_signs(aim.originals, aim.epsilon, seed=3)
    assert torch.equal(noise, random_signs(aim.originals, aim.epsilon, seed=3))
    assert not torch.equal(noise, random_signs(aim.originals, aim.epsilon, seed=4))
    assert linf(noise, aim.originals) == pytest.approx([8 / 255] * 4)


@pytest.mark.parametrize("wrong", [1.5, -0.1, float("nan")])
def test_pictures_that_were_already_normalised_are_refused(wrong):
    aim = aim_at(1)
    with pytest.raises(ValueError, match=r"0\.\.1"):
        Aim(aim.originals.index_fill(2, torch.tensor([0]), wrong), aim.targets, aim.epsilon)
