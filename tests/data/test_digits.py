"""The digits: the best source that is whole, said honestly, and always 60,000 in the end."""

import io
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.data import digits as module
from core.data import fetch
from core.data.digits import (
    FIRST,
    WIDENED_IMAGES,
    WIDENED_LABELS,
    Digits,
    DigitsSource,
    load_digits,
)
from core.problems import Problem
from core.settings import LabSettings
from core.texts import LANGUAGES, texts
from tests.data.disk import disk_full_after

TRIED = "download-tried"


def keys(digits):
    return [notice.key for notice in digits.notices]


def offline(cache, **values):
    return LabSettings(cache_dir=cache, offline=True, **values)


# The digits that are always there


def test_two_processes_that_prepare_at_once_do_not_hurt_each_other(prepared):
    first, second = prepared.said

    assert first == second
    assert first.startswith("widened 0 ")
    assert not list(prepared.folder.glob("*.part"))


def test_digits_are_loaded_without_torch(prepared):
    assert all(said.strip().endswith("False") for said in prepared.said)


def test_widened_digits_are_the_same_bytes_on_every_machine(cache):
    digits = load_digits(offline(cache))

    assert WIDENED_IMAGES.matches(digits.images)
    assert WIDENED_LABELS.matches(digits.labels)


def test_widened_digits_say_how_many_of_them_are_real(cache):
    facts = load_digits(offline(cache)).facts

    assert (facts.count, facts.real, facts.widened) == (60_000, 5_000, True)
    assert facts.shape == (1, 28, 28)
    assert (facts.low, facts.high) == (0, 255)
    assert (facts.scaled_low, facts.scaled_high) == (-1.0, 1.0)
    assert facts.label_counts == (6_000,) * 10


def test_the_first_ten_digits_are_real_ones(cache):
    digits = load_digits(offline(cache))
    originals, labels = module.packaged_digits()

    assert np.array_equal(digits.images[:10], originals[FIRST])
    assert np.array_equal(digits.labels[:10], labels[FIRST])


def test_the_order_is_well_mixed(cache):
    labels = load_digits(offline(cache)).labels

    for batch in labels[:59_904].reshape(-1, 128):
        assert len(np.unique(batch)) >= 8  # of 10


def test_a_picture_is_a_png_with_the_digit_enlarged(cache):
    digits = load_digits(offline(cache))
    pictures = digits.pictures(10, enlarged=3)

    assert len(pictures) == 10
    shown = np.asarray(Image.open(io.BytesIO(pictures[4])))
    assert np.array_equal(shown[1::3, 1::3], digits.images[4])


# The cache


def test_prepared_digits_are_used_again(cache, monkeypatch):
    monkeypatch.setattr(module, "PACKAGED", "not there any more")

    assert load_digits(offline(cache)).source is DigitsSource.WIDENED


def test_a_damaged_cache_is_noticed_and_made_again(cache):
    path = WIDENED_IMAGES.path(cache)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    digits = load_digits(offline(cache))

    assert WIDENED_IMAGES.matches(digits.images)
    assert WIDENED_IMAGES.read(cache) is not None
    assert digits.notices == ()


def test_a_full_disk_is_told_and_the_digits_are_there_all_the_same(tmp_path):
    with disk_full_after(1_000_000):
        digits = load_digits(offline(tmp_path))

    assert WIDENED_IMAGES.matches(digits.images)
    assert keys(digits) == ["problem.digits_cache"]
    assert digits.notices[0].facts == {"folder": str(tmp_path)}
    assert not [*tmp_path.glob("*.part"), *tmp_path.glob("*.npy")]


def test_without_a_cache_folder_the_digits_are_there_and_nothing_is_downloaded(
    tmp_path, garbage_server
):
    (tmp_path / "file").write_text("")

    digits = load_digits(LabSettings(cache_dir=tmp_path / "file"), address=garbage_server.address)

    assert WIDENED_IMAGES.matches(digits.images)
    assert keys(digits) == ["problem.digits_cache"]
    assert garbage_server.requests == []


def test_without_any_source_a_problem_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PACKAGED_SHA256", "of another version")

    with pytest.raises(Problem) as caught:
        load_digits(offline(tmp_path))
    assert caught.value.notice.key == "problem.digits_package"


# MNIST in a folder


def test_mnist_in_the_folder_comes_first(small_mnist, tmp_path):
    small_mnist.write(tmp_path / "data")

    digits = load_digits(
        offline(tmp_path / "cache", data_dir=tmp_path / "data"), mnist=small_mnist.pair
    )

    assert digits.source is DigitsSource.FOLDER
    assert np.array_equal(digits.images, small_mnist.images)
    assert (digits.facts.real, digits.facts.widened) == (600, False)
    assert digits.notices == ()


