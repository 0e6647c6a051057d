import io

import numpy as np
import pytest
import torch
from PIL import Image

from core.labs.pictures import GIF_BYTES, GIF_FRAMES, LINE, gif, grey, grid, png


def test_the_mapping_is_fixed_so_that_a_faint_digit_looks_faint():
    faint = torch.full((1, 1, 28, 28), -1.0)
    faint[0, 0, 14, 14] = -0.6
    (cell,) = grey(faint)
    assert cell.max() == 51  # 20 % of the way to white, whatever else is in the picture
    assert grey(torch.tensor([-1.0, 0.0, 1.0]).view(3, 1, 1, 1)).ravel().tolist() == [0, 128, 255]


def test_what_is_no_number_is_mid_grey_and_what_is_too_much_is_black_or_white():
    strange = torch.tensor([float("nan"), float("inf"), -float("inf"), 7.0]).view(4, 1, 1, 1)
    assert grey(strange).ravel().tolist() == [128, 255, 0, 255]


def test_a_grid_holds_every_cell_unchanged_in_reading_order():
    cells = np.arange(5 * 3 * 2, dtype=np.uint8).reshape(5, 3, 2)
    whole = grid(cells, columns=2, scale=3)
    assert whole.shape == (3 * 9 + 2, 2 * 6 + 1)
    for place, cell in enumerate(cells):
        top, left = place // 2 * 10, place % 2 * 7
        found = whole[top : top + 9, left : left + 6]
        assert np.array_equal(found[::3, ::3], cell)
        assert np.array_equal(found[1::3, 2::3], cell)
    assert (whole[:, 6] == LINE).all()


def test_a_png_keeps_every_pixel():
    picture = np.random.default_rng(0).integers(0, 256, (50, 70), dtype=np.uint8)
    assert np.array_equal(np.array(Image.open(io.BytesIO(png(picture)))), picture)


def strokes(count):
    """Grids with a bar that wanders, in the size of the live ones."""
    frames = np.zeros((count, 227, 455), dtype=np.uint8)
    for place, frame in enumerate(frames):
        frame[:, 3 * place : 3 * place + 20] = 255
    return list(frames)


@pytest.mark.parametrize(("given", "shown"), [(1, 1), (7, 7), (GIF_FRAMES * 3, GIF_FRAMES)])
def test_an_animation_goes_from_the_first_picture_to_the_last(given, shown):
    frames = strokes(given)
    with Image.open(io.BytesIO(gif(frames))) as animation:
        assert getattr(animation, "n_frames", 1) == shown
        for place, expected in ((0, frames[0]), (shown - 1, frames[-1])):
            animation.seek(place)
            assert np.array_equal(np.array(animation.convert("L")), expected)


def test_an_animation_of_noise_has_fewer_pictures_rather_than_more_bytes():
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (227, 455), dtype=np.uint8) for _ in range(20)]
    file = gif(frames)
    assert len(file) <= GIF_BYTES
    with Image.open(io.BytesIO(file)) as animation:
        assert 2 <= animation.n_frames < 20
