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
from core.activities.train_gan import DrawSettings, InsideSettings, TrainGanSettings
from core.engine.view import JobView
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
    sandbox_tries: dict[str, bool] = field(default_factory=dict)  # sentence -> it got through
    wishes: dict[str, ActivitySettings] = field(default_factory=dict)  # see `core.ui.studio`
    drawn: dict[str, JobView] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)  # url_paths of the pages seen in this tab
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


def tidy_name(text: str) -> str:
    """A name as typed, without control characters or needless space, at most `NAME_LIMIT` long."""
    printable = "".join(c for c in text if unicodedata.category(c)[0] != "C" or c.isspace())
    return re.sub(r"\s+", " ", printable).strip()[:NAME_LIMIT]
