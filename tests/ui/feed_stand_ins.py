"""Jobs of Part 2b to draw: six ways on a GPU as measured on a large card, four on a CPU."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec
from msgspec.structs import replace

from core.activities.feed_gpu import (
    Diagnosis,
    FeedGpuResult,
    FeedGpuSettings,
    RaceResult,
    RaceSettings,
    Span,
    TimeLine,
    WayResult,
)
from core.engine.view import JobState, JobView
from core.problems import Notice
from core.telemetry.readings import Absences, Recording, SummaryRow
from tests.ui.stand_ins import CARD, NO_GPU, PC, readings

# way -> (seconds of a pass, data wait, GPU wait, GPU %, watts, CPU %, loader CPU %, readable)
ON_GPU = {
    "loader": (4.75, 0.43, 0.18, 24, 131, 88, 97, 0.61),
    "resident": (2.70, 0.0, 0.31, 41, 142, 99, 0, 0.62),
    "large": (0.62, 0.0, 0.22, 62, 208, 98, 0, 0.18),
    "no_wait": (1.61, 0.0, 0.0, 66, 160, 99, 0, 0.6),
    "graph": (0.46, 0.0, 0.0, 97, 312, 12, 0, 0.61),
    "lean": (0.22, 0.0, 0.0, 98, 391, 14, 0, 0.6),
}
ON_CPU = {
    "loader": (5.9, 0.03, 0.0, None, None, 171, 14, 0.02),
    "resident": (5.6, 0.0, 0.0, None, None, 178, 0, 0.02),
    "large": (4.8, 0.0, 0.0, None, None, 186, 0, 0.0),
    "no_wait": (5.5, 0.0, 0.0, None, None, 179, 0, 0.02),
}
PIXEL_ROW = bytes(range(0, 224))


def a_picture() -> bytes:
    """Eight digits' worth of grey: a PNG of 224 x 28 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 224, 28, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + PIXEL_ROW) * 28)
    png = b"\x89PNG\r\n\x1a\n"
    return png + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def feed_settings(*, gpu: bool) -> FeedGpuSettings:
    if gpu:
        return FeedGpuSettings()
    return FeedGpuSettings(images=2_560, graph=0, lean=0)


def feed_job(
    state: JobState,
    *,
    gpu: bool = False,
    student: str = "somebody",
    ways: tuple[str, ...] = (),
    number: int = 1,
) -> JobView:
    """A job of Part 2b in this state, with everything that belongs to it; `ways`: only these."""
    settings: dict[str, Any] = msgspec.to_builtins(feed_settings(gpu=gpu))
    if ways:
        settings |= {way: int(way in ways) for way in ON_GPU}
    view = JobView(
        id=f"feed-{number}",
        student=student,
        activity="feed-gpu",
        settings=settings,
        state=state,
        device=CARD.uuid if gpu else "cpu",
        submitted_at=1_790_000_000.0 + number,
        absences=Absences() if gpu else NO_GPU,
    )
    match state:
        case JobState.QUEUED:
            return replace(view, place=2, wait_seconds=40.0)
        case JobState.RUNNING | JobState.STOPPING:
            return replace(
                view,
                stage="stage.digits",
                done=2 * 60_000,
                total=6 * 60_000,
                seconds_left=11.0,
                section="large",
                recordings=_recordings(("loader", "resident"), gpu=gpu),
                readings=tuple(readings(8, gpu=gpu, busy=False)),
            )
        case JobState.FAILED:
            return replace(view, problem=Notice("problem.worker_killed"))
        case JobState.DONE:
            return _done(view, ways or tuple(ON_GPU if gpu else ON_CPU), gpu=gpu)
    return view


def _recordings(ways: tuple[str, ...], *, gpu: bool) -> tuple[Recording, ...]:
    figures = ON_GPU if gpu else ON_CPU
    return tuple(
        Recording(
            name=way,
            seconds=figures[way][0],
            readings=tuple(readings(figures[way][0], gpu=gpu, busy=False)),
            data_wait_seconds=figures[way][0] * figures[way][1],
            absences=Absences() if gpu else NO_GPU,
        )
        for way in ways
    )


