"""Part 2: the GAN learns to draw digits, and is watched while it does.

The training is the lab's: every digit comes through a loader, one process that prepares them one by
one, and the losses are those of each step. Three things are better than in the lab. The loader's
process lasts, so an epoch does not begin with a wait for a new one. The losses stay on the device
and are fetched a few times a second, so that it need not stand still at every step. And whatever
is there to be looked at is drawn apart from the training: with networks in evaluation mode, with
noise drawn once, on a clock that stands still meanwhile. Watching changes no bit of what is learnt.

The clock of the training also stands still while the student has paused the run; the meter's goes
on, since its section is the whole of what the student saw happening.
"""

from __future__ import annotations

import itertools
import logging
import math
import statistics
import time
from collections.abc import Generator, Iterator
from enum import Enum, auto

import msgspec
import torch
from torch import Tensor

from core.activities.train_gan import (
    FIXED_NOISES,
    EpochResult,
    TrainGanResult,
    TrainGanSettings,
)
from core.context import Context
from core.events import AnyEvent, Lost, Measured, Progressed, Result, Scored, Staged, Stopped
from core.labs import keeping
from core.labs.dcgan import BATCH, NOISE, Gan, train_step
from core.labs.device import device_name, device_of, wait_for
from core.labs.gallery import Gallery, Look
from core.labs.loading import Loader
from core.models import judge
from core.telemetry.meter import Section

FETCH_SECONDS = 0.25  # between two fetches of the losses
LOOK_SECONDS = 1.0  # of training between two looks, more where looking is slow
LOOK_SHARE = 0.015  # of the time, at most, may go into looking
LOOKS_AN_EPOCH = 3  # at least

# What is taken for trouble; good runs stay far from all of it.
EARLY_STEPS = 200  # until then everything is blurred, and D is often far ahead
WON_STEPS = 100  # D's loss, a sum of two terms that is 1.386 for an undecided D,
WON_LOSS = 0.02  # has its median below this over so many steps: G gets no signal any more
COLLAPSED_LOOKS = 3  # so many looks in a row
COLLAPSED_VARIETY = 0.1  # with pictures that differ less than this: half of what real ones do
COLLAPSED_DIGITS = 2  # or, among enough readable ones, with no more than these of the ten digits,
COLLAPSED_SHARE = 0.8  # or with one digit taking so much of them
ENOUGH_READABLE = 0.25  # share of the pictures; fewer say little

log = logging.getLogger(__name__)


class Ending(Enum):
    """How an epoch ended."""

    WHOLE = auto()
    FINISHED = auto()  # before its last step, because the student keeps what there is
    BROKEN = auto()  # before its last step, because a loss is no number any more
    STOPPED = auto()


def run(settings: TrainGanSettings, context: Context) -> Iterator[AnyEvent]:
    """Train, with looks at the fixed noises several times an epoch.

    Ends with a `Result` whose values are a `TrainGanResult`, or with `Stopped`, which keeps
    nothing. On every way out the loader's process is gone, the GPU's memory is given back and the
    thread count restored. Raises Problem when the card has no memory left.
    """
    with device_of(context) as device:
        yield from _train(settings, context, device)


