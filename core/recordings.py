"""Recordings of finished runs: small JSON files that a page replays through its own charts.

Those in `core/content/recordings/` were made on a real GPU and come with the app. Anyone adds more
with `python -m core run ... --record FILE` and `LAB_RECORDINGS_DIR`. Every file is checked when it
is read; one that does not hold is skipped with a line in the log, and no page breaks.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from core.activities import ActivitySettings, activity_named
from core.events import Result
from core.problems import Problem
from core.telemetry.readings import Machine, Reading, Recording, SummaryRow
from core.telemetry.summary import merged

SHIPPED = Path(__file__).parent / "content" / "recordings"
MAX_READINGS = 120  # of one section: about what a chart can show
MAX_BYTES = 1_000_000  # a file of this app stays below 100 kB

log = logging.getLogger(__name__)


class Replay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One finished run: what was run, on what and when, what was measured."""

    activity: str
    settings: dict[str, Any]
    machine: Machine
    device_name: str  # of the device that the run is about: a card or a processor
    made_at: str  # ISO date
    recordings: tuple[Recording, ...]
    rows: tuple[SummaryRow, ...]
    values: dict[str, Any]  # as in the activity's `Result`


def replay_of(
    activity: str,
    settings: ActivitySettings,
    machine: Machine,
    recordings: tuple[Recording, ...],
    result: Result,
) -> Replay:
    """A run as it will be kept: readings thinned, figures rounded, the card's UUID left out."""
    return Replay(
        activity=activity,
        settings=msgspec.to_builtins(settings),
        machine=replace(machine, gpus=tuple(replace(gpu, uuid="") for gpu in machine.gpus)),
        device_name=str(result.values.get("device_name", machine.cpu)),
        made_at=datetime.date.today().isoformat(),
        recordings=tuple(_thinned(recording) for recording in recordings),
        rows=result.rows,
        values=result.values,
    )


def write_replay(replay: Replay, path: Path) -> None:
    """Put the replay into `path`, whole or not at all. Raises OSError when that is impossible."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(msgspec.json.encode(replay) + b"\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def replays(activity: str, extra: Path | None = None) -> tuple[Replay, ...]:
    """All sound recordings of one activity: those of the app, then those in the folder `extra`."""
    folders = [SHIPPED] if extra is None else [SHIPPED, extra]
    found = (_read(path) for folder in folders for path in _files(folder))
    return tuple(replay for replay in found if replay is not None and replay.activity == activity)


def _files(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.glob("*.json"))
    except OSError as error:
        log.warning("recordings in %s cannot be listed: %s", folder, error)


def _read(path: Path) -> Replay | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        replay = msgspec.json.decode(path.read_bytes(), type=Replay)
        _check(replay)
    except (OSError, ValueError, Problem) as error:  # msgspec's errors are ValueErrors
        log.warning("the recording %s is left out: %s", path, error)
        return None
    return replay


def _check(replay: Replay) -> None:
    """Raises ValueError or Problem for what has the right types but cannot be drawn."""
    activity = activity_named(replay.activity)
    activity.settings.parse(replay.settings)
    msgspec.convert(replay.values, activity.result)
    datetime.date.fromisoformat(replay.made_at)
    names = [recording.name for recording in replay.recordings]
    if activity.metered and (not names or names != [row.name for row in replay.rows]):
        raise ValueError("recordings and summary rows do not belong together")


def _thinned(recording: Recording) -> Recording:
    kept = merged(recording.readings, MAX_READINGS)
    return replace(recording, readings=tuple(_rounded(reading) for reading in kept))


def _rounded(reading: Reading) -> Reading:
    figures: dict[str, Any] = {
        name: value if value is None else round(value, 2 if name == "seconds" else 1)
        for name, value in asdict(reading).items()
    }
    return Reading(**figures)
