"""Few real digits become many: alike, yet not the same."""

import numpy as np
import pytest

from core.data.widen import widen


@pytest.fixture(scope="module")
def cross():
    """A thin upright cross in the middle of the paper."""
    image = np.zeros((28, 28), np.uint8)
    image[6:22, 13:15] = image[13:15, 6:22] = 255
    return image


def centre(image):
    """Row and column of the centre of the ink."""
    ink = image / image.sum()
    return np.array([(ink.sum(axis=1) * range(28)).sum(), (ink.sum(axis=0) * range(28)).sum()])


def test_originals_stay_as_they_are_and_the_chosen_ones_come_first():
    images = np.arange(12, dtype=np.uint8).repeat(28 * 28).reshape(12, 28, 28)
    labels = np.arange(12, dtype=np.uint8)

    wide, wide_labels = widen(images, labels, copies=2, first=[7, 3])

    assert wide_labels[:2].tolist() == [7, 3]
    assert np.array_equal(wide[:2], images[[7, 3]])
    for image in images:
        assert (wide == image).all(axis=(1, 2)).any()


def test_every_digit_gets_the_same_number_of_copies():
    images, labels = np.zeros((12, 28, 28), np.uint8), np.arange(12, dtype=np.uint8)

    wide, wide_labels = widen(images, labels, copies=4, first=[0])

    assert len(wide) == 60
    assert np.bincount(wide_labels).tolist() == [5] * 12


def test_no_two_copies_are_alike(cross):
    wide, _ = widen(cross[None], np.zeros(1, np.uint8), copies=200, first=[0])

    assert len(np.unique(wide.reshape(201, -1), axis=0)) == 201


def test_copies_stray_little_from_the_original(cross):
    wide, _ = widen(cross[None], np.zeros(1, np.uint8), copies=200, first=[0])

    strays = np.abs([centre(image) - centre(cross) for image in wide])
    ink = wide.reshape(201, -1).sum(axis=1) / cross.sum()

    assert 1 < strays.max() < 1.6  # pixels: the shift goes to 1.25 each way
    assert 0.7 < ink.min() < ink.max() < 1.3


def test_copies_stray_to_all_sides_alike(cross):
    wide, _ = widen(cross[None], np.zeros(1, np.uint8), copies=2_000, first=[0])

    assert np.abs(centre(wide.mean(axis=0)) - centre(cross)).max() < 0.1


def test_a_picture_without_ink_stays_without_ink():
    wide, _ = widen(np.zeros((1, 28, 28), np.uint8), np.zeros(1, np.uint8), copies=5, first=[0])

    assert not wide.any()
