"""For the benchmarks of Part 3: requests of students to the engine, as the pages make them."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.activities import ActivitySettings
from core.activities.make_images import MakeImagesSettings
from core.engine.dispatcher import Caps
from core.engine.local import LocalEngine
from core.engine.view import JobState, JobView
from core.settings import LabSettings
from tests.benchmarks.report import Report

POLL_SECONDS = 0.002
PATIENCE_SECONDS = 540.0
SAME = 20  # of 255: rounding stays far below, another picture is far beyond
THINGS = ("red bag", "white dress", "blue boot", "green coat", "chiếc váy tím")
GROUNDS = ("yellow", "black", "pink", "nền cam")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request."""

    view: JobView
    seconds: float  # from asking until the finished pictures were there

    @property
    def picture(self) -> NDArray[np.uint8]:
        return np.array(Image.open(io.BytesIO(self.view.pictures["image-0"])))


@contextmanager
def engine_of(settings: LabSettings) -> Iterator[LocalEngine]:
    engine = LocalEngine(settings, caps=Caps(idle_seconds=3_600, grace_seconds=3_600))
    try:
        yield engine
    finally:
        engine.close()


def ask(engine: LocalEngine, student: str, activity: str, settings: ActivitySettings) -> Answer:
    """Send one request and wait for its end. Raises RuntimeError where it did not succeed."""
    began = time.perf_counter()
    job = engine.submit(student, activity, settings)
    while True:
        view = engine.view(job, student=student)
        assert view is not None
        if view.state.over:
            break
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise RuntimeError(f"{activity} has not ended: {view.state}, {view.stage}")
        time.sleep(POLL_SECONDS)
    if view.state is not JobState.DONE:
        raise RuntimeError(f"{activity} ended as {view.state}: {view.problem}")
    return Answer(view, time.perf_counter() - began)


def class_of(students: int, model: str) -> list[MakeImagesSettings]:
    """As many different requests, one a student."""
    return [
        MakeImagesSettings(
            prompt=f"a {THINGS[number % 5]} on {GROUNDS[number // 5 % 4]}", seed=number, model=model
        )
        for number in range(students)
    ]


def all_at_once(engine: LocalEngine, requests: Sequence[MakeImagesSettings]) -> list[Answer]:
    """Every student presses the button in the same moment."""
    with ThreadPoolExecutor(len(requests)) as pool:
        asked = [
            pool.submit(ask, engine, f"student-{number}", "make-images", request)
            for number, request in enumerate(requests)
        ]
        return [one.result() for one in asked]


def measure_class(
    engine: LocalEngine,
    requests: Sequence[MakeImagesSettings],
    report: Report,
    *,
    rounds: int,
    at_most: float | None,
) -> None:
    """Waits of a whole class, several times; then each picture against its single run."""
    waits: list[float] = []
    speeds: list[float] = []
    answers: list[Answer] = []
    for _ in range(rounds):
        began = time.perf_counter()
        answers = all_at_once(engine, requests)
        speeds.append(len(requests) / (time.perf_counter() - began))
        waits += [answer.seconds for answer in answers]
    runs = {(answer.view.result or {})["together"] for answer in answers}
    print(f"pictures in the runs that served the last class: {sorted(runs)}")
    report.p95(f"{len(requests)} students at once, wait", waits, "s", at_most=at_most)
    report.median(f"{len(requests)} students at once", speeds, "pictures/s")
    apart = []
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        alone = ask(engine, f"student-{number}", "make-images", request).picture
        apart.append(float(np.abs(alone.astype(int) - answer.picture.astype(int)).max()))
    lost = len(requests) - len(answers)
    swapped = sum(distance > SAME for distance in apart)
    report.median("largest difference from the single run, of 255", apart, "levels")
    report.at_most("pictures lost or swapped", lost + swapped, 0)