def test_a_broken_folder_is_told_and_the_next_source_serves(small_mnist, tmp_path, cache):
    folder = small_mnist.write(tmp_path / "data")
    (folder / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01")

    digits = load_digits(offline(cache, data_dir=tmp_path / "data"), mnist=small_mnist.pair)

    assert digits.source is DigitsSource.WIDENED
    assert keys(digits) == ["problem.digits_short"]


def test_files_like_mnists_with_other_digits_are_not_taken_for_mnist(small_mnist, tmp_path, cache):
    small_mnist.write(tmp_path / "data")

    digits = load_digits(offline(cache, data_dir=tmp_path / "data"))

    assert digits.source is DigitsSource.WIDENED
    assert keys(digits) == ["problem.digits_header"]


# The network


def test_a_silent_network_is_asked_once_and_then_left_alone(cache, monkeypatch):
    monkeypatch.setattr(fetch, "answers", ask := Counted(False))

    for _ in range(3):
        digits = load_digits(LabSettings(cache_dir=cache))

        assert digits.source is DigitsSource.WIDENED
        assert digits.notices == ()
    assert ask.count == 1


@pytest.mark.parametrize(
    ("hours_ago", "asked"),
    [(1, False), (25, True), (-25, True)],
    ids=["lately", "long ago", "in the future"],
)
def test_the_network_is_asked_again_after_a_day_and_after_a_jump_of_the_clock(
    cache, monkeypatch, hours_ago, asked
):
    monkeypatch.setattr(fetch, "answers", ask := Counted(False))
    (cache / TRIED).write_text(f"{time.time() - 3_600 * hours_ago:.0f}\n")

    load_digits(LabSettings(cache_dir=cache))

    assert ask.count == asked


def test_offline_nobody_is_asked(cache, garbage_server):
    load_digits(offline(cache), address=garbage_server.address)

    assert garbage_server.requests == []


def test_a_download_of_something_else_is_told_and_never_used(cache, garbage_server):
    """A network that wants a login first answers every question with its own page."""
    digits = load_digits(LabSettings(cache_dir=cache), address=garbage_server.address)

    assert "GET /train-images-idx3-ubyte.gz" in garbage_server.requests
    assert digits.source is DigitsSource.WIDENED
    assert keys(digits) == ["problem.digits_download"]
    assert not (cache / "mnist").exists()
    assert not (cache / "mnist.part").exists()


def test_a_downloaded_mnist_is_kept_and_used_offline_too(small_mnist, cache, monkeypatch):
    the_network_holds(small_mnist, monkeypatch)

    digits = load_digits(LabSettings(cache_dir=cache), mnist=small_mnist.pair)
    again = load_digits(offline(cache), mnist=small_mnist.pair)

    for found in (digits, again):
        assert found.source is DigitsSource.DOWNLOAD
        assert np.array_equal(found.images, small_mnist.images)
        assert found.notices == ()


def test_a_downloaded_mnist_that_has_broken_is_told_and_fetched_anew(
    small_mnist, cache, monkeypatch
):
    the_network_holds(small_mnist, monkeypatch)
    folder = small_mnist.write(cache / "mnist")
    (folder / "train-images-idx3-ubyte").write_bytes(b"")

    digits = load_digits(LabSettings(cache_dir=cache), mnist=small_mnist.pair)

    assert digits.source is DigitsSource.DOWNLOAD
    assert np.array_equal(digits.images, small_mnist.images)
    assert keys(digits) == ["problem.digits_short"]


def test_remains_of_a_killed_download_do_no_harm(small_mnist, cache, monkeypatch):
    the_network_holds(small_mnist, monkeypatch)
    small_mnist.write(cache / "mnist.part")

    digits = load_digits(LabSettings(cache_dir=cache), mnist=small_mnist.pair)

    assert digits.source is DigitsSource.DOWNLOAD
    assert not (cache / "mnist.part").exists()


class Counted:
    """Stands in for the network's end: always the same answer, and how often it was asked for."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.count = answer, 0

    def __call__(self, *_: object) -> bool:
        self.count += 1
        return self.answer


def the_network_holds(mnist, monkeypatch) -> None:
    def download(_address: str, folder: Path) -> bool:
        mnist.write(folder)
        return True

    monkeypatch.setattr(fetch, "answers", Counted(True))
    monkeypatch.setattr(fetch, "download", download)


# Words


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("source", DigitsSource)
def test_each_source_has_a_name(language, source):
    assert texts(language).has(f"data.source.{source}")


def test_digits_of_any_size_can_be_described():
    images, labels = np.full((24, 28, 28), 51, np.uint8), np.full(24, 3, np.uint8)

    facts = Digits(images, labels, DigitsSource.WIDENED).facts

    assert (facts.count, facts.real) == (24, 2)
    assert facts.scaled_low == pytest.approx(-0.6)
    assert facts.label_counts == (0, 0, 0, 24, 0, 0, 0, 0, 0, 0)
