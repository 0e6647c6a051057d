"""Some consecutive steps under a fine clock: what the CPU did, and when the GPU had work.

CPU spans are read off this process's clock. A GPU span runs from the first to the last of what a
step launched, by CUDA events; gaps between the kernels of one step are not seen. Both clocks are
brought together at one moment when the GPU was idle, to some 20 microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from core.activities.feed_gpu import Span
from core.labs.device import wait_for
from core.labs.ways import Trainer, Way

STEPS = 20


def timeline(way: Way, trainer: Trainer, device: torch.device, *, steps: int) -> tuple[Span, ...]:
    """About 20 of the trainer's next `steps`, after a few unseen ones where there are enough."""
    done = 0
    while done < min(3, steps - STEPS):
        done += trainer.advance(steps - done, _unseen)
    lanes = _Lanes(device)
    end = min(steps, done + STEPS)
    read = done
    while done < end:
        with lanes.advance():
            done += trainer.advance(steps - done, lanes.load)
        if way.reads:
            with lanes.wait():
                trainer.losses(read)
            read = done
    if not way.reads:
        with lanes.wait():
            wait_for(device)
    return lanes.spans()


@contextmanager
def _unseen() -> Iterator[None]:
    yield


class _Lanes:
    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._spans: list[Span] = []
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._launch_began = 0.0
        self._step_began: torch.cuda.Event | None = None
        wait_for(device)
        self._origin_event = self._event()
        wait_for(device)
        self._origin = time.perf_counter()

    @contextmanager
    def advance(self) -> Iterator[None]:
        """The launch of one or more steps; on a CPU, the steps themselves."""
        self._begin_launch()
        yield
        ended, event = self._now(), self._event()
        self._add("launch" if self._cuda else "step", self._launch_began, ended)
        if self._step_began is not None and event is not None:
            self._events.append((self._step_began, event))

    @contextmanager
    def load(self) -> Iterator[None]:
        """Within `advance`: waiting for the batch."""
        began = self._now()
        yield
        self._add("load", began, self._now())
        self._begin_launch()

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Waiting for the GPU; on a CPU there is nothing to wait for."""
        began = self._now()
        yield
        if self._cuda:
            self._add("wait", began, self._now())

    def spans(self) -> tuple[Span, ...]:
        """In milliseconds; the GPU must have finished."""
        for first, last in self._events:
            assert self._origin_event is not None
            start = self._origin_event.elapsed_time(first)
            end = self._origin_event.elapsed_time(last)
            self._spans.append(Span("gpu", "step", _rounded(max(0.0, start)), _rounded(end)))
        return tuple(self._spans)

    def _begin_launch(self) -> None:
        self._launch_began, self._step_began = self._now(), self._event()

    def _now(self) -> float:
        return 1000 * (time.perf_counter() - self._origin)

    def _event(self) -> torch.cuda.Event | None:
        if not self._cuda:
            return None
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _add(self, what: str, start: float, end: float) -> None:
        self._spans.append(Span("cpu", what, _rounded(start), _rounded(end)))


def _rounded(milliseconds: float) -> float:
    return round(milliseconds, 3)
