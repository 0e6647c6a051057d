"""Opening the database of the records: SQLite in a file or in memory, or a PostgreSQL server."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from core.problems import Problem
from core.records.migrations import NewerDatabase, bring_up_to_date
from core.records.tables import Fact

WAIT_SECONDS = 5  # for another writer, or for a database server to answer
RETRY_SECONDS = 0.02

_log = logging.getLogger(__name__)


def open_database(url_or_path: str | Path) -> Engine:
    """A database with the tables that this code needs, which has just been written to.

    Raises Problem where it cannot be opened or not be written, or is newer than this code.
    """
    where = str(url_or_path)
    try:
        url = _url(url_or_path)
        where = url.database if url.drivername == "sqlite" and url.database else repr(url)
        engine = _engine(url)
    except (ArgumentError, ValueError):
        # Not a URL, but it may hold a password all the same: the error's text goes nowhere.
        raise Problem("problem.records_url") from None
    except (OSError, ImportError) as error:
        raise _unusable(where, error) from error
    try:
        bring_up_to_date(engine)
        # Tables that are there already tell nothing of the disk: this writes for certain.
        try:
            _note_opening(engine)
        except IntegrityError:  # another server has opened it for the first time just now
            _note_opening(engine)
    except NewerDatabase as error:
        engine.dispose()
        raise Problem("problem.records_newer", where=where) from error
    except (SQLAlchemyError, OSError) as error:
        engine.dispose()
        raise _unusable(where, error) from error
    return engine


def _note_opening(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        session.merge(Fact(name="opened", value=f"{time.time():.3f}"))


def _unusable(where: str, error: Exception) -> Problem:
    _log.error("the database %s cannot be used: %s", where, error)
    return Problem("problem.records_unusable", where=where)


def _url(url_or_path: str | Path) -> URL:
    """Raises ArgumentError for a text that is no URL, and OSError if no folder can be made."""
    if isinstance(url_or_path, Path):
        url_or_path.parent.mkdir(parents=True, exist_ok=True)
        return URL.create("sqlite", database=str(url_or_path))
    url = make_url(url_or_path)
    if url.drivername in ("postgresql", "postgres"):  # as hosts write it; psycopg 3 is what we have
        return url.set(drivername="postgresql+psycopg")
    return url


def _engine(url: URL) -> Engine:
    backend = url.get_backend_name()
    if backend != "sqlite":
        waits = {"connect_timeout": WAIT_SECONDS} if backend == "postgresql" else {}
        return create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=waits)
    # In memory, each connection would be a database of its own: threads take turns with one.
    size = 1 if url.database in (None, "", ":memory:") else 5
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,  # an error in the log shows no student's name
        connect_args={"check_same_thread": False, "timeout": WAIT_SECONDS},
    )
    event.listen(engine, "connect", _write_ahead)
    return engine


def _write_ahead(connection: Any, _record: object) -> None:
    """Readers do not wait for a writer, and a crash loses no more than the row being written.

    Where two processes turn this on at the same moment, SQLite refuses one of them without a wait.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # whichever kind of it
            if not busy or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)
