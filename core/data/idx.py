"""MNIST's own files: found in torchvision's layout, read with numpy, and proven to be MNIST.

The format: two zero bytes, a byte for the kind of number (8 = unsigned byte), a byte for the count
of dimensions, each dimension as four bytes, big end first, and then the values.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from dataclasses import dataclass
from os.path import exists
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.problems import Notice, Problem

LAYOUT = Path("MNIST", "raw")  # where torchvision puts the files, below the folder it is given


@dataclass(frozen=True, slots=True)
class IdxFile:
    """A file that we know: its name, what it holds, and the MD5 of its unpacked bytes."""

    name: str
    shape: tuple[int, ...]
    md5: str

    @property
    def header(self) -> bytes:
        sizes = b"".join(size.to_bytes(4, "big") for size in self.shape)
        return bytes((0, 0, 8, len(self.shape))) + sizes

    @property
    def length(self) -> int:
        return len(self.header) + math.prod(self.shape)  # bytes


@dataclass(frozen=True, slots=True)
class IdxPair:
    """The pictures and their labels."""

    images: IdxFile
    labels: IdxFile


MNIST_TRAIN = IdxPair(
    IdxFile("train-images-idx3-ubyte", (60_000, 28, 28), "6bbc9ace898e44ae57da46a324031adb"),
    IdxFile("train-labels-idx1-ubyte", (60_000,), "a25bea736e30d166cdddb491f175f624"),
)


def read_pair(
    root: Path, pair: IdxPair, notices: list[Notice]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | None:
    """Images (60000, 28, 28) and labels (60000,) below `root`; None unless both are whole.

    Each may be there unpacked, as .gz, or both. What is missing or broken is told in `notices`.
    """
    images = _read(root / LAYOUT, pair.images, notices)
    labels = None if images is None else _read(root / LAYOUT, pair.labels, notices)
    return None if images is None or labels is None else (images, labels)


def _read(folder: Path, file: IdxFile, notices: list[Notice]) -> NDArray[np.uint8] | None:
    """The file's values. Where one form of it is broken, the other may still serve."""
    # os.path's `exists` is False where the folder may not be looked into; Path's would raise.
    forms = [path for path in (folder / file.name, folder / f"{file.name}.gz") if exists(path)]
    if not forms:
        notices.append(Notice("problem.digits_missing", {"file": str(folder / file.name)}))
    for path in forms:
        try:
            return _values(_content(path, file.length), path, file)
        except Problem as problem:
            notices.append(problem.notice)
    return None


def _content(path: Path, length: int) -> bytes:
    """The unpacked bytes: `length` of them if all is well, never many more."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return stream.read(length + 1)  # one more, to see that the file ends there
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Problem("problem.digits_packing", file=str(path)) from error
    except OSError as error:
        raise Problem("problem.digits_unreadable", file=str(path)) from error


def _values(content: bytes, path: Path, file: IdxFile) -> NDArray[np.uint8]:
    start = len(file.header)
    if not file.header.startswith(content[:start]):
        raise Problem("problem.digits_header", file=str(path))
    if len(content) < file.length:
        raise Problem(
            "problem.digits_short", file=str(path), size=len(content), expected=file.length
        )
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != file.md5:
        raise Problem("problem.digits_content", file=str(path))
    return np.frombuffer(content, np.uint8, offset=start).reshape(file.shape).copy()
