"""What training costs more in the app, with meter, live pictures and judge, than in a bare loop.

    python -m tests.benchmarks.train_overhead [--threads 2] [--rounds 5] [--images 6400]

The bare loop is the same step on the same loader, its losses read at every step, and nothing else.
Runs of one epoch take turns in one process, so that a busy machine disturbs both alike; the first
of each is a warm-up. Both are timed from outside, so the app pays for all that it does between the
first step and the last look; preparing the digits and the film strip are outside of both.
On a machine that has other work, the CPU seconds of both tell more than the clock.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in the app; read when PyTorch is loaded

import torch

from core.activities import TrainGanSettings
from core.context import Context, never
from core.data.digits import Digits, load_digits
from core.events import Drawn, Staged
from core.labs.dcgan import BATCH, Gan, train_step
from core.labs.loading import Loader
from core.labs.train_gan import run
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.telemetry.meter import open_meter
from tests.benchmarks.report import Report

TARGET_RATIO = 1.03


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=6_400)
    arguments = parser.parse_args()
    settings = TrainGanSettings(epochs=1, images_per_epoch=arguments.images)
    digits = load_digits(LabSettings.load())

    def bare() -> Took:
        return bare_loop(digits, settings, arguments.threads)

    def in_the_app() -> Took:
        return app_run(digits, settings, arguments.threads)

    bare(), in_the_app()  # warm-up
    report = Report()
    print(f"PyTorch {torch.__version__}, {arguments.threads} threads, {arguments.images} images")
    alone: list[Took] = []
    watched: list[Took] = []
    for turn in range(arguments.rounds):
        if turn % 2:
            alone.append(bare())
        watched.append(in_the_app())
        if not turn % 2:
            alone.append(bare())
    report.median("an epoch, bare loop", [took.seconds for took in alone], "s")
    report.median("an epoch, in the app", [took.seconds for took in watched], "s")
    pairs = list(zip(watched, alone, strict=True))
    report.median(
        "app to bare, turn by turn",
        [app.seconds / loop.seconds for app, loop in pairs],
        "times",
        at_most=TARGET_RATIO,
    )
    report.median(
        "app to bare, CPU seconds",
        [app.cpu_seconds / loop.cpu_seconds for app, loop in pairs],
        "times",
    )
    return report.exit_code


@dataclass(frozen=True, slots=True)
class Took:
    """What an epoch took: time on the clock, and CPU time of this process without its loader."""

    seconds: float
    cpu_seconds: float

    @staticmethod
    def now() -> Took:
        return Took(time.perf_counter(), time.process_time())

    def since(self, began: Took) -> Took:
        return Took(self.seconds - began.seconds, self.cpu_seconds - began.cpu_seconds)


def bare_loop(digits: Digits, settings: TrainGanSettings, threads: int) -> Took:
    torch.set_num_threads(threads)
    torch.manual_seed(settings.seed)
    gan = Gan(torch.device("cpu"))
    images = digits.images[: settings.images_per_epoch]
    with Loader(images, seed=settings.seed, lasting=True) as batches:
        began = Took.now()
        for _ in range(len(images) // BATCH):
            loss_d, loss_g = train_step(gan, next(batches))
            loss_d.item(), loss_g.item()
        return Took.now().since(began)


def app_run(digits: Digits, settings: TrainGanSettings, threads: int) -> Took:
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        context = Context(
            device="cpu",
            cpu_threads=threads,
            machine=describe_machine(),
            meter=meter,
            stopped=never,
            digits=lambda: digits,
        )
        began = ended = None
        for event in run(settings, context):
            match event:
                case Drawn(name="grid") if began is None:  # before the first step
                    began = Took.now()
                case Staged(stage="stage.film_strip"):
                    ended = Took.now()
                case _:
                    pass
        assert began is not None
        assert ended is not None
        return ended.since(began)


if __name__ == "__main__":
    raise SystemExit(main())
