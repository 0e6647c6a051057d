"""Part 4: one picture is changed a little, until a network takes it for something else.

What is told of the outcome is told three times: of the picture as the attack has left it, with
fractions of colour values; of the same rounded to whole ones; and of the PNG file that a student
takes away, read again as an upload is. And beside it stands random noise of the same size, which
fools nobody: it is not the size of the change that does it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import torch
from torch import Tensor

from core.activities.attack import MINIMAL, AttackResult, AttackSettings
from core.context import Context
from core.data import photos
from core.data.image_classes import label
from core.events import (
    AnyEvent,
    Believed,
    Drawn,
    Measured,
    Progressed,
    Result,
    Staged,
    Stopped,
)
from core.labs.attack_geometry import eight_bits, l2, linf, random_signs
from core.labs.attack_methods import Aim, step_count, steps_of
from core.labs.classifying import (
    beliefs,
    original,
    png,
    refuse_source,
    seen,
    tensor,
    top_guesses,
)
from core.labs.device import device_name, device_of, wait_for
from core.models import classifiers

REPORT_SECONDS = 0.2  # between two fetches of the beliefs
DIFFERENCE_GAIN = 60.0  # at most: a change of 2/255 is then as bright as 120/255


def run(settings: AttackSettings, context: Context) -> Iterator[AnyEvent]:
    """Ends with a `Result` whose values are an `AttackResult`, or with `Stopped`.

    Raises Problem where the network already sees the target in the original, where an upload is
    gone or a network's weights are not here, and where the card is full.
    """
    with device_of(context) as device:
        yield from _attacked(settings, context, device)


def _attacked(
    settings: AttackSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    yield Staged("stage.classifier")
    classifier = classifiers.load(settings.model, device, context.lab)
    clean = original(settings.picture, settings.fit, context, device)
    before, before_classes = top_guesses(beliefs(classifier, clean)[0])
    refuse_source(before_classes[0], settings.target)
    yield Drawn("original", png(clean))

    yield Staged("stage.attacking")
    aim = Aim(
        originals=clean,
        targets=torch.tensor([settings.target], device=device),
        epsilon=torch.full((1, 1, 1, 1), settings.epsilon / 255, device=device),
    )
    classify = classifier.captured(clean)
    course = Course(step_count(settings.method, settings.steps))
    attacked = clean
    with context.meter.section("attack") as section:
        began = time.perf_counter()
        attack = steps_of(settings.method, classify, aim, steps=settings.steps, seed=settings.seed)
        for step in attack:
            attacked = step.pictures
            course.add(step.belief)
            if context.stopped():
                yield Stopped()
                return
            if course.report_is_due:
                yield from course.report()
        wait_for(device)
        milliseconds = 1000 * (time.perf_counter() - began)
    yield from course.report()
    yield Measured(section.recording)

    yield Staged("stage.checking_attack")
    limit = None if settings.method == MINIMAL else aim.epsilon
    rounded = eight_bits(attacked, clean, limit)
    file = png(rounded)
    read = tensor(photos.fitted(photos.decoded(file), settings.fit), device)
    size = linf(attacked, clean).view(1, 1, 1, 1)
    control = random_signs(clean, size, seed=settings.seed)
    versions = [attacked, rounded, read, control]
    said = beliefs(classifier, torch.cat(versions))  # (4, 1000)
    as_left, as_rounded, as_file, as_control = (
        seen(belief, version, clean, settings.target)
        for belief, version in zip(said, versions, strict=True)
    )
    after, after_classes = top_guesses(said[0])
    yield Believed(course.steps, (as_left.confidence,))

    noise_gain, difference_gain = gains(as_left.linf_255)
    change = attacked - clean
    # Mid-grey is 128/255: a value of 8 bits has no middle of its own.
    yield Drawn("noise", png((128 / 255 + change * noise_gain).clamp(0, 1)))
    yield Drawn("attacked", file)
    yield Drawn("difference", png((change.abs() * difference_gain).clamp(0, 1)))
    yield Drawn("control", png(control))
    result = AttackResult(
        model=classifier.name,
        method=settings.method,
        target=settings.target,
        target_label=label(settings.target),
        source=before_classes[0],
        source_label=before[0][0],
        before=before,
        before_classes=before_classes,
        after=after,
        after_classes=after_classes,
        fooled=as_left.fooled,
        confidence=as_left.confidence,
        linf_255=as_left.linf_255,
        l2=float(l2(attacked, clean)[0]),
        fooled_8bit=as_rounded.fooled,
        eight_bit=as_rounded,
        fooled_png=as_file.fooled,
        png=as_file,
        control=as_control,
        beliefs=(*course.beliefs, as_left.confidence),
        steps=course.steps,
        milliseconds=milliseconds,
        noise_gain=noise_gain,
        difference_gain=difference_gain,
        picture=settings.picture,
        fit=settings.fit,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(section.row,), values=msgspec.to_builtins(result))


def gains(linf_255: float) -> tuple[float, float]:
    """How many times to enlarge a change so that it is seen and nothing of it is cut off: of the
    noise around mid-grey, and of its absolute value on black."""
    room = max(linf_255, 1e-6)
    return min(127 / room, 255.0), min(DIFFERENCE_GAIN, 255 / room)


class Course:
    """Beliefs in the target as the attack goes on: left on the device until a report is due, since
    each fetch makes Python wait for it."""

    def __init__(self, total: int) -> None:
        self.beliefs: list[float] = []  # of the original, then after each step but the last
        self._total = total
        self._unread: list[Tensor] = []
        self._reported_at = time.perf_counter()

    @property
    def steps(self) -> int:
        return len(self.beliefs) + len(self._unread)

    @property
    def report_is_due(self) -> bool:
        return time.perf_counter() - self._reported_at >= REPORT_SECONDS

    def add(self, belief: Tensor) -> None:
        """Of the one picture that is attacked: (1,)."""
        self._unread.append(belief)

    def report(self) -> Iterator[AnyEvent]:
        if not self._unread:
            return
        new = torch.cat(self._unread).tolist()
        self._unread.clear()
        yield Believed(len(self.beliefs), tuple(new))
        self.beliefs += new
        yield Progressed(self.steps, self._total)
        self._reported_at = time.perf_counter()
