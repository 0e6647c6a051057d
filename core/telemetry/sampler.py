"""A thread that takes readings at a steady pace, beside the work that it watches."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

from core.telemetry.readings import Reading

log = logging.getLogger(__name__)

KEEP_SECONDS = 120.0
JOIN_SECONDS = 5.0  # a query of a lost card may hang; the thread is a daemon


class Readable(Protocol):
    """What makes readings; see `core.telemetry.probe.Probe`."""

    def read(self, seconds: float, *, afresh: bool = False) -> Reading: ...


class Sampler:
    """Takes a reading every `period_seconds` until closed, and publishes the last two minutes.

    `history` is replaced whole, never changed, so any thread may read it without a lock.
    `on_reading` is called after each reading, by the thread that took it: the sampler's own, or
    the one that starts or stops a recording. Whatever it raises is logged once.
    """

    def __init__(
        self,
        probe: Readable,
        *,
        period_seconds: float,
        on_reading: Callable[[Reading], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if period_seconds <= 0:
            raise ValueError(f"period_seconds must be above 0, not {period_seconds}")
        self.opened_at = clock()
        self.history: tuple[Reading, ...] = ()
        self._probe = probe
        self._period = period_seconds
        self._keep = math.ceil(KEEP_SECONDS / period_seconds)
        self._on_reading = on_reading
        self._clock = clock
        self._lock = threading.Lock()  # readings are made one at a time
        self._recorded: list[Reading] | None = None
        self._complained: set[str] = set()
        self._closing = threading.Event()
        self._take()  # so that there is something to show at once
        self._due = clock() + period_seconds
        self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
        self._thread.start()

    def start_recording(self) -> None:
        """Take a reading now and keep all that follow; the next one comes a period later."""
        with self._lock:
            self._recorded = []
            reading = self._take(afresh=True)
            self._due = self._clock() + self._period
        self._announce(reading)

    def stop_recording(self) -> list[Reading]:
        """Take a last reading now; all readings since the start of the recording, both included."""
        with self._lock:
            reading = self._take()
            self._due = self._clock() + self._period
            recorded, self._recorded = self._recorded or [], None
        self._announce(reading)
        return recorded

    def close(self) -> bool:
        """Stop and wait for the thread; False if it hangs in a query of the driver."""
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        while not self._closing.wait(max(0.0, self._due - self._clock())):
            with self._lock:
                if self._clock() < self._due:
                    continue  # a recording has just started or stopped, with a reading of its own
                reading = self._take()
                self._due = next_deadline(self._due, self._clock(), self._period)
            self._announce(reading)

    def _take(self, *, afresh: bool = False) -> Reading:
        seconds = self._clock() - self.opened_at
        try:
            reading = self._probe.read(seconds, afresh=afresh)
        except Exception:  # an empty reading: telemetry never stops the work that it watches
            self._complain("a reading failed")
            reading = Reading(seconds)
        self.history = (*self.history, reading)[-self._keep :]
        if self._recorded is not None:
            self._recorded.append(reading)
        return reading

    def _announce(self, reading: Reading) -> None:
        if self._on_reading is None:
            return
        try:
            self._on_reading(reading)
        except Exception:
            self._complain("a listener to the readings failed")

    def _complain(self, what: str) -> None:
        if what not in self._complained:
            self._complained.add(what)
            log.exception("%s (said once)", what)


def next_deadline(due: float, now: float, period: float) -> float:
    """When to read again after the reading that was due at `due` is done.

    Whole periods after `due`, so that the time a reading takes does not add up. Deadlines that have
    gone by are skipped, not caught up with, and so is one less than half a period away.
    """
    missed = max(0, math.floor((now - due) / period + 0.5))
    return due + (missed + 1) * period
