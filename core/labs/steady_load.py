"""Part 5b: a load that the meters cannot tell from a mining program's, made by matrix products.

Nothing is mined and nothing is kept: two random matrices are multiplied again and again.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import msgspec
import torch

from core.activities.soc import SteadyLoadResult, SteadyLoadSettings
from core.context import Context
from core.events import AnyEvent, Measured, Progressed, Result, Staged, Stopped
from core.labs.device import device_name, device_of, wait_for

CYCLE_SECONDS = 0.1  # busy for a share of it, then at rest; shorter than any meter's window
GPU_SIDE, CPU_SIDE = 4096, 768  # a product: about a millisecond on a card, ten on two threads
QUEUED = 4  # products sent to a card before it is waited for: no gap between them


class Mill:
    """Multiplies two matrices that never change."""

    def __init__(self, device: torch.device) -> None:
        on_card = device.type == "cuda"
        kind = torch.float16 if on_card else torch.float32
        self.device = device
        self.side = GPU_SIDE if on_card else CPU_SIDE
        self.products = 0
        self.busy_seconds = 0.0
        self._a, self._b = (
            torch.randn(self.side, self.side, device=device, dtype=kind) for _ in range(2)
        )
        self._out = torch.empty_like(self._a)

    def turn(self, until: float) -> None:
        """Multiply until `time.perf_counter()` says `until`, at least once."""
        began = time.perf_counter()
        while True:
            for _ in range(QUEUED if self.device.type == "cuda" else 1):
                torch.mm(self._a, self._b, out=self._out)
                self.products += 1
            wait_for(self.device)
            now = time.perf_counter()
            if now >= until:
                self.busy_seconds += now - began
                return


def run(settings: SteadyLoadSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends with a `Result` whose values are a `SteadyLoadResult`, or with `Stopped`."""
    with device_of(context) as device:
        yield from _loaded(settings, context, device)


@torch.inference_mode()
def _loaded(
    settings: SteadyLoadSettings, context: Context, device: torch.device
) -> Generator[AnyEvent, None, None]:
    yield Staged("stage.steady")
    mill = Mill(device)
    mill.turn(time.perf_counter())  # the first product starts libraries and is slow
    mill.products, mill.busy_seconds = 0, 0.0
    with context.meter.section("steady") as section:
        began = now = time.perf_counter()
        told = -1
        while now - began < settings.seconds and not context.stopped():
            mill.turn(now + CYCLE_SECONDS * settings.percent / 100)
            if settings.percent < 100:
                # From the true end of the turn: a slow product makes the rest longer, not the load.
                worked = time.perf_counter() - now
                time.sleep(min(1.0, worked * (100 / settings.percent - 1)))
            now = time.perf_counter()
            if int(now - began) > told:
                told = int(now - began)
                left = max(0.0, settings.seconds - (now - began))
                yield Progressed(min(told, settings.seconds), settings.seconds, seconds_left=left)
        took = now - began
    if context.stopped():
        yield Stopped()
        return
    yield Measured(section.recording)
    result = SteadyLoadResult(
        products=mill.products,
        side=mill.side,
        percent=settings.percent,
        busy_percent=100 * mill.busy_seconds / took,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(section.row,), values=msgspec.to_builtins(result))
