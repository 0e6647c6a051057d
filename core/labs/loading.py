"""Digits on their way to the networks: one by one through a loader, or all prepared beforehand."""

from __future__ import annotations

import signal
import sys
import warnings
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from core.labs.dcgan import BATCH

# Forked where that is safe, as in the lab: a fresh interpreter would import torch for seconds.
_START_METHOD = "fork" if sys.platform == "linux" else None


class DigitPictures(Dataset[Tensor]):
    """Digits prepared one at a time, as the lab does it: picture -> 0..1 -> -1..1, (1, 28, 28)."""

    def __init__(self, images: NDArray[np.uint8]) -> None:
        self._images = images
        self._prepare = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]
        )

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Tensor:
        prepared: Tensor = self._prepare(Image.fromarray(self._images[index]))
        return prepared


class Loader:
    """Endless batches (128, 1, 28, 28), shuffled by `seed`, from one worker process an epoch.

    The process starts with the first batch asked for; leaving the `with` block ends it.
    An incomplete last batch is dropped. A `lasting` process stays for all epochs, and so does not
    make the start of each one wait for it.
    """

    def __init__(self, images: NDArray[np.uint8], *, seed: int, lasting: bool = False) -> None:
        if len(images) < BATCH:
            raise ValueError(f"{len(images)} digits do not fill a batch of {BATCH}")
        self._loader = DataLoader(
            DigitPictures(images),
            batch_size=BATCH,
            shuffle=True,
            drop_last=True,
            num_workers=1,
            persistent_workers=lasting,
            multiprocessing_context=_START_METHOD,
            worker_init_fn=_ignore_interrupts,
            generator=torch.Generator().manual_seed(seed),
        )
        self._lasting = lasting
        self._epoch: Any = None  # torch's iterator; it owns the worker process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Tensor:
        if self._epoch is None:
            self._epoch = self._started()
        batch: Tensor | None = next(self._epoch, None)
        if batch is None:  # the epoch is over
            if self._lasting:
                self._epoch = iter(self._loader)  # the same iterator and process, shuffled again
            else:
                self.close()
            return next(self)
        return batch

    def close(self) -> None:
        """End the worker process and wait for it; without effect when there is none."""
        if self._epoch is not None:
            # What torch itself does when the iterator is collected. Said aloud, because a
            # traceback or a paused generator may keep the iterator alive for long.
            self._epoch._shutdown_workers()
            self._epoch = None

    def _started(self) -> Any:
        with warnings.catch_warnings():
            # Python 3.12 warns of forking beside threads (the meter's). The child only prepares
            # pictures: it takes no lock that a thread here could have held.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            return iter(self._loader)


def _ignore_interrupts(_worker: int) -> None:
    """Ctrl-C reaches every process of a terminal; the one that owns this loader decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def prepared_batches(images: NDArray[np.uint8], count: int, *, device: torch.device) -> Tensor:
    """The first `count` batches, fewer where the digits end: (count, 128, 1, 28, 28) in -1..1."""
    count = min(count, len(images) // BATCH)
    chosen = torch.tensor(images[: count * BATCH], device=device)  # (count * 128, 28, 28), bytes
    scaled = chosen.to(torch.float32).div_(255).sub_(0.5).div_(0.5)
    return scaled.view(-1, BATCH, 1, 28, 28)


def uploaded(images: NDArray[np.uint8], device: torch.device) -> Tensor:
    """All digits as the networks take them, on the device: (M, 1, 28, 28) in -1..1."""
    prepared = torch.tensor(images).to(torch.float32).div_(255).sub_(0.5).div_(0.5)
    return prepared.unsqueeze(1).to(device)
