"""The lab's networks and step as its description says them: the reference for ours."""

import torch
import torch.nn.functional as F
from torch import nn


def plain_generator():
    return nn.Sequential(
        nn.ConvTranspose2d(64, 128, 7, 1, 0),
        nn.BatchNorm2d(128),
        nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 4, 2, 1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 1, 4, 2, 1),
        nn.Tanh(),
    )


def plain_discriminator():
    return nn.Sequential(
        nn.Conv2d(1, 64, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(64, 128, 4, 2, 1),
        nn.BatchNorm2d(128),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(6272, 1),
    )


class PlainLab:
    """Both networks on the CPU; nothing is left out of a step and nothing done in place."""

    def __init__(self):
        self.g, self.d = plain_generator(), plain_discriminator()
        self.adam_g = torch.optim.Adam(self.g.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.adam_d = torch.optim.Adam(self.d.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def step(self, real):
        one, zero = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fakes = self.g(torch.randn(len(real), 64, 1, 1))
        loss_d = F.binary_cross_entropy_with_logits(self.d(real), one)
        loss_d = loss_d + F.binary_cross_entropy_with_logits(self.d(fakes.detach()), zero)
        self.adam_d.zero_grad()
        loss_d.backward()
        self.adam_d.step()
        loss_g = F.binary_cross_entropy_with_logits(self.d(fakes), one)
        self.adam_g.zero_grad()
        loss_g.backward()
        self.adam_g.step()
        return loss_d.item(), loss_g.item()
