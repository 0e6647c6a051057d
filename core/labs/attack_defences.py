"""Part 4: which defences does the attack survive, what do they cost, and what if it knows them?

Whoever knows a defence attacks through it: first with the strength of the ordinary attack, then
with twice and four times that, until the defence falls. What it takes is the defence's worth.

The picture that is judged is the one in the file, of 8 bits. The price of a defence is counted on
sixteen clean pictures: the four samples, whole and cut closer, each also mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from core.activities.attack import (
    BASIC,
    DefenceOutcome,
    DefencesResult,
    DefencesSettings,
    Strength,
)
from core.context import Context
from core.data import photos
from core.data.image_classes import label
from core.events import AnyEvent, Drawn, Measured, Result, Staged, Stopped
from core.labs.attack_geometry import eight_bits
from core.labs.attack_methods import Aim, Classify, steps_of
from core.labs.classifying import (
    beliefs,
    original,
    png,
    refuse_source,
    tensor,
    top_guesses,
)
from core.labs.defences import defences
from core.labs.device import device_name, device_of
from core.labs.pace import Pace, Phase
from core.models import classifiers

ESCALATION = (1, 2, 4)  # times the strength of the ordinary attack
CLOSER = 0.85  # of the height and width: how much the closer view of a sample shows
JUDGING_SEEDS = 100_000  # added to the seed: the noise an attacker meets is not the one they knew
CLEAN_AT_ONCE = 4  # clean pictures in one batch; a voting defence makes copies of each


def run(settings: DefencesSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends with a `Result` whose values are a `DefencesResult`, or with `Stopped`.

    Raises Problem as the single attack does.
    """
    with device_of(context) as device:
        yield from _defended(settings, context, device)


@dataclass(frozen=True, slots=True)
class Work:
    """What all attacks of one run share."""

    clean: Tensor  # (1, 3, 224, 224)
    target: int
    steps: int
    stopped: Callable[[], bool]
    pace: Pace

    def attack(
        self, classify: Classify, epsilon: float, phase: Phase | None = None
    ) -> Generator[AnyEvent, None, Tensor | None]:
        """The lab's attack on `classify`, in 8 bits; None where the student has stopped it."""
        aim = Aim(
            originals=self.clean,
            targets=torch.tensor([self.target], device=self.clean.device),
            epsilon=torch.full((1, 1, 1, 1), epsilon / 255, device=self.clean.device),
        )
        attacked = self.clean
        for step in steps_of(BASIC, classify, aim, steps=self.steps):
            attacked = step.pictures
            if self.stopped():
                return None
            if phase is not None and self.pace.stepped(phase):
                yield self.pace.progressed()
        return eight_bits(attacked, self.clean, aim.epsilon)


