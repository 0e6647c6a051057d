"""Arrays on disk: whole and unchanged, or not there at all."""

import hashlib

import numpy as np
import pytest

from core.data.cache import Kept
from tests.data.disk import disk_full_after

ARRAY = np.arange(100_000, dtype=np.uint32).view(np.uint8)
KEPT = Kept("numbers", (400_000,), hashlib.sha256(ARRAY.data).hexdigest())


def test_what_is_written_is_read(tmp_path):
    KEPT.write(tmp_path, ARRAY)

    assert np.array_equal(KEPT.read(tmp_path), ARRAY)


def test_nothing_written_is_nothing_read(tmp_path):
    assert KEPT.read(tmp_path) is None


@pytest.mark.parametrize("how", ["half", "empty", "other kind of file", "one bit turned"])
def test_a_damaged_file_is_as_good_as_none(tmp_path, how):
    KEPT.write(tmp_path, ARRAY)
    path = KEPT.path(tmp_path)
    content = path.read_bytes()
    path.write_bytes(
        {
            "half": content[: len(content) // 2],
            "empty": b"",
            "other kind of file": b"hello" * 1_000,
            "one bit turned": content[:-1] + bytes([content[-1] ^ 1]),
        }[how]
    )

    assert KEPT.read(tmp_path) is None


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(KEPT.path(tmp_path), np.array([print], dtype=object), allow_pickle=True)

    assert KEPT.read(tmp_path) is None


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path):
    with disk_full_after(100_000), pytest.raises(OSError, match=r".+"):
        KEPT.write(tmp_path, ARRAY)

    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_spares_the_older_file(tmp_path):
    KEPT.write(tmp_path, ARRAY)
    with disk_full_after(100_000), pytest.raises(OSError, match=r".+"):
        KEPT.write(tmp_path, ARRAY)

    assert np.array_equal(KEPT.read(tmp_path), ARRAY)
