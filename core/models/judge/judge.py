"""The judge's network, its file of weights, and the score it gives to a set of pictures."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

NO_DIGIT = 10  # the eleventh class: a picture that is none of the ten digits
SEEN_SHARE = 0.02  # a digit is seen when it has at least this share of the readable pictures
AT_ONCE = 512  # pictures in one pass: some 40 MB of memory


class Network(nn.Sequential):
    """Pictures (B, 1, 28, 28) in -1..1 -> scores (B, 11): ten digits and "no digit"."""

    def __init__(self) -> None:
        super().__init__(
            *_convolution(1, 32, kernel_size=5, stride=2),  # (B, 32, 14, 14)
            *_convolution(32, 32),
            *_convolution(32, 64, stride=2),  # (B, 64, 7, 7)
            *_convolution(64, 64),
            nn.AvgPool2d(2),  # (B, 64, 3, 3)
            nn.Flatten(),  # (B, 576)
            nn.Dropout(0.2),
            nn.Linear(64 * 3 * 3, 11),  # (B, 11)
        )


def _convolution(
    inputs: int, outputs: int, *, kernel_size: int = 3, stride: int = 1
) -> tuple[nn.Module, ...]:
    return (
        nn.Conv2d(
            inputs, outputs, kernel_size, stride=stride, padding=kernel_size // 2, bias=False
        ),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


@dataclass(frozen=True, slots=True)
class Score:
    """What the judge makes of a set of pictures."""

    readable: float  # share of the pictures that show one digit beyond doubt, 0 to 1
    digits_seen: int  # how many of the ten digits are among those
    counts: tuple[int, ...]  # of the readable pictures, how many show 0, 1, ... 9


class Judge:
    """A trained network and the probability from which it takes a picture as read."""

    def __init__(self, network: nn.Module, threshold: float, device: torch.device) -> None:
        self.device = device
        self.threshold = threshold
        # Colours last: on a CPU a third faster than colours first (measured).
        self._network = (
            network.to(device).to(memory_format=torch.channels_last).eval().requires_grad_(False)
        )

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self._network.parameters())

    @torch.inference_mode()
    def probabilities(self, pictures: Tensor) -> Tensor:
        """Pictures (N, 1, 28, 28) in -1..1 -> probabilities (N, 11), the last of "no digit"."""
        if pictures.shape[1:] != (1, 28, 28):
            raise ValueError(f"expected pictures (N, 1, 28, 28), got {tuple(pictures.shape)}")
        parts = [
            self._network(pictures[start : start + AT_ONCE].to(self.device, torch.float32))
            for start in range(0, len(pictures), AT_ONCE)
        ]
        return torch.cat(parts).softmax(dim=1)

    def read(self, pictures: Tensor) -> Tensor:
        """The digit of each picture (N,), -1 where it is not readable."""
        surest, digit = self.probabilities(pictures)[:, :NO_DIGIT].max(dim=1)
        # NaN is not above anything: a broken generator's pictures are unreadable.
        return torch.where(surest >= self.threshold, digit, -1)

    def score(self, pictures: Tensor) -> Score:
        """Score pictures (N, 1, 28, 28) in -1..1, N at least 1; waits for the device once."""
        if len(pictures) == 0:
            raise ValueError("there are no pictures to score")
        # Shifted by one, so that the unreadable ones are counted too, in place 0.
        counts = torch.bincount(self.read(pictures) + 1, minlength=NO_DIGIT + 1).tolist()[1:]
        needed = max(1, math.ceil(SEEN_SHARE * sum(counts)))
        return Score(
            readable=sum(counts) / len(pictures),
            digits_seen=sum(count >= needed for count in counts),
            counts=tuple(counts),
        )


def write_judge(file: Path, network: nn.Module, threshold: float) -> None:
    """Keep a network as a .npz of half-precision arrays: plain numbers, nothing that runs."""
    arrays = {
        name: tensor.half().numpy()
        for name, tensor in network.state_dict().items()
        if not _counts(name)
    }
    stream = io.BytesIO()
    np.savez_compressed(stream, threshold=np.float32(threshold), **arrays)
    file.write_bytes(stream.getvalue())


def read_judge(file: Path, device: torch.device) -> Judge:
    """The judge kept in `file`."""
    with np.load(file, allow_pickle=False) as kept:
        arrays = {name: torch.from_numpy(kept[name]) for name in kept.files}
    threshold = float(arrays.pop("threshold"))
    # On the meta device nothing is drawn: PyTorch's random numbers stay where they are.
    with torch.device("meta"):
        network = Network()
    network.load_state_dict(
        {
            name: torch.zeros((), dtype=value.dtype) if _counts(name) else arrays[name].float()
            for name, value in network.state_dict().items()
        },
        assign=True,
    )
    return Judge(network, threshold, device)


def _counts(name: str) -> bool:
    """Whether this is BatchNorm's count of batches, which training alone needs."""
    return name.endswith("num_batches_tracked")
