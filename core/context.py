"""What an activity is given besides its settings: where to run, the meter, and what is wished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from core.events import Paused
from core.settings import LabSettings

if TYPE_CHECKING:
    from core.activities import ActivitySettings
    from core.data.digits import Digits
    from core.telemetry.meter import Meter
    from core.telemetry.readings import Machine


PAUSE_SECONDS = 180.0  # then a paused run goes on: others wait for its place


class Wish(StrEnum):
    """What a student wants of a running job. STOP and FINISH are not taken back."""

    STOP = "stop"  # end, nothing is kept
    FINISH = "finish"  # end now with the result so far
    PAUSE = "pause"
    RESUME = "resume"


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Share:
    """One student's job in a run that serves several: `run_together(shares, context)` yields pairs
    of a job and an event, and for each job exactly one `Result`, `Stopped` or `Failed` at its end.
    """

    job: str
    settings: ActivitySettings
    stopped: Callable[[], bool]  # this student wants no more of it; the others go on


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to `run(settings, context)` by a worker, the command line or a test."""

    device: str  # as torch names it: "cpu" or "cuda:0"
    cpu_threads: int  # how many threads this lab may use on the CPU
    machine: Machine
    meter: Meter
    stopped: Callable[[], bool]  # asked between steps; True means: end with `Stopped`
    digits: Callable[[], Digits]  # the training digits, loaded once a process
    finishing: Callable[[], bool] = never  # True means: end now with the result so far
    paused: Callable[[], bool] = never
    keep: Path | None = None  # this student's own folder, for trained networks; None: keep nothing
    lab: LabSettings = field(default_factory=LabSettings)  # where models lie, which rules hold

    def hold(self) -> Iterator[Paused]:
        """Stand still while the student has paused the run, and say so: `yield from` it between
        steps. Time that passes here is not the work's; stop and finish end the pause."""
        if not self.paused():
            return
        yield Paused(paused=True)
        deadline = time.monotonic() + PAUSE_SECONDS
        while self.paused() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield Paused(paused=False)
