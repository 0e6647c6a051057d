"""Part 3: pictures of one sentence, or of many students' sentences in one run on one model.

A run loads the model if it is not in memory, then draws batch by batch. Each batch is a section
"draw" of its own; a job's row is what all batches took until its last picture was there.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import cast

import msgspec
import torch
from msgspec.structs import replace

from core.activities import ActivitySettings
from core.activities.make_images import ImageMade, MakeImagesResult, MakeImagesSettings
from core.context import Context, Share
from core.events import AnyEvent, Drawn, Failed, Measured, Progressed, Result, Staged, Stopped
from core.labs import pictures
from core.labs.device import (
    device_name,
    device_of,
    give_memory_back,
)
from core.labs.image_pipeline import ImagePipeline, Order, Pictures, held, loading
from core.models.image_models import ImageModel, image_model
from core.problems import Problem
from core.safety.prompts import load_rules, require_allowed
from core.telemetry.readings import Recording
from core.telemetry.summary import summarise

JobEvent = tuple[str, AnyEvent]  # a job, and what has happened to it

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Job:
    """One share of a run, and what has come of it so far."""

    share: Share
    settings: MakeImagesSettings
    images: list[ImageMade] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.share.job

    @property
    def orders(self) -> list[Order]:
        asked = self.settings
        return [Order(asked.prompt, asked.seed + number) for number in range(asked.count)]


def run(settings: ActivitySettings, context: Context) -> Iterator[AnyEvent]:
    """The pictures of one job: `run_together` with a single share."""
    for _, event in run_together([Share("", settings, context.stopped)], context):
        yield event


def run_together(shares: Sequence[Share], context: Context) -> Iterator[JobEvent]:
    """The pictures of all shares, which ask for the same model and steps, in batches.

    Each job gets its `Drawn` as its pictures come, then its `Result` with a `MakeImagesResult`;
    `Stopped` where its student has had enough; `Failed` where its sentence may not be drawn, which
    is checked here again. Raises Problem where none can be drawn: no model, no memory.
    """
    with device_of(context) as device:
        yield from _Run(context, device).of(shares)


class _Run:
    """One run: the jobs that are still in it, and the time that it has taken."""

    def __init__(self, context: Context, device: torch.device) -> None:
        self._context, self._device = context, device
        self._jobs: list[Job] = []
        self._load: Recording | None = None
        self._batches: list[Recording] = []  # of "draw"
        self._drawn = 0

    def of(self, shares: Sequence[Share]) -> Iterator[JobEvent]:
        settings = cast(MakeImagesSettings, shares[0].settings)
        model = image_model(self._context.lab, settings.model)
        yield from self._admit(shares, model)
        yield from self._part_with_stopped()
        if not self._jobs:
            return
        yield from self._loaded(model)
        yield from self._told(Staged("stage.image_draw"))
        yield from self._draw(held(model, self._device), settings.steps)

    def _admit(self, shares: Sequence[Share], model: ImageModel) -> Iterator[JobEvent]:
        """Take in the shares that may be drawn; the others are refused, each with its reason."""
        rules = load_rules(self._context.lab)
        for share in shares:
            settings = cast(MakeImagesSettings, share.settings)
            try:
                require_allowed(settings.prompt, rules)
                require_steps(settings.steps, model)
            except Problem as problem:
                yield share.job, Failed(problem.notice)
            else:
                self._jobs.append(Job(share, settings))

    def _loaded(self, model: ImageModel) -> Iterator[JobEvent]:
        for event in loading(model, self._context, self._device):
            if isinstance(event, Measured):
                self._load = event.recording
            yield from self._told(event)

    def _draw(self, pipeline: ImagePipeline, steps: int) -> Iterator[JobEvent]:
        """Batch by batch; one that is too large for the memory is halved, and so are the next."""
        at_once = pipeline.most_at_once
        together, students = sum(job.settings.count for job in self._jobs), len(self._jobs)
        began = time.perf_counter()
        while True:
            yield from self._part_with_stopped()
            waiting = [(job, order) for job in self._jobs for order in self._missing(job)]
            if not waiting:
                return
            batch = waiting[:at_once]
            orders = [order for _, order in batch]
            with self._context.meter.section("draw") as section:
                drawn = drawn_or_none(pipeline, orders, steps)
                files = self._encoded(drawn) if drawn is not None else []
                seconds = time.perf_counter() - began
            if drawn is None:
                at_once = max(1, len(batch) // 2)
                continue
            self._batches.append(section.recording)
            self._drawn += len(batch)
            for (job, order), picture, png in zip(batch, drawn, files, strict=True):
                name = f"image-{len(job.images)}"
                obeyed = pipeline.obeyed(order.prompt, picture)
                job.images.append(ImageMade(order.seed, seconds, f"{name}.png", obeyed))
                yield job.id, Drawn(name, png)
            yield from self._progress(seconds / self._drawn)
            yield from self._finish(together, students)

    def _encoded(self, drawn: Pictures) -> list[bytes]:
        """As PNG files, side by side: one of 512x512 takes as long as drawing it on a fast card."""
        if len(drawn) == 1:
            return [pictures.png(drawn[0])]
        with ThreadPoolExecutor(self._context.cpu_threads) as pool:
            return list(pool.map(pictures.png, drawn))

    def _missing(self, job: Job) -> list[Order]:
        return job.orders[len(job.images) :]

    def _progress(self, seconds_a_picture: float) -> Iterator[JobEvent]:
        """Each job's own count, and the wait until the last of its pictures."""
        ahead = 0
        for job in self._jobs:
            ahead += job.settings.count - len(job.images)
            left = ahead * seconds_a_picture
            yield job.id, Progressed(len(job.images), job.settings.count, left)

    def _finish(self, together: int, students: int) -> Iterator[JobEvent]:
        done = [job for job in self._jobs if len(job.images) == job.settings.count]
        self._jobs = [job for job in self._jobs if job not in done]
        if not done:
            return
        drawing = joined(self._batches)
        sections = [drawing] if self._load is None else [self._load, drawing]
        rows = tuple(map(summarise, sections))
        for job in done:
            result = MakeImagesResult(
                model=job.settings.model,
                images=tuple(job.images),
                together=together,
                students=students,
                load_seconds=None if self._load is None else self._load.seconds,
                device_name=device_name(self._device, self._context.machine),
            )
            yield job.id, Measured(drawing)
            yield job.id, Result(rows=rows, values=msgspec.to_builtins(result))

    def _part_with_stopped(self) -> Iterator[JobEvent]:
        stopped = [job for job in self._jobs if job.share.stopped()]
        self._jobs = [job for job in self._jobs if job not in stopped]
        for job in stopped:
            yield job.id, Stopped()

    def _told(self, event: AnyEvent) -> Iterator[JobEvent]:
        """The event, to every job."""
        for job in self._jobs:
            yield job.id, event


