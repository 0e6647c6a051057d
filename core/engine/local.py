"""The engine of one machine: the dispatcher's decisions carried out with processes and threads.

One lock guards the dispatcher and the views. Worker threads bring in what has happened, a ticker
brings in time, and whoever holds the lock carries out the decisions.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import queue
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace as replaced
from pathlib import Path

import msgspec
import psutil
from msgspec.structs import replace

from core.activities import ACTIVITIES, Activity, ActivitySettings
from core.context import Wish
from core.engine.dispatcher import CPU, Caps, Dispatcher
from core.engine.estimates import Outlook
from core.engine.holdings import Held, Holdings, WorkerHolding, own_vram_mib
from core.engine.processes import WorkerProcess
from core.engine.stimuli import (
    AskToStop,
    Batch,
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
from core.engine.view import JobState, JobView, apply
from core.engine.wire import Drop, Ended, FromWorker, Hello, Holds, JobOrder, Quit, Run, Said, Steer
from core.events import PROTOCOL, Failed, Progressed, Result, Stopped
from core.problems import Notice, Problem
from core.settings import LabSettings
from core.telemetry.nvml import MIB, list_gpus, vram_holders
from core.telemetry.processes import process_ids_are_the_hosts

TICK_SECONDS = 0.25
MEMORY_SECONDS = 1.0  # between two looks at the cards' free memory
PICTURES_SECONDS = 5.0  # between two looks for pictures that may not be kept any longer
CLOSE_SECONDS = 3.0  # for all workers to be gone
KEPT_VIEWS = 1_000  # finished jobs kept in memory; the records have the rest

log = logging.getLogger(__name__)


class LocalEngine:
    """Runs jobs in worker processes on this machine. Implements `core.engine.engine.Engine`."""

    def __init__(
        self,
        settings: LabSettings,
        *,
        activities: Mapping[str, Activity] = ACTIVITIES,
        on_over: Callable[[JobView], None] | None = None,
        may_keep: Callable[[JobView], bool] | None = None,
        caps: Caps | None = None,
    ) -> None:
        """`on_over` gets the view of each finished job to be recorded, in a thread of its own.

        `may_keep` is asked every few seconds of each finished job with pictures: where it says no,
        the pictures go.
        """
        self._settings = settings
        self._activities = activities
        self._gpu_uuids = _chosen_gpus(settings)
        self._dispatcher = Dispatcher(self._gpu_uuids or (CPU,), caps or _caps(settings))
        self._lock = threading.RLock()
        self._views: dict[str, JobView] = {}
        self._workers: dict[str, WorkerProcess] = {}
        self._held: dict[str, Held] = {}  # worker -> what it said when it rested
        self._may_keep = may_keep
        self._recording: Counter[str] = Counter()  # student -> finished jobs on their way there
        self._vram: dict[str, dict[int, float | None]] = {}  # card -> process -> MiB
        self._vram_at = float("-inf")
        self._ids_are_the_hosts = process_ids_are_the_hosts()
        self._over: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._tick, name="engine-ticker", daemon=True),
            threading.Thread(
                target=self._tell_over, args=(on_over,), name="engine-records", daemon=True
            ),
        ]
        for thread in self._threads:
            thread.start()

    # --- what pages ask ---

    def submit(self, student: str, activity: str, settings: ActivitySettings) -> str:
        with self._lock:
            unfinished = self._dispatcher.unfinished_of(student, activity)
            if unfinished is not None:
                return unfinished
            self._dispatcher.check_room(student)
            known = self._activities[activity]
            job = secrets.token_urlsafe(8)
            self._views[job] = JobView(
                id=job,
                student=student,
                activity=activity,
                settings=msgspec.to_builtins(settings),
                submitted_at=time.time(),
            )
            self._take(submission(job, student, known, settings))
            return job

    def cancel(self, job: str, *, student: str) -> None:
        with self._lock:
            view = self._views.get(job)
            if view is not None and view.student == student:
                self.cancel_any(job)

    def cancel_any(self, job: str) -> None:
        with self._lock:
            self._take(CancelAsked(job))

    def steer(self, job: str, wish: Wish, *, student: str) -> None:
        if wish is Wish.STOP:
            self.cancel(job, student=student)
            return
        with self._lock:
            view = self._views.get(job)
            worker = self._dispatcher.worker_of(job)
            if view is not None and view.student == student and worker is not None:
                self._workers[worker].send(Steer(job, wish))

    def view(self, job: str, *, student: str) -> JobView | None:
        with self._lock:
            view = self._views.get(job)
            return self._placed(view) if view is not None and view.student == student else None

    def latest(self, student: str, activity: str) -> JobView | None:
        with self._lock:  # asked by every viewer every second: stops at the first
            return next(self._newest_first(student, activity), None)

    def jobs_of(self, student: str, activity: str) -> tuple[JobView, ...]:
        with self._lock:
            return tuple(self._newest_first(student, activity))

    def _newest_first(self, student: str, activity: str) -> Iterator[JobView]:
        return (
            self._placed(view)
            for view in reversed(self._views.values())
            if (view.student, view.activity) == (student, activity)
        )

    def seen(self, student: str) -> None:
        with self._lock:
            self._take(StudentSeen(student))

    def class_jobs(self) -> tuple[JobView, ...]:
        with self._lock:
            outlooks = self._dispatcher.outlooks(time.monotonic())
            return tuple(
                _placed(self._views[job], outlooks.get(job))
                for job in self._dispatcher.unfinished()
            )

    def holdings(self, student: str) -> Holdings:
        with self._lock:
            workers = self._dispatcher.workers(student, time.monotonic())
            pids = {name: worker.pid for name, worker in self._workers.items()}
            held = dict(self._held)
            mine = [view for view in self._views.values() if view.student == student]
            recording = self._recording[student]
        vram = self._vram_now()  # not before: it has to be as new as what the workers told
        sizes = _file_sizes(kept_folder(self._settings, student))
        states = Counter(view.state for view in mine)
        finished = sum(state.over for state in states.elements())
        queued = states[JobState.QUEUED]
        return Holdings(
            workers=tuple(
                _measured(worker, pids.get(worker.worker), held.get(worker.worker), own)
                for worker in workers
                for own in [self._own_vram(worker, pids.get(worker.worker), vram)]
            ),
            jobs=finished,
            picture_bytes=sum(len(png) for view in mine for png in view.pictures.values()),
            files=len(sizes),
            file_bytes=sum(sizes),
            queued=queued,
            running=len(mine) - finished - queued,
            recording=recording,
        )

    def give_back(self, student: str) -> Holdings:
        before = self.holdings(student)
        with self._lock:
            fates = self._dispatcher.workers(student, time.monotonic())
            self._take(GiveBackAsked(student))
            for name, view in list(self._views.items()):
                if view.student == student and view.state.over:
                    del self._views[name]
        # A worker may have begun or ended a run since it was measured: its fate counts, as decided.
        measured = {worker.worker: worker for worker in before.workers}
        return replaced(
            before,
            workers=tuple(
                replaced(measured.get(w.worker, w), use=w.use, fate=w.fate) for w in fates
            ),
        )

    def _own_vram(
        self, worker: WorkerHolding, pid: int | None, vram: dict[str, dict[int, float | None]]
    ) -> float | None:
        if pid is None or worker.device == CPU:
            return None
        return own_vram_mib(vram.get(worker.device), pid, ids_are_the_hosts=self._ids_are_the_hosts)

    def _vram_now(self) -> dict[str, dict[int, float | None]]:
        """Who holds what on the cards; asked of the driver once a second at most."""
        now = time.monotonic()
        if self._gpu_uuids and now - self._vram_at >= MEMORY_SECONDS:
            self._vram_at = now
            self._vram = vram_holders()
        return self._vram

    def gpu_uuids(self) -> tuple[str, ...]:
        return self._gpu_uuids

    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the living workers, for whoever watches the server."""
        with self._lock:
            return tuple(worker.pid for worker in self._workers.values())

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.kill()
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in workers:
            if not worker.wait(max(0.0, deadline - time.monotonic())):
                log.error("worker %d does not end", worker.pid)
        self._over.put(None)
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)

    # --- what happens ---

    def _take(self, stimulus: Stimulus) -> None:
        """Hand a stimulus to the dispatcher and carry out its decisions. Holds the lock."""
        if self._closing.is_set():
            return
        for decision in self._dispatcher.handle(stimulus, time.monotonic()):
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case StartWorker():
                self._start(decision)
            case RunJobs():
                self._run(decision)
            case AskToStop():
                self._change(decision.job, state=JobState.STOPPING)
                self._workers[decision.worker].send(Steer(decision.job, Wish.STOP))
            case RetireWorker():
                self._workers[decision.worker].send(Quit())
            case DropModels():
                self._held.pop(decision.worker, None)  # it will say anew
                self._workers[decision.worker].send(Drop())
            case KillWorker():
                self._workers[decision.worker].kill()
            case Requeue(job):
                self._views[job] = _as_submitted(self._views[job])
            case Settle(job, JobState.FAILED, problem):
                self._settle(job, Failed(problem or Notice("problem.activity_broke")))
            case Settle(job):
                self._settle(job, Stopped())

    def _start(self, order: StartWorker) -> None:
        name = order.worker
        try:
            self._workers[name] = WorkerProcess(
                order.device,
                self._settings,
                on_message=lambda message: self._heard(name, message),
                on_gone=lambda killed: self._gone(name, killed=killed),
            )
        except OSError:  # no memory or no process left on this machine
            log.exception("worker %s could not be started", name)
            self._take(WorkerLost(name))
            return
        log.info("worker %s is process %d on %s", name, self._workers[name].pid, order.device)

    def _run(self, order: RunJobs) -> None:
        self._held.pop(order.worker, None)
        for job in order.jobs:
            self._change(job, state=JobState.RUNNING, device=order.device)
        views = [self._views[job] for job in order.jobs]
        activity = self._activities[views[0].activity]
        together = activity.together
        self._workers[order.worker].send(
            Run(
                entry=activity.entry if together is None else together.entry,
                settings_type=f"{activity.settings.__module__}:{activity.settings.__qualname__}",
                jobs=tuple(
                    JobOrder(
                        job=view.id,
                        settings=view.settings,
                        keep=str(kept_folder(self._settings, view.student)),
                    )
                    for view in views
                ),
                together=together is not None,
            )
        )

    def _heard(self, worker: str, message: FromWorker) -> None:
        with self._lock:
            match message:
                case Hello():
                    self._greet(worker, message)
                case Holds(held):
                    self._held[worker] = held
                    self._vram_at = float("-inf")  # it may have given some back
                case Said(job, event):
                    view = self._views.get(job)
                    if view is not None and not view.state.over:
                        self._views[job] = apply(view, event)
                    left = event.seconds_left if isinstance(event, Progressed) else None
                    self._take(WorkerHeard(worker, job, left))
                case Ended(job, outcome, healthy):
                    why = self._dispatcher.why_stopped(job)
                    if isinstance(outcome, Stopped) and why is not None:
                        outcome = Failed(why)
                    self._settle(job, outcome)
                    finished = isinstance(outcome, Result)
                    self._take(JobEnded(worker, job, finished=finished, healthy=healthy))

    def _greet(self, worker: str, hello: Hello) -> None:
        if hello.protocol != PROTOCOL or not hello.device_name:
            # Most often a PyTorch without CUDA beside a working driver: LAB_DEVICES=cpu helps.
            log.error("worker %s cannot use its device: %s", worker, hello)
            self._workers[worker].kill()  # counts as a failed start
            return
        self._take(WorkerReady(worker))

    def _gone(self, worker: str, *, killed: bool) -> None:
        with self._lock:
            del self._workers[worker]
            self._held.pop(worker, None)
            self._vram_at = float("-inf")
            self._take(WorkerLost(worker, killed=killed))

    def _settle(self, job: str, outcome: Result | Stopped | Failed) -> None:
        view = apply(self._views[job], outcome)
        # The newest go last, so that the oldest finished ones can be dropped from the front.
        del self._views[job]
        self._views[job] = view
        if self._activities[view.activity].recorded:
            self._recording[view.student] += 1
            self._over.put(view)
        over = [name for name, kept in self._views.items() if kept.state.over]
        for name in over[:-KEPT_VIEWS]:
            del self._views[name]

    def _change(self, job: str, *, state: JobState, device: str | None = None) -> None:
        view = self._views[job]
        self._views[job] = replace(
            view, state=state, device=view.device if device is None else device
        )

    def _placed(self, view: JobView) -> JobView:
        """A queued job's view with its place and wait, as they are now."""
        if view.state is not JobState.QUEUED:
            return view
        return _placed(view, self._dispatcher.outlooks(time.monotonic()).get(view.id))

    # --- threads ---

    def _tick(self) -> None:
        looked_at = swept_at = 0.0
        while not self._closing.wait(TICK_SECONDS):
            now = time.monotonic()
            if self._may_keep is not None and now - swept_at >= PICTURES_SECONDS:
                swept_at = now
                self._sweep(self._may_keep)
            if self._gpu_uuids and now - looked_at >= MEMORY_SECONDS:
                looked_at = now
                self._look_at_memory()
            with self._lock:
                for worker in list(self._workers.values()):
                    worker.reap_if_dead()
                self._take(Ticked())

    def _look_at_memory(self) -> None:
        gpus, _ = list_gpus()
        with self._lock:
            for gpu in gpus:
                self._take(MemorySeen(gpu.uuid, gpu.free_mib, gpu.total_mib))

    def _sweep(self, may_keep: Callable[[JobView], bool]) -> None:
        """Let go of pictures whose time is over."""
        with self._lock:
            shown = [view for view in self._views.values() if view.state.over and view.pictures]
        for view in shown:
            if not may_keep(view):
                with self._lock:
                    if view.id in self._views:
                        self._views[view.id] = replace(view, pictures={})

    def _tell_over(self, on_over: Callable[[JobView], None] | None) -> None:
        while (view := self._over.get()) is not None:
            try:
                if on_over is not None:
                    on_over(view)
            except Exception:
                log.exception("job %s is over, but could not be recorded", view.id)
            with self._lock:
                self._recording -= Counter((view.student,))  # none are left: no entry either


