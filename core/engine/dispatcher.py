"""Who runs next, where, and when a worker has to go: every decision of the engine, and no I/O.

`Dispatcher.handle(stimulus, now)` takes what has happened and answers with what is to be done.
Processes, pipes and clocks live in `core.engine.local`; a test is stimulus in, decisions out.
Beside it: `turns` (whose turn it is, who rides along), `memory` (of the cards), `estimates`.

A job is *queued* until an idle worker of its lane gets it, then *running*, *stopping* once somebody
asked it to end, and forgotten when it is settled. A worker serves one run at a time, of one job or
of several that go together. It is *starting* until it says hello, then *idle* or *busy*, and
*leaving* once it was told to go; a lost worker is forgotten.

A run of several jobs that loses its worker harms nobody but who caused it: its unfinished jobs are
queued again, each to run alone. A job that loses its worker while alone has failed.
`now` is a monotonic clock in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.activities import Lane
from core.engine.estimates import Durations, Outlook
from core.engine.holdings import Fate, Use, WorkerHolding
from core.engine.memory import SHOWN_SECONDS, Memory, needed_mib
from core.engine.state import Job, Run, Worker, WorkerState
from core.engine.stimuli import (
    AskToStop,
    CancelAsked,
    Decision,
    DropModels,
    GiveBackAsked,
    JobEnded,
    KillWorker,
    MemorySeen,
    Requeue,
    RetireWorker,
    RunJobs,
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
from core.engine.turns import fair_order, runs
from core.engine.view import JobState
from core.problems import Notice, Problem

CPU = "cpu"

# How long things may take, in seconds.
START_SECONDS = 120.0  # a worker's start: importing torch from a cold, slow disk
STOP_SECONDS = 3.0  # between asking a job to stop and ending its worker
SILENCE_SECONDS = 60.0  # a busy worker reports several times a second; this one hangs
BLINK_SECONDS = 5.0  # ticks come every quarter second; a longer gap means that the server slept
FAILED_STARTS = 3  # in a row, then the lane gives up and says so


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of one server; seconds where the name says so."""

    train_slots: int = 1
    queue_limit: int = 100
    student_limit: int = 2
    idle_seconds: float = 600.0
    grace_seconds: float = 300.0
    job_seconds: float = 1_800.0
    shared_seconds: float = 60.0  # others who used a model so lately still want it

    def slots(self, lane: Lane) -> int:
        """Workers of a lane on one device. The infer lane has one: it owns the shared models."""
        return self.train_slots if lane is Lane.TRAIN else 1