def _train(
    settings: TrainGanSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    yield Staged("stage.digits")
    digits = context.digits()
    images = digits.images[: settings.images_per_epoch]
    steps = len(images) // BATCH  # of one epoch; an incomplete last batch is left out
    the_judge = judge.load(device)

    # From here on as in the lab: the seed decides the weights, then the fixed noise, then the rest.
    torch.manual_seed(settings.seed)
    gan = Gan(device)
    fixed_noise = torch.randn(FIXED_NOISES, NOISE, 1, 1, device=device)
    course = Course(gan, Gallery(gan, fixed_noise, the_judge), steps, settings.epochs * steps)

    yield Staged("stage.training")
    yield course.gallery.before()  # there is something to see from the start
    ending = Ending.WHOLE
    with (
        Loader(images, seed=settings.seed, lasting=True) as batches,
        context.meter.section("training") as section,
    ):
        while ending is Ending.WHOLE and len(course.epochs) < settings.epochs:
            ending = yield from _epoch(course, batches, section, context)
    if ending is Ending.STOPPED:
        yield Stopped()
        return
    yield Measured(section.recording)

    if course.epochs:
        yield Staged("stage.film_strip")
        yield from course.gallery.memories()
    trouble = "nan" if ending is Ending.BROKEN else trouble_in(course.losses_d, course.looks)
    result = TrainGanResult(
        epochs=tuple(course.epochs),
        trouble=trouble,
        stopped_early=ending is Ending.FINISHED,
        steps=course.steps,
        batch=BATCH,
        device_name=device_name(device, context.machine),
        digits=str(digits.source),
        kept=bool(course.epochs) and trouble != "nan" and _kept(gan, context),
    )
    yield Result(rows=(section.row,), values=msgspec.to_builtins(result))


def _kept(gan: Gan, context: Context) -> bool:
    """Keep the networks for this student; a full disk must not cost them the result."""
    if context.keep is None:
        return False
    try:
        keeping.save(gan, context.keep)
    except OSError:
        log.exception("the trained networks cannot be kept")
        return False
    return True


def _epoch(
    course: Course, batches: Loader, section: Section, context: Context
) -> Generator[AnyEvent, None, Ending]:
    """One pass over the digits. What was learnt in a part of it counts, unless it was stopped."""
    course.begin_epoch()
    ending = Ending.WHOLE
    for _ in range(course.steps_an_epoch):
        if context.paused():
            course.clock.stop()
            yield from course.fetch()
            yield from context.hold()
        if context.stopped():
            return Ending.STOPPED
        if context.finishing():
            ending = Ending.FINISHED
            break
        course.clock.go()
        with section.waiting_for_data():
            real = next(batches)  # (128, 1, 28, 28)
        course.step(real.to(course.gan.device))
        if course.look_is_due:
            yield from course.look()
        elif course.fetch_is_due:
            yield from course.fetch()
        if course.broken:
            break
    if course.steps_this_epoch:
        yield from course.end_epoch()
    return Ending.BROKEN if course.broken else ending


class Clock:
    """Seconds of training: goes only between `go` and `stop`, which waits for the device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = 0.0
        self._since: float | None = None

    def go(self) -> None:
        if self._since is None:
            self._since = time.perf_counter()

    def stop(self) -> None:
        if self._since is not None:
            wait_for(self._device)
            self._before, self._since = self.seconds, None

    @property
    def seconds(self) -> float:
        """So far; while it goes, a GPU may still be at work on steps that are counted in."""
        return self._before + (time.perf_counter() - self._since if self._since else 0.0)


class Tally:
    """Losses and scores of some steps, added up when somebody asks."""

    def __init__(self) -> None:
        self.steps = 0
        self.losses_d: list[float] = []
        self.losses_g: list[float] = []
        self.right_real = 0  # real pictures that D called real
        self.right_fake = 0

    def add(self, losses: list[tuple[float, float]], right_real: int, right_fake: int) -> None:
        self.steps += len(losses)
        self.losses_d += [loss_d for loss_d, _ in losses]
        self.losses_g += [loss_g for _, loss_g in losses]
        self.right_real += right_real
        self.right_fake += right_fake

    @property
    def accuracy_real(self) -> float:
        return self.right_real / (self.steps * BATCH)

    @property
    def accuracy_fake(self) -> float:
        return self.right_fake / (self.steps * BATCH)


class Course:
    """The training so far: steps, losses, scores, and the clock of the training alone."""

    def __init__(self, gan: Gan, gallery: Gallery, steps_an_epoch: int, total_steps: int) -> None:
        self.gan = gan
        self.gallery = gallery
        self.steps_an_epoch = steps_an_epoch
        self.clock = Clock(gan.device)
        self.steps = 0
        self.steps_this_epoch = 0
        self.broken = False  # a loss was no number
        self.losses_d: list[float] = []
        self.looks: list[Look] = []
        self.epochs: list[EpochResult] = []
        self._total_steps = total_steps
        self._unread: list[tuple[Tensor, Tensor]] = []  # losses that still lie on the device
        self._unread_scores: list[tuple[Tensor, Tensor]] = []  # D's, of real pictures and fakes
        self._since_look = Tally()
        self._this_epoch = Tally()
        self._epoch_began = 0.0  # on the clock, as all that follow
        self._looked_at = 0.0
        self._fetched_at = 0.0
        self._first_step = 0.0  # its seconds: the loader's start is in it
        self._looking = 0.0  # seconds spent on looks

    def begin_epoch(self) -> None:
        self.steps_this_epoch = 0
        self._this_epoch = Tally()
        self._epoch_began = self.clock.seconds

    def step(self, real: Tensor) -> None:
        """One step; nothing of it is read from the device."""
        losses = train_step(
            self.gan, real, on_scores=lambda *scores: self._unread_scores.append(scores)
        )
        self._unread.append(losses)
        self.steps += 1
        self.steps_this_epoch += 1
        if self.steps == 1:
            self._first_step = self.clock.seconds

    @property
    def fetch_is_due(self) -> bool:
        return self.clock.seconds - self._fetched_at >= FETCH_SECONDS

    @property
    def look_is_due(self) -> bool:
        """Never after the last step of an epoch, whose end is looked at anyway."""
        if self.steps_this_epoch == self.steps_an_epoch:
            return False
        each = self._looking / len(self.looks) if self.looks else 0.0
        wait = max(LOOK_SECONDS, each / LOOK_SHARE)
        unseen = self._since_look.steps + len(self._unread)
        return (
            self.clock.seconds - self._looked_at >= wait
            or unseen >= self.steps_an_epoch / LOOKS_AN_EPOCH
        )

    def fetch(self) -> Iterator[AnyEvent]:
        """Read the losses from the device, which waits for it, and tell them."""
        if not self._unread:
            return
        # Few transfers and few kernels, however many steps there were.
        losses = torch.stack([loss for pair in self._unread for loss in pair]).view(-1, 2).tolist()
        real, fake = (torch.cat(scores) for scores in zip(*self._unread_scores, strict=True))
        right_real, right_fake = int((real > 0).sum()), int((fake <= 0).sum())
        self._unread.clear()
        self._unread_scores.clear()
        self._fetched_at = self.clock.seconds

        sound = list(itertools.takewhile(lambda pair: all(map(math.isfinite, pair)), losses))
        self.broken = self.broken or len(sound) < len(losses)
        for tally in (self._since_look, self._this_epoch):
            tally.add(losses, right_real, right_fake)
        if sound:
            loss_d, loss_g = zip(*sound, strict=True)
            self.losses_d += loss_d
            yield Lost(self.steps + 1 - len(losses), loss_d, loss_g)
        yield Progressed(self.steps, self._total_steps, self._seconds_left())

    def _seconds_left(self) -> float | None:
        if self.steps < 2:
            return None
        worked = self.clock.seconds - self._first_step + self._looking
        return worked / (self.steps - 1) * (self._total_steps - self.steps)

    def look(self) -> Iterator[AnyEvent]:
        """Draw and judge, while the clock stands still."""
        self.clock.stop()
        yield from self.fetch()
        began = time.perf_counter()
        drawn, look = self.gallery.look()
        self._looking += time.perf_counter() - began
        self.looks.append(look)
        since = self._since_look
        seconds = self.clock.seconds - self._looked_at
        yield drawn
        yield Scored(
            step=self.steps,
            epoch=self.steps / self.steps_an_epoch,
            readable=look.score.readable,
            digits_seen=look.score.digits_seen,
            accuracy_real=since.accuracy_real,
            accuracy_fake=since.accuracy_fake,
            images_per_second=since.steps * BATCH / seconds,
        )
        self._since_look = Tally()
        self._looked_at = self.clock.seconds

    def end_epoch(self) -> Iterator[AnyEvent]:
        """Look at what the epoch has brought, and sum it up."""
        self.clock.stop()
        if self._since_look.steps or self._unread:
            yield from self.look()
        self.gallery.remember()
        epoch, score = self._this_epoch, self.looks[-1].score
        seconds = self.clock.seconds - self._epoch_began
        self.epochs.append(
            EpochResult(
                epoch=len(self.epochs) + 1,
                seconds=seconds,
                images_per_second=epoch.steps * BATCH / seconds,
                loss_d=_mean(epoch.losses_d),
                loss_g=_mean(epoch.losses_g),
                readable=score.readable,
                digits_seen=score.digits_seen,
                accuracy_real=epoch.accuracy_real,
                accuracy_fake=epoch.accuracy_fake,
            )
        )


def _mean(losses: list[float]) -> float:
    """Of those that are numbers; 0 if none is."""
    sound = [loss for loss in losses if math.isfinite(loss)]
    return statistics.fmean(sound) if sound else 0.0


def trouble_in(losses_d: list[float], looks: list[Look]) -> str | None:
    """What is wrong with a training whose losses are numbers: "d_won", "collapsed" or nothing."""
    if len(losses_d) < EARLY_STEPS:
        return None
    if statistics.median(losses_d[-WON_STEPS:]) < WON_LOSS:
        return "d_won"
    latest = looks[-COLLAPSED_LOOKS:]
    if len(latest) == COLLAPSED_LOOKS and all(map(_all_alike, latest)):
        return "collapsed"
    return None


def _all_alike(look: Look) -> bool:
    if look.variety < COLLAPSED_VARIETY:
        return True
    score = look.score
    return score.readable >= ENOUGH_READABLE and (
        score.digits_seen <= COLLAPSED_DIGITS
        or max(score.counts) >= COLLAPSED_SHARE * sum(score.counts)
    )
