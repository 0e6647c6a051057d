"""The second judge at work: it looks at latents, for the training of the student.

It has the judge's shape and another seed. The judge itself stays a stranger to what it judges.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.models.mini_turbo.obey import JudgeNetwork
from core.models.mini_turbo.plumbing import Run, has_weights
from core.models.mini_turbo.train_judge import GRAIN, SMOOTHING

AT_ONCE = 500


class Checker:
    """Which thing do latents show, once the VAE has decoded them?

    Colours are nearly always right, and a sentence need not name them: it is asked about the thing.
    """

    def __init__(self, run: Run, vae: Any) -> None:
        """Raises FileNotFoundError where the stage "checker" has not run."""
        network = run.read(JudgeNetwork(), "checker")
        self._dtype = run.dtype
        self._vae = copy.deepcopy(vae).to(run.dtype)
        self._network = network.to(run.dtype)

    @staticmethod
    def is_there(run: Run) -> bool:
        return has_weights("checker", run.folders)

    def _scores(self, latents: Tensor) -> Tensor:
        pictures = self._vae.decode(latents.to(self._dtype)).sample.clamp(-1, 1)
        scores: Tensor = self._network(pictures + GRAIN / 2 * torch.randn_like(pictures))[0]
        return scores.float()

    @torch.no_grad()
    def knows(self, latents: Tensor, things: Tensor) -> Tensor:
        """(N,): whether each of the latents shows its thing."""
        parts = zip(torch.split(latents, AT_ONCE), torch.split(things, AT_ONCE), strict=True)
        return torch.cat([self._scores(some).argmax(dim=1) == which for some, which in parts])

    def slope(self, latents: Tensor, things: Tensor) -> Tensor:
        """Of its doubt at each of the latents (N, 4, 16, 16); no longer than 1 for any of them.

        What it knows well enough has hardly any: as in its own training, being sure is not rewarded
        without end.
        """
        asked = latents.detach().clone().requires_grad_(True)
        doubt = F.cross_entropy(
            self._scores(asked), things, reduction="sum", label_smoothing=SMOOTHING
        )
        (slope,) = torch.autograd.grad(doubt, asked)
        length = slope.flatten(1).norm(dim=1).clamp(min=1.0)
        shortened: Tensor = slope / length[:, None, None, None]
        return shortened
