"""What an activity is given besides its settings: where to run, the meter, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.data.digits import Digits
    from core.telemetry.meter import Meter
    from core.telemetry.readings import Machine


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to `run(settings, context)` by a worker, the command line or a test."""

    device: str  # as torch names it: "cpu" or "cuda:0"
    cpu_threads: int  # how many threads this lab may use on the CPU
    machine: Machine
    meter: Meter
    stopped: Callable[[], bool]  # asked between steps; True means: end with `Stopped`
    digits: Callable[[], Digits]  # the training digits, loaded once a process
