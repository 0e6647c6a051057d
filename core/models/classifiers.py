"""The networks that Part 4 fools: frozen, in evaluation mode, each behind the plain pixel range.

A picture goes in as it is seen, 0 to 1; what a network was trained to receive is its own affair and
done inside. Batch norm is folded into the convolutions and memory laid out by pixels: the same
answers up to rounding, and an attack that takes a half to two thirds of the time on a CPU.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.cuda import make_graphed_callables
from torch.nn.utils.fusion import fuse_conv_bn_eval

from core.activities.attack import LITE_0, LITE_1, RESNET_18
from core.models.classifier_files import classifier_named, classifiers_here
from core.models.efficientnet_lite import read_efficientnet_lite
from core.models.in_memory import models_in_memory
from core.problems import Problem
from core.settings import LabSettings

DEEPER = {LITE_0: 1.0, LITE_1: 1.1}
# Mean and spread of each colour, as the networks were trained.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LITE = ((127 / 255,) * 3, (128 / 255,) * 3)

UNREADABLE = (
    OSError,
    RuntimeError,
    KeyError,
    TypeError,
    ValueError,
    EOFError,
    pickle.UnpicklingError,
)

log = logging.getLogger(__name__)


class Classifier(nn.Module):
    """Pictures (N, 3, H, W) with values in `bounds` to logits (N, 1000)."""

    bounds = (0.0, 1.0)
    mean: Tensor
    spread: Tensor

    def __init__(
        self, name: str, network: nn.Module, look: tuple[tuple[float, ...], tuple[float, ...]]
    ) -> None:
        super().__init__()
        self.name = name
        self.network = network
        mean, spread = (torch.tensor(values).view(1, 3, 1, 1) for values in look)
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)
        self.eval().requires_grad_(False)
        self.to(memory_format=torch.channels_last)
        self._captured: dict[torch.Size, Callable[[Tensor], Tensor]] = {}

    def forward(self, pictures: Tensor) -> Tensor:
        laid_out = pictures.contiguous(memory_format=torch.channels_last)
        logits: Tensor = self.network((laid_out - self.mean) / self.spread)
        return logits

    def captured(self, pictures: Tensor) -> Callable[[Tensor], Tensor]:
        """The same for an attack on pictures of this shape, where only their slope is asked for.

        On a card the passes forward and back become a CUDA graph each, kept as long as the network:
        the first call waits for that, and what a call answers is overwritten by the next. On a
        processor it is the network itself.
        """
        if not pictures.is_cuda:
            return self
        if pictures.shape not in self._captured:
            sample = pictures.detach().clone().requires_grad_()
            graphed = make_graphed_callables(self.forward, (sample,))
            self._captured[pictures.shape] = cast(Callable[[Tensor], Tensor], graphed)
        return self._captured[pictures.shape]


def load(name: str, device: torch.device, settings: LabSettings) -> Classifier:
    """The classifier that a setting asks for ("auto": the best that is here), once a process.

    Raises Problem where its weights are not on this machine or cannot be read.
    """
    chosen = classifier_named(name, settings)
    return _loaded(chosen.name, chosen.file, str(device))


def load_all(device: torch.device, settings: LabSettings) -> list[Classifier]:
    """Every classifier whose weights are here. Raises Problem as `load` does."""
    return [load(name, device, settings) for name in classifiers_here(settings)]


@cache
def _loaded(name: str, file: Path, device: str) -> Classifier:
    try:
        if name == RESNET_18:
            classifier = Classifier(name, _read_resnet_18(file), IMAGENET)
        else:
            network = read_efficientnet_lite(file, deeper=DEEPER[name])
            classifier = Classifier(name, network, LITE)
    except UNREADABLE as error:
        log.error("the weights of %s in %s cannot be read: %s", name, file, error)
        raise Problem("problem.classifier_damaged", model=name) from None
    models_in_memory().note(name, _loaded.cache_clear)
    return classifier.to(device)


def _read_resnet_18(file: Path) -> nn.Module:
    """torchvision's ResNet-18 with the weights of this file, batch norm folded."""
    from torchvision.models import resnet18  # takes a second, and most classes have no such file

    network = cast(nn.Module, resnet18())
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    network.eval()
    _fold_pairs(network)
    return network


def _fold_pairs(module: nn.Module) -> None:
    """Fold each batch norm into the convolution that stands before it, in this and all below."""
    before: tuple[str, nn.Conv2d] | None = None
    for name, child in list(module.named_children()):
        if isinstance(child, nn.BatchNorm2d) and before is not None:
            setattr(module, before[0], fuse_conv_bn_eval(before[1], child))
            setattr(module, name, nn.Identity())
        before = (name, child) if isinstance(child, nn.Conv2d) else None
        _fold_pairs(child)
