"""Photos to be classified: the samples of the lab, and what students bring themselves.

A file from a student is a stranger's. Its size is looked at before anything is decoded; then it is
decoded, turned upright, put on white where it is transparent, made small, and written again as a
plain PNG. Nothing of the file itself is left: no place, no camera, no thumbnail.

It is kept only while the student is there: in their own folder under the hash of its content,
touched while their page is open (`still_here`), gone when they remove it (`forget_uploads`) and
otherwise some minutes after the last touch (`forget_stale_uploads`). Needs no torch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from core.problems import Problem

Pixels = NDArray[np.uint8]  # (height, width, 3), red, green, blue

SIDE = 224  # what the classifiers look at, in pixels
CROP_FROM = 256  # the recipe of their training: the short side becomes this, the middle is cut out
FITS = ("squash", "crop")

MAX_BYTES = 20 * 2**20  # of an upload, as the file is
MAX_PIXELS = 40_000_000  # decoded, 120 MB; a bomb says in its header how large it is
MIN_SIDE = 32  # pixels; less is not a photo that anybody, or anything, could recognise
KEPT_SIDE = 1_024  # pixels; larger uploads are made smaller
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

UPLOADS = "uploads"  # folder in the student's own
UPLOADS_KEPT = 3  # of one student; the oldest goes first
KEPT_BYTES = 8 * 2**20  # of one file; KEPT_SIDE squared in three colours is less than half of it
UPLOAD = re.compile(r"upload-[0-9a-f]{32}")

UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, MemoryError)


@dataclass(frozen=True, slots=True)
class Sample:
    """A photo inside the package scikit-image. All are free of copyright (CC0)."""

    name: str
    file: str
    classes: tuple[int, ...]  # right answers: the first is the one that the networks give


SAMPLES = {
    sample.name: sample
    for sample in (
        Sample("cat", "chelsea.png", (285, 281, 282)),  # Egyptian cat, tabby, tiger cat
        Sample("coffee", "coffee.png", (967, 504, 968)),  # espresso, coffee mug, cup
        Sample("photographer", "camera.png", (872,)),  # tripod
        Sample("motorcycle", "motorcycle_left.png", (665, 670)),  # moped, motor scooter
    )
}


def is_upload(name: str) -> bool:
    """Whether this is the name of a picture that a student has brought."""
    return bool(UPLOAD.fullmatch(name))


def check_name(name: str) -> None:
    """Raises Problem where this is neither a sample nor the name of an upload."""
    if name not in SAMPLES and not is_upload(name):
        raise Problem("problem.photo_unknown", name=name[:40], near=", ".join(SAMPLES))


def pixels_of(name: str, folder: Path | None) -> Pixels:
    """The photo of this name: a sample, or an upload in the student's folder.

    Raises Problem where there is none, which for an upload means that its time is over.
    """
    check_name(name)
    if name in SAMPLES:
        return decoded(_sample_file(SAMPLES[name]).read_bytes())
    try:
        return decoded(_upload_file(folder, name).read_bytes())
    except (FileNotFoundError, TypeError):
        raise Problem("problem.photo_gone") from None


def fitted(pixels: Pixels, fit: str = "squash") -> Pixels:
    """As the classifiers look at it: (224, 224, 3).

    "squash": the whole photo, its sides made equal, as in the lab. "crop": the recipe of their
    training, short side to 256 and the middle cut out, which keeps the shape and loses the edges.
    A photo of exactly this size is taken as it is: an attacked one has to arrive unharmed.
    """
    height, width, _ = pixels.shape
    if (height, width) == (SIDE, SIDE):
        return pixels
    picture = Image.fromarray(pixels)
    if fit == "crop":
        scale = CROP_FROM / min(height, width)
        picture = picture.resize(
            (round(width * scale), round(height * scale)), Image.Resampling.BILINEAR
        )
        left, top = (picture.width - SIDE) // 2, (picture.height - SIDE) // 2
        picture = picture.crop((left, top, left + SIDE, top + SIDE))
    # Pillow's bilinear filter is widened where it makes smaller: no stairs.
    return np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def png(pixels: Pixels) -> bytes:
    """A plain PNG file of these pixels, without a word about where they come from."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=4)
    return file.getvalue()


def sample_png(name: str) -> bytes:
    """A sample as a PNG file, for a page. Raises Problem where there is none of this name."""
    return png(pixels_of(name, None))


# What strangers bring


def sanitised(data: bytes) -> bytes:
    """The picture in a student's file as a plain PNG, upright, at most 1,024 pixels a side.

    Of an animation the first picture is taken. Raises Problem, in one sentence, for a file that is
    too heavy, has too many or too few pixels, is damaged, or is no picture at all.
    """
    if len(data) > MAX_BYTES:
        raise Problem("problem.photo_heavy", mib=len(data) / 2**20, limit=MAX_BYTES / 2**20)
    return png(decoded(data))


