"""Who runs next, where, and when a worker has to go: every decision of the engine, and no I/O.

`Dispatcher.handle(stimulus, now)` takes what has happened and answers with what is to be done.
Processes, pipes and clocks live in `core.engine.local`; a test is stimulus in, decisions out.

A job is *queued* until an idle worker of its lane gets it, then *running*, *stopping* once somebody
asked it to end, and forgotten when it is settled. A worker is *starting* until it says hello, then
*idle* or *busy*, and *leaving* once it was told to go; a lost worker is forgotten.
`now` is a monotonic clock in seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from core.activities import Lane
from core.engine.stimuli import (
    AskToStop,
    CancelAsked,
    Decision,
    JobEnded,
    KillWorker,
    MemorySeen,
    RetireWorker,
    RunJob,
    Settle,
    StartWorker,
    Stimulus,
    StudentSeen,
    Submitted,
    Ticked,
    WorkerHeard,
    WorkerLost,
    WorkerReady,
)
from core.engine.view import JobState
from core.problems import Notice, Problem

CPU = "cpu"

# How long things may take, in seconds.
START_SECONDS = 120.0  # a worker's start: importing torch from a cold, slow disk
STOP_SECONDS = 3.0  # between asking a job to stop and ending its worker
SILENCE_SECONDS = 60.0  # a busy worker reports several times a second; this one hangs
SETTLING_SECONDS = 10.0  # until a job's memory shows in the card's own figure
BLINK_SECONDS = 5.0  # ticks come every quarter second; a longer gap means that the server slept
FAILED_STARTS = 3  # in a row, then the lane gives up and says so
HISTORY = 20  # durations kept of each activity


# --- what is known -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Job:
    job: str
    student: str
    activity: str
    lane: Lane
    need_mib: int
    size: float
    turn: int  # order of submission
    state: JobState = JobState.QUEUED
    worker: str = ""
    device: str = ""
    started: float = 0.0
    stop_asked: float = 0.0
    expected_end: float | None = None
    why_stopped: Notice | None = None  # set where the engine, not a person, asked


class _WorkerState(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"


@dataclass(slots=True)
class _Worker:
    worker: str
    device: str
    lane: Lane
    state: _WorkerState
    since: float  # when it entered this state
    heard: float
    job: str | None = None
    verdict: Notice | None = None  # why the engine ends it, where it does


@dataclass(slots=True)
class _Device:
    name: str
    free_mib: float | None = None  # None: not a card, or one whose memory cannot be read
    total_mib: float | None = None


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of one server; seconds where the name says so."""

    train_slots: int = 1
    queue_limit: int = 100
    student_limit: int = 2
    idle_seconds: float = 600.0
    grace_seconds: float = 300.0
    job_seconds: float = 1_800.0

    def slots(self, lane: Lane) -> int:
        """Workers of a lane on one device. The infer lane has one: it owns the shared models."""
        return self.train_slots if lane is Lane.TRAIN else 1


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a queued job stands: 1 = next. `wait_seconds` is None while nothing is known."""

    place: int
    wait_seconds: float | None
    needs_memory: bool  # next in turn, but no card has room for it now


@dataclass(slots=True)
class Dispatcher:
    """The state of all jobs and workers, changed by `handle` alone."""

    devices: tuple[str, ...] = (CPU,)
    caps: Caps = field(default_factory=Caps)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _workers: dict[str, _Worker] = field(default_factory=dict)
    _devices: dict[str, _Device] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)
    _last_turn: dict[str, float] = field(default_factory=dict)
    _durations: dict[str, deque[float]] = field(default_factory=dict)
    _failed_starts: Counter[Lane] = field(default_factory=Counter)
    _submissions: int = 0
    _starts: int = 0
    _last_tick: float | None = None

    def __post_init__(self) -> None:
        self._devices = {name: _Device(name) for name in self.devices}

    # --- questions ---

    def unfinished(self, student: str | None = None) -> list[str]:
        """Jobs not settled yet, of one student or of all: running ones, then in fair order."""
        jobs = [j for j in self._jobs.values() if j.state is not JobState.QUEUED]
        jobs.sort(key=lambda j: j.started)
        jobs += [j for lane in Lane for j in self._fair_order(lane)]
        return [j.job for j in jobs if student in (None, j.student)]

    def unfinished_of(self, student: str, activity: str) -> str | None:
        """The student's unfinished job of this activity, if there is one."""
        for job in self._jobs.values():
            if (job.student, job.activity) == (student, activity):
                return job.job
        return None

    def state(self, job: str) -> JobState | None:
        """QUEUED, RUNNING or STOPPING; None once the job is settled."""
        return self._jobs[job].state if job in self._jobs else None

    def worker_of(self, job: str) -> str | None:
        """The worker that runs this job and was not asked to stop it."""
        known = self._jobs.get(job)
        return known.worker if known is not None and known.state is JobState.RUNNING else None

    def check_room(self, student: str) -> None:
        """Raises Problem where one more job of this student would be over a cap."""
        mine = sum(j.student == student for j in self._jobs.values())
        if mine >= self.caps.student_limit:
            raise Problem("problem.student_limit", limit=self.caps.student_limit)
        queued = sum(j.state is JobState.QUEUED for j in self._jobs.values())
        if queued >= self.caps.queue_limit:
            raise Problem("problem.queue_full", limit=self.caps.queue_limit)

    def outlooks(self, now: float) -> dict[str, Outlook]:
        """Place and estimated wait of every queued job."""
        found: dict[str, Outlook] = {}
        for lane in Lane:
            free_at = self._slots_free_at(lane, now)
            for place, job in enumerate(self._fair_order(lane), start=1):
                slot = min(range(len(free_at)), key=lambda i: (free_at[i] is None, free_at[i] or 0))
                begins = free_at[slot]
                found[job.job] = Outlook(
                    place=place,
                    wait_seconds=None if begins is None else max(0.0, begins - now),
                    needs_memory=place == 1 and self._has_slot(lane) and not self._room(job, now),
                )
                takes = self._estimate(job)
                free_at[slot] = None if begins is None or takes is None else begins + takes
        return found

    # --- the one way in ---

    def handle(self, stimulus: Stimulus, now: float) -> list[Decision]:
        """Take in what has happened; answer with what to do, in this order."""
        decisions: list[Decision] = []
        match stimulus:
            case Submitted():
                self._submit(stimulus, now)
            case CancelAsked():
                decisions += self._stop(stimulus.job, now)
            case WorkerReady():
                self._ready(stimulus.worker, now)
            case WorkerHeard():
                self._hear(stimulus, now)
            case JobEnded():
                decisions += self._job_ended(stimulus, now)
            case WorkerLost():
                decisions += self._worker_lost(stimulus, now)
            case StudentSeen():
                self._seen[stimulus.student] = now
            case MemorySeen():
                card = self._devices.get(stimulus.device)
                if card is not None:
                    card.free_mib, card.total_mib = stimulus.free_mib, stimulus.total_mib
            case Ticked():
                decisions += self._tick(now)
        return decisions + self._schedule(now)

    # --- jobs ---

    def _submit(self, asked: Submitted, now: float) -> None:
        if asked.job in self._jobs:
            raise ValueError(f"job {asked.job} was submitted twice")
        self._submissions += 1
        self._seen[asked.student] = now
        self._failed_starts[asked.lane] = 0  # a new wish is worth a new try
        self._jobs[asked.job] = _Job(
            job=asked.job,
            student=asked.student,
            activity=asked.activity,
            lane=asked.lane,
            need_mib=asked.need_mib,
            size=max(asked.size, 1e-9),
            turn=self._submissions,
        )

    def _stop(self, name: str, now: float, why: Notice | None = None) -> list[Decision]:
        job = self._jobs.get(name)
        if job is None or job.state is JobState.STOPPING:
            return []
        job.why_stopped = why
        if job.state is JobState.QUEUED:
            return [self._settle_stopped(job)]
        job.state, job.stop_asked = JobState.STOPPING, now
        return [AskToStop(job.worker, job.job)]

    def _settle_stopped(self, job: _Job) -> Settle:
        del self._jobs[job.job]
        if job.why_stopped is None:
            return Settle(job.job, JobState.STOPPED)
        return Settle(job.job, JobState.FAILED, job.why_stopped)

    def why_stopped(self, job: str) -> Notice | None:
        """Why the engine itself asked this job to stop; None where a person did or nobody."""
        return self._jobs[job].why_stopped if job in self._jobs else None

    def _job_ended(self, ended: JobEnded, now: float) -> list[Decision]:
        worker = self._workers.get(ended.worker)
        job = self._jobs.pop(ended.job, None)
        if job is not None and ended.finished:
            kept = self._durations.setdefault(job.activity, deque(maxlen=HISTORY))
            kept.append((now - job.started) / job.size)
        if worker is None or worker.job != ended.job:
            return []
        worker.job, worker.heard = None, now
        worker.state = _WorkerState.IDLE if ended.healthy else _WorkerState.LEAVING
        worker.since = now
        return [] if ended.healthy else [RetireWorker(worker.worker)]

    # --- workers ---

    def _ready(self, name: str, now: float) -> None:
        worker = self._workers.get(name)
        if worker is not None and worker.state is _WorkerState.STARTING:
            worker.state, worker.since, worker.heard = _WorkerState.IDLE, now, now
            self._failed_starts[worker.lane] = 0

    def _hear(self, heard: WorkerHeard, now: float) -> None:
        worker = self._workers.get(heard.worker)
        if worker is None:
            return
        worker.heard = now
        if worker.job is not None and heard.seconds_left is not None:
            self._jobs[worker.job].expected_end = now + heard.seconds_left

    def _worker_lost(self, lost: WorkerLost, now: float) -> list[Decision]:
        worker = self._workers.pop(lost.worker, None)
        if worker is None:
            return []
        if worker.state is _WorkerState.STARTING:
            return self._start_failed(worker.lane)
        job = self._jobs.get(worker.job or "")
        if job is None:
            return []
        if job.state is JobState.STOPPING:
            return [self._settle_stopped(job)]
        del self._jobs[job.job]
        key = "problem.worker_killed" if lost.killed else "problem.worker_died"
        return [Settle(job.job, JobState.FAILED, worker.verdict or Notice(key))]

    def _start_failed(self, lane: Lane) -> list[Decision]:
        self._failed_starts[lane] += 1
        if self._failed_starts[lane] < FAILED_STARTS:
            return []
        waiting = self._fair_order(lane)
        for job in waiting:
            del self._jobs[job.job]
        problem = Notice("problem.worker_cannot_start")
        return [Settle(job.job, JobState.FAILED, problem) for job in waiting]

    # --- time ---

    def _tick(self, now: float) -> list[Decision]:
        self._forgive_sleep(now)
        decisions: list[Decision] = []
        for job in list(self._jobs.values()):
            if now - self._seen.get(job.student, now) > self.caps.grace_seconds:
                decisions += self._stop(job.job, now, Notice("problem.browser_gone"))
            elif job.state is JobState.RUNNING and now - job.started > self.caps.job_seconds:
                limit = round(self.caps.job_seconds / 60)
                decisions += self._stop(
                    job.job, now, Notice("problem.job_too_long", {"minutes": limit})
                )
        for worker in self._workers.values():
            decisions += self._watch(worker, now)
        busy = {job.student for job in self._jobs.values()}
        self._seen = {
            student: at
            for student, at in self._seen.items()
            if student in busy or now - at <= self.caps.grace_seconds
        }
        return decisions

    def _forgive_sleep(self, now: float) -> None:
        """A server that slept (a closed laptop) must not blame the browsers or the workers."""
        asleep = 0.0 if self._last_tick is None else now - self._last_tick
        self._last_tick = now
        if asleep <= BLINK_SECONDS:
            return
        self._seen = {student: at + asleep for student, at in self._seen.items()}
        for worker in self._workers.values():
            worker.heard += asleep
            worker.since += asleep
        for job in self._jobs.values():
            job.started += asleep
            job.stop_asked += asleep

    def _watch(self, worker: _Worker, now: float) -> list[Decision]:
        job = self._jobs.get(worker.job or "")
        match worker.state:
            case _WorkerState.STARTING if now - worker.since > START_SECONDS:
                return [KillWorker(worker.worker)]
            case _WorkerState.LEAVING if now - worker.since > STOP_SECONDS:
                return [KillWorker(worker.worker)]
            case _WorkerState.BUSY if now - worker.heard > SILENCE_SECONDS:
                worker.verdict = Notice("problem.worker_silent")
                return [KillWorker(worker.worker)]
            case _WorkerState.BUSY if job is not None and job.state is JobState.STOPPING:
                return [KillWorker(worker.worker)] if now - job.stop_asked > STOP_SECONDS else []
            case _WorkerState.IDLE if now - worker.since > self.caps.idle_seconds:
                worker.state, worker.since = _WorkerState.LEAVING, now
                return [RetireWorker(worker.worker)]
        return []

    # --- turns and places ---

    def _fair_order(self, lane: Lane) -> list[_Job]:
        """Queued jobs in the order of their turn: first who has least running, then who waited
        longest since their last turn, then who came first. As if each had begun in that order."""
        waiting = sorted(
            (j for j in self._jobs.values() if j.lane is lane and j.state is JobState.QUEUED),
            key=lambda j: j.turn,
        )
        running = Counter(
            j.student
            for j in self._jobs.values()
            if j.lane is lane and j.state is not JobState.QUEUED
        )
        last = dict(self._last_turn)
        latest = max(last.values(), default=0.0)
        ordered: list[_Job] = []
        while waiting:
            chosen = min(
                waiting, key=lambda j: (running[j.student], last.get(j.student, -1.0), j.turn)
            )
            waiting.remove(chosen)
            ordered.append(chosen)
            running[chosen.student] += 1
            latest += 1.0
            last[chosen.student] = latest
        return ordered

    def _schedule(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        for lane in Lane:
            unserved: list[_Job] = []
            for job in self._fair_order(lane):
                if self._too_big(job):
                    del self._jobs[job.job]
                    need = Notice("problem.card_too_small", {"need_mib": job.need_mib})
                    decisions.append(Settle(job.job, JobState.FAILED, need))
                    continue
                worker = self._best_idle(job, now)
                if worker is not None and not unserved:  # nobody overtakes who waits for memory
                    decisions.append(self._assign(job, worker, now))
                else:
                    unserved.append(job)
            if self._failed_starts[lane] < FAILED_STARTS:
                decisions += self._start_workers(lane, unserved, now)
        return decisions

    def _assign(self, job: _Job, worker: _Worker, now: float) -> RunJob:
        job.state, job.worker, job.device, job.started = (
            JobState.RUNNING,
            worker.worker,
            worker.device,
            now,
        )
        worker.state, worker.job, worker.since, worker.heard = _WorkerState.BUSY, job.job, now, now
        self._last_turn[job.student] = now
        return RunJob(worker.worker, job.job, worker.device)

    def _start_workers(self, lane: Lane, unserved: list[_Job], now: float) -> Iterator[Decision]:
        coming = sum(
            w.lane is lane and w.state is _WorkerState.STARTING for w in self._workers.values()
        )
        for job in unserved[coming:]:
            device = self._best_device(job, now)
            if device is None:
                return
            self._starts += 1
            name = f"{lane}-{self._starts}"
            self._workers[name] = _Worker(name, device, lane, _WorkerState.STARTING, now, now)
            yield StartWorker(name, device, lane)

    def _best_device(self, job: _Job, now: float) -> str | None:
        """Of the devices with a free slot and room for the job: fewest workers, most memory."""
        count = Counter(w.device for w in self._workers.values() if w.lane is job.lane)
        slots = self.caps.slots(job.lane)
        open_ = [d for d in self._devices if count[d] < slots and self._fits(job, d, now)]
        return max(open_, key=lambda d: (-count[d], self._free_mib(d, now) or 0.0), default=None)

    def _idle(self, lane: Lane) -> list[_Worker]:
        return [
            w for w in self._workers.values() if w.lane is lane and w.state is _WorkerState.IDLE
        ]

    def _has_slot(self, lane: Lane) -> bool:
        """Whether a worker of the lane is idle or could be started somewhere."""
        workers = sum(w.lane is lane for w in self._workers.values())
        return bool(self._idle(lane)) or workers < self.caps.slots(lane) * len(self._devices)

    def _best_idle(self, job: _Job, now: float) -> _Worker | None:
        fitting = [w for w in self._idle(job.lane) if self._fits(job, w.device, now)]
        return max(fitting, key=lambda w: self._free_mib(w.device, now) or 0.0, default=None)

    # --- memory ---

    def _free_mib(self, device: str, now: float) -> float | None:
        """What the driver says is free, less what jobs that began just now will still take."""
        free = self._devices[device].free_mib
        if free is None:
            return None
        fresh = (
            j.need_mib
            for j in self._jobs.values()
            if j.device == device and now - j.started < SETTLING_SECONDS
        )
        return free - sum(fresh)

    def _fits(self, job: _Job, device: str, now: float) -> bool:
        free = self._free_mib(device, now)
        return free is None or free >= job.need_mib

    def _room(self, job: _Job, now: float) -> bool:
        return any(self._fits(job, device, now) for device in self._devices)

    def _too_big(self, job: _Job) -> bool:
        totals = [device.total_mib for device in self._devices.values()]
        return all(total is not None and total < job.need_mib for total in totals)

    # --- estimates ---

    def _estimate(self, job: _Job) -> float | None:
        """Seconds that the job will take: by the median of its like, else by one now running."""
        if job.activity in self._durations:
            return median(self._durations[job.activity]) * job.size
        for other in self._jobs.values():
            if other.activity == job.activity and other.expected_end is not None:
                return (other.expected_end - other.started) / other.size * job.size
        return None

    def _slots_free_at(self, lane: Lane, now: float) -> list[float | None]:
        """When each slot of the lane is free; None where that cannot be known yet."""
        slots = self.caps.slots(lane) * len(self._devices)
        times: list[float | None] = []
        for job in self._jobs.values():
            if job.lane is not lane or job.state is JobState.QUEUED:
                continue
            if job.expected_end is not None:
                times.append(max(now, job.expected_end))
            else:
                takes = self._estimate(job)
                times.append(None if takes is None else max(now, job.started + takes))
        return [*times, *([now] * (slots - len(times)))]
