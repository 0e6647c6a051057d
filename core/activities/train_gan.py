"""Part 2: settings and results of training a GAN, drawing with it, and looking inside it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.activities.base import Activity, ActivitySettings, Lane, Limit

FIXED_NOISES = 32  # digits in the live grid
STRIP_NOISES = 8  # of them, the columns of the film strip


class TrainGanSettings(ActivitySettings, frozen=True):
    """Part 2: train the GAN and watch it."""

    epochs: Annotated[int, Limit(1, 10)] = 5
    images_per_epoch: Annotated[int, Limit(1_280, 60_000, step=160)] = 60_000
    seed: Annotated[int, Limit(0, 9_999)] = 0


class EpochResult(msgspec.Struct, frozen=True):
    """One epoch, its pictures drawn and judged outside of `seconds`."""

    epoch: int  # from 1
    seconds: float  # training alone
    images_per_second: float
    loss_d: float  # mean over the epoch
    loss_g: float
    readable: float  # share of judged digits that the judge is sure of, 0 to 1
    digits_seen: int  # how many of the ten digits are among them
    accuracy_real: float  # share of real pictures that D calls real, 0 to 1, over the epoch
    accuracy_fake: float  # share of fakes that D calls fake


class TrainGanResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "train-gan"."""

    epochs: tuple[EpochResult, ...]
    trouble: str | None  # "nan", "collapsed" or "d_won", where training went wrong
    stopped_early: bool  # the student kept what there was
    steps: int
    batch: int
    device_name: str
    digits: str  # DigitsSource of the data used
    kept: bool = False  # the networks are in the student's folder: there is something to draw with


class DrawSettings(ActivitySettings, frozen=True):
    """Draw with the student's own trained generator: a walk between two noises, or many digits."""

    seed_a: Annotated[int, Limit(0, 9_999)] = 0
    seed_b: Annotated[int, Limit(0, 9_999)] = 1
    percent: Annotated[int, Limit(0, 100)] = 50  # of the way from a to b
    count: Annotated[int, Limit(1, 64)] = 1  # 1: the walk; more: that many from seed_a


class DrawResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "draw-digits"."""

    milliseconds: float  # of drawing, warmed up
    readable: float | None = None  # by the judge, where many were drawn
    digits_seen: int | None = None


class InsideSettings(ActivitySettings, frozen=True):
    """Feature maps of the student's own G for one noise, and of D for one real digit."""

    seed: Annotated[int, Limit(0, 9_999)] = 0
    digit: Annotated[int, Limit(0, 9)] = 3


class LayerMaps(msgspec.Struct, frozen=True):
    """One layer's picture among the job's pictures, and what it shows."""

    picture: str  # name of the `Drawn` picture
    network: str  # "generator" or "discriminator"
    channels: int  # of the layer; the picture shows some of them
    shown: int
    height: int
    width: int


class InsideResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "look-inside"."""

    layers: tuple[LayerMaps, ...]
    score_fake: float  # D's belief that G's picture is real, 0 to 1
    score_real: float  # and that the real digit is


TRAIN_GAN = Activity(
    id="train-gan",
    settings=TrainGanSettings,
    entry="core.labs.train_gan:run",
    lane=Lane.TRAIN,
    need_mib=1_500,
    work=("epochs", "images_per_epoch"),
    result=TrainGanResult,
)
DRAW_DIGITS = Activity(
    id="draw-digits",
    settings=DrawSettings,
    entry="core.labs.draw_digits:run",
    lane=Lane.INFER,
    need_mib=1_000,
    work=("count",),
    result=DrawResult,
    recorded=False,
)
LOOK_INSIDE = Activity(
    id="look-inside",
    settings=InsideSettings,
    entry="core.labs.look_inside:run",
    lane=Lane.INFER,
    need_mib=1_000,
    work=(),
    result=InsideResult,
    recorded=False,
)
