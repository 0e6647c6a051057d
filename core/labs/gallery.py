"""What a generator in training draws from noise that never changes, and what the judge makes of it.

All of it is apart from the training: evaluation mode, noise of its own, and afterwards the networks
and PyTorch's random numbers are where they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.activities.train_gan import STRIP_NOISES
from core.events import Drawn
from core.labs import pictures
from core.labs.dcgan import NOISE, Gan
from core.models.judge.judge import Judge, Score

JUDGED = 128  # pictures that a score is made of: those of the grid, and more than the eye follows


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment."""

    score: Score
    variety: float  # how far a pixel differs between pictures: 0.38 among real digits, 0 if alike


class Gallery:
    """What G draws from noise that never changes, seen without disturbing its training."""

    def __init__(self, gan: Gan, fixed_noise: Tensor, the_judge: Judge) -> None:
        self._gan = gan
        self._judge = the_judge
        self._shown = len(fixed_noise)
        # Noise of a generator's own, so that the training's random numbers stay where they were.
        own = torch.Generator().manual_seed(0)
        more = torch.randn(JUDGED - self._shown, NOISE, 1, 1, generator=own)
        self._noise = torch.cat([fixed_noise, more.to(gan.device)])  # (128, 64, 1, 1)
        self._frames: list[pictures.Grey] = []  # grids of all looks
        self._strip: list[pictures.Grey] = []  # (8, 28, 28) of each epoch's end
        self._newest: pictures.Grey  # (32, 28, 28)

    def before(self) -> Drawn:
        """The grid of a generator that has learnt nothing yet."""
        return self._grid(self._draw())

    def look(self) -> tuple[Drawn, Look]:
        """The grid of the fixed noises as it is now, and what is to be said of all pictures."""
        drawn = self._draw()
        variety = float(torch.nan_to_num(drawn).std(dim=0).mean())
        return self._grid(drawn), Look(self._judge.score(drawn), variety)

    def remember(self) -> None:
        """The newest grid is that of an epoch's end: a row of the film strip."""
        self._strip.append(self._newest[:STRIP_NOISES])

    def memories(self) -> Iterator[Drawn]:
        """The film strip, a row an epoch, and the grids as an animation."""
        rows = np.concatenate(self._strip)
        strip = pictures.grid(rows, columns=STRIP_NOISES, scale=2)
        yield Drawn("strip", pictures.png(strip))
        yield Drawn("animation", pictures.gif(self._frames))

    def _grid(self, drawn: Tensor) -> Drawn:
        self._newest = pictures.grey(drawn[: self._shown])
        picture = pictures.grid(self._newest, columns=8, scale=2)
        self._frames.append(picture)
        return Drawn("grid", pictures.png(picture))

    def _draw(self) -> Tensor:
        """Pictures (128, 1, 28, 28). Evaluation mode: a picture does not depend on its neighbours,
        and running means learn nothing from being looked at."""
        generator = self._gan.generator
        generator.eval()
        try:
            with torch.inference_mode():
                drawn: Tensor = generator(self._noise)
                return drawn
        finally:
            generator.train()
