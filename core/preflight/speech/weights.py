"""The released weights of Audio-JEPA, when somebody has put them here; else a stand-in.

A stand-in has the same names and shapes and is drawn from a seed. What only trained weights can
tell is then not judged.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.preflight.speech.encoder import build_encoder
from core.preflight.speech.predictor import build_predictor
from core.problems import Problem
from core.settings import LabSettings

STUDENT, TEACHER, PREDICTOR = "encoder.", "target_encoder.", "predictor."  # prefixes of the names
FOLDER = "audio-jepa"  # in the folder of models
NAMES = ("JEPA.safetensors", "JEPA.ckpt")  # the first needs no unpickling at all


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors of student, teacher and predictor, by their full names."""

    tensors: dict[str, Tensor]
    trained: bool
    place: str  # the file, or "" for a stand-in

    def count(self, prefix: str) -> int:
        """How many tensors have this prefix."""
        return sum(name.startswith(prefix) for name in self.tensors)


def folder_of(settings: LabSettings) -> Path:
    """Where the teacher puts the released file."""
    return settings.models / FOLDER


def load_weights(settings: LabSettings, expected: dict[str, tuple[int, ...]]) -> Weights:
    """The released weights if they are here, checked against the `expected` names and shapes.

    Raises Problem for a file that is not theirs, is damaged, or would have to be trusted.
    """
    for name in NAMES:
        path = folder_of(settings) / name
        if path.is_file():
            tensors = _read(path)
            _check(tensors, expected, path)
            return Weights(tensors, trained=True, place=str(path))
    return stand_in(expected)


def stand_in(expected: dict[str, tuple[int, ...]], seed: int = 0) -> Weights:
    """Freshly initialised weights of the expected names and shapes; the teacher is a copy."""
    width = expected[f"{STUDENT}pos_embed"][-1]
    height_and_width = expected[f"{STUDENT}patch_embed.proj.weight"][-2:]
    encoder = build_encoder(
        patch=(height_and_width[0], height_and_width[1]),
        seed=seed,
        width=width,
        depth=_depth(expected, f"{STUDENT}blocks."),
        heads=width // 64,
    )
    narrow = expected[f"{PREDICTOR}predictor_pos_embed"][-1]
    predictor = build_predictor(
        *encoder.grid,
        seed=seed,
        width=narrow,
        outer=width,
        depth=_depth(expected, f"{PREDICTOR}predictor_blocks."),
        heads=narrow // 32,
    )
    tensors = {f"{STUDENT}{name}": value for name, value in encoder.state_dict().items()}
    tensors |= {f"{TEACHER}{name}": value.clone() for name, value in encoder.state_dict().items()}
    tensors |= {f"{PREDICTOR}{name}": value for name, value in predictor.state_dict().items()}
    return Weights(tensors, trained=False, place="")


def _depth(expected: dict[str, tuple[int, ...]], prefix: str) -> int:
    return 1 + max(
        int(name.removeprefix(prefix).split(".")[0]) for name in expected if name.startswith(prefix)
    )


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, without running any code that it may carry."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        held: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise Problem("problem.weights_untrusted", path=str(path), better=NAMES[0]) from error
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        reason = f"{error}".splitlines()[0][:200] if str(error) else type(error).__name__
        raise Problem("problem.weights_damaged", path=str(path), reason=reason) from error
    if isinstance(held, dict) and isinstance(held.get("state_dict"), dict):
        held = held["state_dict"]
    if not isinstance(held, dict):
        raise Problem("problem.weights_damaged", path=str(path), reason=type(held).__name__)
    return {str(name): value for name, value in held.items() if isinstance(value, Tensor)}


def _check(tensors: dict[str, Tensor], expected: dict[str, tuple[int, ...]], path: Path) -> None:
    """Raises Problem at the first tensor that is missing or of another shape."""
    for name, shape in expected.items():
        found = tuple(tensors[name].shape) if name in tensors else None
        if found != shape:
            raise Problem(
                "problem.weights_other",
                path=str(path),
                tensor=name,
                expected=" x ".join(map(str, shape)),
                found="-" if found is None else " x ".join(map(str, found)),
            )