def _placed(view: JobView, outlook: Outlook | None) -> JobView:
    if outlook is None:
        return view
    return replace(
        view,
        place=outlook.place,
        wait_seconds=outlook.wait_seconds,
        stage="stage.waiting_for_memory" if outlook.needs_memory else "",
    )


def _as_submitted(view: JobView) -> JobView:
    """The view without anything that has happened since."""
    return JobView(
        id=view.id,
        student=view.student,
        activity=view.activity,
        settings=view.settings,
        submitted_at=view.submitted_at,
    )


def submission(job: str, student: str, activity: Activity, settings: ActivitySettings) -> Submitted:
    """What the dispatcher has to know of a job, whose settings it never sees."""
    model, model_mib = activity.model(settings)
    batch = None
    if (together := activity.together) is not None:
        alike = (getattr(settings, name) for name in together.alike)
        weight = int(getattr(settings, together.weight))
        batch = Batch((activity.id, model, *alike), weight, together.most)
    return Submitted(
        job=job,
        student=student,
        activity=activity.id,
        lane=activity.lane,
        need_mib=activity.need_mib,
        size=activity.size(settings),
        model=model,
        model_mib=model_mib,
        batch=batch,
    )


def kept_folder(settings: LabSettings, student: str) -> Path:
    """Where this student's trained networks are kept; the name does not tell the token."""
    return settings.cache / "kept" / hashlib.sha256(student.encode()).hexdigest()[:32]


