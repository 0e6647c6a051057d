"""What each student measured, and who they say they are: kept through restarts of the server.

A student is known by a token that only their browser holds. The database holds its SHA-256, so a
copy of the file lets nobody act as a student.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    URL,
    Engine,
    Index,
    LargeBinary,
    QueuePool,
    String,
    create_engine,
    delete,
    event,
    func,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from core.engine.view import JobState, JobView
from core.problems import Notice, Problem
from core.safety.prompts import Verdict
from core.settings import LabSettings

FILE_NAME = "lab.db"
MEMORY = "sqlite://"
SCHEMA = "3"  # of the tables below; for whoever has to bring an older database up to date
NAME_LENGTH = 80
RULE_LENGTH = 64
PROMPT_LENGTH = 300
MOST_PROMPTS = 1_000  # that are kept; older ones go
WAIT_SECONDS = 5  # for another writer, or for a database server to answer

NO_SYNC = {"synchronize_session": False}  # the session holds none of these rows

T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Table(DeclarativeBase):
    pass


class _Lab(_Table):
    """Facts about the database itself."""

    __tablename__ = "lab"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(String(64))


class _Student(_Table):
    __tablename__ = "students"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), default="")
    admission: Mapped[str] = mapped_column(String(64), default="")  # see `_admission`


class _Job(_Table):
    __tablename__ = "jobs"
    __table_args__ = (Index("jobs_of_student", "student", "activity", "number"),)

    # Counts up with each save, so the newest is known even where the clock has jumped.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    student: Mapped[str] = mapped_column(String(64))  # hash of the token
    activity: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))
    finished_at: Mapped[float]  # Unix seconds
    view: Mapped[bytes] = mapped_column(LargeBinary)  # the JobView in msgpack, without the token


class _Guess(_Table):
    """What a student thought before the lab gave its own answer; the first thought stays."""

    __tablename__ = "guesses"

    question: Mapped[str] = mapped_column(String(64), primary_key=True)
    student: Mapped[str] = mapped_column(String(64), primary_key=True)  # hash of the token
    answer: Mapped[str] = mapped_column(String(32))


class _Decision(_Table):
    """How often the prompt check decided so on one day; whose sentences they were is not kept."""

    __tablename__ = "prompt_decisions"

    day: Mapped[str] = mapped_column(String(10), primary_key=True)  # ISO date, of this machine
    decision: Mapped[str] = mapped_column(String(16), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)  # "" for "allow"
    rule: Mapped[str] = mapped_column(String(RULE_LENGTH), primary_key=True)
    count: Mapped[int]


class _Prompt(_Table):
    """The words of a sentence that was not drawn; only where the teacher turned that on."""

    __tablename__ = "refused_prompts"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    day: Mapped[str] = mapped_column(String(10))
    decision: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16))
    rule: Mapped[str] = mapped_column(String(RULE_LENGTH))
    prompt: Mapped[str] = mapped_column(String(PROMPT_LENGTH))


class DecisionCount(msgspec.Struct, frozen=True):
    """For the teacher: how often the prompt check decided so."""

    day: str  # ISO date
    decision: str  # "allow", "ask" or "refuse"
    kind: str  # "" for "allow"
    rule: str
    count: int


class RefusedPrompt(msgspec.Struct, frozen=True):
    """For the teacher: a sentence that was not drawn."""

    day: str
    decision: str
    kind: str
    rule: str
    prompt: str


class ClassResult(msgspec.Struct, frozen=True):
    """One finished job of the class, for all to see: whose by name at most, never by token."""

    who: int  # the same number for the same student, within one answer only
    name: str  # as the student gave it; empty if none
    mine: bool  # of the student who asks
    settings: dict[str, Any]
    values: dict[str, Any]  # as in the activity's `Result`


class _Outcome(msgspec.Struct):
    """The few fields of a kept `JobView` that a `ClassResult` needs: readings are passed over."""

    settings: dict[str, Any]
    result: dict[str, Any] | None = None


class Records:
    """The one store of the server; every method may be called by any thread.

    Once open it does not fail a lesson: a write that does not succeed is logged and told in
    `notice`, and what cannot be read is as if it were not there. Only `delete_student` raises.
    """

    def __init__(self, url_or_path: str | Path) -> None:
        """Raises Problem where the database cannot be opened or not be written."""
        self._standing: Notice | None = None
        self._trouble: Notice | None = None
        self._outcomes: dict[tuple[str, float], _Outcome | None] = {}  # of jobs the class sees
        where = str(url_or_path)
        try:
            url = _url(url_or_path)
            where = url.database if url.drivername == "sqlite" and url.database else repr(url)
            self._engine = _engine(url)
            _Table.metadata.create_all(self._engine)
            with Session(self._engine) as session, session.begin():
                session.merge(_Lab(name="schema", value=SCHEMA))
                # Tables that are there already tell nothing of the disk: this writes for certain.
                session.merge(_Lab(name="opened", value=f"{time.time():.3f}"))
        except (ArgumentError, ValueError):
            # Not a URL, but it may hold a password all the same: the error's text goes nowhere.
            raise Problem("problem.records_url") from None
        except (SQLAlchemyError, OSError, ImportError) as error:
            _log.error("the database %s cannot be used: %s", where, error)
            raise Problem("problem.records_unusable", where=where) from error

    @classmethod
    def open(cls, settings: LabSettings) -> Records:
        """The store that the settings name; one in memory, with a `notice`, if it is unusable."""
        try:
            return cls(settings.database_url or settings.cache / FILE_NAME)
        except Problem as problem:
            _log.warning("results are kept in memory only: %s", problem)
            records = cls(MEMORY)
            records._standing = problem.notice
            return records

    @property
    def notice(self) -> Notice | None:
        """What is wrong at this moment, to be shown; None when all is well."""
        return self._standing or self._trouble

    def close(self) -> None:
        self._engine.dispose()

    # Measured runs

    def save(self, view: JobView) -> None:
        """Keep a finished job. Saving it again replaces it and makes it the newest."""
        if not view.state.over:
            raise ValueError(f"job {view.id} is not over: {view.state}")
        blob = msgspec.msgpack.encode(replace(view, student=""))

        def work(session: Session) -> None:
            session.execute(delete(_Job).where(_Job.id == view.id))
            session.add(
                _Job(
                    id=view.id,
                    student=_hash(view.student),
                    activity=view.activity,
                    state=view.state.value,
                    finished_at=time.time(),
                    view=blob,
                )
            )

        self._write(work)

    def latest(
        self, student: str, activity: str, *, state: JobState | None = None
    ) -> JobView | None:
        """The student's newest job of this activity; with `state`, the newest that ended so."""
        query = _jobs(student).where(_Job.activity == activity)
        if state is not None:
            query = query.where(_Job.state == state.value)
        return self._read(lambda session: next(_views(session, query, student), None), None)

    def of_student(
        self, student: str, *, activity: str | None = None, limit: int | None = None
    ) -> tuple[JobView, ...]:
        """The jobs of this student, the newest first: all, or the last few, or of one activity."""
        query = _jobs(student).limit(limit)
        if activity is not None:
            query = query.where(_Job.activity == activity)
        return self._read(lambda session: tuple(_views(session, query, student)), ())

    # The class

    def of_class(self, activity: str, *, asked_by: str) -> tuple[ClassResult, ...]:
        """Every job of this activity that ended with a result, the newest first."""
        query = (
            select(_Job.id, _Job.finished_at, _Job.student, _Student.name)
            .join(_Student, _Student.token_hash == _Job.student, isouter=True)
            .where(_Job.activity == activity, _Job.state == JobState.DONE.value)
            .order_by(_Job.number.desc())
        )

        def work(session: Session) -> tuple[ClassResult, ...]:
            asker, numbers = _hash(asked_by), dict[str, int]()
            return tuple(
                ClassResult(
                    who=numbers.setdefault(student, len(numbers)),
                    name=name or "",
                    mine=student == asker,
                    settings=outcome.settings,
                    values=outcome.result or {},
                )
                for job, finished_at, student, name in session.execute(query).all()
                if (outcome := self._outcome(session, job, finished_at)) is not None
            )

        return self._read(work, ())

    def _outcome(self, session: Session, job: str, finished_at: float) -> _Outcome | None:
        """Settings and result of a kept job, read from its view once: that is large."""
        if (job, finished_at) not in self._outcomes:
            blob = session.execute(select(_Job.view).where(_Job.id == job)).scalar_one()
            try:
                outcome = msgspec.msgpack.decode(blob, type=_Outcome)
            except msgspec.MsgspecError as error:
                _log.warning("job %s was recorded by another version, passed over: %s", job, error)
                outcome = None
            self._outcomes[job, finished_at] = outcome
        return self._outcomes[job, finished_at]

    def guess(self, student: str, question: str, answer: str) -> None:
        """Keep what the student thinks, unless an earlier thought is kept already."""

        def work(session: Session) -> None:
            if session.get(_Guess, (question, _hash(student))) is None:
                session.add(_Guess(question=question, student=_hash(student), answer=answer))

        self._write(work)

    def guess_of(self, student: str, question: str) -> str | None:
        """What this student thought, or None before they said."""
        found = self._read(lambda session: session.get(_Guess, (question, _hash(student))), None)
        return found.answer if found else None

    def guesses(self, question: str) -> dict[str, int]:
        """Answer -> how many students gave it; who they were stays here."""
        query = (
            select(_Guess.answer, func.count())
            .where(_Guess.question == question)
            .group_by(_Guess.answer)
        )
        return self._read(
            lambda session: {str(answer): int(n) for answer, n in session.execute(query)}, {}
        )

    # The prompt check

    def count_decision(self, verdict: Verdict, *, words: str | None = None) -> None:
        """Count a decision for the teacher. `words`: the sentence, if it is to be kept as well,
        which is done only for one that may not be drawn."""
        decision = {
            "day": datetime.date.fromtimestamp(time.time()).isoformat(),
            "decision": verdict.decision,
            "kind": verdict.kind or "",
            "rule": (verdict.rule or "")[:RULE_LENGTH],
        }

        def work(session: Session) -> None:
            more = update(_Decision).filter_by(**decision).values(count=_Decision.count + 1)
            if not session.execute(more, execution_options=NO_SYNC).rowcount:  # type: ignore[attr-defined]
                session.add(_Decision(**decision, count=1))
            if words is not None and not verdict.allowed:
                text = words.encode(errors="replace").decode()[:PROMPT_LENGTH]
                kept = _Prompt(**decision, prompt=text.replace("\0", " "))
                session.add(kept)
                session.flush()
                too_old = _Prompt.number <= kept.number - MOST_PROMPTS
                session.execute(delete(_Prompt).where(too_old), execution_options=NO_SYNC)

        self._write(work)

    def decisions(self) -> tuple[DecisionCount, ...]:
        """The counts of every day, the newest day first, the most frequent first in it."""
        query = select(
            _Decision.day, _Decision.decision, _Decision.kind, _Decision.rule, _Decision.count
        ).order_by(_Decision.day.desc(), _Decision.count.desc(), _Decision.rule)
        return self._read(
            lambda session: tuple(DecisionCount(*row) for row in session.execute(query)), ()
        )

    def refused_prompts(self, *, limit: int = 100) -> tuple[RefusedPrompt, ...]:
        """Sentences that were not drawn, the newest first; none unless their words are kept."""
        query = (
            select(_Prompt.day, _Prompt.decision, _Prompt.kind, _Prompt.rule, _Prompt.prompt)
            .order_by(_Prompt.number.desc())
            .limit(limit)
        )
        return self._read(
            lambda session: tuple(RefusedPrompt(*row) for row in session.execute(query)), ()
        )

    # Students

    def name(self, student: str) -> str:
        """The name that the student gave; empty if none."""
        found = self._student(student)
        return found.name if found else ""

    def rename(self, student: str, name: str) -> None:
        """Names are for people to read: spaces are tidied, and long ones are cut."""
        tidy = " ".join(name.split())[:NAME_LENGTH]
        self._write(lambda session: _put(session, student, name=tidy))

    def admit(self, student: str, class_code: str) -> None:
        """Note that the student has typed this class code."""
        admission = _admission(student, class_code)
        self._write(lambda session: _put(session, student, admission=admission))

    def admitted(self, student: str, class_code: str) -> bool:
        """Whether the student has typed this code before; a new code has to be typed again."""
        found = self._student(student)
        return found is not None and found.admission == _admission(student, class_code)

    def delete_student(self, student: str) -> None:
        """Forget everything about this student. Raises Problem if that did not work."""

        def work(session: Session) -> None:
            session.execute(delete(_Job).where(_Job.student == _hash(student)))
            session.execute(delete(_Guess).where(_Guess.student == _hash(student)))
            session.execute(delete(_Student).where(_Student.token_hash == _hash(student)))

        if not self._write(work):
            raise Problem("problem.records_delete")

    def _student(self, student: str) -> _Student | None:
        return self._read(lambda session: session.get(_Student, _hash(student)), None)

    # The two ways to the database

    def _write(self, work: Callable[[Session], None]) -> bool:
        """Do `work` in one transaction: all of it or nothing. Gives whether it was done."""
        try:
            try:
                self._transact(work)
            except IntegrityError:  # another thread has just added the same row: it is there now
                self._transact(work)
        except SQLAlchemyError as error:
            _log.error("not recorded: %s", error)
            self._trouble = Notice("problem.records_unwritable")
            return False
        self._trouble = None
        return True

    def _transact(self, work: Callable[[Session], None]) -> None:
        with Session(self._engine) as session, session.begin():
            work(session)

    def _read(self, work: Callable[[Session], T], otherwise: T) -> T:
        try:
            with Session(self._engine, expire_on_commit=False) as session:
                return work(session)
        except SQLAlchemyError as error:
            _log.error("the records cannot be read: %s", error)
            return otherwise