def require_steps(steps: int, model: ImageModel) -> None:
    """Raises Problem for more steps than the model has learnt."""
    if steps > model.most_steps:
        raise Problem(
            "problem.image_steps", steps=steps, model=model.id, most_steps=model.most_steps
        )


def require_all_allowed(prompts: Sequence[str], context: Context) -> None:
    """Raises Problem for the first sentence that may not be drawn."""
    rules = load_rules(context.lab)
    for prompt in prompts:
        require_allowed(prompt, rules)


def drawn_or_none(pipeline: ImagePipeline, orders: Sequence[Order], steps: int) -> Pictures | None:
    """The pictures of one batch; None where so many at once do not fit into memory.

    Raises torch.OutOfMemoryError where not even one does.
    """
    try:
        return pipeline.draw(orders, steps)
    except torch.OutOfMemoryError as error:
        if len(orders) == 1:
            raise
        log.warning("%d pictures at once do not fit into memory", len(orders))
        # The traceback holds the frames, the frames hold the tensors.
        traceback.clear_frames(error.__traceback__)
    give_memory_back(pipeline.device)
    return None


def joined(recordings: Sequence[Recording]) -> Recording:
    """Sections of one name that followed each other, as one."""
    readings, seconds = [], 0.0
    for recording in recordings:
        readings += [replace(each, seconds=each.seconds + seconds) for each in recording.readings]
        seconds += recording.seconds
    return replace(recordings[-1], seconds=seconds, readings=tuple(readings))
