"""Four ways to make a picture look like something else to a network. All are aimed at a target.

Each is a generator that takes one step at a time: whoever runs it shows the steps, or stops. A
batch of pictures is attacked at once, each with its own target and strength; `classify` takes
pictures in 0..1 and gives logits, be it a network, a network behind a defence, or several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from core.activities.attack import BASIC, FGSM, PGD
from core.labs.attack_geometry import check_range, inside_linf, l2, random_in_linf

Classify = Callable[[Tensor], Tensor]  # (N, 3, H, W) in 0..1 -> logits (N, classes)

BASIC_SHARE = 1 / 8  # of the strength, in one step of the lab's own attack
PGD_REACH = 2.5  # how many times the strength all steps together could move a value

# Rony et al. 2019, arXiv:1811.09600: as their code and foolbox's have them.
DDN_START = 1.0  # length of the first change
DDN_GAMMA = 0.05  # share by which the length shrinks or grows
DDN_STEP, DDN_LAST_STEP = 1.0, 0.01


@dataclass(frozen=True, slots=True)
class Aim:
    """What is to be attacked, and into what."""

    originals: Tensor  # (N, 3, H, W) in 0..1
    targets: Tensor  # (N,) indices of classes
    epsilon: Tensor  # (N, 1, 1, 1) in the units of the pictures; "minimal" does not look at it

    def __post_init__(self) -> None:
        check_range(self.originals)


@dataclass(frozen=True, slots=True)
class Step:
    """After one step; nothing of it has been fetched from the device."""

    pictures: Tensor  # (N, 3, H, W): the best so far
    belief: Tensor  # (N,) in the target, 0 to 1, of the pictures that this step began with


def steps_of(
    method: str, classify: Classify, aim: Aim, *, steps: int, seed: int = 0
) -> Iterator[Step]:
    """The attack of this name. "fgsm" takes one step, whatever `steps` says."""
    if method == BASIC:
        return iterative(classify, aim, steps=steps, share=BASIC_SHARE)
    if method == FGSM:
        return iterative(classify, aim, steps=1, share=1.0)
    if method == PGD:
        start = random_in_linf(aim.originals, aim.epsilon, seed=seed)
        share = max(PGD_REACH / steps, 1e-3)
        return iterative(classify, aim, steps=steps, share=min(share, 1.0), start=start)
    return minimal(classify, aim, steps=steps)


def step_count(method: str, steps: int) -> int:
    return 1 if method == FGSM else steps


def iterative(
    classify: Classify, aim: Aim, *, steps: int, share: float, start: Tensor | None = None
) -> Iterator[Step]:
    """Against the slope of the loss, each value by the same amount, and back into the ball.

    With `share` 1/8 and no `start` it is the lab's attack, the basic iterative method of Kurakin et
    al. 2017 (arXiv:1607.02533); one step with `share` 1 is FGSM (Goodfellow et al. 2015,
    arXiv:1412.6572); from a random start it is PGD (Madry et al. 2018, arXiv:1706.06083).
    """
    pictures = aim.originals if start is None else start
    stride = share * aim.epsilon
    for _ in range(steps):
        slope, logits = slope_toward(classify, pictures, aim.targets)
        pictures = inside_linf(pictures - stride * slope.sign(), aim.originals, aim.epsilon)
        yield Step(pictures, belief_in(aim.targets, logits))


def minimal(classify: Classify, aim: Aim, *, steps: int) -> Iterator[Step]:
    """The smallest change that fools, by its length: DDN, decoupled direction and norm.

    Each step turns the change along the slope, then makes it a little shorter if it fooled and a
    little longer if not. Until a change has fooled, the pictures of a step are its attempts.
    """
    originals, count = aim.originals, len(aim.originals)
    length = torch.full((count,), DDN_START, device=originals.device)
    longest = torch.maximum(originals, 1 - originals).flatten(1).norm(dim=1)
    change = torch.zeros_like(originals)
    best, best_length = originals, longest
    found = torch.zeros(count, dtype=torch.bool, device=originals.device)
    for step in range(steps):
        pictures = originals + change
        slope, logits = slope_toward(classify, pictures, aim.targets)
        fooled = logits.argmax(1) == aim.targets
        better = fooled & (l2(pictures, originals) <= best_length)
        found = found | fooled
        best = torch.where(_wide(better), pictures, best)
        best_length = torch.where(better, l2(pictures, originals), best_length)

        turn = math.cos(math.pi * step / steps)
        stride = DDN_LAST_STEP + (DDN_STEP - DDN_LAST_STEP) * (1 + turn) / 2
        change = change - stride * slope / _wide(slope.flatten(1).norm(dim=1).clamp(min=1e-12))
        length = torch.minimum(length * torch.where(fooled, 1 - DDN_GAMMA, 1 + DDN_GAMMA), longest)
        change = change * _wide(length / change.flatten(1).norm(dim=1).clamp(min=1e-12))
        change = (originals + change).clamp(0, 1) - originals
        shown = torch.where(_wide(found), best, (originals + change).clamp(0, 1))
        yield Step(shown, belief_in(aim.targets, logits))


def slope_toward(classify: Classify, pictures: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Slope of the cross-entropy towards the targets at each picture, and the logits there."""
    with torch.enable_grad():
        asked = pictures.detach().requires_grad_()
        logits = classify(asked)
        # The sum, not the mean: a picture's slope must not depend on how many others there are.
        loss = F.cross_entropy(logits, targets, reduction="sum")
        (slope,) = torch.autograd.grad(loss, asked)
    return slope, logits.detach()


def belief_in(targets: Tensor, logits: Tensor) -> Tensor:
    """How sure the network is of each picture's target, 0 to 1: (N,)."""
    return logits.softmax(1).gather(1, targets[:, None])[:, 0]


def _wide(values: Tensor) -> Tensor:
    """(N,) -> (N, 1, 1, 1)"""
    return values.view(-1, 1, 1, 1)
