"""The memory of the cards: what is free, what is promised, and who has room where."""

from __future__ import annotations

from collections.abc import Mapping

from core.engine.state import Card, Job, Worker

SETTLING_SECONDS = 10.0  # until a run's memory shows in the card's own figure
SHOWN_SECONDS = 3.0  # until memory given back does; the engine looks once a second


def needed_mib(job: Job, worker: Worker | None = None) -> int:
    """What the job takes of a card: its model too, unless the worker holds that already."""
    holds = worker is not None and worker.model == job.model
    return job.need_mib + (0 if holds else job.model_mib)


class Memory:
    """Of each device, by its name. Looks at the workers, changes nothing of them."""

    def __init__(self, devices: tuple[str, ...], workers: Mapping[str, Worker]) -> None:
        self._cards = {name: Card() for name in devices}
        self._workers = workers

    def see(self, device: str, free_mib: float | None, total_mib: float | None) -> None:
        if device in self._cards:
            self._cards[device] = Card(free_mib, total_mib)

    def free_mib(self, device: str, now: float) -> float | None:
        """What the driver says is free, less what runs that began just now will still take."""
        free = self._cards[device].free_mib
        if free is None:
            return None
        return free - sum(
            worker.run.need_mib
            for worker in self._workers.values()
            if worker.run is not None
            and worker.device == device
            and now - worker.run.started < SETTLING_SECONDS
        )

    def fits(self, job: Job, device: str, now: float, worker: Worker | None = None) -> bool:
        """Whether the device has room for the job: on this worker of it, else on a fresh one."""
        free = self.free_mib(device, now)
        return free is None or free >= needed_mib(job, worker)

    def fits_once_gone(self, job: Job, worker: Worker, now: float) -> bool:
        """Whether the job fits once this worker has given back the model that it holds."""
        free = self.free_mib(worker.device, now)
        return free is None or free + worker.model_mib >= needed_mib(job)

    def too_big(self, job: Job) -> bool:
        """Whether no card could run the job even if it were empty."""
        totals = [card.total_mib for card in self._cards.values()]
        return all(total is not None and total < needed_mib(job) for total in totals)
