"""What the dispatcher knows of jobs, runs and workers: plain data that it alone changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from core.activities import Lane
from core.engine.stimuli import Batch
from core.engine.view import JobState
from core.problems import Notice


@dataclass(slots=True, eq=False)
class Job:
    """One wish of one student, until it is settled."""

    job: str
    student: str
    activity: str
    lane: Lane
    need_mib: int
    model: str
    model_mib: int
    size: float
    turn: int  # order of submission
    batch: Batch | None  # None: it runs alone
    state: JobState = JobState.QUEUED
    run: Run | None = None  # None: queued
    stop_asked: float = 0.0
    expected_end: float | None = None
    why_stopped: Notice | None = None  # set where the engine, not a person, asked


@dataclass(slots=True, eq=False)
class Run:
    """The jobs that a worker serves at once, one or several of the same activity."""

    worker: str
    device: str
    jobs: list[Job]  # those that have not ended
    started: float
    need_mib: int  # what it was promised of the card's memory
    activity: str
    size: float  # of all its jobs
    several: bool  # it began with more than one job
    finished: bool = True  # every job that has ended brought a result

    @property
    def expected_end(self) -> float | None:
        """As the last of its jobs expects it; None while no job has said."""
        return max((j.expected_end for j in self.jobs if j.expected_end is not None), default=None)


class WorkerState(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"


@dataclass(slots=True, eq=False)
class Worker:
    worker: str
    device: str
    lane: Lane
    state: WorkerState
    since: float  # when it entered this state
    heard: float
    run: Run | None = None
    used: bool = False  # it has run something, and may still hold memory for it
    model: str = ""  # what it surely holds in memory: some job with it brought a result
    model_mib: int = 0
    users: dict[str, float] = field(default_factory=dict)  # student -> when last served
    emptied: bool = False  # asked to let its models go, and has run nothing since
    verdict: Notice | None = None  # why the engine ends it, where it does

    def enter(self, state: WorkerState, now: float) -> None:
        self.state, self.since = state, now

    @property
    def jobs(self) -> list[Job]:
        """The unfinished jobs of its run."""
        return [] if self.run is None else self.run.jobs


@dataclass(slots=True)
class Card:
    """A device's memory as its driver reports it; None: not a card, or it cannot be read."""

    free_mib: float | None = None
    total_mib: float | None = None
