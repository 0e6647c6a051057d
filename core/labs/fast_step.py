"""The same training step in another writing: few, fused kernels, so that a GPU is not kept waiting.

At batch 128 a modern card needs microseconds for each kernel of `dcgan.train_step`, and there are
about two hundred of them. What is done here leaves the numbers alone and the kernels out:

- G's first layer is a matrix product, since its input is 1x1.
- The two layers of one channel are matrix products over their 4x4 patches.
- D looks at real and fake pictures in one pass of twice the batch; every BatchNorm takes its
  statistics from each half alone, which is what two passes compute.
- What lies between two products is left to the compiler (Inductor), which fuses it.

Everything is written for channels-last: (N, height, width, channels). Products may be computed in
bfloat16; weights, optimiser, statistics and losses stay in float32.
tests/labs/test_fast_step.py checks it against `train_step` in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.labs.dcgan import NOISE, Discriminator, Gan, Generator

P = ParamSpec("P")
R = TypeVar("R")

EPSILON, MOMENTUM = 1e-5, 0.1  # BatchNorm's defaults
LEAK = 0.2
LEARNING_RATE, BETAS, ADAM_EPSILON = 2e-4, (0.5, 0.999), 1e-8


class Layer(NamedTuple):
    """Weight and bias of a convolution or a linear layer."""

    weight: Tensor
    bias: Tensor


class Norm(NamedTuple):
    """One BatchNorm: what it has learnt, and its running statistics. All (channels,)."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor


class Maker(NamedTuple):
    """The tensors of G."""

    first: Layer
    first_norm: Norm
    second: Layer
    second_norm: Norm
    last: Layer


class Judge(NamedTuple):
    """The tensors of D."""

    first: Layer
    second: Layer
    norm: Norm
    last: Layer


def maker_of(generator: Generator) -> Maker:
    return Maker(
        _layer(generator[0]),
        _norm(generator[1]),
        _layer(generator[3]),
        _norm(generator[4]),
        _layer(generator[6]),
    )


def judge_of(discriminator: Discriminator) -> Judge:
    return Judge(
        _layer(discriminator[0]),
        _layer(discriminator[2]),
        _norm(discriminator[3]),
        _layer(discriminator[6]),
    )


def _layer(module: Any) -> Layer:
    return Layer(module.weight, module.bias)


def _norm(module: Any) -> Norm:
    return Norm(module.weight, module.bias, module.running_mean, module.running_var)


def drawn(maker: Maker, noise: Tensor, dtype: torch.dtype) -> Tensor:
    """Noise (B, 64) -> pictures (B, 28, 28, 1) in -1..1, as G in training mode draws them."""
    weight = maker.first.weight.permute(0, 2, 3, 1).reshape(NOISE, -1)  # (64, 7 * 7 * 128)
    x = (noise.to(dtype) @ weight.to(dtype)).view(-1, 7, 7, 128) + maker.first.bias.to(dtype)
    x = F.relu(_normalised(x, maker.first_norm, passes=1)).to(dtype)  # (B, 7, 7, 128)
    x = _conv_up(x, maker.second)  # (B, 14, 14, 64)
    x = F.relu(_normalised(x, maker.second_norm, passes=1)).to(dtype)
    weight = maker.last.weight.reshape(64, 16).to(dtype)  # one output channel, 4x4 patches
    patches = (x.reshape(-1, 64) @ weight).view(-1, 14, 14, 2, 2, 2, 2)
    pictures = _assembled(patches.to(maker.last.bias.dtype)) + maker.last.bias
    return torch.tanh(pictures).unsqueeze(-1)


def scores(judge: Judge, pictures: Tensor, dtype: torch.dtype, *, passes: int) -> Tensor:
    """Pictures (N, 28, 28, 1) -> raw scores (N,), as D gives them to `passes` equal parts of the
    batch, one after the other."""
    patches = _patches(pictures.squeeze(-1)).to(dtype).reshape(-1, 16)  # (N * 14 * 14, 4 * 4)
    weight = judge.first.weight.reshape(64, 16).to(dtype)
    x = (patches @ weight.t()).view(-1, 14, 14, 64) + judge.first.bias.to(dtype)
    x = F.leaky_relu(x, LEAK)
    x = _conv_down(x, judge.second)  # (N, 7, 7, 128)
    x = F.leaky_relu(_normalised(x, judge.norm, passes=passes), LEAK)
    weight = judge.last.weight.view(128, 7, 7).permute(1, 2, 0)  # as the layer's Flatten counts
    return (x * weight).sum(dim=(1, 2, 3)) + judge.last.bias