def _done(view: JobView, ways: tuple[str, ...], *, gpu: bool) -> JobView:
    figures = ON_GPU if gpu else ON_CPU
    images = view.settings["images"]
    rows, results = [], []
    for way in ways:
        seconds, data, wait, busy, watts, cpu, loader, readable = figures[way]
        batch = 512 if way == "large" else 128
        steps = images // batch
        rows.append(
            SummaryRow(
                way,
                seconds,
                gpu_percent_mean=busy if seconds > 1 else None,
                own_vram_mib_max=780.0 if gpu else None,
                power_watts_max=watts,
                energy_wh=seconds * watts / 3600 if watts else None,
                cpu_percent_mean=cpu,
                children_cpu_percent_mean=loader,
                data_wait_share=data,
                samples=round(seconds / 0.2),
            )
        )
        results.append(
            WayResult(
                way=way,
                batch=batch,
                images=steps * batch,
                steps=steps,
                seconds=seconds,
                seconds_low=seconds * 0.98,
                seconds_high=seconds * 1.03,
                repeats=3 if seconds < 10 else 1,
                images_per_second=steps * batch / seconds,
                data_wait_share=data,
                gpu_wait_share=wait,
                upload_seconds=None if way == "loader" else 0.03,
                readable_equal_epochs=readable,
                readable_equal_steps=0.55 * readable if way != "large" else readable,
            )
        )
    values = FeedGpuResult(
        ways=tuple(results),
        timelines=tuple(_timeline(way, gpu=gpu) for way in ways),
        diagnoses=tuple(d for d in _diagnoses(gpu=gpu) if d.way in ways),
        data_mib=179.4,
        device_name=CARD.name if gpu else PC.cpu,
        digits="widened",
    )
    return replace(
        view,
        rows=tuple(rows),
        recordings=_recordings(ways, gpu=gpu),
        result=msgspec.to_builtins(values),
        pictures={f"{kind}-{way}": a_picture() for kind in ("epochs", "steps") for way in ways},
    )


def _timeline(way: str, *, gpu: bool) -> TimeLine:
    """Six steps: load, launch, wait on the CPU; one stretch of work on the GPU or the CPU."""
    seconds, data, wait, *_ = (ON_GPU if gpu else ON_CPU)[way]
    step = 1000 * seconds / (117 if way == "large" else 468 if gpu else 20)
    spans = []
    for number in range(6):
        start = number * step
        load, waits = start + data * step, start + (1 - wait) * step
        if data:
            spans.append(Span("cpu", "load", start, load))
        if gpu:
            spans.append(Span("cpu", "launch", load, waits))
            spans.append(Span("gpu", "step", load + 0.3 * (waits - load), start + 0.97 * step))
        else:
            spans.append(Span("cpu", "step", load, waits))
        if wait:
            spans.append(Span("cpu", "wait", waits, start + step))
    return TimeLine(way, tuple(spans))


def _diagnoses(*, gpu: bool) -> tuple[Diagnosis, ...]:
    if not gpu:
        return tuple(
            Diagnosis(way, "compute", "data_wait_share", 0.03, 0.2, "large") for way in ON_CPU
        )
    return (
        Diagnosis("loader", "data", "data_wait_share", 0.43, 0.2, "resident"),
        Diagnosis("resident", "wait", "gpu_wait_share", 0.31, 0.2, "no_wait"),
        Diagnosis("large", "wait", "gpu_wait_share", 0.22, 0.2, "no_wait"),
        Diagnosis("no_wait", "launch", "gpu_percent", 0.66, 0.9, "graph"),
        Diagnosis("graph", "compute", "gpu_percent", 0.97, 0.9, "lean"),
        Diagnosis("lean", "compute", "gpu_percent", 0.98, 0.9, None),
    )


def race_job(
    student: str,
    *,
    seconds: float | None = 3.2,
    number: int = 1,
    goal: float = 0.6,
    settings: RaceSettings | None = None,
    state: JobState = JobState.DONE,
) -> JobView:
    values = RaceResult(
        seconds=seconds,
        steps=1_200,
        images=153_600,
        readable=0.62 if seconds is not None else 0.41,
        goal=goal,
        device_name=CARD.name,
        digits="widened",
    )
    return JobView(
        id=f"race-{student}-{number}",
        student=student,
        activity="race",
        settings=msgspec.to_builtins(settings or RaceSettings()),
        state=state,
        device=CARD.uuid,
        result=msgspec.to_builtins(values) if state is JobState.DONE else None,
    )
