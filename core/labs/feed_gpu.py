"""Part 2b: the same training fed in several ways, and what each of them waits for.

Every way starts from the same seed. First it trains, untimed, as many steps as the way with the
fewest: that warms the device up and gives the pictures for "after equal steps". Then one pass over
the images is timed, up to three times, each from fresh networks; then come the pictures for "after
equal epochs" and a few steps under a finer clock for the time line. Compiling kernels and capturing
graphs is part of the warm-up, and bringing the data to the device has a figure of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import msgspec
import torch
from torch import Tensor

from core.activities.feed_gpu import (
    REPEATS,
    Diagnosis,
    FeedGpuResult,
    FeedGpuSettings,
    TimeLine,
    WayResult,
)
from core.context import Context
from core.data.digits import Digits
from core.events import AnyEvent, Drawn, Measured, Result, Staged, Stopped
from core.labs.dcgan import NOISE, Gan
from core.labs.device import (
    device_name,
    device_of,
    give_memory_back,
    power_limit_watts,
    wait_for,
)
from core.labs.loading import uploaded
from core.labs.pace import Pace, Phase
from core.labs.pictures import grey, grid, png
from core.labs.timeline import timeline
from core.labs.ways import Kernels, Trainer, Waiting, Way, all_ways, trainer_of
from core.models import judge
from core.models.judge.judge import Judge
from core.problems import Problem
from core.telemetry.diagnosis import Signals, diagnose
from core.telemetry.meter import Section
from core.telemetry.readings import SummaryRow

READ_EVERY = 50  # steps, where losses are not read at each: keeps a stop from waiting for long
ENOUGH_SECONDS = 10.0  # of timed passes: then there are no more of that way
SHOWN = 8  # digits in the row of pictures of a way
JUDGED = 512  # pictures behind a score: its standard error is 2 percentage points

Job = Generator[AnyEvent, None, bool]  # False: the student stopped it


@dataclass(slots=True)
class Bench:
    """What all ways of one run share, and what has been found so far."""

    settings: FeedGpuSettings
    context: Context
    device: torch.device
    digits: Digits
    noises: Tensor  # (JUDGED, 64, 1, 1), the same for every way
    judge: Judge
    ways: tuple[Way, ...]
    images: int
    neighbours_share: float | None
    power_limit_watts: float | None
    data: Tensor | None = None  # all pictures on the device, (images, 1, 28, 28)
    upload_seconds: float | None = None
    rows: list[SummaryRow] = field(default_factory=list)
    results: list[WayResult] = field(default_factory=list)
    timelines: list[TimeLine] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)

    def steps(self, way: Way) -> int:
        return self.images // way.batch

    @property
    def fewest_steps(self) -> int:
        return min(self.steps(way) for way in self.ways)


def run(settings: FeedGpuSettings, context: Context) -> Iterator[AnyEvent]:
    """The chosen ways, one after the other; on a CPU without the two that need a GPU.

    Ends with a `Result` whose values are a `FeedGpuResult`, or with `Stopped`. On every way out the
    loader's process is gone, the GPU's memory is given back and the thread count restored.
    Raises Problem when no way is left, and when the batch is larger than the number of images.
    """
    device = torch.device(context.device)
    ways = chosen_ways(settings, device)
    if not ways:
        raise Problem("problem.no_way_chosen")
    with device_of(context):
        yield from _compare(ways, settings, context, device)


def chosen_ways(settings: FeedGpuSettings, device: torch.device) -> tuple[Way, ...]:
    return tuple(
        way
        for way in all_ways(settings.batch)
        if getattr(settings, way.name) and (device.type == "cuda" or not way.graph)
    )


def _compare(
    ways: tuple[Way, ...], settings: FeedGpuSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    yield Staged("stage.digits")
    began = context.meter.seconds
    digits = context.digits()
    images = min(settings.images, len(digits.images))
    for way in ways:
        if way.batch > images:
            raise Problem("problem.batch_over_images", batch=way.batch, images=images)
    neighbours_share = _card_use(context, since=began)  # before anything here touches the card
    noise_generator = torch.Generator().manual_seed(settings.seed)
    bench = Bench(
        settings=settings,
        context=context,
        device=device,
        digits=digits,
        noises=torch.randn(JUDGED, NOISE, 1, 1, generator=noise_generator).to(device),
        judge=judge.load(device),
        ways=ways,
        images=images,
        neighbours_share=neighbours_share,
        power_limit_watts=power_limit_watts(device),
    )
    phases = {way.name: Phase(bench.fewest_steps + REPEATS * bench.steps(way)) for way in ways}
    pace = Pace(*phases.values())
    for way in ways:
        if not (yield from _measure(way, bench, pace, phases[way.name])):
            yield Stopped()
            return

    result = FeedGpuResult(
        ways=tuple(bench.results),
        timelines=tuple(bench.timelines),
        diagnoses=tuple(bench.diagnoses),
        data_mib=images * 28 * 28 * 4 / 2**20,
        device_name=device_name(device, context.machine),
        digits=str(digits.source),
    )
    yield Result(rows=tuple(bench.rows), values=msgspec.to_builtins(result))


def _card_use(context: Context, *, since: float) -> float | None:
    """How busy the card was, 0 to 1, in the readings since then."""
    known = [
        reading.gpu_percent
        for reading in context.meter.history
        if reading.seconds >= since and reading.gpu_percent is not None
    ]
    return statistics.mean(known) / 100 if known else None


def _measure(way: Way, bench: Bench, pace: Pace, phase: Phase) -> Job:
    """One way from its preparation to its diagnosis."""
    give_memory_back(bench.device)  # each way's own memory is to be seen, not the last one's
    if not way.loader and bench.data is None:
        yield Staged("stage.feed_upload")
        bench.data, bench.upload_seconds = _uploaded(bench)
    fused = False
    if way.lean:
        yield Staged("stage.feed_kernels")
        kernels = Kernels(way.batch, bench.device)
        for _ in kernels.waiting():
            if bench.context.stopped():
                return False
        fused = kernels.usable

    yield Staged(f"stage.feed_{way.name}")
    if bench.context.stopped():
        return False
    trainer = trainer_of(
        way, bench.digits.images[: bench.images], bench.data, device=bench.device, fused=fused
    )
    try:
        return (yield from _passes(way, trainer, bench, pace, phase))
    finally:
        trainer.close()


def _passes(way: Way, trainer: Trainer, bench: Bench, pace: Pace, phase: Phase) -> Job:
    """The untimed steps, the timed passes and the time line of one way."""
    context, seed = bench.context, bench.settings.seed
    trainer.begin(seed)
    warm_up = _Pass(way, trainer, bench.device, bench.fewest_steps)
    if not (yield from warm_up.run(context, pace, phase)):
        return False
    readable_steps, picture = _looked_at(trainer.gan, bench)
    yield Drawn(f"steps-{way.name}", picture)

    timed: list[tuple[Section, _Pass]] = []
    while len(timed) < REPEATS:
        trainer.begin(seed)
        wait_for(bench.device)
        one = _Pass(way, trainer, bench.device, bench.steps(way))
        with context.meter.section(way.name) as section:
            one.waiting = section.waiting_for_data
            if not (yield from one.run(context, pace, phase)):
                return False
        timed.append((section, one))
        if sum(section.row.seconds for section, _ in timed) >= ENOUGH_SECONDS:
            break
    phase.done = phase.steps  # also where not all repeats were needed
    yield pace.progressed()
    readable_epochs, picture = _looked_at(trainer.gan, bench)
    yield Drawn(f"epochs-{way.name}", picture)

    timed.sort(key=lambda pair: pair[0].row.seconds)
    section, one = timed[len(timed) // 2 if len(timed) % 2 else len(timed) // 2 - 1]
    yield Measured(section.recording)
    seconds = section.row.seconds
    gpu_wait_share = one.gpu_wait_seconds / seconds if bench.device.type == "cuda" else 0.0
    steps = bench.steps(way)
    bench.rows.append(section.row)
    bench.results.append(
        WayResult(
            way=way.name,
            batch=way.batch,
            images=steps * way.batch,
            steps=steps,
            seconds=seconds,
            seconds_low=timed[0][0].row.seconds,
            seconds_high=timed[-1][0].row.seconds,
            repeats=len(timed),
            images_per_second=steps * way.batch / seconds,
            data_wait_share=section.row.data_wait_share or 0.0,
            gpu_wait_share=min(1.0, gpu_wait_share),
            upload_seconds=None if way.loader else bench.upload_seconds,
            readable_equal_epochs=readable_epochs,
            readable_equal_steps=readable_steps,
        )
    )
    bench.diagnoses.append(diagnose(_signals(way, bench)))
    trainer.begin(seed)
    spans = timeline(way, trainer, bench.device, steps=steps)
    bench.timelines.append(TimeLine(way.name, spans))
    return not context.stopped()


class _Pass:
    """Some steps of one way, and how long the CPU stood still in them for want of the GPU."""

    def __init__(self, way: Way, trainer: Trainer, device: torch.device, steps: int) -> None:
        self.waiting: Waiting = nullcontext
        self.gpu_wait_seconds = 0.0
        self._way, self._trainer, self._device, self._steps = way, trainer, device, steps

    def run(self, context: Context, pace: Pace, phase: Phase) -> Job:
        done = read = 0
        while done < self._steps:
            if context.stopped():
                return False
            count = self._trainer.advance(self._steps - done, self.waiting)
            done += count
            if self._way.reads or done - read >= READ_EVERY or done == self._steps:
                with self._waiting_for_gpu():
                    self._trainer.losses(read)
                read = done
            phase.done += count - 1
            if pace.stepped(phase):
                yield pace.progressed()
        with self._waiting_for_gpu():
            wait_for(self._device)
        return True

    @contextmanager
    def _waiting_for_gpu(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.gpu_wait_seconds += time.perf_counter() - began


def _uploaded(bench: Bench) -> tuple[Tensor, float]:
    """All pictures as the networks take them, on the device, and the seconds that it took."""
    wait_for(bench.device)
    began = time.perf_counter()
    data = uploaded(bench.digits.images[: bench.images], bench.device)
    wait_for(bench.device)
    return data, time.perf_counter() - began


@torch.inference_mode()
def _looked_at(gan: Gan, bench: Bench) -> tuple[float, bytes]:
    """The judge's score of what G draws now, and a row of it. G in evaluation mode: a digit does
    not depend on those drawn beside it."""
    gan.generator.eval()
    pictures = gan.generator(bench.noises)
    gan.generator.train()
    row = png(grid(grey(pictures[:SHOWN]), columns=SHOWN))
    return bench.judge.score(pictures).readable, row


def _signals(way: Way, bench: Bench) -> Signals:
    row, result = bench.rows[-1], bench.results[-1]
    return Signals(
        way=way.name,
        on_gpu=bench.device.type == "cuda",
        data_wait_share=result.data_wait_share,
        gpu_wait_share=result.gpu_wait_share,
        reads_losses=way.reads,
        captured=way.graph,
        lean=way.lean,
        large=way.name == "large",
        gpu_share=None if row.gpu_percent_mean is None else row.gpu_percent_mean / 100,
        power_share=_power_share(row, bench.power_limit_watts),
        neighbours_share=bench.neighbours_share,
    )


def _power_share(row: SummaryRow, limit_watts: float | None) -> float | None:
    """Mean power over the section, as a share of what the driver lets the card draw."""
    if row.energy_wh is None or limit_watts is None or row.seconds <= 0:
        return None
    return row.energy_wh * 3600 / row.seconds / limit_watts