def _conv_down(x: Tensor, layer: Layer) -> Tensor:
    """Convolution 4/2/1 of (N, H, W, C) -> (N, H / 2, W / 2, out)."""
    y = F.conv2d(x.permute(0, 3, 1, 2), layer.weight.to(x.dtype), stride=2, padding=1)
    return y.permute(0, 2, 3, 1) + layer.bias.to(x.dtype)


def _conv_up(x: Tensor, layer: Layer) -> Tensor:
    """Transposed convolution 4/2/1 of (N, H, W, C) -> (N, 2 H, 2 W, out)."""
    y = F.conv_transpose2d(x.permute(0, 3, 1, 2), layer.weight.to(x.dtype), stride=2, padding=1)
    return y.permute(0, 2, 3, 1) + layer.bias.to(x.dtype)


def _patches(pictures: Tensor) -> Tensor:
    """The 4x4 patches, 2 apart, of (N, 28, 28) with a margin of 1: (N, 14, 14, 2, 2, 2, 2).

    Row and column within a patch are counted as (half, parity) each: 2 * half + parity.
    """
    cells = F.pad(pictures, (1, 1, 1, 1)).view(-1, 15, 2, 15, 2)
    quarters = [
        cells[:, up : up + 14, :, left : left + 14, :].permute(0, 1, 3, 2, 4)
        for up in (0, 1)
        for left in (0, 1)
    ]  # each (N, 14, 14, 2, 2)
    stacked = torch.stack(quarters, dim=3).view(-1, 14, 14, 2, 2, 2, 2)
    return stacked.permute(0, 1, 2, 3, 5, 4, 6)  # (up, left, row, column) -> (up, row, left, ...)


def _assembled(patches: Tensor) -> Tensor:
    """The sum of overlapping patches, the transpose of `_patches`: -> (N, 28, 28)."""
    cells = patches.permute(0, 3, 5, 1, 4, 2, 6)  # (N, up, left, 14, 2, 14, 2)
    total = sum(
        F.pad(cells[:, up, left], (0, 0, left, 1 - left, 0, 0, up, 1 - up))
        for up in (0, 1)
        for left in (0, 1)
    )  # (N, 15, 2, 15, 2)
    assert isinstance(total, Tensor)
    return total.reshape(-1, 30, 30)[:, 1:29, 1:29]


def _normalised(x: Tensor, norm: Norm, *, passes: int) -> Tensor:
    """BatchNorm of (N, H, W, C) with the statistics of each of `passes` parts of the batch alone.

    The running statistics are updated part by part, in order.
    """
    parts = x.reshape(passes, -1, x.shape[-1]).to(norm.weight.dtype)  # (passes, n, C)
    var, mean = torch.var_mean(parts, dim=1, correction=0, keepdim=True)  # (passes, 1, C)
    with torch.no_grad():
        unbiased = var * (parts.shape[1] / (parts.shape[1] - 1))
        for part in range(passes):
            norm.running_mean.lerp_(mean[part, 0], MOMENTUM)
            norm.running_var.lerp_(unbiased[part, 0], MOMENTUM)
    scaled = (parts - mean) * (torch.rsqrt(var + EPSILON) * norm.weight) + norm.bias
    return scaled.view(x.shape)


def loss_of_d(judge: Judge, real: Tensor, fakes: Tensor, dtype: torch.dtype) -> Tensor:
    """Real (B, 1, 28, 28) and fakes (B, 28, 28, 1) -> the sum of both mean losses."""
    both = torch.cat([real.view(fakes.shape), fakes])
    score = scores(judge, both, dtype, passes=2)  # (2 B,)
    return F.softplus(-score[: len(real)]).mean() + F.softplus(score[len(real) :]).mean()


