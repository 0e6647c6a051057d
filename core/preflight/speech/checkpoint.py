"""Write a checkpoint, read it back without trust, and find whatever differs."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.problems import Problem

PROBE_BYTES = 8 * 10**6


def save(path: Path, state: dict[str, Any]) -> int:
    """Put the state into a file, whole or not at all; gives its size in bytes.

    Raises Problem where the disk does not take it.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        return path.stat().st_size
    except (OSError, RuntimeError) as error:
        reason = str(getattr(error, "strerror", None) or error).splitlines()[0][:200]
        raise Problem("problem.checkpoint_write", path=str(path), reason=reason) from error
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """The state as it was saved, on the CPU. No code in the file is run. Raises Problem."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch raises what it pleases for a damaged file
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Problem("problem.checkpoint_read", path=str(path), reason=reason) from error
    return state


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Places at which two states differ, to the bit; an empty list means that nothing does."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same = one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())
        return [] if same else [where]
    if isinstance(one, dict) and isinstance(other, dict):
        keys = {str(key): key for key in (*one, *other)}
        return [
            place
            for name, key in keys.items()
            for place in (
                differences(one[key], other[key], f"{where}/{name}")
                if key in one and key in other
                else [f"{where}/{name}"]
            )
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return [where]
        pairs = enumerate(zip(one, other, strict=True))
        return [place for n, (a, b) in pairs for place in differences(a, b, f"{where}/{n}")]
    return [] if type(one) is type(other) and one == other else [where]


def tensors_in(state: Any) -> int:
    """How many tensors a state holds."""
    if isinstance(state, Tensor):
        return 1
    if isinstance(state, dict):
        return sum(map(tensors_in, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(tensors_in, state))
    return 0


@dataclass(frozen=True, slots=True)
class Probe:
    """What a folder answered."""

    seconds: float  # to write and sync 8 MB
    free_bytes: int | None


def probed(folder: Path) -> Probe:
    """Write 8 MB, look at the size, delete. Raises Problem where any of it does not work."""
    path = folder / f".probe-{secrets.token_hex(4)}"
    began = time.monotonic()
    try:
        with path.open("wb") as file:
            file.write(os.urandom(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        seconds = time.monotonic() - began
        if path.stat().st_size != PROBE_BYTES:
            raise Problem("problem.probe_size", folder=str(folder))
        path.unlink()
        if path.exists():
            raise Problem("problem.probe_delete", folder=str(folder))
    except OSError as error:
        raise Problem(
            "problem.probe", folder=str(folder), reason=error.strerror or type(error).__name__
        ) from error
    return Probe(seconds, free_bytes(folder))


def free_bytes(folder: Path) -> int | None:
    """What this user may still write there; None where the system does not say."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
