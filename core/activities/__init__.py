"""The activities of the lab: their settings, limits and lanes, declared once and without torch.

Pages make their sliders from these declarations, the command line its options, and a job checks
them again: settings out of range cannot be built, whatever the widget, the URL or the pipe said.
"""

from __future__ import annotations

import difflib

from core.activities.attack import (
    ATTACK,
    ATTACK_SWEEP,
    DEFENCES,
    TRANSFER,
    AttackResult,
    AttackSettings,
    AttackSweepResult,
    AttackSweepSettings,
    DefenceOutcome,
    DefencesResult,
    DefencesSettings,
    Seen,
    SweepPoint,
    TransferCell,
    TransferResult,
    TransferSettings,
)
from core.activities.base import Activity, ActivitySettings, Lane, Limit
from core.activities.cpu_vs_gpu import (
    CPU_VS_GPU,
    ComputeTime,
    CpuVsGpuResult,
    CpuVsGpuSettings,
    Speedup,
)
from core.activities.feed_gpu import (
    FEED_GPU,
    RACE,
    FeedGpuResult,
    FeedGpuSettings,
    RaceResult,
    RaceSettings,
    WayResult,
)
from core.activities.make_images import (
    EIGHT_PICTURES,
    IMAGE_SPEED,
    MAKE_IMAGES,
    PICTURE_INSIDE,
    PREPARE_PICTURES,
    EightPicturesResult,
    EightPicturesSettings,
    ImageSpeedResult,
    ImageSpeedSettings,
    MakeImagesResult,
    MakeImagesSettings,
    PictureInsideResult,
    PictureInsideSettings,
    PreparePicturesResult,
    PreparePicturesSettings,
)
from core.activities.preflight import (
    PREFLIGHT_CLASSROOM,
    PREFLIGHT_SPEECH,
    SPEECH_TRAP,
    ClassroomSettings,
    SpeechSettings,
    SpeechTrapSettings,
)
from core.activities.soc import (
    REAL_OR_FAKE,
    STEADY_LOAD,
    RealOrFakeResult,
    RealOrFakeSettings,
    SteadyLoadResult,
    SteadyLoadSettings,
)
from core.activities.train_gan import (
    DRAW_DIGITS,
    LOOK_INSIDE,
    TRAIN_GAN,
    DrawResult,
    DrawSettings,
    EpochResult,
    InsideResult,
    InsideSettings,
    LayerMaps,
    TrainGanResult,
    TrainGanSettings,
)
from core.problems import Problem

__all__ = [
    "ACTIVITIES",
    "Activity",
    "ActivitySettings",
    "AttackResult",
    "AttackSettings",
    "AttackSweepResult",
    "AttackSweepSettings",
    "ClassroomSettings",
    "ComputeTime",
    "CpuVsGpuResult",
    "CpuVsGpuSettings",
    "DefenceOutcome",
    "DefencesResult",
    "DefencesSettings",
    "DrawResult",
    "DrawSettings",
    "EightPicturesResult",
    "EightPicturesSettings",
    "EpochResult",
    "FeedGpuResult",
    "FeedGpuSettings",
    "ImageSpeedResult",
    "ImageSpeedSettings",
    "InsideResult",
    "InsideSettings",
    "Lane",
    "LayerMaps",
    "Limit",
    "MakeImagesResult",
    "MakeImagesSettings",
    "PictureInsideResult",
    "PictureInsideSettings",
    "PreparePicturesResult",
    "PreparePicturesSettings",
    "RaceResult",
    "RaceSettings",
    "RealOrFakeResult",
    "RealOrFakeSettings",
    "Seen",
    "SpeechSettings",
    "SpeechTrapSettings",
    "Speedup",
    "SteadyLoadResult",
    "SteadyLoadSettings",
    "SweepPoint",
    "TrainGanResult",
    "TrainGanSettings",
    "TransferCell",
    "TransferResult",
    "TransferSettings",
    "WayResult",
    "activity_named",
]

ACTIVITIES: dict[str, Activity] = {
    activity.id: activity
    for activity in (
        CPU_VS_GPU,
        TRAIN_GAN,
        DRAW_DIGITS,
        LOOK_INSIDE,
        FEED_GPU,
        RACE,
        MAKE_IMAGES,
        EIGHT_PICTURES,
        PICTURE_INSIDE,
        IMAGE_SPEED,
        PREPARE_PICTURES,
        ATTACK,
        ATTACK_SWEEP,
        DEFENCES,
        TRANSFER,
        STEADY_LOAD,
        REAL_OR_FAKE,
        PREFLIGHT_CLASSROOM,
        PREFLIGHT_SPEECH,
        SPEECH_TRAP,
    )
}


def activity_named(name: str) -> Activity:
    """The activity with this id. Raises Problem with the nearest ids if there is none."""
    if name in ACTIVITIES:
        return ACTIVITIES[name]
    near = difflib.get_close_matches(name, ACTIVITIES, n=3, cutoff=0.4) or list(ACTIVITIES)
    raise Problem("problem.activity_unknown", activity=name, near=", ".join(near))
