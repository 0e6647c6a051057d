"""Arrays kept on disk between runs: each proven by its checksum when read, whole when written."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

WAIT_SECONDS = 120.0  # for another process that is preparing the same files

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """One array in the cache: the name of its file, its shape, and the checksum of its values.

    The checksum is part of the file's name, so a new recipe never meets files of an older one.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str

    def path(self, folder: Path) -> Path:
        return folder / f"{self.name}-{self.sha256[:12]}.npy"

    def matches(self, array: NDArray[np.uint8]) -> bool:
        return (
            array.shape == self.shape
            and array.dtype == np.uint8
            and hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() == self.sha256
        )

    def read(self, folder: Path) -> NDArray[np.uint8] | None:
        """The array, or None where the file is missing, unreadable or not what it should be."""
        path = self.path(folder)
        try:
            array: NDArray[np.uint8] = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            _log.warning("%s cannot be read and will be made again: %s", path, error)
            return None
        if not self.matches(array):
            _log.warning("%s has changed since it was written and will be made again", path)
            return None
        return array

    def write(self, folder: Path, array: NDArray[np.uint8]) -> None:
        """Write under another name, then rename: a reader sees the whole file or none.

        Raises OSError where the disk is full or the folder cannot be written.
        """
        path = self.path(folder)
        part = path.with_suffix(".part")
        try:
            with part.open("wb") as stream:
                np.save(stream, array, allow_pickle=False)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def only_one(folder: Path) -> Iterator[bool]:
    """One process at a time prepares what belongs in `folder`; the others wait here for it.

    Gives False where the folder cannot be written, or another process holds it for too long: then
    nothing may be written there.
    """
    lock = FileLock(folder / "preparing.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=WAIT_SECONDS)
    except OSError as error:
        _log.warning("the folder %s cannot be used for prepared files: %s", folder, error)
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
