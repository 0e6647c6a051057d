"""Every measured run as rows in the order of the parts: a student's own, and recordings."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from core.activities import (
    ACTIVITIES,
    AttackSweepResult,
    CpuVsGpuResult,
    EightPicturesResult,
    FeedGpuResult,
    MakeImagesResult,
    RaceResult,
    TrainGanResult,
    TransferResult,
)
from core.engine.view import JobState, JobView
from core.recordings import Replay
from core.telemetry.readings import Machine, SummaryRow
from core.telemetry.summary import summarise
from core.texts import Texts

CPU = "cpu"  # the device of a job that runs on the processor
CPU_SECTIONS = ("cpu", "one_thread", "all_threads")  # on the processor, whatever the job's device
# Sections of these are called like those of another activity of the same part.
SAME_NAMES = ("make-images", "eight-pictures", "defences")


class Kind(StrEnum):
    """What a row measures."""

    TRAINING = "training"  # weights are corrected
    INFERENCE = "inference"  # weights are used as they are
    LOADING = "loading"  # weights are brought into memory


@dataclass(frozen=True, slots=True)
class Part:
    """One part that measures: its page, and what can be run there in the order of the table."""

    id: str
    page: str  # as in `pages/<page>.py` and in the label `shell.page.<page>`
    activities: tuple[str, ...]


PARTS = (
    Part("1", "cpu_or_gpu", ("cpu-vs-gpu",)),
    Part("2", "watch_it_learn", ("train-gan",)),
    Part("2b", "feed_the_gpu", ("feed-gpu", "race")),
    Part("3", "pictures_from_words", ("make-images", "eight-pictures")),
    Part("4", "fool_the_classifier", ("attack", "attack-sweep", "transfer", "defences")),
)
TRAINING_PARTS = ("1", "2", "2b")


@dataclass(frozen=True, slots=True)
class Row:
    """One measured section of one run."""

    part: str
    activity: str
    figures: SummaryRow  # as the meter summed it up; its `name` is the section
    device: str  # name of the card or processor that did the work
    machine: str  # the computer's processor
    on_card: bool
    recorded: bool  # a recording, not a run of this student
    when: str  # ISO: day and minute of a run, day of a recording
    complete: bool = True  # False: the run was stopped or failed after this section
    images: int | None = None  # that this section learned from, drew or attacked
    run: str = ""  # id of the job
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def section(self) -> str:
        return self.figures.name

    @property
    def kind(self) -> Kind:
        if self.section == "load":
            return Kind.LOADING
        return Kind.TRAINING if self.part in TRAINING_PARTS else Kind.INFERENCE

    def label(self, say: Texts) -> str:
        """What was measured, unlike any other row of its part but a repeat."""
        name = say(f"section.{self.section}")
        if self.activity in SAME_NAMES:
            name = f"{say(f'part5.activity.{self.activity}')}: {name}"
        return f"{name} ({say('part5.recorded')})" if self.recorded else name


def own_rows(jobs: Iterable[JobView], machine: Machine) -> tuple[Row, ...]:
    """The measured sections of these jobs, all of one student; repeats stay.

    Ordered by part, activity, and time. Of a run that was stopped, the sections that it ended.
    """
    return _ordered(row for job in jobs if job.state.over for row in _of_job(job, machine))


def recorded_rows(replays: Iterable[Replay]) -> tuple[Row, ...]:
    """The measured sections of recordings, in the order of `own_rows`."""
    return _ordered(row for replay in replays for row in _of_replay(replay))


def together(own: Sequence[Row], recorded: Sequence[Row]) -> tuple[Row, ...]:
    """Both in one table; in each activity the student's own come first."""
    return _ordered((*own, *recorded))


def not_run(rows: Sequence[Row]) -> tuple[Part, ...]:
    """The parts of which this student has measured nothing yet."""
    done = {row.part for row in rows if not row.recorded}
    return tuple(part for part in PARTS if part.id not in done)


def newest(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Of repeats the last one alone: what a chart has room for."""
    last = {(row.activity, row.section, row.on_card, row.recorded): row for row in rows}
    return tuple(row for row in rows if last[_same(row)] is row)


def _same(row: Row) -> tuple[str, str, bool, bool]:
    return row.activity, row.section, row.on_card, row.recorded


PLACES = {
    activity: place
    for place, (part, activity) in enumerate(
        (part.id, activity) for part in PARTS for activity in part.activities
    )
}
PART_OF = {activity: part.id for part in PARTS for activity in part.activities}


def _ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    # Sections of one run keep their order, because sorting is stable.
    return tuple(sorted(rows, key=lambda row: (PLACES[row.activity], row.recorded, row.when)))


def _of_job(job: JobView, machine: Machine) -> Iterator[Row]:
    if job.activity not in PART_OF:
        return
    figures = job.rows or tuple(summarise(recording) for recording in job.recordings)
    cards = {gpu.uuid: gpu.name for gpu in machine.gpus}
    named = str((job.result or {}).get("device_name", ""))
    device = cards.get(job.device) or named or (machine.cpu if job.device == CPU else job.device)
    when = datetime.datetime.fromtimestamp(job.submitted_at)
    for row in figures:
        on_card = job.device not in (CPU, "") and row.name not in CPU_SECTIONS
        yield Row(
            part=PART_OF[job.activity],
            activity=job.activity,
            figures=row,
            device=device if on_card else machine.cpu,
            machine=machine.cpu,
            on_card=on_card,
            recorded=False,
            when=when.isoformat(sep=" ", timespec="seconds"),
            complete=job.state is JobState.DONE,
            images=images_of(job.activity, row.name, job.result),
            run=job.id,
            settings=job.settings,
        )


def _of_replay(replay: Replay) -> Iterator[Row]:
    if replay.activity not in PART_OF:
        return
    cards = {gpu.name for gpu in replay.machine.gpus}
    for row in replay.rows:
        on_card = replay.device_name in cards and row.name not in CPU_SECTIONS
        yield Row(
            part=PART_OF[replay.activity],
            activity=replay.activity,
            figures=row,
            device=replay.device_name if on_card else replay.machine.cpu,
            machine=replay.machine.cpu,
            on_card=on_card,
            recorded=True,
            when=replay.made_at,
            images=images_of(replay.activity, row.name, replay.values),
            settings=replay.settings,
        )


def images_of(activity: str, section: str, values: dict[str, Any] | None) -> int | None:
    """How many pictures a section learned from, drew or attacked; None where nobody counted."""
    try:
        result = msgspec.convert(values, ACTIVITIES[activity].result)
    except msgspec.ValidationError:  # no result, or one of an older version
        return None
    if isinstance(result, FeedGpuResult):
        return next((way.images for way in result.ways if way.way == section), None)
    if isinstance(result, CpuVsGpuResult | TrainGanResult):
        return result.steps * result.batch
    return _drawn_or_attacked(result, section)


def _drawn_or_attacked(result: msgspec.Struct, section: str) -> int | None:
    counts = {"first": 1, "attack": 1}  # by section, where no result says more
    match result:
        case RaceResult():
            counts["race"] = result.images
        case MakeImagesResult():
            counts["draw"] = result.together  # of all who shared the run, as its time is
        case EightPicturesResult():
            counts["draw"] = len(result.images)
        case AttackSweepResult():
            counts |= {"sweep": len(result.points), "map": len(result.map)}
        case TransferResult():
            counts["transfer"] = len({cell.made_for for cell in result.cells})
    return counts.get(section)
