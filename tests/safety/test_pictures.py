"""Picture files from strangers, measured before anything is decoded."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from core.problems import Problem
from core.safety import pictures
from core.safety.pictures import PictureFile, chunks, credential_bytes, look_at, png_of, preview

KINDS = ("PNG", "JPEG", "WEBP")


def picture(kind: str = "PNG", size: tuple[int, int] = (40, 30), **more: object) -> bytes:
    out = io.BytesIO()
    Image.radial_gradient("L").resize(size).convert("RGB").save(out, kind, **more)
    return out.getvalue()


def key_of(act, *arguments: object) -> str:
    with pytest.raises(Problem) as caught:
        act(*arguments)
    return caught.value.notice.key


@pytest.mark.parametrize("kind", KINDS)
def test_kind_and_size_are_read_from_the_first_bytes(kind):
    assert look_at(picture(kind)) == PictureFile(f"image/{kind.lower()}", 40, 30)


def test_a_file_too_heavy_is_refused_whatever_is_in_it(monkeypatch):
    monkeypatch.setattr(pictures, "MAX_BYTES", 100)
    assert key_of(look_at, picture()) == "problem.picture_heavy"


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_pixels_are_refused(monkeypatch, kind):
    monkeypatch.setattr(pictures, "MAX_PIXELS", 1_199)
    assert key_of(look_at, picture(kind)) == "problem.picture_huge"
    assert key_of(preview, picture(kind)) == "problem.picture_huge"


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_picture_is_called_damaged(kind):
    data = picture(kind, (400, 300))
    assert key_of(preview, data[: len(data) // 2]) == "problem.picture_damaged"


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP"])
def test_a_picture_in_name_only_is_called_damaged(start):
    assert key_of(look_at, start + b"nothing of the kind") == "problem.picture_damaged"


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_is_small_and_holds_nothing_of_the_file_but_its_pixels(kind):
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    data = picture(kind, (2_000, 1_000), exif=exif)
    assert b"where I live" in data
    shown = preview(data, side=500)
    assert b"where I live" not in shown
    with Image.open(io.BytesIO(shown)) as drawn:
        assert drawn.size == (500, 250)


def test_a_photo_held_upright_is_shown_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    with Image.open(io.BytesIO(preview(picture("JPEG", (40, 30), exif=exif)))) as drawn:
        assert drawn.size == (30, 40)


def test_a_png_taken_apart_and_put_together_is_the_same_file():
    assert png_of(chunks(picture())) == picture()


def test_only_a_credential_counts_as_one():
    header, *others = chunks(picture())
    credential = pictures.Chunk(pictures.CREDENTIAL_CHUNK, b"x" * 88, 0)
    assert credential_bytes(png_of([header, credential, *others])) == 100
    assert credential_bytes(picture()) == 0
    assert credential_bytes(picture("JPEG")) == 0
