"""One activity without a browser: run it here, tell what happens, keep what was asked for.

The same generator serves the pages; here its events go to a terminal, or out as JSON lines.
"""

from __future__ import annotations

import csv
import functools
import importlib
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import asdict

from core.activities import (
    Activity,
    ActivitySettings,
    AttackResult,
    AttackSweepResult,
    CpuVsGpuResult,
    DefencesResult,
    DrawResult,
    EightPicturesResult,
    FeedGpuResult,
    ImageSpeedResult,
    InsideResult,
    MakeImagesResult,
    PictureInsideResult,
    PreparePicturesResult,
    RaceResult,
    RealOrFakeResult,
    SteadyLoadResult,
    TrainGanResult,
    TransferResult,
)
from core.activities.make_images import BlockFacts, ImageMade
from core.context import Context
from core.data.digits import Digits, load_digits
from core.events import AnyEvent, Drawn, Failed, Measured, Progressed, Result, Staged, Stopped
from core.headless_attack import attack_text
from core.preflight.gate import PreflightResult
from core.preflight.terminal import result_text as preflight_text
from core.problems import Notice, Problem
from core.recordings import replay_of, write_replay
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine, Recording, SummaryRow
from core.texts import Texts

FINISHED, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130  # exit codes; 130 as shells have it

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    """One run: what was asked for, and what has come of it so far."""

    activity: Activity
    settings: ActivitySettings
    machine: Machine
    recordings: list[Recording] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)
    outcome: Result | Stopped | Failed | None = None

    def result_line(self, result: Result) -> dict[str, Any]:
        """The last JSON line: `rows`, and beside them the values of the activity's own.

        Where these tell more of each row (`ways`), that stands in the row.
        """
        more = {way["way"]: way for way in result.values.get("ways", ())}
        return {
            "event": "result",
            "activity": self.activity.id,
            "settings": msgspec.to_builtins(self.settings),
            "machine": msgspec.to_builtins(self.machine),
            **result.values,
            "rows": [msgspec.to_builtins(row) | more.get(row.name, {}) for row in result.rows],
        }


class Teller:
    """Tells a reader what happens in a run; sentences go to standard error."""

    def __init__(self, say: Texts) -> None:
        self._say = say

    def notice(self, notice: Notice) -> None:
        print(self._say.notice(notice), file=sys.stderr)

    def event(self, run: Run, event: AnyEvent) -> None:
        raise NotImplementedError


class JsonTeller(Teller):
    """One JSON object a line on standard output, an event each."""

    def event(self, run: Run, event: AnyEvent) -> None:
        line: Any = run.result_line(event) if isinstance(event, Result) else event
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.buffer.flush()


