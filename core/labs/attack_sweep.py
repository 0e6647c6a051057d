"""Part 4: the same attack at twelve strengths, and at some strengths on several targets.

All strengths are one batch, and so are all pairs of the map: a GPU takes hardly longer for twelve
pictures than for one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
import torch
from torch import Tensor

from core.activities.attack import (
    MAP_STRENGTHS,
    MAP_TARGETS,
    STRENGTHS,
    AttackSweepResult,
    AttackSweepSettings,
    SweepPoint,
)
from core.context import Context
from core.data.image_classes import label
from core.events import AnyEvent, Drawn, Measured, Progressed, Result, Staged, Stopped
from core.labs.attack_geometry import eight_bits, linf, random_signs
from core.labs.attack_methods import Aim, Classify, Step, belief_in, step_count, steps_of
from core.labs.classifying import (
    beliefs,
    in_255ths,
    original,
    png,
    refuse_source,
    top_guesses,
)
from core.labs.device import device_name, device_of, wait_for
from core.labs.pace import Pace, Phase
from core.models import classifiers
from core.models.classifiers import Classifier

SHOWN = (0.5, 2.0, 8.0, 16.0)  # strengths whose pictures are drawn


def run(settings: AttackSweepSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends with a `Result` whose values are an `AttackSweepResult`, or with `Stopped`.

    Raises Problem as the single attack does.
    """
    with device_of(context) as device:
        yield from _swept(settings, context, device)


def _swept(
    settings: AttackSweepSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    yield Staged("stage.classifier")
    classifier = classifiers.load(settings.model, device, context.lab)
    clean = original(settings.picture, settings.fit, context, device)
    before, before_classes = top_guesses(beliefs(classifier, clean)[0])
    source = before_classes[0]
    refuse_source(source, settings.target)

    targets = [settings.target, *(one for one in MAP_TARGETS if one != settings.target)]
    targets = [target for target in targets if target != source]
    pairs = [(target, strength) for target in targets for strength in MAP_STRENGTHS]
    sweep = _aim(clean, [(settings.target, strength) for strength in STRENGTHS])
    grid = _aim(clean, pairs)
    steps = step_count(settings.method, settings.steps)
    first = Phase(steps)
    second = Phase(steps, like=first, times=len(pairs) / len(STRENGTHS))
    pace = Pace(first, second)

    attacked: dict[str, Tensor] = {}
    rows, milliseconds = [], 0.0
    classify = classifier.captured(sweep.originals)
    for name, stage, aim, network, phase in (
        ("sweep", "stage.sweeping", sweep, classify, first),
        ("map", "stage.mapping", grid, classifier, second),  # its shape would not come again
    ):
        yield Staged(stage)
        with context.meter.section(name) as section:
            began = time.perf_counter()
            for step in _steps(settings, network, aim):
                attacked[name] = step.pictures
                if context.stopped():
                    yield Stopped()
                    return
                if pace.stepped(phase):
                    yield pace.progressed()
            wait_for(device)
            if name == "sweep":
                milliseconds = 1000 * (time.perf_counter() - began)
        yield Measured(section.recording)
        rows.append(section.row)

    points = _points(classifier, sweep, attacked["sweep"])
    noise = random_signs(sweep.originals, sweep.epsilon, seed=settings.seed)
    for place, strength in enumerate(STRENGTHS):
        if strength in SHOWN:
            shown = slice(place, place + 1)
            rounded = eight_bits(attacked["sweep"][shown], clean, sweep.epsilon[shown])
            yield Drawn(f"strength-{strength:g}", png(rounded))
    yield Progressed(2 * steps, 2 * steps)
    result = AttackSweepResult(
        model=classifier.name,
        method=settings.method,
        source=source,
        source_label=before[0][0],
        source_confidence=before[0][1],
        points=points,
        control=_points(classifier, sweep, noise),
        map=_points(classifier, grid, attacked["map"]),
        weakest=next((point.epsilon for point in points if point.fooled), None),
        steps=steps,
        milliseconds=milliseconds,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=tuple(rows), values=msgspec.to_builtins(result))


def _aim(clean: Tensor, pairs: Sequence[tuple[int, float]]) -> Aim:
    """One picture for each target and strength (in /255)."""
    targets, strengths = zip(*pairs, strict=True)
    return Aim(
        originals=clean.expand(len(pairs), -1, -1, -1).contiguous(),
        targets=torch.tensor(targets, device=clean.device),
        epsilon=torch.tensor(strengths, device=clean.device).view(-1, 1, 1, 1) / 255,
    )


def _steps(settings: AttackSweepSettings, classify: Classify, aim: Aim) -> Iterator[Step]:
    return steps_of(settings.method, classify, aim, steps=settings.steps, seed=settings.seed)


@torch.inference_mode()
def _points(classifier: Classifier, aim: Aim, pictures: Tensor) -> tuple[SweepPoint, ...]:
    """What the network says of each picture, as it is and rounded to 8 bits."""
    logits = classifier(pictures)
    rounded = classifier(eight_bits(pictures, aim.originals, aim.epsilon))
    columns = zip(
        aim.targets.tolist(),
        map(in_255ths, aim.epsilon.flatten().tolist()),
        (logits.argmax(1) == aim.targets).tolist(),
        belief_in(aim.targets, logits).tolist(),
        map(in_255ths, linf(pictures, aim.originals).tolist()),
        (rounded.argmax(1) == aim.targets).tolist(),
        strict=True,
    )
    return tuple(
        SweepPoint(
            target=target,
            target_label=label(target),
            epsilon=epsilon,
            fooled=fooled,
            confidence=confidence,
            linf_255=size,
            fooled_8bit=fooled_8bit,
        )
        for target, epsilon, fooled, confidence, size, fooled_8bit in columns
    )
