"""What the meter costs: CPU time of a process with it, less that of its twin without.

    python -m tests.benchmarks.sampler_cost [--gpu] [--seconds 10] [--rounds 5]

Both are workers in small: threads that sleep, and two sleeping children as data loaders. They run
side by side, so that a busy machine disturbs both. With --gpu the meter reads the first card.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from core.telemetry.machine import list_gpus
from core.telemetry.meter import open_meter
from tests.benchmarks.report import Report

ROOT = Path(__file__).parents[2]
PERIOD_SECONDS = 0.2
THREADS = 16
CHILDREN = 2
TARGET_PERCENT = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpu", action="store_true", help="read the first card too")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--twin", help=argparse.SUPPRESS)  # this script as one of the two
    arguments = parser.parse_args()
    uuid = first_gpu() if arguments.gpu else None
    if arguments.twin:
        print(json.dumps(twin(arguments.twin == "metered", uuid, arguments.seconds)))
        return 0
    report = Report()
    command = [sys.executable, "-m", "tests.benchmarks.sampler_cost"]
    command += ["--seconds", str(arguments.seconds), *(["--gpu"] if arguments.gpu else [])]
    costs = []
    for _ in range(arguments.rounds):
        pair = [
            subprocess.Popen([*command, "--twin", kind], cwd=ROOT, stdout=subprocess.PIPE)
            for kind in ("metered", "bare")
        ]
        metered, bare = (json.loads(process.communicate()[0]) for process in pair)
        costs.append(metered - bare)
    what = f"meter at {1 / PERIOD_SECONDS:g} Hz, {'with a card' if uuid else 'no card'}"
    report.median(what, costs, "% of a core", at_most=TARGET_PERCENT)
    return report.exit_code


def first_gpu() -> str:
    gpus, absence = list_gpus()
    if not gpus:
        raise SystemExit(f"--gpu: no card to read ({absence})")
    return gpus[0].uuid


def twin(metered: bool, gpu_uuid: str | None, seconds: float) -> float:
    """CPU percent of this process over `seconds`, opening and closing of the meter left out."""
    over = threading.Event()
    for _ in range(THREADS):
        threading.Thread(target=over.wait, daemon=True).start()
    loaders = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        for _ in range(CHILDREN)
    ]
    meter = open_meter(gpu_uuid=gpu_uuid, period_seconds=PERIOD_SECONDS) if metered else None
    time.sleep(0.5)
    began, cpu_before = time.perf_counter(), time.process_time()
    over.wait(seconds)
    percent = 100 * (time.process_time() - cpu_before) / (time.perf_counter() - began)
    if meter:
        meter.close()
    for loader in loaders:
        loader.communicate(b"\n")
    return percent


if __name__ == "__main__":
    sys.exit(main())
