"""Stand-ins for what a page talks to: an engine that runs nothing, and views of jobs to draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace as replaced
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core.activities import ActivitySettings, ComputeTime, CpuVsGpuResult, Speedup
from core.engine.holdings import Holdings
from core.engine.view import JobState, JobView
from core.problems import Notice, Problem
from core.settings import LabSettings
from core.telemetry.readings import Absences, Gpu, Machine, Reading, Recording, SummaryRow
from core.ui import resources

CARD = Gpu(uuid="GPU-1", name="Test Card 12G", total_mib=12288, free_mib=11000, busy_percent=3)
PC = Machine(cpu="Test CPU", cores=8, ram_mib=16384, gpu_absence="absent.no_driver")
GPU_PC = Machine(cpu="Test CPU", cores=8, ram_mib=16384, gpus=(CARD,))
NO_GPU = Absences(
    dict.fromkeys(
        ("gpu_percent", "card_used_mib", "own_vram_mib", "power_watts"), "absent.no_driver"
    )
)


class StandInEngine:
    """Keeps the protocol of `Engine`; a test puts the views in."""

    def __init__(self, *, gpus: tuple[str, ...] = ()) -> None:
        self.jobs: dict[tuple[str, str], JobView] = {}
        self.submitted: list[tuple[str, str, ActivitySettings]] = []
        self.cancelled: list[str] = []
        self.watched: list[str] = []
        self.refusal: Problem | None = None
        self.held = Holdings()
        self._gpus = gpus
        self.history: list[JobView] = []

    def put(self, view: JobView) -> None:
        self.history.append(view)
        self.jobs[view.student, view.activity] = view

    def submit(self, student: str, activity: str, settings: ActivitySettings) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append((student, activity, settings))
        job = self.latest(student, activity)
        if job is None or job.state.over:
            job = JobView("job-1", student, activity, msgspec.to_builtins(settings), place=1)
            self.put(job)
        return job.id

    def cancel(self, job: str, *, student: str) -> None:
        self.cancelled.append(job)
        for view in list(self.jobs.values()):
            if view.id == job and view.student == student:
                self.put(replace(view, state=JobState.STOPPING))

    def view(self, job: str, *, student: str) -> JobView | None:
        views = self.jobs.values()
        return next((v for v in views if v.id == job and v.student == student), None)

    def latest(self, student: str, activity: str) -> JobView | None:
        return self.jobs.get((student, activity))

    def jobs_of(self, student: str, activity: str) -> tuple[JobView, ...]:
        return tuple(
            view
            for view in reversed(self.history)
            if (view.student, view.activity) == (student, activity)
        )

    def seen(self, student: str) -> None:
        self.watched.append(student)

    def class_jobs(self) -> tuple[JobView, ...]:
        return tuple(view for view in self.jobs.values() if not view.state.over)

    def cancel_any(self, job: str) -> None:
        self.cancelled.append(job)

    def holdings(self, student: str) -> Holdings:
        return self.held

    def give_back(self, student: str) -> Holdings:
        before, self.held = self.held, replaced(self.held, jobs=0, picture_bytes=0)
        return before

    def gpu_uuids(self) -> tuple[str, ...]:
        return self._gpus

    def close(self) -> None:
        self.jobs.clear()


class StandInRecords:
    """What `Records` remembers of finished jobs, in a list."""

    def __init__(self) -> None:
        self.views: list[JobView] = []

    def latest(
        self, student: str, activity: str, *, state: JobState | None = None
    ) -> JobView | None:
        fitting = (
            view
            for view in reversed(self.views)
            if (view.student, view.activity) == (student, activity) and state in (None, view.state)
        )
        return next(fitting, None)


def use(
    patch: pytest.MonkeyPatch,
    engine: StandInEngine,
    *,
    records: StandInRecords | None = None,
    machine: Machine = PC,
    digits: Future[Any] | None = None,
) -> None:
    """Let the pages find these instead of the server's own."""
    settings, store = LabSettings(), records or StandInRecords()
    meter = SimpleNamespace(history=(Reading(0.0, host_cpu_percent=50.0),))
    stand_ins: dict[str, Callable[[], Any]] = {
        "engine": lambda: engine,
        "records": lambda: store,
        "machine": lambda: machine,
        "lab_settings": lambda: settings,
        "host_meter": lambda: meter,
        "digits": lambda: digits,
    }
    for name, stand_in in stand_ins.items():
        patch.setattr(resources, name, stand_in)


