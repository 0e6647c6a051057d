"""The GAN of parts 1, 2 and 2b: two small networks, and one step of their race.

A DCGAN (Radford et al. 2016, arXiv:1511.06434) for 28x28 grey digits, with PyTorch's default
initialisation and default BatchNorm: the lab's reference figures rest on both.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NOISE = 64  # random numbers that Generator turns into one picture
BATCH = 128  # real pictures in one step, and as many fakes


class Generator(nn.Sequential):
    """Draws digits: noise (B, 64, 1, 1) -> pictures (B, 1, 28, 28) in -1..1. 534,081 parameters."""

    def __init__(self) -> None:
        super().__init__(
            nn.ConvTranspose2d(NOISE, 128, kernel_size=7),  # (B, 128, 7, 7)
            nn.BatchNorm2d(128),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(128, 64, kernel_size=4, stride=2, padding=1),  # (B, 64, 14, 14)
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(64, 1, kernel_size=4, stride=2, padding=1),  # (B, 1, 28, 28)
            nn.Tanh(),
        )


class Discriminator(nn.Sequential):
    """Judges pictures (B, 1, 28, 28): raw score (B, 1), above 0 for "real". 138,817 parameters."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 64, kernel_size=4, stride=2, padding=1),  # (B, 64, 14, 14)
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(64, 128, kernel_size=4, stride=2, padding=1),  # (B, 128, 7, 7)
            nn.BatchNorm2d(128),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Flatten(),  # (B, 6272)
            nn.Linear(128 * 7 * 7, 1),  # (B, 1)
        )


class Gan:
    """Both networks on one device, each with its optimiser."""

    def __init__(self, device: torch.device) -> None:
        # Made on the CPU, then moved: one seed gives the same weights on every device.
        self.device = device
        self.generator = Generator().to(device)
        self.discriminator = Discriminator().to(device)
        self.generator_adam = _adam(self.generator)
        self.discriminator_adam = _adam(self.discriminator)


def _adam(network: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.5, 0.999))


def train_step(
    gan: Gan,
    real: Tensor,
    *,
    noise: Tensor | None = None,
    on_scores: Callable[[Tensor, Tensor], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Teach D on `real` (B, 1, 28, 28) in -1..1 and as many fakes, then G on the same fakes.

    Returns the losses of D and G as scalars that still lie on the device: reading them waits for
    it, so the caller decides when. D's is the sum of its two means (an undecided D scores 2 ln 2).
    `noise` (B, 64, 1, 1) is drawn on the device unless given, which makes two devices comparable.
    `on_scores` is shown D's raw scores (B, 1) of the real pictures and of the fakes, as it has them
    before it learns from this batch.
    """
    if noise is None:
        noise = torch.randn(len(real), NOISE, 1, 1, device=gan.device)
    fakes = gan.generator(noise)  # (B, 1, 28, 28)
    yes = torch.ones(len(real), 1, device=gan.device)
    no = torch.zeros_like(yes)

    score_real = gan.discriminator(real)  # (B, 1)
    score_fake = gan.discriminator(fakes.detach())  # (B, 1); G learns nothing from D's turn
    if on_scores is not None:
        on_scores(score_real.detach(), score_fake.detach())
    loss_d = F.binary_cross_entropy_with_logits(
        score_real, yes
    ) + F.binary_cross_entropy_with_logits(score_fake, no)
    gan.discriminator_adam.zero_grad()
    torch.autograd.backward(loss_d)
    gan.discriminator_adam.step()

    # The same fakes again, now before the D that has just learnt. Only G's gradients are asked for:
    # D's would be thrown away, and leaving them out saves 7 % of a CPU step and changes no bit.
    loss_g = F.binary_cross_entropy_with_logits(gan.discriminator(fakes), yes)
    gan.generator_adam.zero_grad()
    torch.autograd.backward(loss_g, inputs=list(gan.generator.parameters()))
    gan.generator_adam.step()
    return loss_d.detach(), loss_g.detach()


def parameter_count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
