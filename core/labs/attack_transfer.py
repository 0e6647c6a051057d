"""Part 4: does a picture that fools one network fool another, which the attacker never saw?

Each network whose weights are here is attacked by itself, and then all of them at once, by adding
up their losses: a picture made for several networks is the one that an attacker would carry.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import torch
from torch import Tensor

from core.activities.attack import BASIC, TransferCell, TransferResult, TransferSettings
from core.context import Context
from core.data.image_classes import label
from core.events import AnyEvent, Drawn, Measured, Result, Staged, Stopped
from core.labs.attack_geometry import eight_bits
from core.labs.attack_methods import Aim, Classify, steps_of
from core.labs.classifying import beliefs, original, png, refuse_source
from core.labs.device import device_name, device_of
from core.labs.pace import Pace, Phase
from core.models import classifiers
from core.models.classifiers import Classifier
from core.problems import Problem


def run(settings: TransferSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends with a `Result` whose values are a `TransferResult`, or with `Stopped`.

    Raises Problem as the single attack does, and where there are not two networks here.
    """
    with device_of(context) as device:
        yield from _transferred(settings, context, device)


def _transferred(
    settings: TransferSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    yield Staged("stage.classifier")
    networks = classifiers.load_all(device, context.lab)
    if len(networks) < 2:
        raise Problem("problem.transfer_needs_two")
    clean = original(settings.picture, settings.fit, context, device)
    before = [beliefs(network, clean)[0] for network in networks]
    sources = [int(belief.argmax()) for belief in before]
    for source in sources:
        refuse_source(source, settings.target)

    aim = Aim(
        originals=clean,
        targets=torch.tensor([settings.target], device=device),
        epsilon=torch.full((1, 1, 1, 1), settings.epsilon / 255, device=device),
    )
    groups = [*([network] for network in networks), networks]
    first = Phase(settings.steps)
    phases = [first, *(Phase(settings.steps, like=first, times=len(one)) for one in groups[1:])]
    pace = Pace(*phases)
    cells: list[TransferCell] = []
    with context.meter.section("transfer") as section:
        for group, phase in zip(groups, phases, strict=True):
            yield Staged("stage.attacking")
            attacked = clean
            for step in steps_of(BASIC, all_of(group), aim, steps=settings.steps):
                attacked = step.pictures
                if context.stopped():
                    yield Stopped()
                    return
                if pace.stepped(phase):
                    yield pace.progressed()
            attacked = eight_bits(attacked, clean, aim.epsilon)
            made_for = tuple(network.name for network in group)
            yield Drawn("+".join(made_for), png(attacked))
            for network, source in zip(networks, sources, strict=True):
                belief = beliefs(network, attacked)[0]
                cells.append(_cell(made_for, network.name, belief, settings.target, source))
    yield Measured(section.recording)

    result = TransferResult(
        models=tuple(network.name for network in networks),
        target=settings.target,
        target_label=label(settings.target),
        before=tuple(
            (label(source), float(belief[source]))
            for source, belief in zip(sources, before, strict=True)
        ),
        cells=tuple(cells),
        epsilon=settings.epsilon,
        steps=settings.steps,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(section.row,), values=msgspec.to_builtins(result))


def all_of(networks: list[Classifier]) -> Classify:
    """One network, or several as one whose beliefs are the product of theirs: its slope is, but for
    what all classes share, the sum of theirs."""
    if len(networks) == 1:
        return networks[0]

    def together(pictures: Tensor) -> Tensor:
        said = [network(pictures).log_softmax(1) for network in networks]
        return torch.stack(said).sum(0)

    return together


def _cell(
    made_for: tuple[str, ...], judged_by: str, belief: Tensor, target: int, source: int
) -> TransferCell:
    guess = int(belief.argmax())
    return TransferCell(
        made_for=made_for,
        judged_by=judged_by,
        fooled=guess == target,
        misled=guess != source,
        confidence=float(belief[target]),
        guess=label(guess),
        guess_class=guess,
    )