def loss_of_g(judge: Judge, fakes: Tensor, dtype: torch.dtype) -> Tensor:
    return F.softplus(-scores(judge, fakes, dtype, passes=1)).mean()


def learn(
    parameters: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    count: Tensor,
) -> None:
    """One step of Adam as `dcgan.Gan` sets it, in place. `count` holds the steps done before.

    Written over lists, so that the compiler makes one kernel of it. PyTorch's own fused Adam gives
    these small networks to a dozen of an H200's 132 multiprocessors: 37 us a network, measured.
    """
    count.add_(1)
    rate = LEARNING_RATE / (1 - BETAS[0] ** count)
    root = (1 - BETAS[1] ** count).sqrt()
    torch._foreach_lerp_(means, gradients, 1 - BETAS[0])
    torch._foreach_mul_(squares, BETAS[1])
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - BETAS[1])
    sizes = torch._foreach_sqrt(squares)
    torch._foreach_div_(sizes, root)
    torch._foreach_add_(sizes, ADAM_EPSILON)
    changes = torch._foreach_div(means, sizes)
    torch._foreach_mul_(changes, rate)
    torch._foreach_sub_(parameters, changes)


class Learner:
    """Adam for the parameters of one network, with all it remembers on the device."""

    def __init__(self, network: nn.Module, *, compiled: bool) -> None:
        self._parameters = list(network.parameters())
        self._data = [parameter.detach() for parameter in self._parameters]  # the same memory
        self._means = [torch.zeros_like(data) for data in self._data]
        self._squares = [torch.zeros_like(data) for data in self._data]
        # A matrix of one number: float32, or double precision in a test.
        self._count = torch.zeros((), dtype=self._data[0].dtype, device=self._data[0].device)
        self._learn = _compiled(learn) if compiled else learn

    def learn(self, loss: Tensor) -> None:
        """Change the parameters so that `loss` falls."""
        gradients = list(torch.autograd.grad(loss, self._parameters))
        self._learn(self._data, gradients, self._means, self._squares, self._count)

    def forget(self) -> None:
        for tensor in (*self._means, *self._squares, self._count):
            tensor.zero_()


class LeanStep:
    """`dcgan.train_step` in this writing, on the networks of one `Gan`.

    Adam's memory is its own: the optimisers of the `Gan` are not used. With `compiled`, its first
    call makes the kernels, which takes from some seconds to a minute.
    """

    def __init__(self, gan: Gan, *, dtype: torch.dtype, compiled: bool) -> None:
        for network in (gan.generator, gan.discriminator):
            network.to(memory_format=torch.channels_last)
        self._gan, self._dtype = gan, dtype
        self._maker, self._judge = maker_of(gan.generator), judge_of(gan.discriminator)
        self._teach_g = Learner(gan.generator, compiled=compiled)
        self._teach_d = Learner(gan.discriminator, compiled=compiled)
        self._drawn = _compiled(drawn) if compiled else drawn
        self._loss_of_d = _compiled(loss_of_d) if compiled else loss_of_d
        self._loss_of_g = _compiled(loss_of_g) if compiled else loss_of_g

    def __call__(self, real: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Real (B, 1, 28, 28), noise (B, 64) -> both losses, still on the device."""
        fakes = self._drawn(self._maker, noise, self._dtype)
        loss_d = self._loss_of_d(self._judge, real, fakes.detach(), self._dtype)
        self._teach_d.learn(loss_d)
        # G's gradient passes through D, whose own would be thrown away.
        with _frozen(self._gan.discriminator):
            loss_g = self._loss_of_g(self._judge, fakes, self._dtype)
        self._teach_g.learn(loss_g)
        return loss_d.detach(), loss_g.detach()

    def forget(self) -> None:
        """Adam remembers nothing, as before the first step."""
        self._teach_g.forget()
        self._teach_d.forget()


@contextmanager
def _frozen(network: nn.Module) -> Iterator[None]:
    """In this block the network's parameters ask for no gradient."""
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    return torch.compile(function, fullgraph=True, dynamic=False)
