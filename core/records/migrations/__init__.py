"""From whatever a database is to the tables of `core.records.tables`, step by step, by Alembic.

To change a table: change it there, add the next file to `versions/`, and name it in `HEAD`.
Files that were once released stay as they are. A test compares the outcome with the tables.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

HEAD = "0002"  # the newest file in `versions/`
LOCK = 0x6C6162  # a number for PostgreSQL's advisory lock, the same for every lab
FOLDER = Path(__file__).parent

_one_at_a_time = threading.Lock()  # Alembic works with globals: threads of this process take turns


class NewerDatabase(Exception):
    """The database was brought up to date by a newer version of the lab than this one."""


def bring_up_to_date(engine: Engine) -> None:
    """Give the database the tables that this code needs; nothing that is in it is lost.

    All of it is one transaction that keeps other processes out, so that two servers may start at
    once and a crash leaves the database as it was. A current database costs two short queries.

    Raises NewerDatabase, and SQLAlchemyError where the database cannot be read or written.
    """
    with engine.connect() as connection:
        if _revision(connection) == HEAD:
            return
    with _one_at_a_time, engine.begin() as connection:
        _keep_others_out(connection)
        revision = _revision(connection)  # another process may have done the work meanwhile
        if revision != HEAD:
            _upgrade(connection, revision)


def _revision(connection: Connection) -> str | None:
    """The last step that this database took; None for an empty one, and for one of a lab that
    made its tables without Alembic."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _keep_others_out(connection: Connection) -> None:
    """Until the end of this transaction."""
    if connection.dialect.name == "sqlite":
        # Also because Python's sqlite3 would begin no transaction for CREATE and ALTER TABLE.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


def _upgrade(connection: Connection, revision: str | None) -> None:
    # Imported only here: it takes 0.2 s, and a database needs it once.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise NewerDatabase(f"revision {revision}; the newest known here is {HEAD}")
    command.upgrade(config, HEAD)
