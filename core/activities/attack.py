"""Part 4: settings and results of fooling a classifier, and of defending it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from core.activities.base import Activity, ActivitySettings, DecimalLimit, Lane, Limit, OneOf
from core.data import photos
from core.data.image_classes import COUNT, checked, class_named
from core.problems import Problem

AUTO, RESNET_18, LITE_0, LITE_1 = (
    "auto",
    "resnet-18",
    "efficientnet-lite0",
    "efficientnet-lite1",
)
CLASSIFIERS = (RESNET_18, LITE_0, LITE_1)  # the best first; "auto" takes the first that is there

BASIC, FGSM, PGD, MINIMAL = "basic", "fgsm", "pgd", "minimal"
METHODS = (BASIC, FGSM, PGD, MINIMAL)
STRENGTHS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0)  # of a sweep, in /255

# Of the map, besides the student's own target: things, an animal, a plant, a place.
MAP_TARGETS = (859, 954, 963, 292, 985, 817)
MAP_STRENGTHS = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class ClassLimit(Limit):
    """A setting that is a class: its index; on the command line and in addresses also its name."""

    low: int = 0
    high: int = COUNT - 1

    def parsed(self, name: str, value: object) -> int:
        return value if type(value) is int else class_named(str(value))

    def check(self, name: str, value: object) -> None:
        """Nothing out of range may reach a device: it would end the whole CUDA process."""
        if type(value) is not int:
            raise Problem("problem.setting_type", setting=name, value=str(value))
        checked(value)


@dataclass(frozen=True, slots=True)
class PhotoName(OneOf):
    """A setting that names a sample photo, or an upload of the student's own."""

    names: tuple[str, ...] = tuple(photos.SAMPLES)

    def check(self, name: str, value: object) -> None:
        photos.check_name(str(value))


@dataclass(frozen=True, slots=True)
class Strength(DecimalLimit):
    """How far a colour value may move, in /255."""

    low: float = 0.5
    high: float = 16.0
    step: float = 0.5

    def check(self, name: str, value: object) -> None:
        if value == 0:
            raise Problem("problem.attack_without_strength", low=self.low, high=self.high)
        DecimalLimit.check(self, name, value)


Target = Annotated[int, ClassLimit()]
Epsilon = Annotated[float, Strength()]
Picture = Annotated[str, PhotoName()]
Method = Annotated[str, OneOf(METHODS)]
Model = Annotated[str, OneOf((AUTO, *CLASSIFIERS))]
Fit = Annotated[str, OneOf(photos.FITS)]
Seed = Annotated[int, Limit(0, 9_999)]


class AttackSettings(ActivitySettings, frozen=True):
    """One picture, one target, one strength."""

    target: Target = 859  # toaster
    epsilon: Epsilon = 2.0  # /255; the attack "minimal" looks for the smallest change instead
    steps: Annotated[int, Limit(1, 100)] = 20  # "fgsm" takes one, whatever stands here
    method: Method = BASIC
    model: Model = AUTO
    picture: Picture = "cat"
    fit: Fit = "squash"
    seed: Seed = 0  # of the random start of "pgd", and of the random noise to compare with


Guess = tuple[str, float]  # English name of a class, and the network's belief in it, 0 to 1


class Seen(msgspec.Struct, frozen=True):
    """What a network says of one version of a picture."""

    fooled: bool  # its first guess is the target
    confidence: float  # in the target, 0 to 1
    guess: str  # its first guess, in English
    guess_class: int
    linf_255: float  # largest change of a colour value from the original, in /255


class AttackResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "attack".

    `Drawn`: "original", "noise" (no change is mid-grey, the rest enlarged `noise_gain` times),
    "attacked" (as 8-bit PNG: the file to download), "difference" (its absolute value, enlarged
    `difference_gain` times, on black) and "control" (random noise of the same size).
    """

    model: str
    method: str
    target: int
    target_label: str
    source: int  # first guess for the original
    source_label: str
    before: tuple[Guess, ...]  # five, the best first
    before_classes: tuple[int, ...]  # their indices
    after: tuple[Guess, ...]  # of the attacked picture as the attack has left it
    after_classes: tuple[int, ...]
    fooled: bool  # as the attack has left it: fractions of colour values and all
    confidence: float
    linf_255: float
    l2: float  # length of the whole change, colours counted from 0 to 1
    fooled_8bit: bool  # rounded to whole colour values, inside the same limit
    eight_bit: Seen
    fooled_png: bool  # written to a PNG file and read again, as an upload is
    png: Seen
    control: Seen  # random noise, each value at plus or minus the same size, on the original
    beliefs: tuple[float, ...]  # in the target: of the original, then after each step
    steps: int  # that were taken
    milliseconds: float  # of the attack alone
    noise_gain: float
    difference_gain: float
    picture: str
    fit: str
    device_name: str


class AttackSweepSettings(ActivitySettings, frozen=True):
    """The same attack at twelve strengths, and at some of several targets."""

    target: Target = 859
    steps: Annotated[int, Limit(1, 50)] = 10
    method: Annotated[str, OneOf((BASIC, FGSM, PGD))] = BASIC
    model: Model = AUTO
    picture: Picture = "cat"
    fit: Fit = "squash"
    seed: Seed = 0


class SweepPoint(msgspec.Struct, frozen=True):
    """One attack of many."""

    target: int
    target_label: str
    epsilon: float  # /255
    fooled: bool
    confidence: float
    linf_255: float
    fooled_8bit: bool


class AttackSweepResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "attack-sweep".

    `Drawn`: "strength-0.5", "strength-2", ... of some points, to be looked at.
    """

    model: str
    method: str
    source: int
    source_label: str
    source_confidence: float
    points: tuple[SweepPoint, ...]  # the chosen target, by rising strength
    control: tuple[SweepPoint, ...]  # random noise at the same strengths
    map: tuple[SweepPoint, ...]  # several targets, one after another, each by rising strength
    weakest: float | None  # smallest strength of the sweep that fools; None: none does
    steps: int
    milliseconds: float  # of the twelve attacks together
    device_name: str