class ScreenTeller(Teller):
    """Progress on standard error, the result on standard output, in the reader's language."""

    def __init__(self, say: Texts) -> None:
        super().__init__(say)
        self._stage = ""
        self._live = sys.stderr.isatty()  # else one line a stage: a log file has no cursor

    def event(self, run: Run, event: AnyEvent) -> None:
        match event:
            case Staged():
                self._stage = self._say(event.stage)
                if not self._live:
                    print(self._stage, file=sys.stderr)
            case Progressed() if self._live:
                self._redraw(event)
            case Result():
                self._clear()
                print("\n".join(result_text(self._say, event, run.activity)))
            case Stopped():
                self._clear()
                print(self._say("cli.stopped"), file=sys.stderr)
            case Failed():
                self._clear()  # the sentence itself is for whoever holds the exit code
            case _:
                pass

    def _redraw(self, progress: Progressed) -> None:
        words = [self._stage, self._say.percent(100 * progress.done / progress.total)]
        if progress.seconds_left is not None:
            words.append(self._say("cli.left", left=progress.seconds_left))
        print("\r\x1b[K" + " · ".join(words), end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the outcome is to be kept besides being told."""

    folder: Path | None = None  # --save
    replay: Path | None = None  # --record

    def check(self) -> None:
        """Raises Problem if a place cannot be written: before the run, not after minutes of it."""
        try:
            if self.folder is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=self.folder).close()
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        try:
            if self.replay is not None:
                if self.replay.is_dir():
                    raise IsADirectoryError(21, "Is a directory")
                tempfile.TemporaryFile(dir=self.replay.parent).close()
        except OSError as error:
            raise _unwritable(self.replay, error) from None

    def keep(self, run: Run, result: Result) -> None:
        """Raises Problem naming the place that could not be written after all."""
        try:
            if self.folder is not None:
                _save(self.folder, run, result)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        try:
            if self.replay is not None:
                recordings = tuple(run.recordings)
                replay = replay_of(run.activity.id, run.settings, run.machine, recordings, result)
                write_replay(replay, self.replay)
        except OSError as error:
            raise _unwritable(self.replay, error) from None


def _unwritable(path: Path | None, error: OSError) -> Problem:
    return Problem("problem.path_unwritable", path=str(path), reason=error.strerror or str(error))


def _save(folder: Path, run: Run, result: Result) -> None:
    """result.json, a table of readings for each section, and the pictures."""
    line = msgspec.json.encode(run.result_line(result))
    (folder / "result.json").write_bytes(msgspec.json.format(line, indent=2) + b"\n")
    for recording in run.recordings:
        with (folder / f"{recording.name}.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(recording.readings[0].__struct_fields__ if recording.readings else ())
            table.writerows(msgspec.structs.astuple(reading) for reading in recording.readings)
    for name, picture in run.pictures.items():
        kind = "gif" if picture.startswith(b"GIF8") else "png"
        (folder / f"{name}.{kind}").write_bytes(picture)


def run_activity(
    activity: Activity,
    settings: ActivitySettings,
    lab: LabSettings,
    *,
    device: str,
    keeping: Keeping,
    teller: Teller,
    brought: Path | None = None,
) -> int:
    """Run to the end, until interrupted or until it fails. Returns the exit code.

    `brought` is a folder that stands for the student's own, with an upload in it.

    Raises Problem for bad input: an unknown device, a place that cannot be written.
    """
    keeping.check()
    # On a busy machine, threads that spin while they wait for each other make a step of two threads
    # many times slower. Read once, when PyTorch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with _stop_on_interrupt() as stopped:
        # Only now PyTorch is imported: everything above answers at once.
        from core.labs.device import chosen_device

        name, uuid = chosen_device(device, allowed=lab.devices)
        run = Run(activity, settings, describe_machine())
        with open_meter(gpu_uuid=uuid, period_seconds=lab.sample_seconds) as meter:
            context = Context(
                device=name,
                cpu_threads=lab.cpu_threads,
                machine=run.machine,
                meter=meter,
                stopped=stopped,
                digits=functools.cache(lambda: _digits(lab, teller)),
                keep=brought or keeping.folder,
                lab=lab,
            )
            _follow(run, context, teller)
        return _ended(run, keeping, teller)


def _follow(run: Run, context: Context, teller: Teller) -> None:
    """Tell every event of the run, and remember what it leaves."""
    with closing(_events(run, context)) as events:
        for event in events:
            match event:
                case Measured():
                    run.recordings.append(event.recording)
                case Drawn():
                    run.pictures[event.name] = event.png
                case Result() | Stopped() | Failed():
                    run.outcome = event
                case _:
                    pass
            teller.event(run, event)


def _events(run: Run, context: Context) -> Generator[AnyEvent, None, None]:
    """The events of the activity; what it raises becomes the event `Failed`."""
    module, _, name = run.activity.entry.partition(":")
    entry = getattr(importlib.import_module(module), name)
    try:
        with closing(cast(Generator[AnyEvent, None, None], entry(run.settings, context))) as events:
            yield from events
    except Problem as problem:
        yield Failed(problem.notice)
    except Exception as error:
        log.exception("the activity broke")
        yield Failed(Notice("problem.run_broke", {"kind": type(error).__name__}))


def _ended(run: Run, keeping: Keeping, teller: Teller) -> int:
    match run.outcome:
        case Result():
            try:
                keeping.keep(run, run.outcome)
            except Problem as problem:
                teller.notice(problem.notice)
                return FAILED
            return FINISHED
        case Stopped():
            return INTERRUPTED
        case Failed():
            teller.notice(run.outcome.problem)
            return FAILED
        case None:
            raise AssertionError(f"{run.activity.entry} ended without an outcome")


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """In this block Ctrl-C asks the run to stop; a second one ends the process at once."""
    asked = threading.Event()

    def interrupted(_signal: int, _frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _digits(lab: LabSettings, teller: Teller) -> Digits:
    digits = load_digits(lab)
    for notice in digits.notices:
        teller.notice(notice)
    return digits


def result_text(  # noqa: PLR0912 (a case an activity)
    say: Texts, result: Result, activity: Activity
) -> list[str]:
    """The result as lines for a terminal: the table of the sections, then what was found."""
    lines = _table(say, result.rows) if result.rows else []
    values = msgspec.convert(result.values, activity.result)
    match values:
        case CpuVsGpuResult():
            lines += _comparison(say, values)
        case TrainGanResult():
            lines += _epochs(say, values)
        case DrawResult():
            lines.append(say("cli.drawn", milliseconds=values.milliseconds))
            if values.readable is not None:
                lines.append(
                    say(
                        "cli.drawn_score",
                        readable=100 * values.readable,
                        digits_seen=values.digits_seen,
                    )
                )
        case InsideResult():
            lines += [say("cli.layer", **asdict(layer)) for layer in values.layers]
            real, fake = 100 * values.score_real, 100 * values.score_fake
            lines.append(say("cli.beliefs", real=real, fake=fake))
        case FeedGpuResult():
            lines += _ways(say, values)
        case RaceResult():
            lines += _race(say, values)
        case MakeImagesResult():
            lines += ["", *_images(say, values.images), _made_on(say, values)]
        case EightPicturesResult():
            lines += ["", *_blocks(say, values.blocks), *_images(say, values.images)]
            lines.append(_made_on(say, values))
        case PictureInsideResult():
            lines += _taken_apart(say, values)
        case ImageSpeedResult():
            lines += _rungs(say, values)
        case PreparePicturesResult(not_compiled=None):
            lines += ["", say("cli.prepared", model=values.model, seconds=values.seconds)]
        case PreparePicturesResult(model, seconds, reason):
            lines += ["", say("cli.prepared_plain", model=model, seconds=seconds, reason=reason)]
        case SteadyLoadResult():
            lines += ["", say("cli.steady", **asdict(values))]
            lines.append(say("cli.made_on", device=values.device_name))
        case RealOrFakeResult():
            lines += [
                say(f"cli.digit.{'real' if real else 'fake'}", number=number, belief=100 * belief)
                for number, (real, belief) in enumerate(
                    zip(values.truths, values.beliefs, strict=True)
                )
            ]
        case AttackResult() | AttackSweepResult() | DefencesResult() | TransferResult():
            lines += attack_text(say, values)
        case PreflightResult():
            lines += preflight_text(values, say)
        case _:
            pass
    return lines


def _table(say: Texts, rows: tuple[SummaryRow, ...]) -> list[str]:
    """The rows under their titles; a column that was measured nowhere is left out."""
    columns: dict[str, tuple[Callable[[Any], str], Callable[[SummaryRow], float | None]]] = {
        "cli.column.time": (say.seconds, lambda row: row.seconds),
        "cli.column.gpu": (say.percent, lambda row: row.gpu_percent_mean),
        "cli.column.card": (say.mib, lambda row: row.card_used_mib_max),
        "cli.column.own_vram": (say.mib, lambda row: row.own_vram_mib_max),
        "cli.column.power": (say.watts, lambda row: row.power_watts_max),
        "cli.column.cpu": (say.percent, lambda row: row.cpu_percent_mean),
        "cli.column.children": (say.percent, lambda row: row.children_cpu_percent_mean),
        "cli.column.waiting": (
            say.percent,
            lambda row: None if row.data_wait_share is None else 100 * row.data_wait_share,
        ),
    }
    table = [[say("cli.column.section"), *(say(f"section.{row.name}") for row in rows)]]
    table += [
        [say(title), *(written(figure(row)) for row in rows)]
        for title, (written, figure) in columns.items()
        if any(figure(row) is not None for row in rows)
    ]  # column by column, each from its title down
    widths = [max(map(len, column)) for column in table]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in zip(*table, strict=True)
    ]


def _comparison(say: Texts, values: CpuVsGpuResult) -> list[str]:
    lines = [""]
    for compute in values.compute:
        lines.append(
            say(
                "cli.compute",
                section=say(f"section.{compute.name}"),
                median=compute.ms_median,
                low=compute.ms_low,
                high=compute.ms_high,
                steps=compute.steps,
            )
        )
    lines += [
        say("cli.speedup_whole", times=values.speedup.whole),
        say("cli.speedup_compute", times=values.speedup.compute),
        say("cli.parameters", **values.parameters),
        say("cli.made_on", device=values.device_name),
    ]
    return lines


def _epochs(say: Texts, values: TrainGanResult) -> list[str]:
    lines = [""]
    for epoch in values.epochs:
        lines.append(
            say(
                "cli.epoch",
                epoch=epoch.epoch,
                seconds=epoch.seconds,
                images_per_second=round(epoch.images_per_second),
                readable=100 * epoch.readable,
                digits_seen=epoch.digits_seen,
                loss_d=epoch.loss_d,
                loss_g=epoch.loss_g,
                real=100 * epoch.accuracy_real,
                fake=100 * epoch.accuracy_fake,
            )
        )
    lines.append(say("cli.epoch_seconds"))
    if values.trouble is not None:
        lines.append(say(f"cli.trouble.{values.trouble}"))
    lines.append(say("cli.made_on", device=values.device_name))
    return lines


def _ways(say: Texts, values: FeedGpuResult) -> list[str]:
    lines = [""]
    for way in values.ways:
        lines.append(
            say(
                "cli.way",
                way=say(f"section.{way.way}"),
                seconds=way.seconds,
                low=way.seconds_low,
                high=way.seconds_high,
                images_per_second=round(way.images_per_second),
                readable=_percent(way.readable_equal_epochs),
                readable_steps=_percent(way.readable_equal_steps),
            )
        )
    lines += [
        say(
            "cli.diagnosis",
            way=say(f"section.{found.way}"),
            cause=say(f"part2b.cause.{found.bottleneck}"),
            signal=say(f"part2b.signal.{found.signal}"),
            value=100 * found.value,
            threshold=100 * found.threshold,
        )
        for found in values.diagnoses
    ]
    lines.append(say("cli.made_on", device=values.device_name))
    return lines


def _race(say: Texts, values: RaceResult) -> list[str]:
    facts = {
        "goal": 100 * values.goal,
        "readable": 100 * values.readable,
        "images": values.images,
        "steps": values.steps,
    }
    if values.seconds is None:
        line = say("cli.race_lost", **facts)
    else:
        line = say("cli.race_won", seconds=values.seconds, **facts)
    return ["", line, say("cli.made_on", device=values.device_name)]


def _images(say: Texts, images: Sequence[ImageMade]) -> list[str]:
    return [
        say("cli.image", file=image.file, seed=image.seed, time=image.seconds) for image in images
    ]


def _blocks(say: Texts, blocks: Sequence[BlockFacts]) -> list[str]:
    return [
        say(
            "cli.block",
            name=block.name,
            kind=block.kind,
            parameters=block.parameters,
            memory=block.mib,
            dtype=block.dtype,
        )
        for block in blocks
    ]


def _taken_apart(say: Texts, values: PictureInsideResult) -> list[str]:
    tokens = " ".join(values.tokens)
    milliseconds = {name: 1000 * seconds for name, seconds in values.seconds.items()}
    return [
        say("cli.tokens", n=len(values.tokens), seats=values.seats, tokens=tokens),
        *_blocks(say, values.blocks),
        say("cli.block_seconds", **milliseconds),
        _made_on(say, values),
    ]


def _rungs(say: Texts, values: ImageSpeedResult) -> list[str]:
    lines = [
        say(
            "cli.rung",
            way=say(f"part3.rung.{rung.name}"),
            batch=rung.batch,
            median=rung.ms_median,
            low=rung.ms_low,
            high=rung.ms_high,
            speed=rung.pictures_per_second,
            difference=100 * rung.difference,
        )
        for rung in values.rungs
    ]
    lines += [
        say("cli.rung_skipped", way=say(f"part3.rung.{name}"), why=say(reason))
        for name, reason in values.skipped.items()
    ]
    return [*lines, _made_on(say, values)]


def _made_on(
    say: Texts,
    values: MakeImagesResult | EightPicturesResult | PictureInsideResult | ImageSpeedResult,
) -> str:
    return say("cli.made_on", device=values.device_name)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
