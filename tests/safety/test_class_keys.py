"""The class's keys: made once, readable by their owner only, renewed in time, never told."""

from __future__ import annotations

import datetime
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from core.problems import Problem
from core.safety.class_keys import (
    LEAF_FILE,
    LEAF_LIFE,
    LOCK_FILE,
    RENEW_BEFORE,
    ROOT_FILE,
    ROOT_LIFE,
    open_keys,
)

ROOT = Path(__file__).parents[2]
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)

OPEN_AND_TELL = """
import sys
from pathlib import Path
from core.safety.class_keys import open_keys

print("ready", flush=True)
sys.stdin.readline()
keys = open_keys(Path(sys.argv[1]))
print(keys.root.certificate.serial_number, keys.leaf.certificate.serial_number)
"""


def problem_of(folder: Path) -> tuple[str, dict[str, object]]:
    with pytest.raises(Problem) as caught:
        open_keys(folder)
    return caught.value.notice.key, caught.value.notice.facts


def secrets_in(folder: Path) -> list[str]:
    """The lines of the private keys, as they stand in the files."""
    lines = []
    for file in (ROOT_FILE, LEAF_FILE):
        key = (folder / file).read_text().split("-----END PRIVATE KEY-----")[0]
        lines += [line for line in key.splitlines() if line and not line.startswith("-----")]
    assert lines
    return lines


def test_opening_again_gives_the_same_keys(tmp_path):
    first, second = open_keys(tmp_path / "keys"), open_keys(tmp_path / "keys")
    assert first.root.certificate == second.root.certificate
    assert first.leaf.key_pem == second.leaf.key_pem


def test_two_classes_have_different_names(tmp_path):
    assert open_keys(tmp_path / "a").owner != open_keys(tmp_path / "b").owner


def test_processes_that_open_at_the_same_moment_get_the_same_keys(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AND_TELL, str(tmp_path / "keys")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    told = {process.communicate("go\n", timeout=30)[0] for process in processes}
    assert len(told) == 1
    assert len(told.pop().split()) == 2


@pytest.mark.skipif(os.name != "posix", reason="other systems keep rights differently")
def test_only_the_owner_may_read_the_keys_whatever_the_umask_is(tmp_path):
    before = os.umask(0)
    try:
        open_keys(tmp_path / "keys")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()}
    assert modes == {ROOT_FILE: 0o600, LEAF_FILE: 0o600, LOCK_FILE: 0o600}
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="other systems keep rights differently")
def test_keys_that_somebody_has_opened_to_others_are_closed_again(tmp_path):
    open_keys(tmp_path)
    (tmp_path / ROOT_FILE).chmod(0o644)
    tmp_path.chmod(0o755)
    open_keys(tmp_path)
    assert (tmp_path / ROOT_FILE).stat().st_mode & 0o777 == 0o600
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_no_line_of_a_key_reaches_a_log_or_a_repr(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    keys = open_keys(tmp_path)
    secrets = secrets_in(tmp_path)
    told = [repr(keys), str(keys), repr(keys.root), repr(keys.leaf)]
    root = tmp_path / ROOT_FILE
    for damage in (root.read_text()[:-300], root.read_text()[40:]):  # both quote key material
        root.write_text(damage)
        with pytest.raises(Problem) as caught:
            open_keys(tmp_path)
        told += [str(caught.value), str(caught.value.__context__)]
    told.append(caplog.text)
    assert "root.pem" in caplog.text, "nothing was logged: is this test looking in the right place?"
    assert not [line for line in secrets if any(line in text for text in told)]


def test_the_signing_certificate_says_what_c2pa_asks_for(tmp_path):
    keys = open_keys(tmp_path)
    leaf, root = keys.leaf.certificate, keys.root.certificate
    extensions = leaf.extensions
    uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.EMAIL_PROTECTION]
    assert extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    authority = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    subject = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert authority.key_identifier == subject.digest
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    leaf.verify_directly_issued_by(root)


def test_a_certificate_about_to_end_is_renewed_under_the_same_root(tmp_path):
    old = open_keys(tmp_path, now=NOW - LEAF_LIFE + RENEW_BEFORE - DAY)
    new = open_keys(tmp_path, now=NOW)
    assert new.root.certificate == old.root.certificate
    assert new.owner == old.owner
    assert new.leaf.certificate.not_valid_after_utc > NOW + LEAF_LIFE - DAY
    assert open_keys(tmp_path, now=NOW).leaf.certificate == new.leaf.certificate


def test_a_certificate_with_time_left_stays(tmp_path):
    old = open_keys(tmp_path, now=NOW - LEAF_LIFE + RENEW_BEFORE + DAY)
    assert open_keys(tmp_path, now=NOW).leaf.certificate == old.leaf.certificate


def test_a_root_at_its_end_gives_way_to_a_new_one_and_no_leaf_outlives_it(tmp_path):
    late = NOW - ROOT_LIFE + RENEW_BEFORE
    open_keys(tmp_path, now=late)
    last = open_keys(tmp_path, now=NOW - RENEW_BEFORE)
    assert last.leaf.certificate.not_valid_after_utc <= last.root.certificate.not_valid_after_utc
    new = open_keys(tmp_path, now=NOW + DAY)
    assert new.root.certificate != last.root.certificate
    new.leaf.certificate.verify_directly_issued_by(new.root.certificate)


@pytest.mark.parametrize("file", [ROOT_FILE, LEAF_FILE])
@pytest.mark.parametrize(
    "damage",
    [lambda held: b"", lambda held: held[: len(held) // 2], lambda held: b"\xff\x00not a key"],
    ids=["empty", "half", "nonsense"],
)
def test_a_damaged_file_is_told_by_name_and_left_as_it_is(tmp_path, file, damage):
    open_keys(tmp_path)
    (tmp_path / file).write_bytes(damage((tmp_path / file).read_bytes()))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert problem_of(tmp_path) == ("problem.keys_broken", {"file": file})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_leaf_of_another_root_is_refused(tmp_path):
    open_keys(tmp_path / "a")
    open_keys(tmp_path / "b")
    (tmp_path / "a" / LEAF_FILE).write_bytes((tmp_path / "b" / LEAF_FILE).read_bytes())
    assert problem_of(tmp_path / "a") == ("problem.keys_broken", {"file": LEAF_FILE})


def test_a_key_beside_the_certificate_of_another_is_refused(tmp_path):
    open_keys(tmp_path / "a")
    open_keys(tmp_path / "b")
    key, other = (
        (tmp_path / name / ROOT_FILE).read_text().partition("-----BEGIN CERTIFICATE-----")
        for name in "ab"
    )
    (tmp_path / "a" / ROOT_FILE).write_text(key[0] + other[1] + other[2])
    assert problem_of(tmp_path / "a") == ("problem.keys_broken", {"file": ROOT_FILE})


def test_a_leaf_whose_root_is_gone_is_not_quietly_replaced(tmp_path):
    open_keys(tmp_path)
    (tmp_path / ROOT_FILE).unlink()
    assert problem_of(tmp_path) == ("problem.keys_broken", {"file": ROOT_FILE})


def test_a_folder_that_cannot_be_one_is_told_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    assert problem_of(tmp_path / "file") == ("problem.keys_folder", {})