def _jobs(student: str) -> Any:
    newest_first = _Job.number.desc()
    return select(_Job.id, _Job.view).where(_Job.student == _hash(student)).order_by(newest_first)


def _views(session: Session, query: Any, student: str) -> Iterator[JobView]:
    for job, blob in session.execute(query):
        try:
            yield replace(msgspec.msgpack.decode(blob, type=JobView), student=student)
        except msgspec.MsgspecError as error:
            _log.warning("job %s was recorded by another version, passed over: %s", job, error)


def _put(session: Session, student: str, **values: str) -> None:
    found = session.get(_Student, _hash(student))
    if found is None:
        session.add(_Student(token_hash=_hash(student), **values))
    else:
        for field, value in values.items():
            setattr(found, field, value)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _admission(student: str, class_code: str) -> str:
    """Proof that this student typed this code; of no use without the token, which is not kept."""
    return _hash(f"{student} {class_code}")


def _url(url_or_path: str | Path) -> URL:
    """Raises ArgumentError for a text that is no URL, and OSError if no folder can be made."""
    if isinstance(url_or_path, Path):
        url_or_path.parent.mkdir(parents=True, exist_ok=True)
        return URL.create("sqlite", database=str(url_or_path))
    return make_url(url_or_path)


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
    """Readers do not wait for a writer, and a crash loses no more than the row being written."""
    connection.execute("PRAGMA journal_mode = WAL")
