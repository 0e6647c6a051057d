"""The gates of the address and of the database, on the real server and on what stands before it."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from core.preflight.classroom.address import is_local
from core.preflight.gate import Colour
from core.records.store import FILE_NAME
from tests.preflight.breaking_proxy import PREFIX, proxy
from tests.preflight.classroom_lab import bench_of, class_digits, outcome, value

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
GREEN, AMBER, RED = Colour.GREEN, Colour.AMBER, Colour.RED


@pytest.fixture(scope="module", autouse=True)
def starting() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A real lab that listens on this machine only; it starts beside the first tests."""
    class_digits()  # prepared once, in the folder that the server uses as well
    port = free_port()
    where = ["--server.address", "127.0.0.1", "--server.port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", *where],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def lab(starting: tuple[subprocess.Popen[bytes], int]) -> int:
    """Its port, once it answers."""
    process, port = starting
    deadline = time.monotonic() + START_SECONDS
    while not healthy(port):
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.05)
    return port


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


# The database


def test_a_database_that_keeps_what_is_written_is_green_and_leaves_no_trace(tmp_path):
    assert outcome("database", bench_of(tmp_path)).colour is GREEN
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        assert database.execute("SELECT count(*) FROM students").fetchone() == (0,)
    database.close()


def test_a_database_that_cannot_be_written_is_red(tmp_path):
    assert outcome("database", bench_of(tmp_path)).colour is GREEN
    file = tmp_path / FILE_NAME
    read_only = f"sqlite:///file:{file}?mode=ro&uri=true"
    nowhere = f"sqlite:///{tmp_path}/no/such/folder/lab.db"
    for url in (read_only, nowhere):
        ended = outcome("database", bench_of(tmp_path, database_url=url))
        assert (ended.colour, ended.message.key) == (RED, "problem.records_unusable")


def test_a_database_without_one_of_its_columns_or_of_a_later_lab_is_red(tmp_path):
    assert outcome("database", bench_of(tmp_path)).colour is GREEN
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        database.execute("ALTER TABLE students DROP COLUMN seen_at")
    database.close()
    ended = outcome("database", bench_of(tmp_path))
    assert (ended.colour, ended.message.key) == (RED, "classroom.database.red_tables")
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    ended = outcome("database", bench_of(tmp_path))
    assert (ended.colour, ended.message.key) == (RED, "problem.records_newer")


def test_no_password_of_a_database_is_shown(tmp_path):
    url = "postgresql+psycopg://lab:secret@127.0.0.1:1/lab"
    ended = outcome("database", bench_of(tmp_path, database_url=url))
    assert ended.colour is RED
    assert "secret" not in str(ended)


# The address


def test_the_real_lab_lets_through_all_that_a_browser_needs(tmp_path, lab):
    ended = outcome("web", bench_of(tmp_path, address=f"http://127.0.0.1:{lab}"))
    assert (ended.colour, ended.message.key) == (GREEN, "classroom.web.green")
    assert value(ended, "classroom.web.stream") == 101
    assert value(ended, "classroom.web.forged") == 403
    assert value(ended, "classroom.web.upload") is True


@pytest.mark.parametrize(
    ("fault", "colour", "key"),
    [
        ("no websocket", RED, "red_stream"),
        ("other host", RED, "red_stream"),
        ("any origin", RED, "red_strange"),
        ("no xsrf", RED, "red_xsrf"),
        ("small body", RED, "red_body"),
        ("no cookies", RED, "red_cookie"),
        ("cached", RED, "red_cached"),
        ("no scripts", RED, "red_script"),
        ("circle", RED, "red_address"),
        ("redirect", AMBER, "amber_redirect"),
        ("cut path", AMBER, "amber_path"),
    ],
)
def test_what_a_proxy_spoils_is_named(tmp_path, lab, fault, colour, key):
    # Streamlit takes pages of 127.0.0.1 for its own whatever the host is called.
    host = "127.0.0.2" if fault == "other host" else "127.0.0.1"
    path = PREFIX if fault == "cut path" else ""
    with proxy(lab, fault, host=host) as port:
        ended = outcome("web", bench_of(tmp_path, address=f"{host}:{port}{path}"))
    assert (ended.colour, ended.message.key) == (colour, f"classroom.web.{key}")


def test_a_lab_that_others_can_reach_needs_its_codes(tmp_path, lab):
    addresses = [one for many in psutil.net_if_addrs().values() for one in many]
    if all(is_local(one.address) for one in addresses if one.family == socket.AF_INET):
        pytest.skip("this machine is in no network")
    with proxy(lab, host="0.0.0.0") as port:
        for codes, colour, key in (
            ({}, RED, "red_code"),
            ({"class_code": "set"}, AMBER, "amber_code"),
            ({"class_code": "set", "teacher_code": "set"}, GREEN, "green"),
        ):
            bench = bench_of(tmp_path, address=f"http://localhost:{port}", **codes)
            ended = outcome("web", bench)
            assert (ended.colour, ended.message.key) == (colour, f"classroom.web.{key}")


def test_an_address_that_is_silent_is_red_and_one_that_nobody_gave_is_not_judged(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("STREAMLIT_SERVER_PORT", raising=False)
    silent = outcome("web", bench_of(tmp_path, address=f"http://127.0.0.1:{free_port()}"))
    assert (silent.colour, silent.message.key) == (RED, "classroom.web.red_silent")
    wrong = outcome("web", bench_of(tmp_path, address="ftp://lab.school.vn"))
    assert (wrong.colour, wrong.message.key) == (RED, "classroom.web.red_address")
    assert outcome("web", bench_of(tmp_path)).colour is Colour.NOT_JUDGED
    monkeypatch.setenv("STREAMLIT_SERVER_PORT", "8599")
    assert bench_of(tmp_path).address == "http://localhost:8599/"