def delete_kept(settings: LabSettings, student: str) -> None:
    """Delete all files of this student. Raises Problem where some of them cannot be deleted."""
    folder = kept_folder(settings, student)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise Problem("problem.kept_delete")


def delete_old_kept(settings: LabSettings, *, days: int) -> int:
    """Delete the folders of students in which nothing has changed for so many days; returns how
    many. 0 days: keep everything."""
    before, gone = time.time() - days * 86_400, 0
    for folder in (settings.cache / "kept").glob("*") if days > 0 else ():
        with contextlib.suppress(OSError):  # changed at this very moment, or not ours to delete
            if max(path.stat().st_mtime for path in (folder, *folder.rglob("*"))) < before:
                shutil.rmtree(folder)
                gone += 1
    return gone


def _file_sizes(folder: Path) -> list[int]:
    sizes = []
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):  # deleted at this very moment
            if file.is_file():
                sizes.append(file.stat().st_size)
    return sizes


def _measured(
    worker: WorkerHolding, pid: int | None, held: Held | None, own_vram: float | None
) -> WorkerHolding:
    ram = None
    if pid is not None:
        with contextlib.suppress(psutil.Error):  # it has just ended
            ram = psutil.Process(pid).memory_info().rss / MIB
    return replaced(
        worker,
        pid=pid,
        ram_mib=ram,
        own_vram_mib=own_vram,
        held=held,
        models=worker.models if held is None else held.models,
    )


def _caps(settings: LabSettings) -> Caps:
    return Caps(
        train_slots=settings.train_slots,
        queue_limit=settings.queue_limit,
        student_limit=settings.student_limit,
        idle_seconds=settings.idle_seconds,
        grace_seconds=settings.grace_seconds,
        job_seconds=settings.job_seconds,
    )


def _chosen_gpus(settings: LabSettings) -> tuple[str, ...]:
    """UUIDs of the cards that jobs may use, as `LAB_DEVICES` says; empty means the CPU."""
    if settings.devices == CPU:
        return ()
    gpus, _ = list_gpus()
    here = tuple(gpu.uuid for gpu in gpus)
    if settings.devices == "auto":
        return here
    wanted = tuple(name.strip() for name in settings.devices.split(",") if name.strip())
    missing = [name for name in wanted if name not in here]
    if missing:
        log.warning("LAB_DEVICES names cards that are not here: %s", ", ".join(missing))
    return tuple(uuid for uuid in wanted if uuid in here)
