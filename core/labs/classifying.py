"""What the activities of Part 4 share: the picture on the device, what a network says of it, and
how a picture leaves as a file."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from core.activities.attack import Guess, Seen
from core.context import Context
from core.data import photos
from core.data.image_classes import label
from core.labs.attack_geometry import linf
from core.labs.attack_methods import Classify
from core.problems import Problem

TOP = 5


def tensor(pixels: photos.Pixels, device: torch.device) -> Tensor:
    """(H, W, 3) of 8 bits -> (1, 3, H, W) in 0..1."""
    picture = torch.from_numpy(np.array(pixels)).permute(2, 0, 1)[None]
    return picture.to(device, torch.float32) / 255


def pixels(picture: Tensor) -> photos.Pixels:
    """(1, 3, H, W) in 0..1 -> (H, W, 3) of 8 bits."""
    levels = (picture[0].detach() * 255).round().clamp(0, 255).to(torch.uint8)
    made: photos.Pixels = levels.permute(1, 2, 0).cpu().numpy()
    return made


def png(picture: Tensor) -> bytes:
    return photos.png(pixels(picture))


def original(picture: str, fit: str, context: Context, device: torch.device) -> Tensor:
    """The picture of this name as the networks look at it: (1, 3, 224, 224). Raises Problem."""
    return tensor(photos.fitted(photos.pixels_of(picture, context.keep), fit), device)


@torch.inference_mode()
def beliefs(classify: Classify, pictures: Tensor) -> Tensor:
    """(N, 1000), 0 to 1, on the CPU."""
    return classify(pictures).softmax(1).cpu()


def top_guesses(belief: Tensor) -> tuple[tuple[Guess, ...], tuple[int, ...]]:
    """The five likeliest of 1,000 beliefs, best first: names with beliefs, and indices."""
    values, indices = belief.topk(TOP)
    classes = tuple(indices.tolist())
    guesses = zip(map(label, classes), values.tolist(), strict=True)
    return tuple(guesses), classes


def seen(belief: Tensor, picture: Tensor, original: Tensor, target: int) -> Seen:
    """What 1,000 beliefs in one version of a picture say, and how far it is from the original."""
    guess = int(belief.argmax())
    return Seen(
        fooled=guess == target,
        confidence=float(belief[target]),
        guess=label(guess),
        guess_class=guess,
        linf_255=in_255ths(linf(picture, original)[0]),
    )


def in_255ths(size: Tensor | float) -> float:
    """A size in 0..1 as a reader knows it. Floats miss 2/255 by a few millionths; this does not."""
    return round(255 * float(size), 4)


def refuse_source(source: int, target: int) -> None:
    """Raises Problem where the network calls the original what it is to be made into."""
    if source == target:
        raise Problem("problem.attack_target_is_source", name=label(target))
