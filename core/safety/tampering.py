"""What may happen to a signed picture on its way: accidents and small frauds."""

from __future__ import annotations

import io
import zlib

from PIL import Image, ImageDraw

from core.safety.pictures import CREDENTIAL_CHUNK, Chunk, chunks, png_of

JPEG_QUALITY = 90
KEPT = 0.72  # of each side, when cropped
BAR, MARGIN = 0.09, 0.05  # of a screenshot's window: title bar and margin, in parts of the height


def saved_as_jpeg(png: bytes) -> bytes:
    """Opened in a picture program and saved again."""
    out = io.BytesIO()
    _pixels(png).save(out, "JPEG", quality=JPEG_QUALITY)
    return out.getvalue()


def cropped(png: bytes) -> bytes:
    """Only the middle, as a PNG."""
    picture = _pixels(png)
    width, height = picture.size
    left, top = round(width * (1 - KEPT) / 2), round(height * (1 - KEPT) / 2)
    return _png(picture.crop((left, top, width - left, height - top)))


def one_byte_changed(png: bytes) -> bytes:
    """The lowest bit of one byte of the pixels, in the middle of the file's picture data.

    All else stays, the credential too. PNG's own checksums are set right again, so that every
    program opens the file; no eye sees the change.
    """
    parts = list(chunks(png))
    packed = b"".join(part.body for part in parts if part.kind == b"IDAT")
    rows = bytearray(zlib.decompress(packed))
    header = next(part.body for part in parts if part.kind == b"IHDR")
    height = int.from_bytes(header[4:8], "big")
    row = len(rows) // height  # its first byte says how it is coded, the others are pixels
    rows[row * (height // 2) + 1 + (row - 1) // 2] ^= 1
    changed = Chunk(b"IDAT", zlib.compress(bytes(rows), level=9), 0)
    first = next(number for number, part in enumerate(parts) if part.kind == b"IDAT")
    others = [part for part in parts[first:] if part.kind != b"IDAT"]
    return png_of([*parts[:first], changed, *others])


def screenshot(png: bytes) -> bytes:
    """What is on the screen, in a window: the same pixels in a new file."""
    picture = _pixels(png)
    width, height = picture.size
    bar, margin = max(8, round(height * BAR)), max(4, round(height * MARGIN))
    size = (width + 2 * margin, height + bar + 2 * margin)
    screen = Image.new("RGB", size, "#3b4a63")
    pen = ImageDraw.Draw(screen)
    pen.rounded_rectangle(
        (margin // 2, margin // 2, size[0] - margin // 2, size[1] - margin // 2),
        radius=bar // 3,
        fill="#dfe5ee",
    )
    dot = bar // 3
    for number, colour in enumerate(("#d9534f", "#e6a23c", "#57a773")):
        left, top = margin + number * 2 * dot, margin // 2 + bar // 2
        pen.ellipse((left, top, left + dot, top + dot), fill=colour)
    screen.paste(picture, (margin, bar + margin))
    return _png(screen)


def with_credential_of(png: bytes, signed: bytes) -> bytes:
    """The credential of one signed PNG, put into another PNG: a stolen label."""
    header, *others = [part for part in chunks(png) if part.kind != CREDENTIAL_CHUNK]
    stolen = [part for part in chunks(signed) if part.kind == CREDENTIAL_CHUNK]
    return png_of([header, *stolen, *others])


def _pixels(png: bytes) -> Image.Image:
    with Image.open(io.BytesIO(png), formats=("PNG",)) as picture:
        return picture.convert("RGB")


def _png(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()
