"""Part 2, afterwards: the student's own generator draws, on a walk between two noises or many.

The walk is spherical. Sixty-four random numbers almost always lie at one distance from zero, about
8, and G has learnt from such noises alone. A straight line between two of them passes within 6 of
zero, where G has hardly ever been asked to draw; along the sphere every step is like a real one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import msgspec
import torch
from torch import Tensor

from core.activities.train_gan import DrawResult, DrawSettings
from core.context import Context
from core.events import AnyEvent, Drawn, Result, Staged
from core.labs import keeping, pictures
from core.labs.dcgan import NOISE, Generator
from core.labs.device import device_of, wait_for
from core.models import judge

WALK = 9  # digits of a walk, its two ends included
TIMED = 5  # drawings, of which the median is told


def run(settings: DrawSettings, context: Context) -> Iterator[AnyEvent]:
    """Pictures "walk" and "here" for one digit, "many" for more; the `Result` is a `DrawResult`.

    Raises Problem when this student has trained nothing yet, and when the card is full.
    """
    with device_of(context) as device:
        yield Staged("stage.drawing")
        generator = keeping.load(context.keep, device).generator
        yield from (_one if settings.count == 1 else _many)(settings, generator, device)


def _one(settings: DrawSettings, generator: Generator, device: torch.device) -> Iterator[AnyEvent]:
    a, b = noises(1, settings.seed_a), noises(1, settings.seed_b)
    shares = torch.linspace(0, 1, WALK).tolist()
    steps = torch.cat([between(a, b, share) for share in shares])  # (9, 64, 1, 1)
    walk, _ = _drawn(generator, steps.to(device))
    here, milliseconds = _drawn(generator, between(a, b, settings.percent / 100).to(device))
    yield Drawn("walk", pictures.png(pictures.grid(pictures.grey(walk), columns=WALK, scale=2)))
    yield Drawn("here", pictures.png(pictures.grid(pictures.grey(here), columns=1, scale=6)))
    yield _result(DrawResult(milliseconds=milliseconds))


def _many(settings: DrawSettings, generator: Generator, device: torch.device) -> Iterator[AnyEvent]:
    many, milliseconds = _drawn(generator, noises(settings.count, settings.seed_a).to(device))
    score = judge.load(device).score(many)
    columns = min(settings.count, 16 if settings.count > 32 else 8)
    yield Drawn("many", pictures.png(pictures.grid(pictures.grey(many), columns=columns, scale=2)))
    yield _result(
        DrawResult(
            milliseconds=milliseconds, readable=score.readable, digits_seen=score.digits_seen
        )
    )


def _result(result: DrawResult) -> Result:
    return Result(rows=(), values=msgspec.to_builtins(result))


def noises(count: int, seed: int) -> Tensor:
    """The noises (count, 64, 1, 1) of a seed, the same on every device; the first is the one that
    a walk from this seed begins with."""
    return torch.randn(count, NOISE, 1, 1, generator=torch.Generator().manual_seed(seed))


def between(a: Tensor, b: Tensor, share: float) -> Tensor:
    """The noise at `share` (0 to 1) of the way from a to b, both (1, 64, 1, 1), on the great circle
    through their directions; its length goes evenly from that of a to that of b."""
    length_a, length_b = a.norm(), b.norm()
    toward_a, toward_b = a / length_a, b / length_b
    angle = (toward_a * toward_b).sum().clamp(-1, 1).acos()
    if angle < 0.01:  # almost one direction, or the same noise twice: a line is the arc
        return a.lerp(b, share)
    toward = (
        torch.sin((1 - share) * angle) * toward_a + torch.sin(share * angle) * toward_b
    ) / torch.sin(angle)
    there: Tensor = toward * torch.lerp(length_a, length_b, share)
    return there


@torch.inference_mode()
def _drawn(generator: Generator, noise: Tensor) -> tuple[Tensor, float]:
    """The pictures (N, 1, 28, 28) of the noises, and the milliseconds that they take."""
    drawn: Tensor = generator(noise)  # also the warm-up
    times = []
    for _ in range(TIMED):
        wait_for(noise.device)
        began = time.perf_counter()
        generator(noise)
        wait_for(noise.device)
        times.append(1000 * (time.perf_counter() - began))
    return drawn, statistics.median(times)
