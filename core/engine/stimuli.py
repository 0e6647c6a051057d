"""The dispatcher's vocabulary: what has happened (stimuli), and what is to be done (decisions)."""

from __future__ import annotations

from dataclasses import dataclass

from core.activities import Lane
from core.engine.view import JobState
from core.problems import Notice

# --- what has happened ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """With whom a job may share a run: jobs of equal `key`, while their weights sum to `most`."""

    key: tuple[object, ...]
    weight: int
    most: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """A student wants this job run. `size` is its amount of work, in the activity's own unit."""

    job: str
    student: str
    activity: str
    lane: Lane
    need_mib: int = 0  # of the card's memory, besides the model
    size: float = 1.0
    model: str = ""  # that it needs in memory, "" for none
    model_mib: int = 0
    batch: Batch | None = None  # None: it runs alone


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """The student or the teacher wants the job to end."""

    job: str


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A started worker said hello."""

    worker: str


@dataclass(frozen=True, slots=True)
class WorkerHeard:
    """A worker sent something of a job, perhaps with its own estimate of what is left of it."""

    worker: str
    job: str = ""
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A worker is done with a job; other jobs of its run may go on.

    Not `healthy`: it must not be given another run.
    """

    worker: str
    job: str
    finished: bool  # with a result; only then does its duration teach us anything
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker's process is gone. `killed`: by the signal that also ends what eats all memory."""

    worker: str
    killed: bool = False


@dataclass(frozen=True, slots=True)
class StudentSeen:
    """A browser of this student is looking."""

    student: str


@dataclass(frozen=True, slots=True)
class GiveBackAsked:
    """The student wants no more memory held on their behalf."""

    student: str


@dataclass(frozen=True, slots=True)
class MemorySeen:
    """Free memory of one card as its driver reports it; None where it cannot say."""

    device: str
    free_mib: float | None
    total_mib: float | None


@dataclass(frozen=True, slots=True)
class Ticked:
    """Some time has passed."""


Stimulus = (
    Submitted
    | CancelAsked
    | WorkerReady
    | WorkerHeard
    | JobEnded
    | WorkerLost
    | StudentSeen
    | GiveBackAsked
    | MemorySeen
    | Ticked
)


# --- what is to be done --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartWorker:
    worker: str
    device: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class RunJobs:
    """Begin one run that serves these jobs of one activity."""

    worker: str
    jobs: tuple[str, ...]
    device: str


@dataclass(frozen=True, slots=True)
class AskToStop:
    worker: str
    job: str


@dataclass(frozen=True, slots=True)
class RetireWorker:
    """Ask an idle worker to end itself and so give its memory back."""

    worker: str


@dataclass(frozen=True, slots=True)
class DropModels:
    """Ask an idle worker to let go of the models that it holds, and to stay."""

    worker: str


@dataclass(frozen=True, slots=True)
class KillWorker:
    worker: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """The job's run was lost through no fault of its own, as far as is known: it starts afresh."""

    job: str


@dataclass(frozen=True, slots=True)
class Settle:
    """The job is over without the worker's own word on it."""

    job: str
    state: JobState
    problem: Notice | None = None


Decision = (
    StartWorker | RunJobs | AskToStop | RetireWorker | DropModels | KillWorker | Requeue | Settle
)
