"""Part 1: the same GAN steps on two processors.

Two questions, never mixed. How long does the whole job take, as a student would run it: networks
built, loader started, batches carried over, losses read at every step? And how long does the
computing alone take, warmed up and with its data already in place? The first is metered and makes
the two summary rows; the second is timed step by step, outside every section of the meter.

The first whole job on a GPU in a fresh process also pays for starting CUDA. That is part of what
the lab measures; the compute time is free of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import msgspec
import torch

from core.activities import ComputeTime, CpuVsGpuResult, CpuVsGpuSettings, Speedup
from core.context import Context
from core.data.digits import Digits
from core.events import AnyEvent, Lost, Measured, Result, Staged, Stopped
from core.labs.dcgan import BATCH, Gan, parameter_count, train_step
from core.labs.device import (
    cpu_threads_restored,
    device_name,
    give_memory_back,
    out_of_memory_told,
    wait_for,
)
from core.labs.loading import Loader, prepared_batches
from core.labs.pace import Pace, Phase
from core.problems import Problem
from core.telemetry.meter import Section


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two processors that are compared."""

    name: str  # of its section
    device: torch.device
    threads: int  # CPU threads
    warm_up: int  # steps before the compute time is taken
    timed: int  # steps of the compute time
    whole_phase: Phase
    compute_phase: Phase


def run(settings: CpuVsGpuSettings, context: Context) -> Iterator[AnyEvent]:
    """CPU then GPU; without a GPU one CPU thread, then all that the lab may use.

    Ends with a `Result` whose values are a `CpuVsGpuResult`, or with `Stopped`. On every way out
    the loader's process is gone, the GPU's memory is given back and the thread count restored.
    Raises Problem when there is nothing to compare, and when the card has no memory left.
    """
    sides = _sides(settings, context)
    with cpu_threads_restored(), out_of_memory_told():
        try:
            yield from _compare(sides, settings, context)
        finally:
            give_memory_back(sides[1].device)


def _sides(settings: CpuVsGpuSettings, context: Context) -> tuple[Side, Side]:
    threads = min(context.cpu_threads, context.machine.cores)  # more than cores only get in the way
    cpu, device = torch.device("cpu"), torch.device(context.device)
    if device.type == "cuda":
        first = _side("cpu", cpu, threads, settings)
        return first, _side("gpu", device, threads, settings, after=first, times=0.1)
    if threads < 2:
        raise Problem("problem.nothing_to_compare")
    first = _side("one_thread", cpu, 1, settings)
    return first, _side("all_threads", cpu, threads, settings, after=first, times=1 / threads)


def _side(
    name: str,
    device: torch.device,
    threads: int,
    settings: CpuVsGpuSettings,
    *,
    after: Side | None = None,
    times: float = 1.0,
) -> Side:
    """`times` guesses how long a step takes beside one of `after`, until it has been measured."""
    # Steady after one step on a CPU; a GPU chooses its kernels and raises its clock first.
    warm_up, timed = (20, 200) if device.type == "cuda" else (2, 15)
    whole = Phase(settings.steps, like=after.whole_phase if after else None, times=times)
    compute = Phase(warm_up + timed, like=whole)
    return Side(name, device, threads, warm_up, timed, whole, compute)


def _compare(
    sides: tuple[Side, Side], settings: CpuVsGpuSettings, context: Context
) -> Iterator[AnyEvent]:
    yield Staged("stage.digits")
    digits = context.digits()
    pace = Pace(*(side.whole_phase for side in sides), *(side.compute_phase for side in sides))

    # The two whole jobs first and back to back: they meet the same neighbours on the machine.
    whole: list[Section] = []
    for side in sides:
        yield Staged(f"stage.whole_{side.name}")
        section = yield from _whole_job(side, settings, context, digits, pace)
        if section is None:
            yield Stopped()
            return
        whole.append(section)
        yield Measured(section.recording)

    compute: list[ComputeTime] = []
    for side in sides:
        yield Staged(f"stage.compute_{side.name}")
        times = yield from _compute_alone(side, settings, context, digits, pace)
        if times is None:
            yield Stopped()
            return
        compute.append(_summed_up(side.name, times))

    first, second = sides
    gan = Gan(torch.device("cpu"))
    result = CpuVsGpuResult(
        parameters={
            "generator": parameter_count(gan.generator),
            "discriminator": parameter_count(gan.discriminator),
        },
        sections=(first.name, second.name),
        speedup=Speedup(
            whole=whole[0].row.seconds / whole[1].row.seconds,
            compute=compute[0].ms_median / compute[1].ms_median,
        ),
        compute=(compute[0], compute[1]),
        steps=settings.steps,
        batch=BATCH,
        threads=(first.threads, second.threads),
        device_name=device_name(second.device, context.machine),
        digits=str(digits.source),
    )
    rows = tuple(section.row for section in whole)
    yield Result(rows=rows, values=msgspec.to_builtins(result))


def _whole_job(
    side: Side, settings: CpuVsGpuSettings, context: Context, digits: Digits, pace: Pace
) -> Generator[AnyEvent, None, Section | None]:
    """The job as the lab does it, under the meter. Returns its section, None if stopped.

    Both sides start from the same weights and see the same batches in the same order; on a GPU the
    noise differs, because each device has its own generator of random numbers.
    """
    torch.set_num_threads(side.threads)
    losses_d: list[float] = []
    losses_g: list[float] = []
    # The loader starts with its first batch, so the section pays for it; it is taken down after.
    with (
        Loader(digits.images, seed=settings.seed) as batches,
        context.meter.section(side.name) as section,
    ):
        torch.manual_seed(settings.seed)
        gan = Gan(side.device)
        for step in range(settings.steps):
            if context.stopped():
                return None
            with section.waiting_for_data():
                real = next(batches)  # (128, 1, 28, 28)
            loss_d, loss_g = train_step(gan, real.to(side.device))
            losses_d.append(loss_d.item())  # each waits for the device, as in the lab
            losses_g.append(loss_g.item())
            if pace.stepped(side.whole_phase):
                first_step = step + 2 - len(losses_d)  # steps are numbered from 1
                yield Lost(first_step, tuple(losses_d), tuple(losses_g))
                yield pace.progressed()
                losses_d.clear()
                losses_g.clear()
        wait_for(side.device)
    return section


def _compute_alone(
    side: Side, settings: CpuVsGpuSettings, context: Context, digits: Digits, pace: Pace
) -> Generator[AnyEvent, None, list[float] | None]:
    """Milliseconds of each step with the data in place and nothing read back. None if stopped."""
    torch.set_num_threads(side.threads)
    torch.manual_seed(settings.seed)
    gan = Gan(side.device)
    batches = prepared_batches(digits.images, side.timed, device=side.device)
    times: list[float] = []
    for step in range(side.warm_up + side.timed):
        if context.stopped():
            return None
        real = batches[step % len(batches)]  # (128, 1, 28, 28)
        wait_for(side.device)
        start = time.perf_counter()
        train_step(gan, real)
        wait_for(side.device)
        if step >= side.warm_up:
            times.append(1000 * (time.perf_counter() - start))
        if pace.stepped(side.compute_phase):
            yield pace.progressed()
    return times


def _summed_up(name: str, times: list[float]) -> ComputeTime:
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return ComputeTime(name=name, steps=len(times), ms_median=median, ms_low=low, ms_high=high)
