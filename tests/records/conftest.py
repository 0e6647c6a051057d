"""A PostgreSQL server for the tests that want one: Debian's, on a socket of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 30
INITDB = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
SERVER = ["-c", "listen_addresses=", "-F", "-c", "full_page_writes=off"]  # all is thrown away


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The folder of its socket; "lab" may connect, without a password."""
    programs = max(DEBIAN.glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]), default=None)
    if programs is None:
        pytest.skip("needs PostgreSQL (apt-get install postgresql), and there is none here")
    account: dict[str, object] = {}
    if os.getuid() == 0:  # initdb and the server refuse to work as root
        if not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
            pytest.skip("needs an account to run PostgreSQL as: it refuses to work as root")
        if not os.stat(os.devnull).st_mode & stat.S_IWOTH:
            pytest.skip(f"needs a {os.devnull} that every account may write to: initdb uses it")
        account = {"user": "postgres", "group": "postgres", "extra_groups": []}
    # A short path, which a socket needs, and one that the account may enter: no `tmp_path`.
    home = Path(tempfile.mkdtemp(prefix="lab-postgresql-"))
    try:
        if account:
            shutil.chown(home, "postgres", "postgres")
        run = {"cwd": home, "stdin": subprocess.DEVNULL, **account}
        subprocess.run(
            [programs, "-D", home / "data", "-U", "lab", *INITDB],
            check=True,
            capture_output=True,
            timeout=START_SECONDS,
            **run,
        )
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs.with_name("postgres"), "-D", home / "data", "-k", home, *SERVER],
                stdout=log,
                stderr=log,
                **run,
            )
        try:
            wait_for(server, home)
            yield str(home)
        finally:
            server.send_signal(signal.SIGQUIT)  # at once, with all its connections
            server.wait(START_SECONDS)
    finally:
        shutil.rmtree(home)


def wait_for(server: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(host=str(home), user="lab", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            over = server.poll() is not None or time.monotonic() > deadline
            assert not over, (home / "log").read_text()
        time.sleep(0.02)


@pytest.fixture(scope="session")
def make_postgresql(postgresql_server):
    """Makes an empty database at each call, and gives its address, as a host would write it."""
    numbers = iter(range(1_000))

    def make() -> str:
        name = f"lab{next(numbers)}"
        with psycopg.connect(
            host=postgresql_server, user="lab", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        url = URL.create("postgresql", "lab", database=name, query={"host": postgresql_server})
        return url.render_as_string()

    return make


@pytest.fixture(scope="session")
def shared_postgresql(make_postgresql):
    """One database for many tests: whoever uses it empties it."""
    return make_postgresql()
