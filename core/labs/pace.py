"""How far an activity is, and how long the rest will take."""

from __future__ import annotations

import time

from core.events import Progressed


class Phase:
    """A stretch of `steps` equal steps.

    Until its own pace is measured, a step is guessed to take `times` as long as one of `like`.
    """

    def __init__(self, steps: int, *, like: Phase | None = None, times: float = 1.0) -> None:
        self.steps = steps
        self.done = 0
        self._like, self._times = like, times
        self._measured: float | None = None
        self._last_step_at: float | None = None

    def stepped(self, now: float) -> None:
        """One step ended at `now`. The first sets no pace: start-up costs are in it."""
        if self._last_step_at is not None:
            took = now - self._last_step_at
            before = took if self._measured is None else self._measured
            self._measured = 0.8 * before + 0.2 * took
        self._last_step_at = now
        self.done += 1

    @property
    def seconds_a_step(self) -> float | None:
        if self._measured is not None:
            return self._measured
        guess = self._like.seconds_a_step if self._like is not None else None
        return None if guess is None else guess * self._times


class Pace:
    """Counts the steps of all phases, and says when it is time for the next report."""

    def __init__(self, *phases: Phase, report_seconds: float = 0.25) -> None:
        self._phases = phases
        self._report_seconds = report_seconds
        self._reported_at = -float("inf")

    def stepped(self, phase: Phase) -> bool:
        """Note that a step of `phase` is done; True when a report is due, always after its last."""
        now = time.perf_counter()
        phase.stepped(now)
        due = phase.done == phase.steps or now - self._reported_at >= self._report_seconds
        if due:
            self._reported_at = now
        return due

    def progressed(self) -> Progressed:
        return Progressed(
            done=sum(phase.done for phase in self._phases),
            total=sum(phase.steps for phase in self._phases),
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        seconds = 0.0
        for phase in self._phases:
            left = phase.steps - phase.done
            if left:
                if phase.seconds_a_step is None:
                    return None
                seconds += left * phase.seconds_a_step
        return seconds
