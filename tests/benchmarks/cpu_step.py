"""What a CPU step of part 1 takes in the app, with the meter on, beside a bare loop of the lab's.

    python -m tests.benchmarks.cpu_step [--threads 2] [--blocks 12] [--steps 4]

Blocks of both kinds take turns in one process, so that a busy machine disturbs both alike. Both
compute the same numbers, bit for bit (tests/labs/test_dcgan.py).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in the app; read when PyTorch is loaded

import torch

from core.labs.dcgan import BATCH, Gan, train_step
from core.telemetry.meter import open_meter
from tests.benchmarks.report import Report
from tests.labs.plain import PlainLab

TARGET_RATIO = 0.96


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4, help="steps in a block")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    batches = torch.rand(arguments.steps, BATCH, 1, 28, 28) * 2 - 1

    def bare() -> list[float]:
        return timed(lab.step, batches)

    def in_the_app() -> list[float]:
        with open_meter(gpu_uuid=None, period_seconds=0.2) as meter, meter.section("cpu"):
            return timed(read_step, batches)

    def read_step(real: torch.Tensor) -> tuple[float, float]:
        loss_d, loss_g = train_step(gan, real)
        return loss_d.item(), loss_g.item()

    torch.manual_seed(0)
    lab, gan = PlainLab(), Gan(torch.device("cpu"))
    bare(), in_the_app()  # warm-up
    report = Report()
    print(f"PyTorch {torch.__version__}, {arguments.threads} threads, batch {BATCH}")
    plain_ms: list[float] = []
    app_ms: list[float] = []
    ratios: list[float] = []
    for block in range(arguments.blocks):
        first, second = (bare, in_the_app) if block % 2 else (in_the_app, bare)
        times = {first: first(), second: second()}
        plain_ms += times[bare]
        app_ms += times[in_the_app]
        ratios.append(statistics.median(times[in_the_app]) / statistics.median(times[bare]))
    report.median("the lab's step, bare", plain_ms, "ms")
    report.median("the app's step, metered", app_ms, "ms")
    report.median("app to lab, block by block", ratios, "times", at_most=TARGET_RATIO)
    return report.exit_code


def timed(step: Callable[[torch.Tensor], object], batches: torch.Tensor) -> list[float]:
    """Milliseconds of each step; reading the losses is part of it."""
    times = []
    for real in batches:
        start = time.perf_counter()
        step(real)
        times.append(1000 * (time.perf_counter() - start))
    return times


if __name__ == "__main__":
    raise SystemExit(main())
