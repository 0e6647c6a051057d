"""Part 4's attack: the app beside bare loops, and a sweep beside twelve single attacks.

    python -m tests.benchmarks.attack [--device cpu|cuda:0] [--threads 2] [--rounds 5]

"Bare" is the lab's loop over the same network as the app's, with nothing around it. "As written" is
that loop over the package's own network, batch norm and unfrozen weights and all. The app's figure
is a whole activity: meter, events, checks and PNG files included. All take turns.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in the app; read when PyTorch is loaded

import torch
import torch.nn.functional as F
from efficientnet_lite_pytorch import EfficientNet

from core.activities import AttackSettings
from core.activities.attack import BASIC, LITE_0, STRENGTHS
from core.context import Context, never
from core.data import photos
from core.data.digits import Digits
from core.labs import attack
from core.labs.attack_methods import Aim, steps_of
from core.labs.classifying import tensor
from core.labs.device import wait_for
from core.models import classifiers
from core.models.classifier_files import weights_file
from core.models.classifiers import Classifier
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.telemetry.meter import open_meter
from tests.benchmarks.report import Report

TARGET, EPSILON, STEPS = 859, 2 / 255, 20
TARGET_RATIO = 1.05
GPU_MS = 100.0  # one attack, warm
BATCH_RATIO = 1 / 3  # of a sweep to single attacks, on a GPU

Network = Callable[[torch.Tensor], torch.Tensor]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device, lab = torch.device(arguments.device), LabSettings()
    network = classifiers.load(LITE_0, device, lab)
    package = EfficientNet.from_name(LITE_0).eval()
    package.load_state_dict(torch.load(weights_file(LITE_0, lab), weights_only=True))
    package.to(device)
    cat = tensor(photos.fitted(photos.pixels_of("cat", None)), device)

    report = Report()
    with open_meter(gpu_uuid=None, period_seconds=0.2) as meter:
        context = Context(
            device=arguments.device,
            cpu_threads=arguments.threads,
            machine=describe_machine(),
            meter=meter,
            stopped=never,
            digits=no_digits,
            lab=lab,
        )
        settings = AttackSettings(target=TARGET, epsilon=2.0, steps=STEPS, model=LITE_0)
        ways: dict[str, Callable[[], object]] = {
            "bare": lambda: lab_loop(network, cat),
            "as written": lambda: lab_loop(lambda p: package((p * 255 - 127) / 128), cat),
            "app": lambda: list(attack.run(settings, context)),
            "attack": lambda: attacked(network, aim(cat, (2.0,)), STEPS),
            "sweep": lambda: attacked(network, aim(cat, STRENGTHS), STEPS // 4),
            "single": lambda: [
                attacked(network, aim(cat, (one,)), STEPS // 4) for one in STRENGTHS
            ],
        }
        for work in ways.values():
            work()  # warm-up
        times: dict[str, list[float]] = {name: [] for name in ways}
        for round_ in range(arguments.rounds):
            names = list(ways) if round_ % 2 else list(ways)[::-1]
            for name in names:
                wait_for(device)
                began = time.perf_counter()
                ways[name]()
                wait_for(device)
                times[name].append(1000 * (time.perf_counter() - began))

    on_gpu = device.type == "cuda"
    report.median("the lab's loop as written", times["as written"], "ms")
    report.median("the same, bare over the app's network", times["bare"], "ms")
    report.median(
        "the app's steps alone", times["attack"], "ms", at_most=GPU_MS if on_gpu else None
    )
    report.median("the app's whole activity", times["app"], "ms")
    for name, against, limit in (
        ("attack", "bare", TARGET_RATIO),
        ("app", "as written", TARGET_RATIO),
    ):
        ratios = [a / b for a, b in zip(times[name], times[against], strict=True)]
        report.median(f"{name} to {against}, round by round", ratios, "times", at_most=limit)
    ratios = [a / b for a, b in zip(times["sweep"], times["single"], strict=True)]
    report.median(
        "twelve strengths at once to one by one",
        ratios,
        "times",
        at_most=BATCH_RATIO if on_gpu else None,
    )
    return report.exit_code


def attacked(network: Classifier, what: Aim, steps: int) -> None:
    """As the app does it."""
    for _ in steps_of(BASIC, network.captured(what.originals), what, steps=steps):
        pass


def lab_loop(network: Network, original: torch.Tensor) -> torch.Tensor:
    target = torch.tensor([TARGET], device=original.device)
    picture = original.clone()
    for _ in range(STEPS):
        picture = picture.detach().requires_grad_(True)
        F.cross_entropy(network(picture), target).backward()
        with torch.no_grad():
            picture = picture - EPSILON / 8 * picture.grad.sign()
            picture = original + (picture - original).clamp(-EPSILON, EPSILON)
            picture = picture.clamp(0, 1)
    return picture


def aim(cat: torch.Tensor, strengths: tuple[float, ...]) -> Aim:
    count = len(strengths)
    return Aim(
        originals=cat.expand(count, -1, -1, -1).contiguous(),
        targets=torch.full((count,), TARGET, device=cat.device),
        epsilon=torch.tensor(strengths, device=cat.device).view(-1, 1, 1, 1) / 255,
    )


def no_digits() -> Digits:
    raise AssertionError("digits have nothing to do with it")


if __name__ == "__main__":
    raise SystemExit(main())
