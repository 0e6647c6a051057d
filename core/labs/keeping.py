"""A student's trained GAN on disk: both networks in one file, plain arrays and nothing to execute.

The file is NumPy's .npz, written and read without pickle: whatever somebody puts in its place, at
worst it is refused.
"""

from __future__ import annotations

import logging
import os
import zipfile
from pathlib import Path

import numpy as np
import torch

from core.labs.dcgan import Gan
from core.problems import Problem

FILE = "gan.npz"

log = logging.getLogger(__name__)


def save(gan: Gan, folder: Path) -> None:
    """Put both networks into `folder`, whole or not at all. Raises OSError when impossible."""
    arrays = {
        f"{name}/{key}": value.detach().cpu().numpy()
        for name, network in _networks(gan).items()
        for key, value in network.state_dict().items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{FILE}.{os.getpid()}"
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        unfinished.replace(folder / FILE)
    finally:
        unfinished.unlink(missing_ok=True)


def load(folder: Path | None, device: torch.device) -> Gan:
    """The networks that `save` put there, in evaluation mode, on `device`.

    Raises Problem when there are none, or what lies there is not such a file.
    """
    if folder is None:
        raise Problem("problem.nothing_trained")
    try:
        gan = Gan(device)
        with (folder / FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            for name, network in _networks(gan).items():
                state = network.state_dict()
                for key, value in state.items():
                    array = arrays[f"{name}/{key}"]
                    if array.shape != value.shape:
                        raise ValueError(f"{name}/{key} has the shape {array.shape}")
                    value.copy_(torch.from_numpy(array))
                network.eval()
    except FileNotFoundError:
        raise Problem("problem.nothing_trained") from None
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        log.warning("the networks in %s cannot be read: %s", folder, error)
        raise Problem("problem.nothing_trained") from None
    return gan


def _networks(gan: Gan) -> dict[str, torch.nn.Module]:
    return {"generator": gan.generator, "discriminator": gan.discriminator}
