"""How long things take: learned from runs that brought their results, told to who waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from core.engine.state import Job, Run

HISTORY = 20  # runs remembered of each activity


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a queued job stands. `wait_seconds` is None while nothing is known."""

    place: int  # 1 = in the next run; jobs that will share a run have the same place
    wait_seconds: float | None
    needs_memory: bool  # next in turn, but no card has room for it now


class Durations:
    """Seconds per unit of size, of each activity: of whole runs, however many jobs they served."""

    def __init__(self) -> None:
        self._measured: dict[str, deque[float]] = {}
        self._typical: dict[str, float] = {}

    def learn(self, run: Run, now: float) -> None:
        kept = self._measured.setdefault(run.activity, deque(maxlen=HISTORY))
        kept.append((now - run.started) / run.size)
        self._typical[run.activity] = median(kept)

    def estimate(self, activity: str, size: float, running: Sequence[Run]) -> float | None:
        """Seconds that a run of this size will take: by its like before, else by one that runs."""
        if activity in self._typical:
            return self._typical[activity] * size
        for run in running:
            if run.activity == activity and (end := run.expected_end) is not None:
                return (end - run.started) / run.size * size
        return None

    def free_at(self, running: Sequence[Run], slots: int, now: float) -> list[float | None]:
        """When each slot of a lane is free, by its runs; None where that cannot be known yet."""
        times: list[float | None] = []
        for run in running:
            end = run.expected_end
            if end is None:
                takes = self.estimate(run.activity, run.size, running)
                end = None if takes is None else run.started + takes
            times.append(None if end is None else max(now, end))
        return [*times, *([now] * (slots - len(times)))]

    def waits(
        self, queued: Sequence[Sequence[Job]], running: Sequence[Run], slots: int, now: float
    ) -> list[float | None]:
        """Seconds until each of the queued runs begins, in their order."""
        free_at = self.free_at(running, slots, now)
        found: list[float | None] = []
        for jobs in queued:
            slot = min(range(len(free_at)), key=lambda i: (free_at[i] is None, free_at[i] or 0.0))
            begins = free_at[slot]
            found.append(None if begins is None else max(0.0, begins - now))
            takes = self.estimate(jobs[0].activity, sum(job.size for job in jobs), running)
            free_at[slot] = None if begins is None or takes is None else begins + takes
        return found