def _defended(
    settings: DefencesSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    yield Staged("stage.classifier")
    classifier = classifiers.load(settings.model, device, context.lab)
    clean = original(settings.picture, settings.fit, context, device)
    before, before_classes = top_guesses(beliefs(classifier, clean)[0])
    source = before_classes[0]
    refuse_source(source, settings.target)
    samples, answers = clean_samples(settings.fit, device)

    known = defences(settings, seed=settings.seed)
    judging = defences(settings, seed=settings.seed + JUDGING_SEEDS)
    plain = Phase(settings.steps)
    phases = [plain, *(Phase(settings.steps, like=plain, times=one.copies) for one in known[1:])]
    work = Work(clean, settings.target, settings.steps, context.stopped, Pace(*phases))

    yield Staged("stage.attacking")
    with context.meter.section("attack") as section:
        plainly = yield from work.attack(classifier, settings.epsilon, plain)
    if plainly is None:
        yield Stopped()
        return
    yield Measured(section.recording)
    rows = [section.row]

    yield Staged("stage.defending")
    outcomes = []
    with context.meter.section("defences") as section:
        for knows, defence, phase in zip(known, judging, phases, strict=True):
            guarded = defence.guard(classifier)
            yield Drawn(defence.name, png(defence.change(plainly)[:1]))
            fall = Fall(plainly, settings.epsilon, beliefs(guarded, plainly)[0])
            if defence.name != "none":
                last = yield from _attacked_through(
                    work, knows.guard(classifier), guarded, phase, epsilon=settings.epsilon
                )
                if last is None:
                    yield Stopped()
                    return
                fall = last
            outcome = _outcome(settings.target, source, beliefs(guarded, plainly)[0], fall)
            outcome.update(
                name=defence.name,
                amount=float(defence.amount),
                right=rightly_named(guarded, samples, answers),
                clean=len(answers),
            )
            outcomes.append(msgspec.convert(outcome, DefenceOutcome))
    yield Measured(section.recording)

    result = DefencesResult(
        model=classifier.name,
        target=settings.target,
        target_label=label(settings.target),
        source=source,
        source_label=before[0][0],
        outcomes=tuple(outcomes),
        epsilon=settings.epsilon,
        steps=settings.steps,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(*rows, section.row), values=msgspec.to_builtins(result))


@dataclass(frozen=True, slots=True)
class Fall:
    """The last attack on a defence, and what the guarded network says of it."""

    picture: Tensor
    epsilon: float  # /255
    belief: Tensor  # (1000,)


def _attacked_through(
    work: Work, known: Classify, guarded: Classify, phase: Phase, *, epsilon: float
) -> Generator[AnyEvent, None, Fall | None]:
    """Attack with rising strength until the defence falls; None where the student has stopped it.

    What the attacker knows of a defence that draws random numbers is how it draws, not which.
    """
    fall: Fall | None = None
    for place, strength in enumerate(rising(epsilon)):
        attacked = yield from work.attack(known, strength, phase if place == 0 else None)
        if attacked is None:
            return None
        fall = Fall(attacked, strength, beliefs(guarded, attacked)[0])
        if int(fall.belief.argmax()) == work.target:
            break
    return fall


def rising(epsilon: float) -> list[float]:
    """Strengths of an attacker who knows the defence, in /255, none above the largest there is."""
    return sorted({min(times * epsilon, Strength().high) for times in ESCALATION})


def _outcome(target: int, source: int, ordinary: Tensor, fall: Fall) -> dict[str, object]:
    """What the guarded network says of the ordinary attack, and of the one that knows it."""
    guess, adaptive_guess = int(ordinary.argmax()), int(fall.belief.argmax())
    return {
        "survives": guess == target,
        "confidence": float(ordinary[target]),
        "guess": label(guess),
        "guess_class": guess,
        "repaired": guess == source,
        "adaptive_fooled": adaptive_guess == target,
        "adaptive_epsilon": fall.epsilon,
        "adaptive_confidence": float(fall.belief[target]),
        "adaptive_guess": label(adaptive_guess),
    }


def clean_samples(fit: str, device: torch.device) -> tuple[Tensor, list[tuple[int, ...]]]:
    """Sixteen views of the samples, (16, 3, 224, 224), and the right answers to each."""
    views, answers = [], []
    for sample in photos.SAMPLES.values():
        whole = photos.pixels_of(sample.name, None)
        height, width, _ = whole.shape
        top, left = (round(side * (1 - CLOSER) / 2) for side in (height, width))
        for part in (whole, whole[top : height - top, left : width - left]):
            view = tensor(photos.fitted(part, fit), device)
            views += [view, view.flip(3)]
            answers += [sample.classes, sample.classes]
    return torch.cat(views), answers


def rightly_named(classify: Classify, pictures: Tensor, answers: list[tuple[int, ...]]) -> int:
    """How many pictures get one of their right answers as the first guess."""
    guesses = [
        guess
        for some in torch.split(pictures, CLEAN_AT_ONCE)
        for guess in beliefs(classify, some).argmax(1).tolist()
    ]
    return sum(guess in right for guess, right in zip(guesses, answers, strict=True))
