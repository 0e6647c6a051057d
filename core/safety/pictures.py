"""Picture files from strangers: measured before anything is decoded. And the chunks of a PNG."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from PIL import Image, ImageOps

from core.problems import Problem

MAX_BYTES = 20 * 1024 * 1024  # as much as the server takes in one upload
MAX_PIXELS = 26_000_000  # a 24-megapixel camera's picture; decoded, 75 MB
PREVIEW_SIDE = 960  # pixels
SMALL_SIDE = 300  # pixels up to which a preview keeps every colour as it is

PNG, JPEG, WEBP = "image/png", "image/jpeg", "image/webp"
PNG_START = b"\x89PNG\r\n\x1a\n"
CREDENTIAL_CHUNK = b"caBX"  # where C2PA puts its credential in a PNG


@dataclass(frozen=True, slots=True)
class PictureFile:
    """What the first bytes of a file tell."""

    mime: str
    width: int
    height: int


def kind_of(data: bytes) -> str | None:
    """The MIME type by the first bytes, whatever the file is called; None: not one of the three."""
    if data.startswith(PNG_START):
        return PNG
    if data.startswith(b"\xff\xd8\xff"):
        return JPEG
    return WEBP if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def look_at(data: bytes) -> PictureFile:
    """Kind and size, read without decoding. Raises Problem for what is no picture, or too large."""
    if len(data) > MAX_BYTES:
        raise Problem("problem.picture_heavy", mib=len(data) / 2**20, limit=MAX_BYTES / 2**20)
    mime = kind_of(data)
    if mime is None:
        raise Problem("problem.not_a_picture")
    with _opened(data, mime) as picture:
        return PictureFile(mime, picture.width, picture.height)


def preview(data: bytes, *, side: int = PREVIEW_SIDE) -> bytes:
    """The picture, decoded and drawn again at no more than `side` pixels, as a WebP.

    Nothing of the file itself reaches the reader's browser. Raises Problem as `look_at` does, and
    where the pixels cannot be decoded: half a file, or a damaged one.
    """
    mime = look_at(data).mime
    try:
        with _opened(data, mime) as picture:
            picture.draft("RGB", (side, side))  # a JPEG is decoded no larger than it is shown
            picture.thumbnail((side, side))
            turned = ImageOps.exif_transpose(picture)
            out = io.BytesIO()
            shown = turned.convert("RGBA" if turned.has_transparency_data else "RGB")
            small = max(shown.size) <= SMALL_SIDE
            shown.save(out, "WEBP", lossless=small, quality=88, method=1)
    except (OSError, SyntaxError, ValueError, zlib.error, struct.error):
        raise Problem("problem.picture_damaged") from None
    return out.getvalue()


def _opened(data: bytes, mime: str) -> Image.Image:
    """The picture, only its header read. Raises Problem where that fails or tells of too much."""
    name = mime.removeprefix("image/").upper()
    try:
        picture = Image.open(io.BytesIO(data), formats=(name,))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Problem("problem.picture_huge", limit=MAX_PIXELS // 1_000_000) from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error):
        raise Problem("problem.picture_damaged") from None
    if picture.width * picture.height > MAX_PIXELS:
        raise Problem("problem.picture_huge", limit=MAX_PIXELS // 1_000_000)
    return picture


# Chunks of a PNG


@dataclass(frozen=True, slots=True)
class Chunk:
    kind: bytes
    body: bytes
    checksum: int  # as the file gives it

    @property
    def whole(self) -> bool:
        return zlib.crc32(self.body, zlib.crc32(self.kind)) == self.checksum

    @property
    def size(self) -> int:
        """Bytes that it takes in the file."""
        return len(self.body) + 12


def chunks(png: bytes) -> Iterator[Chunk]:
    """The chunks of a PNG as far as they are there."""
    at = len(PNG_START)
    while at + 12 <= len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        end = at + 8 + length
        if end + 4 > len(png):
            return
        checksum = int.from_bytes(png[end : end + 4], "big")
        yield Chunk(png[at + 4 : at + 8], png[at + 8 : end], checksum)
        at = end + 4


def png_of(parts: Iterable[Chunk]) -> bytes:
    """A PNG of these chunks, with checksums that are right."""
    written = [PNG_START]
    for part in parts:
        checksum = zlib.crc32(part.body, zlib.crc32(part.kind))
        written += [struct.pack(">I", len(part.body)), part.kind, part.body]
        written.append(struct.pack(">I", checksum))
    return b"".join(written)


def credential_bytes(data: bytes) -> int:
    """How much of a PNG is its credential; 0 for other kinds and for none."""
    if kind_of(data) != PNG:
        return 0
    return sum(chunk.size for chunk in chunks(data) if chunk.kind == CREDENTIAL_CHUNK)
