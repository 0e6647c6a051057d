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
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from core.engine.view import JobState, JobView
from core.problems import Notice, Problem
from core.records.database import open_database
from core.records.tables import (
    ANSWER_LENGTH,
    NAME_LENGTH,
    PROMPT_LENGTH,
    QUESTION_LENGTH,
    RULE_LENGTH,
    Decision,
    Guess,
    Job,
    Prompt,
    Student,
)
from core.safety.prompts import Verdict
from core.settings import LabSettings

FILE_NAME = "lab.db"
MEMORY = "sqlite://"
DAY = 86_400.0  # seconds
MOST_PROMPTS = 1_000  # that are kept; older ones go

NO_SYNC = {"synchronize_session": False}  # the session holds none of these rows

T = TypeVar("T")
_log = logging.getLogger(__name__)


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
    `notice`, and what cannot be read is as if it were not there. Only deleting raises.
    """

    def __init__(self, url_or_path: str | Path) -> None:
        """Raises Problem where the database cannot be opened or written, or is too new."""
        self._standing: Notice | None = None
        self._trouble: Notice | None = None
        self._outcomes: dict[tuple[str, float], _Outcome | None] = {}  # of jobs the class sees
        self._engine = open_database(url_or_path)

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
            _put(session, view.student)
            session.execute(delete(Job).where(Job.id == view.id))
            session.add(
                Job(
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
        query = _jobs(student).where(Job.activity == activity)
        if state is not None:
            query = query.where(Job.state == state.value)
        return self._read(lambda session: next(_views(session, query, student), None), None)

    def of_student(
        self, student: str, *, activity: str | None = None, limit: int | None = None
    ) -> tuple[JobView, ...]:
        """The jobs of this student, the newest first: all, or the last few, or of one activity."""
        query = _jobs(student).limit(limit)
        if activity is not None:
            query = query.where(Job.activity == activity)
        return self._read(lambda session: tuple(_views(session, query, student)), ())

    def size_of(self, student: str) -> tuple[int, int]:
        """How many jobs of this student are kept, and their bytes; none of them is read for it."""
        size = func.coalesce(func.sum(func.length(Job.view)), 0)
        query = select(func.count(), size).where(Job.student == _hash(student))

        def work(session: Session) -> tuple[int, int]:
            count, size = session.execute(query).one()
            return int(count), int(size)

        return self._read(work, (0, 0))

    # The class

    def of_class(self, activity: str, *, asked_by: str) -> tuple[ClassResult, ...]:
        """Every job of this activity that ended with a result, the newest first."""
        query = (
            select(Job.id, Job.finished_at, Job.student, Student.name)
            .join(Student, Student.token_hash == Job.student, isouter=True)
            .where(Job.activity == activity, Job.state == JobState.DONE.value)
            .order_by(Job.number.desc())
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
        outcomes = self._outcomes  # another thread may put a new one in its place
        if (job, finished_at) not in outcomes:
            blob = session.execute(select(Job.view).where(Job.id == job)).scalar_one_or_none()
            try:
                outcome = blob and msgspec.msgpack.decode(blob, type=_Outcome)
            except msgspec.MsgspecError as error:
                _log.warning("job %s was recorded by another version, passed over: %s", job, error)
                outcome = None
            outcomes[job, finished_at] = outcome or None
        return outcomes[job, finished_at]

    # Questions and answers

    def guess(self, student: str, question: str, answer: str) -> None:
        """Keep what the student thinks, unless an earlier thought is kept already."""
        self._answer(student, question, answer, replacing=False)

    def answer(self, student: str, question: str, answer: str) -> None:
        """Keep what the student answers, in place of an earlier answer."""
        self._answer(student, question, answer, replacing=True)

    def _answer(self, student: str, question: str, answer: str, *, replacing: bool) -> None:
        """Questions and answers are ids, not free text: one that is too long is a ValueError."""
        if len(question) > QUESTION_LENGTH or len(answer) > ANSWER_LENGTH:
            raise ValueError(f"too long to be kept: {question!r}, {answer!r}")

        def work(session: Session) -> None:
            _put(session, student)
            found = session.get(Guess, (question, _hash(student)))
            if found is None:
                session.add(Guess(question=question, student=_hash(student), answer=answer))
            elif replacing:
                found.answer = answer

        self._write(work)

    def guess_of(self, student: str, question: str) -> str | None:
        """What this student thought, or None before they said."""
        found = self._read(lambda session: session.get(Guess, (question, _hash(student))), None)
        return found.answer if found else None

    def guesses_of(self, student: str) -> dict[str, str]:
        """Question -> this student's answer, of all that they have answered."""
        query = (
            select(Guess.question, Guess.answer)
            .where(Guess.student == _hash(student))
            .order_by(Guess.question)
        )
        return self._read(
            lambda session: {str(question): str(a) for question, a in session.execute(query)}, {}
        )

    def guesses(self, question: str) -> dict[str, int]:
        """Answer -> how many students gave it; who they were stays here."""
        query = (
            select(Guess.answer, func.count())
            .where(Guess.question == question)
            .group_by(Guess.answer)
        )
        return self._read(
            lambda session: {str(answer): int(n) for answer, n in session.execute(query)}, {}
        )

    # The prompt check

    def count_decision(self, verdict: Verdict, *, words: str | None = None) -> None:
        """Count a decision for the teacher. `words`: the sentence, if it is to be kept as well,
        which is done only for one that may not be drawn."""
        decision = {
            "day": _day(time.time()),
            "decision": verdict.decision,
            "kind": verdict.kind or "",
            "rule": (verdict.rule or "")[:RULE_LENGTH],
        }

        def work(session: Session) -> None:
            more = update(Decision).filter_by(**decision).values(count=Decision.count + 1)
            if not session.execute(more, execution_options=NO_SYNC).rowcount:  # type: ignore[attr-defined]
                session.add(Decision(**decision, count=1))
            if words is not None and not verdict.allowed:
                text = words.encode(errors="replace").decode()[:PROMPT_LENGTH]
                kept = Prompt(**decision, prompt=text.replace("\0", " "))
                session.add(kept)
                session.flush()
                too_old = Prompt.number <= kept.number - MOST_PROMPTS
                session.execute(delete(Prompt).where(too_old), execution_options=NO_SYNC)

        self._write(work)

    def decisions(self) -> tuple[DecisionCount, ...]:
        """The counts of every day, the newest day first, the most frequent first in it."""
        query = select(
            Decision.day, Decision.decision, Decision.kind, Decision.rule, Decision.count
        ).order_by(Decision.day.desc(), Decision.count.desc(), Decision.rule)
        return self._read(
            lambda session: tuple(DecisionCount(*row) for row in session.execute(query)), ()
        )

    def refused_prompts(self, *, limit: int = 100) -> tuple[RefusedPrompt, ...]:
        """Sentences that were not drawn, the newest first; none unless their words are kept."""
        query = (
            select(Prompt.day, Prompt.decision, Prompt.kind, Prompt.rule, Prompt.prompt)
            .order_by(Prompt.number.desc())
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
        tidy = " ".join(name.replace("\0", " ").split())[:NAME_LENGTH]
        self._write(lambda session: _put(session, student, name=tidy))

    def admit(self, student: str, class_code: str) -> None:
        """Note that the student has typed this class code."""
        admission = _admission(student, class_code)
        self._write(lambda session: _put(session, student, admission=admission))

    def admitted(self, student: str, class_code: str) -> bool:
        """Whether the student has typed this code before; a new code has to be typed again."""
        found = self._student(student)
        return found is not None and found.admission == _admission(student, class_code)

    # Forgetting

    def delete_student(self, student: str) -> None:
        """Forget everything about this student. Raises Problem if that did not work."""
        self._delete(student, results_only=False)

    def delete_results(self, student: str) -> None:
        """Forget what this student measured and answered; their name and admission stay.

        Raises Problem if that did not work.
        """
        self._delete(student, results_only=True)

    def _delete(self, student: str, *, results_only: bool) -> None:
        def work(session: Session) -> None:
            # The student first, as whoever writes does: so two of them never wait for each other.
            if not results_only:
                session.execute(delete(Student).where(Student.token_hash == _hash(student)))
            session.execute(delete(Job).where(Job.student == _hash(student)))
            session.execute(delete(Guess).where(Guess.student == _hash(student)))

        if not self._write(work):
            raise Problem("problem.records_delete")
        self._outcomes = {}

    def forget_old(self, days: int) -> int:
        """Delete jobs and refused sentences older than so many days, and all of the students who
        have left nothing since. Returns how many jobs are gone; 0 days: keep everything.
        """
        if days <= 0:
            return 0
        before = time.time() - days * DAY
        gone = 0

        def work(session: Session) -> None:
            nonlocal gone
            known = select(Student.token_hash)
            *_, jobs = [
                session.execute(query, execution_options=NO_SYNC)
                for query in (
                    # `seen_at` is never before the student's newest job.
                    delete(Student).where(Student.seen_at < before),
                    delete(Guess).where(Guess.student.not_in(known)),
                    delete(Prompt).where(Prompt.day < _day(before)),
                    delete(Job).where(Job.finished_at < before),
                )
            ]
            gone = jobs.rowcount  # type: ignore[attr-defined]

        if not self._write(work):
            return 0
        self._outcomes = {}
        return gone

    def _student(self, student: str) -> Student | None:
        return self._read(lambda session: session.get(Student, _hash(student)), None)

    # The two ways to the database

    def _write(self, work: Callable[[Session], None]) -> bool:
        """Do `work` in one transaction: all of it or nothing. Gives whether it was done."""
        try:
            try:
                self._transact(work)
            except (IntegrityError, StaleDataError):
                # Another thread has just added the same row, or has taken this one away.
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
    newest_first = Job.number.desc()
    return select(Job.id, Job.view).where(Job.student == _hash(student)).order_by(newest_first)


def _views(session: Session, query: Any, student: str) -> Iterator[JobView]:
    for job, blob in session.execute(query):
        try:
            yield replace(msgspec.msgpack.decode(blob, type=JobView), student=student)
        except msgspec.MsgspecError as error:
            _log.warning("job %s was recorded by another version, passed over: %s", job, error)


def _put(session: Session, student: str, **values: str) -> None:
    """Note what is new of this student, and that they were here.

    Whoever writes about a student does this first: others wait until that transaction is over.
    """
    news = {**values, "seen_at": time.time()}
    row = {"token_hash": _hash(student), "name": "", "admission": "", **news}
    on_postgresql = session.get_bind().dialect.name == "postgresql"
    insert: Any = postgresql.insert if on_postgresql else sqlite.insert
    upsert = insert(Student).on_conflict_do_update(index_elements=["token_hash"], set_=news)
    session.execute(upsert, row)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _admission(student: str, class_code: str) -> str:
    """Proof that this student typed this code; of no use without the token, which is not kept."""
    return _hash(f"{student} {class_code}")


def _day(unix_seconds: float) -> str:
    return datetime.date.fromtimestamp(unix_seconds).isoformat()
