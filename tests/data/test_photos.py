"""Pictures of strangers: each is made plain or refused in one sentence."""

import io
import os
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from core.data import photos
from core.problems import Problem
from core.texts import LANGUAGES, texts

RED, BLUE = (220, 30, 40), (20, 40, 210)


def two_coloured(width=96, height=64):
    """Left half red, right half blue."""
    picture = Image.new("RGB", (width, height), RED)
    picture.paste(BLUE, (width // 2, 0, width, height))
    return picture


def file_of(picture, kind="PNG", **how):
    file = io.BytesIO()
    picture.save(file, kind, **how)
    return file.getvalue()


def pixels_of(data):
    """Pixels of the sanitised file."""
    plain = photos.sanitised(data)
    assert plain.startswith(b"\x89PNG")
    with Image.open(io.BytesIO(plain)) as picture:
        assert picture.mode == "RGB"
        assert not picture.info, "nothing but the pixels is left"
        assert not picture.getexif()
        return np.array(picture).astype(int)


def near(pixel, colour, within=25):
    return bool((np.abs(np.array(pixel) - colour) <= within).all())


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    tags[0x010F] = "a camera"
    return tags


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_the_usual_kinds_are_read_and_written_again_as_plain_png(kind):
    pixels = pixels_of(file_of(two_coloured(), kind))
    assert pixels.shape == (64, 96, 3)
    assert near(pixels[32, 10], RED)
    assert near(pixels[32, 85], BLUE)


@pytest.mark.parametrize(
    ("orientation", "shape", "red_at"),
    [(3, (64, 96), (32, 85)), (6, (96, 64), (10, 32)), (8, (96, 64), (85, 32))],
)
def test_a_photo_taken_with_the_camera_turned_is_turned_upright(orientation, shape, red_at):
    pixels = pixels_of(file_of(two_coloured(), "JPEG", quality=95, exif=exif(orientation)))
    assert pixels.shape[:2] == shape
    assert near(pixels[red_at], RED)


def test_place_camera_profile_and_comments_are_gone():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = file_of(two_coloured(), "JPEG", exif=exif(1), comment=b"at home", icc_profile=profile)
    assert b"a camera" in data
    plain = photos.sanitised(data)
    assert b"a camera" not in plain
    assert b"at home" not in plain
    assert b"iCCP" not in plain


def test_cmyk_becomes_the_colours_it_shows():
    pixels = pixels_of(file_of(two_coloured().convert("CMYK"), "JPEG", quality=95))
    assert near(pixels[32, 10], RED)
    assert near(pixels[32, 85], BLUE)


def test_what_is_transparent_lies_on_white():
    clear = two_coloured().convert("RGBA")
    clear.paste((0, 0, 0, 0), (48, 0, 96, 64))
    pixels = pixels_of(file_of(clear))
    assert near(pixels[32, 10], RED)
    assert near(pixels[32, 85], (255, 255, 255))


def test_a_palette_with_a_transparent_colour_is_read():
    indexed = Image.new("P", (64, 64), 1)
    indexed.putpalette([0, 0, 0, *RED])
    indexed.paste(0, (32, 0, 64, 64))
    pixels = pixels_of(file_of(indexed, transparency=0))
    assert near(pixels[32, 10], RED)
    assert near(pixels[32, 50], (255, 255, 255))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_their_greys(kind):
    ramp = np.linspace(0, 65_535, 64).round().astype(np.uint16)
    pixels = pixels_of(file_of(Image.fromarray(np.tile(ramp, (64, 1))), kind))
    assert pixels[10, 0, 0] == 0
    assert pixels[10, 32, 0] == pytest.approx(130, abs=3)
    assert pixels[10, 63, 0] == 255


def test_grey_of_one_bit_and_of_fractions_is_read():
    bits = Image.new("1", (64, 64), 1)
    assert pixels_of(file_of(bits)).min() == 255
    fractions = Image.fromarray(np.full((64, 64), 0.5, dtype=np.float32))
    assert near(pixels_of(file_of(fractions, "TIFF"))[5, 5], (128, 128, 128), within=1)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_picture_is_taken(kind):
    frames = [Image.new("RGB", (64, 64), colour) for colour in (RED, BLUE, BLUE)]
    data = file_of(frames[0], kind, save_all=True, append_images=frames[1:])
    assert near(pixels_of(data)[32, 32], RED)


def test_a_large_photo_is_made_smaller_and_keeps_its_shape():
    pixels = pixels_of(file_of(two_coloured(3_000, 1_500), "JPEG"))
    assert pixels.shape == (512, 1_024, 3)


def bomb(width, height):
    """A PNG that promises so many pixels, in a few bytes."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


BAD = {
    "nothing": (b"", "problem.photo_none"),
    "text": (b"<?php echo 1; ?>" * 50, "problem.photo_none"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>', "problem.photo_none"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n", "problem.photo_none"),
    "only a header": (b"\x89PNG\r\n\x1a\n", "problem.photo_none"),
    "a large picture": (bomb(8_000, 6_000), "problem.photo_huge"),
    "a bomb": (bomb(50_000, 50_000), "problem.photo_huge"),
    "the largest bomb": (bomb(2**31 - 1, 2**31 - 1), "problem.photo_huge"),
    "a long thin bomb": (bomb(2**20, 8), "problem.photo_tiny"),
    "one pixel": (file_of(Image.new("RGB", (1, 1))), "problem.photo_tiny"),
    "a thin line": (file_of(Image.new("RGB", (600, 20))), "problem.photo_tiny"),
    "thin once made smaller": (file_of(Image.new("RGB", (4_000, 40))), "problem.photo_tiny"),
    "half a jpeg": (file_of(two_coloured(900, 600), "JPEG")[:-3_000], "problem.photo_damaged"),
    "half a png": (file_of(two_coloured())[:-40], "problem.photo_damaged"),
    "too few pixels": (bomb(640, 480), "problem.photo_damaged"),
    "too heavy": (b"\x89PNG\r\n\x1a\n" + bytes(photos.MAX_BYTES), "problem.photo_heavy"),
}


@pytest.mark.parametrize(("data", "key"), BAD.values(), ids=BAD)
def test_each_bad_file_is_refused_in_one_sentence(data, key):
    with pytest.raises(Problem) as caught:
        photos.sanitised(data)
    assert caught.value.notice.key == key
    for language in LANGUAGES:
        assert len(texts(language).notice(caught.value.notice)) > 20


def test_a_bomb_is_refused_before_it_is_decoded():
    began = time.process_time()
    with pytest.raises(Problem):
        photos.sanitised(bomb(13_000, 13_000))  # would be 507 MB
    assert time.process_time() - began < 0.5


# Samples, and how a picture becomes what a network looks at


def test_every_sample_comes_with_scikit_image_and_is_a_photo():
    for name in photos.SAMPLES:
        with Image.open(io.BytesIO(photos.sample_png(name))) as picture:
            assert min(picture.size) >= 300


@pytest.mark.parametrize("fit", photos.FITS)
def test_a_picture_of_the_networks_size_is_taken_as_it_is(fit):
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3)).astype(np.uint8)
    assert np.array_equal(photos.fitted(photos.decoded(photos.png(pixels)), fit), pixels)


def test_squash_shows_the_whole_picture_and_crop_its_middle():
    wide = np.array(two_coloured(900, 300))
    wide[:, :100] = (0, 255, 0)
    squashed, cropped = photos.fitted(wide, "squash"), photos.fitted(wide, "crop")
    assert squashed.shape == cropped.shape == (224, 224, 3)
    assert near(squashed[100, 5].astype(int), (0, 255, 0))
    assert near(cropped[100, 5].astype(int), RED)


@pytest.mark.parametrize("name", ["dog", "", "../../etc/passwd", "upload-../../x", "upload-12"])
def test_a_name_that_is_neither_sample_nor_upload_is_refused(name, tmp_path):
    with pytest.raises(Problem) as caught:
        photos.pixels_of(name, tmp_path)
    assert caught.value.notice.key == "problem.photo_unknown"


# Uploads


def upload(folder, colour):
    return photos.keep_upload(folder, photos.sanitised(file_of(Image.new("RGB", (64, 64), colour))))


def test_an_upload_is_found_by_its_name_and_gone_when_forgotten(tmp_path):
    name = upload(tmp_path, RED)
    assert near(photos.pixels_of(name, tmp_path)[5, 5].astype(int), RED)
    assert upload(tmp_path, RED) == name, "the same picture has the same name"
    photos.forget_uploads(tmp_path)
    photos.forget_uploads(tmp_path)
    assert not photos.has_upload(tmp_path, name)
    for folder in (tmp_path, None):
        with pytest.raises(Problem) as caught:
            photos.pixels_of(name, folder)
        assert caught.value.notice.key == "problem.photo_gone"


def test_only_the_newest_uploads_of_a_student_are_kept(tmp_path):
    names = []
    for place in range(5):
        names.append(upload(tmp_path, (40 * place, 0, 0)))
        os.utime(tmp_path / photos.UPLOADS / f"{names[-1]}.png", (place, place))
    assert [photos.has_upload(tmp_path, name) for name in names] == [False] * 2 + [True] * 3


def test_an_upload_that_nobody_looks_at_any_more_is_forgotten(tmp_path):
    here, gone = tmp_path / "here", tmp_path / "gone"
    watched, left = upload(here, RED), upload(gone, BLUE)
    (gone / "gan.npz").write_bytes(b"a trained network stays")
    for folder, name in ((here, watched), (gone, left)):
        os.utime(folder / photos.UPLOADS / f"{name}.png", (0, 0))
    assert photos.still_here(here, watched)
    assert photos.forget_stale_uploads(tmp_path, seconds=300) == 1
    assert photos.has_upload(here, watched)
    assert not photos.has_upload(gone, left)
    assert not photos.still_here(gone, left)
    assert (gone / "gan.npz").exists()
    assert photos.forget_stale_uploads(tmp_path, seconds=0) == 1


def test_no_more_is_kept_than_a_sanitised_picture_can_have(tmp_path):
    with pytest.raises(Problem):
        photos.keep_upload(tmp_path, bytes(photos.KEPT_BYTES + 1))
    assert not list(tmp_path.iterdir())