class DefencesSettings(ActivitySettings, frozen=True):
    """One attack, put through every defence; then attacks that know the defence."""

    target: Target = 859
    epsilon: Epsilon = 2.0
    steps: Annotated[int, Limit(1, 100)] = 20
    model: Model = AUTO
    picture: Picture = "cat"
    fit: Fit = "squash"
    jpeg_quality: Annotated[int, Limit(10, 95, step=5)] = 75
    resize_percent: Annotated[int, Limit(20, 90, step=5)] = 50  # of the side, then back
    blur_tenths: Annotated[int, Limit(5, 30, step=5)] = 10  # spread of the blur, in 0.1 pixel
    noise_255: Annotated[int, Limit(2, 32, step=2)] = 8  # spread of the random noise
    votes: Annotated[int, Limit(1, 32)] = 8  # noisy copies that vote
    bits: Annotated[int, Limit(1, 7)] = 4  # of each colour value that are left
    seed: Seed = 0


class DefenceOutcome(msgspec.Struct, frozen=True):
    """How one defence does. `Drawn`: "<name>", the attacked picture as the network receives it."""

    name: str  # "none", "jpeg", "resize", "blur", "median", "noise_vote" or "bits"
    amount: float  # the setting it was used with; 0 where it has none
    survives: bool  # the ordinary attack still makes the network say the target
    confidence: float  # in the target, then
    guess: str
    guess_class: int
    repaired: bool  # the network says again what it said of the original
    right: int  # clean sample pictures that are still named rightly
    clean: int  # of so many
    adaptive_fooled: bool  # an attack made through this defence says the target
    adaptive_epsilon: float  # the strength it took, in /255; where it never fools, the last tried
    adaptive_confidence: float
    adaptive_guess: str


class DefencesResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "defences"."""

    model: str
    target: int
    target_label: str
    source: int
    source_label: str
    outcomes: tuple[DefenceOutcome, ...]  # "none" is the first
    epsilon: float
    steps: int
    device_name: str


class TransferSettings(ActivitySettings, frozen=True):
    """Pictures made to fool each network, shown to all of them."""

    target: Target = 859
    epsilon: Epsilon = 8.0
    steps: Annotated[int, Limit(1, 100)] = 20
    picture: Picture = "cat"
    fit: Fit = "squash"


class TransferCell(msgspec.Struct, frozen=True):
    """One network's opinion of a picture that was made to fool another, or all."""

    made_for: tuple[str, ...]  # one network, or all of them
    judged_by: str
    fooled: bool  # it says the target
    misled: bool  # it says something else than of the original
    confidence: float  # in the target
    guess: str
    guess_class: int


class TransferResult(msgspec.Struct, frozen=True):
    """What `Result.values` holds for "transfer"."""

    models: tuple[str, ...]
    target: int
    target_label: str
    before: tuple[Guess, ...]  # each network's first guess for the original
    cells: tuple[TransferCell, ...]  # row by row: one `made_for` after another
    epsilon: float
    steps: int
    device_name: str


# What one attack takes of the card: small networks, but gradients through up to 32 voting copies.
NEED_MIB = 1_500

ATTACK = Activity(
    id="attack",
    settings=AttackSettings,
    entry="core.labs.attack:run",
    lane=Lane.INFER,
    need_mib=NEED_MIB,
    work=("steps",),
    result=AttackResult,
)
ATTACK_SWEEP = Activity(
    id="attack-sweep",
    settings=AttackSweepSettings,
    entry="core.labs.attack_sweep:run",
    lane=Lane.INFER,
    need_mib=NEED_MIB,
    work=("steps",),
    result=AttackSweepResult,
)
DEFENCES = Activity(
    id="defences",
    settings=DefencesSettings,
    entry="core.labs.attack_defences:run",
    lane=Lane.INFER,
    need_mib=NEED_MIB,
    work=("steps",),
    result=DefencesResult,
)
TRANSFER = Activity(
    id="transfer",
    settings=TransferSettings,
    entry="core.labs.attack_transfer:run",
    lane=Lane.INFER,
    need_mib=NEED_MIB,
    work=("steps",),
    result=TransferResult,
)
