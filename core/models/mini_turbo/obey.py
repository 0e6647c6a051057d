"""Does the picture show what was asked for? A small network of its own that looks at it.

It never takes part in training the generator: a generator taught by its judge learns to please it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from core.models.mini_turbo.words import COLOURS, SIZES, THINGS, Asked, Word

FILE = "judge.safetensors"  # in the folder of the weights
HEADS = (THINGS, COLOURS, COLOURS, SIZES)  # thing, its colour, the background's, its size
AT_ONCE = 500
PIXELS = 64


@dataclass(frozen=True, slots=True)
class Seen:
    """What the judge sees, by the ids of `words`."""

    object: str
    colour: str
    background: str
    size: str

    def obeys(self, asked: Asked) -> dict[str, bool]:
        """For each thing that was said, whether the picture shows it; what went unsaid is absent.

        `asked` is `understand(prompt).asked`.
        """
        shown = {
            "object": self.object in asked.things if asked.things else None,
            "colour": self.colour == asked.colour if asked.colour else None,
            "background": self.background == asked.background if asked.background else None,
            "size": self.size == asked.size if asked.size else None,
        }
        return {name: so for name, so in shown.items() if so is not None}


class JudgeNetwork(nn.Module):
    """Pictures (N, 3, 64, 64) in -1..1 -> scores for each of the four `HEADS`."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.width = width
        self.body = nn.Sequential(
            *_block(3, width, stride=1),
            *_block(width, width * 2, stride=2),
            *_block(width * 2, width * 3, stride=2),
            *_block(width * 3, width * 4, stride=2),  # (N, 192, 8, 8)
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(width * 16, 256),
            nn.ReLU(inplace=True),
        )
        self.heads = nn.Linear(256, sum(map(len, HEADS)))

    def features(self, pictures: Tensor) -> Tensor:
        """(N, 256): what distances between sets of pictures are measured in."""
        found: Tensor = self.body(pictures)
        return found

    def forward(self, pictures: Tensor) -> tuple[Tensor, ...]:
        found = F.dropout(self.features(pictures), 0.2, self.training)
        return torch.split(self.heads(found), [len(head) for head in HEADS], dim=1)


def _block(inputs: int, outputs: int, *, stride: int) -> tuple[nn.Module, ...]:
    layers: list[nn.Module] = []
    for channels, step in ((inputs, stride), (outputs, 1)):
        layers += [
            nn.Conv2d(channels, outputs, 3, step, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return tuple(layers)


class ObeyJudge:
    """A trained judge, on one device."""

    def __init__(self, network: JudgeNetwork, device: torch.device) -> None:
        self.network = network.to(device).eval().requires_grad_(False)
        self.device = device

    @torch.inference_mode()
    def places(self, pictures: Tensor) -> Tensor:
        """Pictures (N, 3, 64, 64) in -1..1 -> places in the four `HEADS` (N, 4)."""
        scores = [self.network(part) for part in self._parts(pictures)]
        return torch.cat([torch.stack([s.argmax(1) for s in part], dim=1) for part in scores])

    @torch.inference_mode()
    def features(self, pictures: Tensor) -> Tensor:
        return torch.cat([self.network.features(part) for part in self._parts(pictures)])

    def look(self, picture: Tensor | Image.Image) -> Seen:
        """What one picture shows: a PIL picture, or a tensor (3, 64, 64) in -1..1."""
        tensor = picture if isinstance(picture, Tensor) else _from_image(picture)
        places = self.places(tensor[None]).tolist()[0]
        return Seen(*(_id(head, place) for head, place in zip(HEADS, places, strict=True)))

    def _parts(self, pictures: Tensor) -> list[Tensor]:
        return [
            part.to(self.device).float().clamp(-1, 1) for part in torch.split(pictures, AT_ONCE)
        ]


def _id(head: tuple[Word, ...], place: int) -> str:
    return head[place].id


def _from_image(picture: Image.Image) -> Tensor:
    rgb = picture.convert("RGB")
    if rgb.size != (PIXELS, PIXELS):
        rgb = rgb.resize((PIXELS, PIXELS), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(rgb)).permute(2, 0, 1).float() / 127.5 - 1


def load_judge(folder: Path, device: torch.device | None = None) -> ObeyJudge | None:
    """The judge that lies beside a pipeline's weights; None where there is none."""
    file = folder / FILE
    if not file.is_file():
        return None
    state = {
        name: value.float() if value.is_floating_point() else value
        for name, value in load_file(file).items()
    }
    network = JudgeNetwork(width=state["body.0.weight"].shape[0])
    network.load_state_dict(state)
    return ObeyJudge(network, device or torch.device("cpu"))