def readings(seconds: float, *, gpu: bool, busy: bool = True, period: float = 0.2) -> list[Reading]:
    """What a meter might read: a CPU near 170 % while `busy`, and a card where there is one."""
    found = []
    for i in range(round(seconds / period)):
        wave = math.sin(i / 3)
        found.append(
            Reading(
                seconds=i * period,
                gpu_percent=(2 if busy else 22 + 8 * wave) if gpu else None,
                card_used_mib=(520 if busy else 665) if gpu else None,
                own_vram_mib=(0 if busy else 140) if gpu else None,
                power_watts=(17 if busy else 21 + wave) if gpu else None,
                cpu_percent=170 + 12 * wave if busy else 60 + 15 * wave,
                children_cpu_percent=9 + 3 * wave if busy else 80 + 12 * wave,
            )
        )
    return found


def job(state: JobState, *, gpu: bool = False, student: str = "somebody") -> JobView:
    """A job of Part 1 in this state, with everything that belongs to it."""
    view = JobView(
        id=f"job-{state}-{gpu}",
        student=student,
        activity="cpu-vs-gpu",
        settings={"steps": 100, "seed": 0},
        state=state,
        device=CARD.uuid if gpu else "cpu",
        submitted_at=1_790_000_000.0,
    )
    match state:
        case JobState.QUEUED:
            return replace(view, place=3, wait_seconds=75.0)
        case JobState.RUNNING | JobState.STOPPING:
            return replace(
                view,
                stage="stage.whole_cpu" if gpu else "stage.whole_one_thread",
                done=37,
                total=200,
                seconds_left=24.3,
                section="cpu",
                readings=tuple(readings(14, gpu=gpu)),
                absences=Absences() if gpu else NO_GPU,
            )
        case JobState.FAILED:
            return replace(view, problem=Notice("problem.worker_killed"))
        case JobState.DONE:
            return done(view, gpu=gpu)
    return view


def done(view: JobView, *, gpu: bool) -> JobView:
    """The job with recordings, summary and result: 37.5 s against 3.8 s, as in the course."""
    sections = ("cpu", "gpu") if gpu else ("one_thread", "all_threads")
    seconds = (37.5, 3.8) if gpu else (31.2, 18.4)
    absences = Absences() if gpu else NO_GPU
    recordings = tuple(
        Recording(
            name=name,
            seconds=length,
            readings=tuple(readings(length, gpu=gpu, busy=not gpu or name == "cpu")),
            data_wait_seconds=0.4,
            absences=absences,
        )
        for name, length in zip(sections, seconds, strict=True)
    )
    rows = (
        SummaryRow(sections[0], seconds[0], cpu_percent_mean=166, children_cpu_percent_mean=9),
        SummaryRow(sections[1], seconds[1], cpu_percent_mean=43, children_cpu_percent_mean=88),
    )
    if gpu:
        rows = (
            replace(
                rows[0],
                gpu_percent_mean=0,
                card_used_mib_max=522,
                own_vram_mib_max=0,
                power_watts_max=17,
                energy_wh=0.17,
                data_wait_share=0.01,
            ),
            replace(
                rows[1],
                gpu_percent_mean=19,
                card_used_mib_max=666,
                own_vram_mib_max=142,
                power_watts_max=20,
                energy_wh=0.02,
                data_wait_share=0.62,
            ),
        )
    values = CpuVsGpuResult(
        parameters={"generator": 534_081, "discriminator": 138_817},
        sections=sections,
        speedup=Speedup(whole=seconds[0] / seconds[1], compute=24.6 if gpu else 1.8),
        compute=(
            ComputeTime(sections[0], 15, ms_median=368.4, ms_low=361.2, ms_high=379.9),
            ComputeTime(sections[1], 200, ms_median=14.97, ms_low=14.7, ms_high=15.6),
        ),
        steps=100,
        batch=128,
        threads=(2, 2) if gpu else (1, 2),
        device_name=CARD.name if gpu else PC.cpu,
        digits="widened",
    )
    return replace(
        view,
        state=JobState.DONE,
        recordings=recordings,
        rows=rows,
        result=msgspec.to_builtins(values),
        absences=absences,
    )
