"""The arithmetic of noise: what one noise level is, and how a picture is drawn step by step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.models.mini_turbo.blocks import build_scheduler
from core.models.mini_turbo.plumbing import Run

LEVELS = 1_000
PURE = 999  # the level at which drawing starts, from noise alone


class Noise:
    """For each of the 1,000 levels, how much picture (`keep`) and how much noise (`add`) is left.

    A noisy latent is keep * latent + add * noise; v = keep * noise - add * latent.
    """

    def __init__(self, device: torch.device) -> None:
        share = build_scheduler().alphas_cumprod.float().to(device)
        self.keep, self.add = share.sqrt(), (1 - share).sqrt()  # (1000,) each

    def at(self, levels: Tensor) -> tuple[Tensor, Tensor]:
        """(keep, add), each (N, 1, 1, 1), at levels (N,)."""
        return self.keep[levels][:, None, None, None], self.add[levels][:, None, None, None]


class EulerDraw:
    """diffusers' Euler steps with guidance, on a fixed batch, so that one graph serves them all.

    Guidance w: away from what the network would draw without words, w times as far.
    """

    def __init__(
        self,
        unet: nn.Module,
        nothing: Tensor,
        run: Run,
        *,
        batch: int,
        steps: int,
        guidance: float,
    ) -> None:
        scheduler = build_scheduler()
        scheduler.set_timesteps(steps)
        self._sigmas = scheduler.sigmas.float().to(run.device)
        self._levels = scheduler.timesteps.float().to(run.device)
        self._unet, self._guidance, self._run, self.batch = unet, guidance, run, batch
        side = run.sizes.latent
        self._latents = torch.zeros(batch, 4, side, side, device=run.device)
        self._words = nothing.to(run.dtype).repeat(2 * batch, 1, 1)  # half without, half with words
        self._level = torch.zeros(2 * batch, device=run.device)
        self._now, self._next = (torch.ones((), device=run.device) for _ in range(2))

    @torch.no_grad()
    def step(self) -> None:
        """From one noise level to the next; what it needs is put in place by `draw`."""
        latents, now = self._latents, self._now
        seen = (latents / (now**2 + 1).sqrt()).to(self._run.dtype)
        answer = self._unet(torch.cat([seen, seen]), self._level, self._words, return_dict=False)[
            0
        ].float()
        without, with_words = answer.chunk(2)
        v = without + self._guidance * (with_words - without)
        clean = latents / (now**2 + 1) - v * now / (now**2 + 1).sqrt()
        latents.add_((latents - clean) / now * (self._next - now))

    @torch.no_grad()
    def draw(self, noise: Tensor, words: Tensor, go: object = None) -> Tensor:
        """Noise (batch, 4, 16, 16) and words (batch, 77, width) -> latents. `go` runs `step`."""
        self._latents.copy_(noise.float() * self._sigmas[0])
        self._words[self.batch :] = words.to(self._words.dtype)
        for place in range(len(self._levels)):
            self._now.copy_(self._sigmas[place])
            self._next.copy_(self._sigmas[place + 1])
            self._level.copy_(self._levels[place].expand_as(self._level))
            go() if callable(go) else self.step()
        return self._latents.clone()
