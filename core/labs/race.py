"""The record board: from fresh networks to readable digits, as fast as the switches allow.

Rules. The goal is a share of digits that the judge can read, out of 256 drawn from noises that are
the same for everyone. It is asked after every 2,560 images or so. The clock runs while the networks
learn, and only then: upload, compiling, capturing a graph, some steps to warm up, and the judge are
outside of it. After the warm-up the networks, Adam's memory and the order of the pictures start
afresh from the seed. A race ends, lost, after 300,000 images.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from core.activities.feed_gpu import (
    RACE_CHECK_IMAGES,
    RACE_GOAL,
    RACE_MAX_IMAGES,
    RaceResult,
    RaceSettings,
)
from core.context import Context
from core.events import AnyEvent, Drawn, Measured, Progressed, Result, Scored, Staged, Stopped
from core.labs.dcgan import NOISE, Gan
from core.labs.device import device_name, device_of, wait_for
from core.labs.loading import uploaded
from core.labs.pictures import grey, grid, png
from core.labs.ways import Kernels, Trainer, Way, trainer_of
from core.models import judge
from core.models.judge.judge import Judge
from core.problems import Problem

WARM_UP = 15  # steps: more than one long graph
JUDGED, SHOWN = 256, 32  # of the fixed noises


@dataclass(slots=True)
class Race:
    """Where one race stands."""

    pass_images: int  # in one pass over all digits
    seconds: float = 0.0
    steps: int = 0
    images: int = 0
    readable: float = 0.0

    @property
    def won(self) -> bool:
        return self.images > 0 and self.readable >= RACE_GOAL

    @property
    def over(self) -> bool:
        return self.won or self.images >= RACE_MAX_IMAGES


@dataclass(frozen=True, slots=True)
class Referee:
    """Looks at the networks between two stretches of learning."""

    judge: Judge
    noises: Tensor  # (JUDGED, 64, 1, 1)
    real: Tensor  # (JUDGED, 1, 28, 28)

    @torch.inference_mode()
    def scored(self, gan: Gan, race: Race, *, rate: float) -> Scored:
        gan.generator.eval()
        gan.discriminator.eval()  # nor do D's running statistics change by being looked at
        fakes = gan.generator(self.noises)
        score = self.judge.score(fakes)
        accuracy_real = (gan.discriminator(self.real) > 0).float().mean().item()
        accuracy_fake = (gan.discriminator(fakes) < 0).float().mean().item()
        gan.generator.train()
        gan.discriminator.train()
        return Scored(
            step=race.steps,
            epoch=race.images / race.pass_images,
            readable=score.readable,
            digits_seen=score.digits_seen,
            accuracy_real=accuracy_real,
            accuracy_fake=accuracy_fake,
            images_per_second=rate,
        )

    @torch.inference_mode()
    def picture(self, gan: Gan) -> bytes:
        gan.generator.eval()
        fakes = gan.generator(self.noises[:SHOWN])
        gan.generator.train()
        return png(grid(grey(fakes), columns=8))


def run(settings: RaceSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends with a `Result` whose values are a `RaceResult`, or with `Stopped`.

    Raises Problem when a CUDA graph is wished for where there is no GPU.
    """
    device = torch.device(context.device)
    if device.type != "cuda" and (settings.graph or settings.lean):
        raise Problem("problem.switch_needs_gpu")
    with device_of(context):
        yield from _race(settings, context, device)


def _race(
    settings: RaceSettings, context: Context, device: torch.device
) -> Generator[AnyEvent, None, None]:
    yield Staged("stage.digits")
    digits = context.digits()
    way = Way(
        "race",
        batch=settings.batch,
        reads=not settings.no_wait,
        graph=bool(settings.graph),
        lean=bool(settings.lean),
    )
    if way.batch > len(digits.images):
        raise Problem("problem.batch_over_images", batch=way.batch, images=len(digits.images))
    fused = False
    if way.lean:
        yield Staged("stage.feed_kernels")
        kernels = Kernels(way.batch, device)
        for _ in kernels.waiting():
            if context.stopped():
                yield Stopped()
                return
        fused = kernels.usable

    yield Staged("stage.race_ready")
    data = uploaded(digits.images, device)
    # The same noises whatever the seed: the goal is the same for everyone.
    noises = torch.randn(JUDGED, NOISE, 1, 1, generator=torch.Generator().manual_seed(0))
    referee = Referee(judge.load(device), noises.to(device), data[:JUDGED])
    trainer = trainer_of(way, digits.images, data, device=device, fused=fused)
    if not _warmed_up(trainer, context, steps=len(data) // way.batch):
        yield Stopped()
        return

    yield Staged("stage.race_on")
    trainer.begin(settings.seed)
    race = Race(pass_images=len(data))
    with context.meter.section("race") as section:
        yield from _stretches(race, way, trainer, referee, context)
    if context.stopped():
        yield Stopped()
        return
    yield Measured(section.recording)
    yield Drawn("race", referee.picture(trainer.gan))
    result = RaceResult(
        seconds=race.seconds if race.won else None,
        steps=race.steps,
        images=race.images,
        readable=race.readable,
        goal=RACE_GOAL,
        device_name=device_name(device, context.machine),
        digits=str(digits.source),
    )
    yield Result(rows=(section.row,), values=msgspec.to_builtins(result))


def _warmed_up(trainer: Trainer, context: Context, *, steps: int) -> bool:
    trainer.begin(0)
    done = 0
    while done < min(WARM_UP, steps):
        if context.stopped():
            return False
        done += trainer.advance(steps - done, nullcontext)
    trainer.losses(0)
    return True


def _stretches(
    race: Race,
    way: Way,
    trainer: Trainer,
    referee: Referee,
    context: Context,
) -> Generator[AnyEvent, None, None]:
    """Learn and be judged by turns, until the race is over, stopped or ended early."""
    pass_steps = race.pass_images // way.batch
    stretch = max(1, RACE_CHECK_IMAGES // way.batch)
    in_pass = 0
    while not (race.over or context.finishing()):
        yield from context.hold()
        if in_pass == pass_steps:
            trainer.another_pass()
            in_pass = 0
        steps = min(stretch, pass_steps - in_pass)
        wait_for(trainer.gan.device)
        began = time.perf_counter()
        goal, first = in_pass + steps, in_pass
        while in_pass < goal:
            if context.stopped():
                return
            read = in_pass
            in_pass += trainer.advance(goal - in_pass, nullcontext)
            if way.reads:
                trainer.losses(read)
        if not way.reads:
            trainer.losses(first)
        wait_for(trainer.gan.device)
        took = time.perf_counter() - began

        race.seconds += took
        race.steps += steps
        race.images += steps * way.batch
        scored = referee.scored(trainer.gan, race, rate=steps * way.batch / took)
        race.readable = scored.readable
        yield scored
        yield Progressed(done=min(race.images, RACE_MAX_IMAGES), total=RACE_MAX_IMAGES)
