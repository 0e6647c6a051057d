"""The door to the engine: what pages may ask of it, whichever backend answers."""

from __future__ import annotations

from typing import Protocol

from core.activities import ActivitySettings
from core.context import Wish
from core.engine.holdings import Holdings
from core.engine.view import JobView


class Engine(Protocol):
    """Runs activities for students. All methods answer at once and may be called by any thread."""

    def submit(self, student: str, activity: str, settings: ActivitySettings) -> str:
        """Queue a job and give its id; the id of the student's unfinished job of that activity if
        there is one, so a second click changes nothing.

        Raises Problem when the student or the class has too many unfinished jobs.
        """

    def cancel(self, job: str, *, student: str) -> None:
        """Ask a job of this student to stop; no effect if it is over, unknown or another's."""

    def steer(self, job: str, wish: Wish, *, student: str) -> None:
        """Pause, resume, finish or stop a running job of this student; else no effect."""

    def view(self, job: str, *, student: str) -> JobView | None:
        """The job as it stands, or None if there is no such job of this student."""

    def latest(self, student: str, activity: str) -> JobView | None:
        """The student's newest job of this activity, finished or not."""

    def jobs_of(self, student: str, activity: str) -> tuple[JobView, ...]:
        """All jobs of this activity that the engine still remembers, the newest first."""

    def seen(self, student: str) -> None:
        """Note that a browser of this student is looking; unwatched jobs end after a grace time."""

    def class_jobs(self) -> tuple[JobView, ...]:
        """Every unfinished job of the class: running ones, then in the order of their turn."""

    def cancel_any(self, job: str) -> None:
        """The teacher's cancel: any student's job."""

    def holdings(self, student: str) -> Holdings:
        """What every worker holds, and what is kept for this student."""

    def give_back(self, student: str) -> Holdings:
        """Give back what this student needs no more and no classmate uses; safe at any time.

        Finished jobs of this student are forgotten (the records have them), idle workers that
        train end, idle ones that infer let go of their models. Running jobs stay, this student's
        own too. The answer is what was held just before; each worker's `fate` says what becomes of
        it. The memory is back some moments later, as `holdings` will tell.
        """

    def gpu_uuids(self) -> tuple[str, ...]:
        """The cards that jobs may run on; empty: jobs run on the CPU."""

    def close(self) -> None:
        """Stop every job and every worker process, and wait for them to be gone (seconds)."""
