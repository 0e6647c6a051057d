"""mini-turbo through the app: a request's way there and back, and a class that asks at once.

    python -m tests.benchmarks.image_model [--requests 40] [--rounds 5] [--threads 2] [--tiny]

Engine and worker are the app's own; the clock runs from the request until its finished picture is
in the web process. Loading the model is outside of it. `--tiny` takes an untrained model of the
same classes, to try the benchmark itself.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from core.activities.make_images import MINI_TURBO, MakeImagesSettings
from core.models.image_models import image_model
from core.settings import LabSettings
from tests.benchmarks.drawing import ask, class_of, engine_of, measure_class
from tests.benchmarks.report import Report

TARGET_SECONDS = 0.5
STUDENTS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    settings = replace(LabSettings.load(), cpu_threads=arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.tiny:
            from tests.models.tiny_pipeline import make_tiny_pipeline

            make_tiny_pipeline(Path(folder))
            settings = replace(settings, mini_turbo_dir=Path(folder))
        return measure(settings, arguments.requests, arguments.rounds)


def measure(settings: LabSettings, requests: int, rounds: int) -> int:
    report = Report()
    print(f"{image_model(settings, MINI_TURBO).folder}, {settings.cpu_threads} threads")
    with engine_of(settings) as engine:
        first = ask(engine, "student", "make-images", MakeImagesSettings())
        print(f"first request, with the worker's start and loading: {first.seconds:.1f} s")
        ask(engine, "student", "make-images", MakeImagesSettings(count=8))  # warm-up
        singles = [
            ask(engine, "student", "make-images", MakeImagesSettings(seed=number)).seconds
            for number in range(requests)
        ]
        report.median("one picture, request to picture", singles, "s", at_most=TARGET_SECONDS)
        report.p95("one picture, request to picture", singles, "s")
        measure_class(engine, class_of(STUDENTS, MINI_TURBO), report, rounds=rounds, at_most=None)
    return report.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