def decoded(data: bytes) -> Pixels:
    """The pixels of a picture file, as `sanitised` keeps them. Raises Problem as it does."""
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Problem("problem.photo_huge", limit=MAX_PIXELS // 1_000_000) from None
    except UNREADABLE:
        raise Problem("problem.photo_none") from None
    with picture:
        if picture.width * picture.height > MAX_PIXELS:  # only the header has been read
            raise Problem("problem.photo_huge", limit=MAX_PIXELS // 1_000_000)
        _refuse_tiny(picture.width, picture.height)
        try:
            picture.draft("RGB", (2 * KEPT_SIDE, 2 * KEPT_SIDE))  # a JPEG, decoded small at once
            upright = ImageOps.exif_transpose(_eight_bits(picture))
            upright.thumbnail((KEPT_SIDE, KEPT_SIDE), Image.Resampling.BICUBIC)
        except UNREADABLE:
            raise Problem("problem.photo_damaged") from None
    _refuse_tiny(upright.width, upright.height)  # a long thin one is tiny now
    return np.asarray(upright)


def _refuse_tiny(width: int, height: int) -> None:
    if min(width, height) < MIN_SIDE:
        raise Problem("problem.photo_tiny", width=width, height=height, least=MIN_SIDE)


def _eight_bits(picture: Image.Image) -> Image.Image:
    """The picture in red, green and blue of 8 bits each, on white where it is transparent."""
    picture.load()
    if picture.mode.startswith(("I", "F")):
        plain = Image.fromarray(_grey_of_many(np.asarray(picture))).convert("RGB")
        plain.info["exif"] = picture.info.get("exif", b"")
    elif picture.has_transparency_data:
        clear = picture.convert("RGBA")
        plain = Image.new("RGB", picture.size, "white")
        plain.paste(clear, mask=clear.getchannel("A"))
        plain.info["exif"] = picture.info.get("exif", b"")
    else:
        plain = picture.convert("RGB")
    return plain


def _grey_of_many(values: NDArray[np.generic]) -> Pixels:
    """Grey of 16 bits, of 32, or of fractions, as 8 bits. Pillow's own conversion cuts off at 255,
    which makes most of such a picture white."""
    numbers = np.nan_to_num(values.astype(np.float64))
    largest = float(numbers.max(initial=0.0))
    full = next(full for full in (1.0, 255.0, 65_535.0, largest) if largest <= full)
    return (numbers.clip(0, None) / full * 255).round().astype(np.uint8)


# Uploads, kept while their student is there


def keep_upload(folder: Path, data: bytes) -> str:
    """Keep a sanitised picture in the student's folder; returns the name that settings carry.

    Raises Problem where it is larger than a sanitised one can be, or the disk is full.
    """
    if len(data) > KEPT_BYTES:
        raise Problem("problem.photo_heavy", mib=len(data) / 2**20, limit=KEPT_BYTES / 2**20)
    name = name_of(data)
    file = _upload_file(folder, name)
    part = file.with_suffix(".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
        raise Problem("problem.photo_unkept") from None
    for old in _newest_first(folder)[UPLOADS_KEPT:]:
        old.unlink(missing_ok=True)
    return name


def name_of(data: bytes) -> str:
    """The name under which a sanitised picture is kept: the same picture, the same name."""
    return f"upload-{hashlib.sha256(data).hexdigest()[:32]}"


def still_here(folder: Path, name: str) -> bool:
    """Note that the student's page is open; False where the upload is gone."""
    if not has_upload(folder, name):
        return False
    try:
        os.utime(_upload_file(folder, name))
    except OSError:  # forgotten just now
        return False
    return True


def has_upload(folder: Path, name: str) -> bool:
    return is_upload(name) and _upload_file(folder, name).is_file()


def forget_uploads(folder: Path) -> None:
    """Delete all that this student has brought. Asking twice is harmless."""
    for file in _newest_first(folder):
        file.unlink(missing_ok=True)


def forget_stale_uploads(kept: Path, *, seconds: float) -> int:
    """Delete uploads of all students, whose folders lie in `kept`, that nobody has looked at for so
    long; returns how many. 0 seconds: all, as at the start of a server."""
    forgotten = 0
    for file in kept.glob(f"*/{UPLOADS}/*"):
        try:
            if seconds <= 0 or time.time() - file.stat().st_mtime >= seconds:
                file.unlink()
                forgotten += 1
        except OSError:  # gone already, or not ours to delete
            continue
    return forgotten


def _newest_first(folder: Path) -> list[Path]:
    files = list((folder / UPLOADS).glob("*"))
    return sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)


def _upload_file(folder: Path | None, name: str) -> Path:
    if folder is None:
        raise FileNotFoundError(name)
    return folder / UPLOADS / f"{name}.png"


def _sample_file(sample: Sample) -> Path:
    # Found, not imported: importing scikit-image takes a second.
    found = importlib.util.find_spec("skimage")
    for place in (found.submodule_search_locations if found else None) or ():
        file = Path(place) / "data" / sample.file
        if file.is_file():
            return file
    raise Problem("problem.sample_missing", name=sample.name)
