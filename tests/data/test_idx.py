"""MNIST's files: whole ones are read, all others are named and left alone."""

import gzip

import numpy as np
import pytest

from core.data.idx import MNIST_TRAIN, read_pair

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def test_mnist_is_known_by_its_exact_size():
    assert MNIST_TRAIN.images.length == 47_040_016  # as torchvision unpacks it
    assert MNIST_TRAIN.labels.length == 60_008


@pytest.mark.parametrize("packed", [False, True])
def test_whole_files_are_read_packed_or_not(small_mnist, tmp_path, packed):
    folder = small_mnist.write(tmp_path)
    if packed:
        for name, content in small_mnist.files.items():
            (folder / name).unlink()
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))

    notices = []
    images, labels = read_pair(tmp_path, small_mnist.pair, notices)

    assert np.array_equal(images, small_mnist.images)
    assert np.array_equal(labels, small_mnist.labels)
    assert not notices


def damage(content: bytes, how: str) -> bytes:
    return {
        "half": content[: len(content) // 2],
        "empty": b"",
        "too long": content + b"\0",
        "other kind of file": b"version https://git-lfs.github.com/spec/v1\n",
        "one bit turned": content[:-1] + bytes([content[-1] ^ 1]),
        "a hole of zeros": content[:200] + bytes(100) + content[300:],
        "other counts": content[:4] + (599).to_bytes(4, "big") + content[8:],
    }[how]


@pytest.mark.parametrize("name", [IMAGES, LABELS])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("half", "problem.digits_short"),
        ("empty", "problem.digits_short"),
        ("too long", "problem.digits_content"),
        ("other kind of file", "problem.digits_header"),
        ("one bit turned", "problem.digits_content"),
        ("a hole of zeros", "problem.digits_content"),
        ("other counts", "problem.digits_header"),
    ],
)
def test_a_broken_file_is_named_and_not_used(small_mnist, tmp_path, name, how, said):
    file = small_mnist.write(tmp_path) / name
    file.write_bytes(damage(small_mnist.files[name], how))

    notices = []

    assert read_pair(tmp_path, small_mnist.pair, notices) is None
    assert [notice.key for notice in notices] == [said]
    assert notices[0].facts["file"] == str(file)


def test_a_short_file_is_told_with_both_sizes(small_mnist, tmp_path):
    file = small_mnist.write(tmp_path) / LABELS
    file.write_bytes(small_mnist.files[LABELS][:100])

    notices = []
    read_pair(tmp_path, small_mnist.pair, notices)

    assert notices[0].facts == {"file": str(file), "size": 100, "expected": 608}


@pytest.mark.parametrize("how", ["half", "one bit turned", "empty", "not packed at all"])
def test_a_broken_packed_file_is_named_and_not_used(small_mnist, tmp_path, how):
    folder = small_mnist.write(tmp_path)
    (folder / IMAGES).unlink()
    packed = gzip.compress(small_mnist.files[IMAGES])
    content = small_mnist.files[IMAGES] if how == "not packed at all" else damage(packed, how)
    (folder / f"{IMAGES}.gz").write_bytes(content)

    notices = []

    assert read_pair(tmp_path, small_mnist.pair, notices) is None
    assert notices[0].facts["file"] == str(folder / f"{IMAGES}.gz")


def test_where_one_form_of_a_file_is_broken_the_other_serves_and_the_break_is_told(
    small_mnist, tmp_path
):
    folder = small_mnist.write(tmp_path)
    (folder / IMAGES).write_bytes(b"")
    (folder / f"{IMAGES}.gz").write_bytes(gzip.compress(small_mnist.files[IMAGES]))

    notices = []
    images, _ = read_pair(tmp_path, small_mnist.pair, notices)

    assert np.array_equal(images, small_mnist.images)
    assert [notice.key for notice in notices] == ["problem.digits_short"]


@pytest.mark.parametrize("where", ["no folder", "empty folder", "a file instead of a folder"])
def test_missing_files_are_named(small_mnist, tmp_path, where):
    root = tmp_path / "data"
    if where == "empty folder":
        root.mkdir()
    if where == "a file instead of a folder":
        root.touch()

    notices = []

    assert read_pair(root, small_mnist.pair, notices) is None
    assert [notice.key for notice in notices] == ["problem.digits_missing"]
    assert notices[0].facts["file"].endswith(IMAGES)


def test_a_folder_in_the_place_of_a_file_is_named(small_mnist, tmp_path):
    folder = small_mnist.write(tmp_path)
    (folder / LABELS).unlink()
    (folder / LABELS).mkdir()

    notices = []

    assert read_pair(tmp_path, small_mnist.pair, notices) is None
    assert [notice.key for notice in notices] == ["problem.digits_unreadable"]
