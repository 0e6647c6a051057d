"""The tables of the records. A change here needs a migration: see `core.records.migrations`."""

from __future__ import annotations

from sqlalchemy import Double, Index, LargeBinary, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAME_LENGTH = 80
QUESTION_LENGTH = 64
ANSWER_LENGTH = 32
RULE_LENGTH = 64
PROMPT_LENGTH = 300


class Table(DeclarativeBase):
    pass


class Fact(Table):
    """Facts about the database itself."""

    __tablename__ = "lab"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(String(64))


class Student(Table):
    """Everybody of whom something is kept, named or not."""

    __tablename__ = "students"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), default="")
    admission: Mapped[str] = mapped_column(String(64), default="")  # proof that a code was typed
    seen_at: Mapped[float] = mapped_column(
        Double, server_default="0"
    )  # Unix seconds, of the last write


class Job(Table):
    __tablename__ = "jobs"
    __table_args__ = (Index("jobs_of_student", "student", "activity", "number"),)

    # Counts up with each save, so the newest is known even where the clock has jumped.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    student: Mapped[str] = mapped_column(String(64))  # hash of the token
    activity: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))
    finished_at: Mapped[float] = mapped_column(Double)  # Unix seconds
    view: Mapped[bytes] = mapped_column(LargeBinary)  # the JobView in msgpack, without the token


class Guess(Table):
    """What a student answered to a question of the lab."""

    __tablename__ = "guesses"

    question: Mapped[str] = mapped_column(String(QUESTION_LENGTH), primary_key=True)
    student: Mapped[str] = mapped_column(String(64), primary_key=True)  # hash of the token
    answer: Mapped[str] = mapped_column(String(ANSWER_LENGTH))


class Decision(Table):
    """How often the prompt check decided so on one day; whose sentences they were is not kept."""

    __tablename__ = "prompt_decisions"

    day: Mapped[str] = mapped_column(String(10), primary_key=True)  # ISO date, of this machine
    decision: Mapped[str] = mapped_column(String(16), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)  # "" for "allow"
    rule: Mapped[str] = mapped_column(String(RULE_LENGTH), primary_key=True)
    count: Mapped[int]


class Prompt(Table):
    """The words of a sentence that was not drawn; only where the teacher turned that on."""

    __tablename__ = "refused_prompts"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    day: Mapped[str] = mapped_column(String(10))
    decision: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16))
    rule: Mapped[str] = mapped_column(String(RULE_LENGTH))
    prompt: Mapped[str] = mapped_column(String(PROMPT_LENGTH))
