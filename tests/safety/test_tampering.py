"""What happens to signed pictures on their way, and what is left of their credentials."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from core.safety import tampering
from core.safety.class_keys import new_keys
from core.safety.credentials import Authority, Kind, Made


def picture(seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as opened:
        return np.asarray(opened.convert("RGB"), dtype=int)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority(new_keys())


@pytest.fixture(scope="module")
def signed(authority: Authority) -> bytes:
    return authority.sign(picture(), Made("mini-turbo", "1", 0.0))


@pytest.mark.parametrize(
    "happening", [tampering.saved_as_jpeg, tampering.cropped, tampering.screenshot]
)
def test_a_new_file_of_the_pixels_has_lost_the_credential(authority, signed, happening):
    assert authority.check(happening(signed)).kind is Kind.NONE


def test_one_changed_byte_breaks_the_credential_though_every_program_opens_the_file(
    authority, signed
):
    changed = tampering.one_byte_changed(signed)
    assert authority.check(changed).kind is Kind.BROKEN
    difference = np.abs(pixels(changed) - pixels(signed))
    assert difference.any()
    assert np.minimum(difference, 256 - difference).max() == 1  # of 255: no eye sees it


def test_a_credential_put_into_another_picture_does_not_fit_it(authority, signed):
    other = tampering.with_credential_of(picture(seed=1), signed)
    assert authority.check(other).kind is Kind.BROKEN
    assert (pixels(other) == pixels(picture(seed=1))).all()


def test_a_credential_put_back_into_its_own_picture_is_as_good_as_before(authority, signed):
    assert authority.check(tampering.with_credential_of(picture(), signed)).kind is Kind.OURS


def test_cropping_keeps_the_middle_and_a_screenshot_the_whole(signed):
    whole = pixels(signed)
    middle = pixels(tampering.cropped(signed))
    assert middle.shape[0] < 60
    assert (middle == whole[8:-8, 13:-13]).all()
    screen = pixels(tampering.screenshot(signed))
    assert screen.shape > whole.shape
