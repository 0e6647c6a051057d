"""A database of any age becomes one that this code knows, and nothing in it is lost."""

import hashlib
import sqlite3
import subprocess
import sys

import msgspec
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from msgspec.structs import replace

from core.problems import Problem
from core.records.database import open_database
from core.records.migrations import FOLDER, HEAD
from core.records.store import FILE_NAME, Records
from core.records.tables import Table
from core.settings import LabSettings
from core.texts import LANGUAGES, texts
from tests.records.test_store import AN, BINH, ROOT, VIEW, later

# As the lab made them (its schema "3") before it had migrations; PostgreSQL reads this as well,
# once the numbers count by themselves and bytes are called so.
OF_SCHEMA_3 = """
CREATE TABLE lab (name VARCHAR(32) NOT NULL, value VARCHAR(64) NOT NULL, PRIMARY KEY (name));
CREATE TABLE students (token_hash VARCHAR(64) NOT NULL, name VARCHAR(80) NOT NULL,
    admission VARCHAR(64) NOT NULL, PRIMARY KEY (token_hash));
CREATE TABLE jobs (number INTEGER NOT NULL, id VARCHAR(64) NOT NULL, student VARCHAR(64) NOT NULL,
    activity VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL, finished_at DOUBLE NOT NULL,
    "view" BLOB NOT NULL, PRIMARY KEY (number), UNIQUE (id));
CREATE INDEX jobs_of_student ON jobs (student, activity, number);
CREATE TABLE guesses (question VARCHAR(64) NOT NULL, student VARCHAR(64) NOT NULL,
    answer VARCHAR(32) NOT NULL, PRIMARY KEY (question, student));
CREATE TABLE prompt_decisions (day VARCHAR(10) NOT NULL, decision VARCHAR(16) NOT NULL,
    kind VARCHAR(16) NOT NULL, rule VARCHAR(64) NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (day, decision, kind, rule));
CREATE TABLE refused_prompts (number INTEGER NOT NULL, day VARCHAR(10) NOT NULL,
    decision VARCHAR(16) NOT NULL, kind VARCHAR(16) NOT NULL, rule VARCHAR(64) NOT NULL,
    prompt VARCHAR(300) NOT NULL, PRIMARY KEY (number));
INSERT INTO lab VALUES ('schema', '3');
"""
FOR_POSTGRESQL = {"number INTEGER": "number SERIAL", "DOUBLE": "DOUBLE PRECISION", "BLOB": "BYTEA"}


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """Of a database that is not there yet, or is empty."""
    if request.param == "postgresql":
        return request.getfixturevalue("make_postgresql")()
    return f"sqlite:///{tmp_path / FILE_NAME}"


def connect(address):
    if address.startswith("sqlite"):
        return sqlite3.connect(address.removeprefix("sqlite:///"))
    return psycopg.connect(address)


def run_sql(address, script, *rows):
    """Runs statements; and, for each of `rows`, one statement with its values."""
    connection, sign = connect(address), "?"
    if address.startswith("postgresql"):
        sign = "%s"
        for old, new in FOR_POSTGRESQL.items():
            script = script.replace(old, new)
    for statement in script.split(";"):
        if statement.strip():
            connection.execute(statement)
    for statement, values in rows:
        connection.execute(statement.replace("?", sign), values)
    connection.commit()
    connection.close()


def ask_sql(address, question):
    connection = connect(address)
    (answer,) = connection.execute(question).fetchone()
    connection.close()
    return answer


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def differences(address):
    engine = open_database(address)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), Table.metadata)
    engine.dispose()
    return found


def test_the_migrations_make_the_tables_that_the_code_describes(address):
    assert differences(address) == []


def test_the_newest_migration_is_the_one_that_the_code_asks_for():
    assert ScriptDirectory(str(FOLDER)).get_heads() == [HEAD]


def test_a_database_from_before_the_migrations_is_brought_up_to_date(address, monkeypatch):
    blob = msgspec.msgpack.encode(replace(VIEW, student=""))
    job = (1, "job-1", digest(AN), "cpu-vs-gpu", "done", 1_700_000_000.0, blob)
    run_sql(
        address,
        OF_SCHEMA_3,
        ("INSERT INTO students VALUES (?, ?, ?)", (digest(AN), "An", "")),
        ("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", job),
        ("INSERT INTO guesses VALUES (?, ?, ?)", ("loader", digest(BINH), "data")),
        ("INSERT INTO prompt_decisions VALUES (?, ?, ?, ?, ?)", ("2026-09-01", "allow", "", "", 7)),
    )

    records = Records(address)

    assert records.of_student(AN) == (VIEW,)
    assert records.name(AN) == "An"
    assert records.guesses_of(BINH) == {"loader": "data"}
    assert [count.count for count in records.decisions()] == [7]
    records.forget_old(180)  # nobody knows when they were here: they count as seen today
    assert (records.name(AN), records.guesses_of(BINH)) == ("An", {"loader": "data"})
    later(monkeypatch, days=181)
    records.forget_old(180)
    assert (records.name(AN), records.guesses_of(BINH)) == ("", {})
    records.close()
    assert differences(address) == []


def test_a_still_older_database_gets_the_tables_that_it_lacks(tmp_path):
    address = f"sqlite:///{tmp_path / FILE_NAME}"
    run_sql(address, OF_SCHEMA_3 + "DROP TABLE guesses; DROP TABLE refused_prompts;")

    assert differences(address) == []


def test_a_newer_database_is_refused_and_left_alone(address, caplog):
    Records(address).close()
    run_sql(address, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(Problem) as caught:
        Records(address)
    records = Records.open(LabSettings(database_url=address))
    records.save(VIEW)

    assert caught.value.notice.key == "problem.records_newer"
    assert records.notice == caught.value.notice
    records.close()
    assert ask_sql(address, "SELECT version_num FROM alembic_version") == "9999"
    assert ask_sql(address, "SELECT count(*) FROM jobs") == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_refusal_of_a_newer_database_is_one_sentence_that_names_it(language):
    notice = Problem("problem.records_newer", where="/srv/lab.db").notice

    sentence = texts(language).notice(notice)

    assert "/srv/lab.db" in sentence
    assert sentence.endswith(".")


OPEN_AND_SAVE = """
import sys
from tests.records.test_store import Records, job
print("ready", flush=True)
for address in sys.stdin:
    records = Records(address.strip())
    records.save(job(sys.argv[1]))
    print(records.notice, flush=True)
    records.close()
"""


@pytest.fixture(scope="module")
def servers():
    """Two processes that open each database they are told, at the same moment."""
    servers = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AND_SAVE, str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    assert [server.stdout.readline() for server in servers] == ["ready\n"] * 2
    yield servers
    for server in servers:
        server.communicate()


def all_open(servers, address):
    for server in servers:
        server.stdin.write(f"{address}\n")
        server.stdin.flush()
    assert [server.stdout.readline() for server in servers] == ["None\n"] * 2
    assert ask_sql(address, "SELECT count(*) FROM jobs") == 2
    assert ask_sql(address, "SELECT count(*) FROM alembic_version") == 1


def test_two_servers_may_start_at_once_on_a_new_file(servers, tmp_path):
    for number in range(6):
        all_open(servers, f"sqlite:///{tmp_path}/{number}.db")


def test_two_servers_may_start_at_once_on_a_new_postgresql_database(servers, make_postgresql):
    for _ in range(3):
        all_open(servers, make_postgresql())
