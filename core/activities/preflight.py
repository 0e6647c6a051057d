"""The two preflight suites, and the traps of the second, as activities: settings and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from core.activities.base import (
    Activity,
    ActivitySettings,
    DecimalLimit,
    Lane,
    Limit,
    OneOf,
    TextLimit,
)
from core.preflight.gate import PreflightResult, Suite
from core.preflight.speech.traps import TRAPS
from core.preflight.suites import CLASSROOM, SPEECH

VOXPOPULI, LIBRISPEECH, FOLDER, SPOKEN = "voxpopuli", "librispeech", "folder", "spoken"
BRANCHES = (SPOKEN, FOLDER, VOXPOPULI, LIBRISPEECH)  # "spoken": made here by a synthesiser
PRECISIONS = ("auto", "fp32", "fp16", "bf16")  # auto: all that this device can do


@dataclass(frozen=True, slots=True)
class GateNames(TextLimit):
    """A setting that names gates of a suite: "all", or ids separated by commas."""

    longest: int = 200
    suite: Suite = CLASSROOM

    def check(self, name: str, value: object) -> None:
        """Raises Problem with the ids that there are."""
        TextLimit.check(self, name, value)
        self.suite.chosen(str(value))


class ClassroomSettings(ActivitySettings, frozen=True):
    """Which gates, and what the class will be like."""

    gates: Annotated[str, GateNames(suite=CLASSROOM)] = "all"
    students: Annotated[int, Limit(low=1, high=200)] = 30
    # As students will type it, such as https://lab.school.vn/gpu; empty: the address of this server
    address: Annotated[str, TextLimit(longest=300, may_be_empty=True)] = ""


class SpeechSettings(ActivitySettings, frozen=True):
    """What the long run will be like."""

    gates: Annotated[str, GateNames(suite=SPEECH)] = "all"
    branch: Annotated[str, OneOf(BRANCHES)] = SPOKEN
    folder: Annotated[str, TextLimit(longest=400, may_be_empty=True)] = ""  # WAV and FLAC files
    remote: Annotated[str, TextLimit(longest=400, may_be_empty=True)] = ""  # folder to probe
    batch: Annotated[int, Limit(low=0, high=64)] = 0  # 0: 32 on a GPU, 4 on the CPU
    precision: Annotated[str, OneOf(PRECISIONS)] = "auto"
    ref_lr: Annotated[float, DecimalLimit(low=1e-6, high=1e-2, step=1e-6)] = 1e-4
    warm_up: Annotated[int, Limit(low=0, high=20_000, step=100)] = 500  # steps
    ema: Annotated[float, DecimalLimit(low=0.9, high=1.0, step=0.0005)] = 0.999
    planned_hours: Annotated[float, DecimalLimit(low=0.5, high=200.0, step=0.1)] = 9.4  # a branch


class SpeechTrapSettings(ActivitySettings, frozen=True):
    """Which trap is to be sprung."""

    trap: Annotated[str, OneOf(tuple(trap.id for trap in TRAPS))] = TRAPS[0].id


PREFLIGHT_CLASSROOM = Activity(
    id="preflight-classroom",
    settings=ClassroomSettings,
    entry="core.preflight.run:run_classroom",
    lane=Lane.TRAIN,
    need_mib=2_000,
    work=(),
    result=PreflightResult,
    metered=False,
)
PREFLIGHT_SPEECH = Activity(
    id="preflight-speech",
    settings=SpeechSettings,
    entry="core.preflight.run:run_speech",
    lane=Lane.TRAIN,
    need_mib=14_000,  # a card of 16 GB has run batch 32 in full precision
    work=(),
    result=PreflightResult,
    metered=False,
)
SPEECH_TRAP = Activity(
    id="speech-trap",
    settings=SpeechTrapSettings,
    entry="core.preflight.speech.traps:run",
    lane=Lane.TRAIN,
    need_mib=2_000,
    work=(),
    result=PreflightResult,
)