@dataclass(slots=True)
class Dispatcher:
    """The state of all jobs and workers, changed by `handle` alone."""

    devices: tuple[str, ...] = (CPU,)
    caps: Caps = field(default_factory=Caps)
    _jobs: dict[str, Job] = field(default_factory=dict)
    _workers: dict[str, Worker] = field(default_factory=dict)
    _memory: Memory = field(init=False)
    _durations: Durations = field(default_factory=Durations)
    _queues: dict[Lane, list[list[Job]]] = field(default_factory=dict)  # as `_queued` found them
    _seen: dict[str, float] = field(default_factory=dict)
    _last_turn: dict[str, float] = field(default_factory=dict)
    _failed_starts: Counter[Lane] = field(default_factory=Counter)
    _submissions: int = 0
    _starts: int = 0
    _last_tick: float | None = None

    def __post_init__(self) -> None:
        self._memory = Memory(self.devices, self._workers)

    # --- questions ---

    def unfinished(self, student: str | None = None) -> list[str]:
        """Jobs not settled yet, of one student or of all: running ones, then as they will run."""
        running = sorted((run for lane in Lane for run in self._running(lane)), key=_started)
        jobs = [job for run in running for job in run.jobs]
        jobs += [job for lane in Lane for queued in self._queued(lane) for job in queued]
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
        if known is None or known.run is None or known.state is not JobState.RUNNING:
            return None
        return known.run.worker

    def check_room(self, student: str) -> None:
        """Raises Problem where one more job of this student would be over a cap."""
        mine = sum(j.student == student for j in self._jobs.values())
        if mine >= self.caps.student_limit:
            raise Problem("problem.student_limit", limit=self.caps.student_limit)
        queued = sum(j.state is JobState.QUEUED for j in self._jobs.values())
        if queued >= self.caps.queue_limit:
            raise Problem("problem.queue_full", limit=self.caps.queue_limit)

    def outlooks(self, now: float) -> dict[str, Outlook]:
        """Place and estimated wait of every queued job. Cheap: viewers ask every second."""
        found: dict[str, Outlook] = {}
        for lane in Lane:
            queued = self._queued(lane)
            waits = self._durations.waits(queued, self._running(lane), self._slots(lane), now)
            for place, (jobs, wait) in enumerate(zip(queued, waits, strict=True), start=1):
                needs_memory = place == 1 and self._needs_memory(jobs[0], now)
                outlook = Outlook(place, wait, needs_memory)
                found |= {job.job: outlook for job in jobs}
        return found

    def workers(self, student: str, now: float) -> list[WorkerHolding]:
        """Every living worker, as this student sees it; how much it holds is not known here."""
        return [
            WorkerHolding(
                worker=worker.worker,
                device=worker.device,
                lane=worker.lane,
                use=_use(worker, student),
                fate=self._fate(worker, student, now),
                idle_seconds=now - worker.since if worker.state is WorkerState.IDLE else None,
                models=(worker.model,) if worker.model else (),
            )
            for worker in self._workers.values()
        ]

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
                return []  # as often as steps are done; changes nobody's turn
            case JobEnded():
                decisions += self._job_ended(stimulus, now)
            case WorkerLost():
                decisions += self._worker_lost(stimulus, now)
            case StudentSeen():
                self._seen[stimulus.student] = now
                return []
            case GiveBackAsked():
                decisions += self._give_back(stimulus.student, now)
            case MemorySeen():
                self._memory.see(stimulus.device, stimulus.free_mib, stimulus.total_mib)
            case Ticked():
                decisions += self._tick(now)
        self._queues.clear()
        decisions += self._schedule(now)
        self._queues.clear()
        return decisions

    # --- jobs ---

    def _submit(self, asked: Submitted, now: float) -> None:
        if asked.job in self._jobs:
            raise ValueError(f"job {asked.job} was submitted twice")
        self._submissions += 1
        self._seen[asked.student] = now
        self._failed_starts[asked.lane] = 0  # a new wish is worth a new try
        self._jobs[asked.job] = Job(
            job=asked.job,
            student=asked.student,
            activity=asked.activity,
            lane=asked.lane,
            need_mib=asked.need_mib,
            model=asked.model,
            model_mib=asked.model_mib,
            size=max(asked.size, 1e-9),
            turn=self._submissions,
            batch=asked.batch,
        )

    def _stop(self, name: str, now: float, why: Notice | None = None) -> list[Decision]:
        job = self._jobs.get(name)
        if job is None or job.state is JobState.STOPPING:
            return []
        job.why_stopped = why
        if job.run is None:
            return [self._settle_stopped(job)]
        job.state, job.stop_asked = JobState.STOPPING, now
        return [AskToStop(job.run.worker, job.job)]

    def _settle_stopped(self, job: Job) -> Settle:
        del self._jobs[job.job]
        if job.why_stopped is None:
            return Settle(job.job, JobState.STOPPED)
        return Settle(job.job, JobState.FAILED, job.why_stopped)

    def why_stopped(self, job: str) -> Notice | None:
        """Why the engine itself asked this job to stop; None where a person did or nobody."""
        return self._jobs[job].why_stopped if job in self._jobs else None

    def _job_ended(self, ended: JobEnded, now: float) -> list[Decision]:
        job = self._jobs.pop(ended.job, None)
        worker = self._workers.get(ended.worker)
        if job is None or worker is None or job.run is None or job.run is not worker.run:
            return []
        run = job.run
        run.jobs.remove(job)
        run.finished = run.finished and ended.finished
        worker.heard = now
        worker.users[job.student] = now
        if ended.finished and job.model:
            worker.model, worker.model_mib = job.model, job.model_mib
        if not run.jobs:
            worker.run = None
            worker.enter(WorkerState.IDLE, now)
            if run.finished:
                self._durations.learn(run, now)
        if ended.healthy:
            return []
        worker.enter(WorkerState.LEAVING, now)
        return [RetireWorker(worker.worker)]

    # --- workers ---

    def _ready(self, name: str, now: float) -> None:
        worker = self._workers.get(name)
        if worker is not None and worker.state is WorkerState.STARTING:
            worker.enter(WorkerState.IDLE, now)
            worker.heard = now
            self._failed_starts[worker.lane] = 0

    def _hear(self, heard: WorkerHeard, now: float) -> None:
        worker = self._workers.get(heard.worker)
        if worker is None:
            return
        worker.heard = now
        job = self._jobs.get(heard.job)
        if job is not None and job.run is not None and heard.seconds_left is not None:
            job.expected_end = now + heard.seconds_left

    def _worker_lost(self, lost: WorkerLost, now: float) -> list[Decision]:
        worker = self._workers.pop(lost.worker, None)
        if worker is None:
            return []
        if worker.state is WorkerState.STARTING:
            return self._start_failed(worker.lane)
        return [self._lost_with(worker, job, killed=lost.killed) for job in worker.jobs]

    def _lost_with(self, worker: Worker, job: Job, *, killed: bool) -> Decision:
        """What becomes of a job whose worker is gone."""
        if job.state is JobState.STOPPING:
            return self._settle_stopped(job)
        if job.run is not None and job.run.several:
            job.state, job.run, job.expected_end = JobState.QUEUED, None, None
            job.batch = None  # alone from now on: if it was to blame, it fails by itself
            self._last_turn.pop(job.student, None)  # a lost try was no turn
            return Requeue(job.job)
        del self._jobs[job.job]
        key = "problem.worker_killed" if killed else "problem.worker_died"
        return Settle(job.job, JobState.FAILED, worker.verdict or Notice(key))

    def _start_failed(self, lane: Lane) -> list[Decision]:
        self._failed_starts[lane] += 1
        if self._failed_starts[lane] < FAILED_STARTS:
            return []
        waiting = [j for j in self._jobs.values() if j.lane is lane and j.run is None]
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
            elif job.run is not None and now - job.run.started > self.caps.job_seconds:
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
            if worker.run is not None:
                worker.run.started += asleep
        for job in self._jobs.values():
            job.stop_asked += asleep

    def _watch(self, worker: Worker, now: float) -> list[Decision]:
        match worker.state:
            case WorkerState.STARTING if now - worker.since > START_SECONDS:
                return [KillWorker(worker.worker)]
            case WorkerState.LEAVING if now - worker.since > STOP_SECONDS:
                return [KillWorker(worker.worker)]
            case WorkerState.BUSY if now - worker.heard > SILENCE_SECONDS:
                worker.verdict = Notice("problem.worker_silent")
                return [KillWorker(worker.worker)]
            case WorkerState.BUSY if any(_disobeys(job, now) for job in worker.jobs):
                return [KillWorker(worker.worker)]
            case WorkerState.IDLE if now - worker.since > self.caps.idle_seconds:
                return [self._retire(worker, now)]
        return []

    def _retire(self, worker: Worker, now: float) -> RetireWorker:
        worker.enter(WorkerState.LEAVING, now)
        return RetireWorker(worker.worker)

    # --- giving back ---

    def _give_back(self, student: str, now: float) -> Iterator[Decision]:
        for worker in self._workers.values():
            match self._fate(worker, student, now):
                case Fate.ENDS:
                    yield self._retire(worker, now)
                case Fate.DROPS:
                    worker.model, worker.model_mib, worker.emptied = "", 0, True
                    yield DropModels(worker.worker)

    def _fate(self, worker: Worker, student: str, now: float) -> Fate:
        """A worker that trains holds nothing that anybody comes back to: it may end. One that
        infers holds a model of the class, which stays as long as others use it."""
        if worker.state is not WorkerState.IDLE:
            return Fate.BUSY
        if worker.lane is Lane.TRAIN:
            return Fate.ENDS
        if worker.emptied or not worker.used:
            return Fate.EMPTY
        lately = now - self.caps.shared_seconds
        if any(at >= lately for who, at in worker.users.items() if who != student):
            return Fate.SHARED
        if any(j.model and j.model == worker.model and j.student != student for j in self._waiting):
            return Fate.SHARED
        return Fate.DROPS

    @property
    def _waiting(self) -> Iterator[Job]:
        return (job for job in self._jobs.values() if job.run is None)

    # --- turns and places ---

    def _queued(self, lane: Lane) -> list[list[Job]]:
        """The runs that the lane's queue will make, the next one first."""
        if lane not in self._queues:
            mine = [job for job in self._jobs.values() if job.lane is lane]
            queued = [job for job in mine if job.run is None]
            running = Counter(job.student for job in mine if job.run is not None)
            self._queues[lane] = runs(fair_order(queued, running, self._last_turn))
        return self._queues[lane]

    def _schedule(self, now: float) -> list[Decision]:
        decisions = self._refuse_too_big()
        for lane in Lane:
            unserved: list[Job] = []  # the next in turn of each run that finds no worker
            for jobs in self._queued(lane):
                worker = self._best_idle(jobs[0], now)
                if worker is not None and not unserved:  # nobody overtakes who waits for memory
                    decisions.append(self._assign(jobs, worker, now))
                else:
                    unserved.append(jobs[0])
            if unserved:
                decisions += self._make_room(unserved[0], now)
                if self._failed_starts[lane] < FAILED_STARTS:
                    decisions += self._start_workers(lane, unserved, now)
        return decisions

    def _refuse_too_big(self) -> list[Decision]:
        too_big = [j for j in self._jobs.values() if j.run is None and self._memory.too_big(j)]
        for job in too_big:
            del self._jobs[job.job]
        return [
            Settle(
                job.job,
                JobState.FAILED,
                Notice("problem.card_too_small", {"need_mib": needed_mib(job)}),
            )
            for job in too_big
        ]

    def _assign(self, jobs: list[Job], worker: Worker, now: float) -> RunJobs:
        first = jobs[0]
        run = Run(
            worker=worker.worker,
            device=worker.device,
            jobs=jobs,
            started=now,
            need_mib=needed_mib(first, worker),
            activity=first.activity,
            size=sum(job.size for job in jobs),
            several=len(jobs) > 1,
        )
        for job in jobs:
            job.state, job.run = JobState.RUNNING, run
            self._last_turn[job.student] = worker.users[job.student] = now
        worker.run, worker.heard, worker.used, worker.emptied = run, now, True, False
        worker.enter(WorkerState.BUSY, now)
        if first.model and first.model != worker.model:
            worker.model, worker.model_mib = "", 0  # what it held may go; what comes is not sure
        return RunJobs(worker.worker, tuple(job.job for job in jobs), worker.device)

    def _start_workers(self, lane: Lane, unserved: list[Job], now: float) -> Iterator[Decision]:
        for job in unserved[self._coming(lane) :]:
            device = self._best_device(job, now)
            if device is None:
                return
            self._starts += 1
            name = f"{lane}-{self._starts}"
            self._workers[name] = Worker(name, device, lane, WorkerState.STARTING, now, now)
            yield StartWorker(name, device, lane)

    def _make_room(self, job: Job, now: float) -> list[Decision]:
        """Retire idle workers whose memory the next job waits for, once that is sure: a worker that
        ended its run just now may have given the memory back, unseen as yet."""
        if self._coming(job.lane) or self._best_device(job, now) is not None:
            return []
        idle = [w for lane in Lane for w in self._idle(lane) if now - w.since > SHOWN_SECONDS]
        return [self._retire(w, now) for w in idle if self._in_the_way(w, job, now)]

    def _in_the_way(self, worker: Worker, job: Job, now: float) -> bool:
        """Whether this idle worker should give its memory back to the next job of a lane.

        One of the job's own lane cannot serve it, so it serves nobody until the job had its turn; a
        fresh one would get no more room, so it stays. One of the other lane is of use to others:
        it goes only where its model is what the job lacks.
        """
        if worker.lane is job.lane:
            return worker.used
        return (
            bool(worker.model)
            and not self._memory.fits(job, worker.device, now)
            and self._memory.fits_once_gone(job, worker, now)
            and self._has_place(job.lane, worker.device)
        )

    def _has_place(self, lane: Lane, device: str) -> bool:
        """Whether a worker of the lane is idle on the device or could be started there."""
        here = [w for w in self._workers.values() if w.lane is lane and w.device == device]
        return len(here) < self.caps.slots(lane) or any(w.state is WorkerState.IDLE for w in here)

    def _best_device(self, job: Job, now: float) -> str | None:
        """Of the devices with a free slot and room for the job: fewest workers, most memory."""
        count = Counter(w.device for w in self._workers.values() if w.lane is job.lane)
        slots = self.caps.slots(job.lane)
        open_ = [d for d in self.devices if count[d] < slots and self._memory.fits(job, d, now)]
        return max(
            open_, key=lambda d: (-count[d], self._memory.free_mib(d, now) or 0.0), default=None
        )

    def _best_idle(self, job: Job, now: float) -> Worker | None:
        """Of the idle workers with room for the job: one that holds its model, else most memory."""
        fitting = [w for w in self._idle(job.lane) if self._memory.fits(job, w.device, now, w)]
        return max(
            fitting,
            key=lambda w: (w.model == job.model, self._memory.free_mib(w.device, now) or 0.0),
            default=None,
        )

    def _needs_memory(self, job: Job, now: float) -> bool:
        """Whether the next job has a worker, or a place for one, and only lacks memory."""
        return any(self._has_place(job.lane, device) for device in self.devices) and not (
            any(self._memory.fits(job, device, now) for device in self.devices)
            or self._best_idle(job, now) is not None
        )

    def _idle(self, lane: Lane) -> list[Worker]:
        return [w for w in self._workers.values() if w.lane is lane and w.state is WorkerState.IDLE]

    def _coming(self, lane: Lane) -> int:
        return sum(
            w.lane is lane and w.state is WorkerState.STARTING for w in self._workers.values()
        )

    def _running(self, lane: Lane) -> list[Run]:
        return [w.run for w in self._workers.values() if w.lane is lane and w.run is not None]

    def _slots(self, lane: Lane) -> int:
        return self.caps.slots(lane) * len(self.devices)


def _use(worker: Worker, student: str) -> Use:
    match worker.state:
        case WorkerState.STARTING:
            return Use.STARTING
        case WorkerState.LEAVING:
            return Use.LEAVING
        case WorkerState.IDLE:
            return Use.IDLE
    whose = {job.student == student for job in worker.jobs}
    if whose == {True, False}:
        return Use.TOGETHER
    return Use.MINE if True in whose else Use.OTHERS


def _started(run: Run) -> float:
    return run.started


def _disobeys(job: Job, now: float) -> bool:
    return job.state is JobState.STOPPING and now - job.stop_asked > STOP_SECONDS
