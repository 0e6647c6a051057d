"""Everything that one browser tab remembers between reruns, under one key of the session state."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import cast

import streamlit as st

from core.activities import ActivitySettings, CpuVsGpuSettings
from core.activities.attack import (
    AttackSettings,
    AttackSweepSettings,
    DefencesSettings,
    TransferSettings,
)
from core.activities.feed_gpu import FeedGpuSettings, RaceSettings
from core.activities.make_images import EightPicturesSettings, MakeImagesSettings
from core.activities.preflight import ClassroomSettings, SpeechSettings
from core.activities.soc import SteadyLoadSettings
from core.activities.train_gan import DrawSettings, InsideSettings, TrainGanSettings
from core.engine.holdings import Holdings
from core.engine.view import JobView
from core.report.cost import Prices
from core.soc.rounds import Round
from core.soc.rule import Rule
from core.texts import LANGUAGES
from core.ui import identity

NAME_LIMIT = 40  # characters

ON_SCREEN = ("lang", "projector")  # keys of the two switches whose values stand in the address

_KEY = "visitor"


@dataclass
class Visitor:
    """One student in one tab. Settings live here because a widget's own are lost with its page."""

    token: str  # whose jobs and results these are; never shown, never in an address
    kept: bool  # whether the browser keeps the token, so that a reload finds the same student
    language: str = LANGUAGES[0]
    projector: bool = False
    name: str = ""
    admitted: bool = False
    teacher: bool = False
    cpu_vs_gpu: CpuVsGpuSettings = field(default_factory=CpuVsGpuSettings)
    train_gan: TrainGanSettings | None = None  # None: what suits this machine
    draw_digits: DrawSettings = field(default_factory=DrawSettings)
    look_inside: InsideSettings = field(default_factory=InsideSettings)
    feed_gpu: FeedGpuSettings | None = None  # None: what suits this machine
    race: RaceSettings = field(default_factory=RaceSettings)
    image_model: str | None = None  # None: the best that is here
    prompt: str | None = None  # as typed so far, in Part 3; None: an example
    make_images: MakeImagesSettings = field(default_factory=MakeImagesSettings)
    eight_pictures: EightPicturesSettings | None = None  # None: prompts that suit the model
    promised: bool = False  # to ask for invented people and things only
    part3_tab: int = 0  # which one is open
    attack: AttackSettings = field(default_factory=AttackSettings)
    attack_taken_up: bool = False  # settings of the last run, after a reload
    attack_sweep: AttackSweepSettings = field(default_factory=AttackSweepSettings)
    defences: DefencesSettings = field(default_factory=DefencesSettings)
    transfer: TransferSettings = field(default_factory=TransferSettings)
    brings_own: bool = False  # a picture of their own, in Part 4
    uploads: int = 0  # files brought so far; each has a widget of its own
    part4_tab: int = 0
    part5b_tab: int = 0
    soc_trace: int = 0  # the place of the one that is looked at
    steady_load: SteadyLoadSettings = field(default_factory=SteadyLoadSettings)
    soc_rule: Rule = field(default_factory=Rule)
    soc_week: int = 0  # the seed of the simulated week
    fake_tab: int = 0
    rounds: list[Round] = field(default_factory=list)  # of "Real or fake?", in this tab
    caption_seed: int | None = None  # of the picture whose sentence is asked for
    caption_answers: dict[int, int] = field(default_factory=dict)  # seed -> the place chosen
    sandbox_tries: dict[str, bool] = field(default_factory=dict)  # sentence -> it got through
    preflight_classroom: ClassroomSettings = field(default_factory=ClassroomSettings)
    preflight_speech: SpeechSettings = field(default_factory=SpeechSettings)
    preflight_tab: int = 0
    preflight_open: set[str] = field(default_factory=set)  # keys of what was opened
    currency: str | None = None  # of Part 5; None: the language's
    prices: dict[str, Prices] = field(default_factory=dict)  # by currency, where written over
    time_logarithmic: bool = True  # the axis of the times in Part 5
    with_recordings: bool | None = None  # in Part 5; None: until a GPU is measured
    wishes: dict[str, ActivitySettings] = field(default_factory=dict)  # see `core.ui.studio`
    drawn: dict[str, JobView] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)  # url_paths of the pages seen in this tab
    before_giving: Holdings | None = None  # what was held when memory was last given back
    after_giving: Holdings | None = None  # and once it was back
    reset_asked: bool = False  # waits for the student to be sure
    resetting: bool = False  # sure: once nothing runs any more
    lives: int = 0  # how often the lab was reset in this tab
    unknown_address: str = ""  # what the browser asked for, where there is no such page
    ticket: str = ""  # with which the browser may fetch the cookie of another student


def visitor() -> Visitor:
    """This tab's visitor; a new one on its first run."""
    if _KEY not in st.session_state:
        token = identity.browser_token()
        st.session_state[_KEY] = Visitor(token or identity.new_token(), kept=token is not None)
    return cast(Visitor, st.session_state[_KEY])


def become(token: str) -> None:
    """Carry on in this tab as the student with this token.

    Nothing of whoever used the tab before stays: no settings, no widget, no teacher's view. Only
    how the screen is read (`ON_SCREEN`) belongs to the screen.
    """
    kept = visitor().kept
    for key in st.session_state:
        if key not in ON_SCREEN:
            del st.session_state[key]
    st.session_state[_KEY] = Visitor(token, kept=kept)


def start_afresh() -> None:
    """Forget the work of this tab: settings, widgets, pages seen. Who it is and may see stays."""
    me = visitor()
    for key in st.session_state:
        if key not in (*ON_SCREEN, "name"):
            del st.session_state[key]
    for name in list(st.query_params):
        if name not in ON_SCREEN:
            del st.query_params[name]
    st.session_state[_KEY] = Visitor(
        me.token,
        kept=me.kept,
        language=me.language,
        projector=me.projector,
        name=me.name,
        admitted=me.admitted,
        teacher=me.teacher,
        lives=me.lives + 1,
    )


def tidy_name(text: str) -> str:
    """A name as typed, without control characters or needless space, at most `NAME_LIMIT` long."""
    printable = "".join(c for c in text if unicodedata.category(c)[0] != "C" or c.isspace())
    return re.sub(r"\s+", " ", printable).strip()[:NAME_LIMIT]
