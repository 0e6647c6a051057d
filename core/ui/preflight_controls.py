"""What a suite is told before it runs: the controls, made from the rules of its settings."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import streamlit as st
from msgspec.structs import asdict

from core.activities import ActivitySettings
from core.activities.base import DecimalLimit, Limit, OneOf, TextLimit
from core.activities.preflight import BRANCHES, FOLDER, SpeechSettings
from core.preflight.evidence import written
from core.preflight.gate import Curve
from core.preflight.speech import budget
from core.preflight.speech.schedules import learning_rate
from core.problems import Notice, Problem
from core.texts import Texts
from core.ui import resources
from core.ui.preflight_gate import draw_curve
from core.ui.visitor import visitor

REFUSED = "preflight-refused"  # why the last change was not taken
WIDGETS = "preflight"  # what the keys of the controls begin with

# Stops of the sliders; what a setting is otherwise joins them.
STOPS: dict[str, tuple[float, ...]] = {
    "students": (1, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 80, 100, 150, 200),
    "batch": (0, 1, 2, 4, 8, 16, 32, 64),
    "ref_lr": (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "warm_up": (0, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000),
    "ema": (0.9, 0.99, 0.996, 0.998, 0.999, 0.9995, 1.0),
    "planned_hours": (1, 2, 4, 6, 8, 9.4, 12, 15.6, 20, 30, 50, 100, 200),
}
UNITS = {"warm_up": "preflight.unit.steps", "planned_hours": "preflight.unit.hours"}

# As `core.preflight.speech.training` begins and ends; that module needs PyTorch.
START_LR, FINAL_LR = 1e-6, 0.0
ADDRESS_LENGTH = 300  # as the rule of the setting has it
DECLARED_LR = 3e-4  # what the public configuration says, and what never runs
POINTS, WARM_POINTS = 160, 40


def paths_shown() -> bool:
    """Paths on the server are for whoever runs it."""
    return visitor().teacher or not resources.lab_settings().teacher_code


def address_here(url: str | None = None) -> str:
    """Where this browser has found the lab, without the page: what students would type, too."""
    url = url or st.context.url or ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return ""
    path = parts.path.rstrip("/").removesuffix("/preflight")
    address = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    return address if len(address) <= ADDRESS_LENGTH else ""


def draw_classroom_controls(say: Texts) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        draw_control("preflight_classroom", "students", say)
    with right:
        draw_control("preflight_classroom", "address", say)


def draw_speech_controls(say: Texts) -> None:
    """The controls, and the learning rate that they really make, before anything runs."""
    left, right = st.columns([2, 3], gap="large")
    with left:
        for name in ("branch", *_paths(visitor().preflight_speech)):
            draw_control("preflight_speech", name, say)
        batch, precision = st.columns(2)
        with batch:
            draw_control("preflight_speech", "batch", say)
        with precision:
            draw_control("preflight_speech", "precision", say)
        for name in ("planned_hours", "ema"):
            draw_control("preflight_speech", name, say)
    with right:
        rate, warm_up = st.columns(2)
        with rate:
            draw_control("preflight_speech", "ref_lr", say)
        with warm_up:
            draw_control("preflight_speech", "warm_up", say)
        settings = visitor().preflight_speech
        draw_curve(lr_curve(settings), say)
        st.caption(lr_text(settings, say))
        hours = settings.planned_hours
        two, three = (budget.whole(hours, branches) for branches in (2, 3))
        st.caption(say("preflight.plan", hours=hours, two=round(two, 1), three=round(three, 1)))


def _paths(settings: SpeechSettings) -> tuple[str, ...]:
    if not paths_shown():
        return ()
    return ("folder", "remote") if settings.branch == FOLDER else ("remote",)


def draw_control(where: str, name: str, say: Texts) -> None:
    """The widget of one setting of the visitor's field `where`."""
    settings: ActivitySettings = getattr(visitor(), where)
    rule, now = settings.rules()[name], getattr(settings, name)
    key = f"{WIDGETS}-{where}-{name}"
    kept: dict[str, Any] = {"key": key, "on_change": _keep, "args": (where, name, key)}
    label = say(f"preflight.set.{name}")
    help = say(f"preflight.set.{name}.help")
    st.session_state[key] = now
    match rule:
        case OneOf(names):
            st.selectbox(
                label,
                _choices(where, name, names),
                format_func=lambda value: say(f"preflight.choice.{value}"),
                help=help,
                **kept,
            )
        case Limit() | DecimalLimit():
            stops = sorted({*STOPS[name], now})
            st.select_slider(
                label,
                stops,
                format_func=lambda value: _stop_text(name, value, say),
                help=help,
                **kept,
            )
        case TextLimit(longest):
            example = say(f"preflight.set.{name}.example")
            if name == "address":
                example = address_here() or example
            st.text_input(label, max_chars=longest, placeholder=example, help=help, **kept)


def _choices(where: str, name: str, names: tuple[str, ...]) -> list[str]:
    """A folder cannot be chosen where its path cannot be given."""
    settings = getattr(visitor(), where)
    hidden = {FOLDER} if name == "branch" and names == BRANCHES and not paths_shown() else set()
    return [one for one in names if one not in hidden or one == getattr(settings, name)]


def _stop_text(name: str, value: float, say: Texts) -> str:
    if name == "batch" and value == 0:
        return say("preflight.batch.auto")
    return written(value, UNITS.get(name, ""), say)


def _keep(where: str, name: str, key: str) -> None:
    me = visitor()
    now: ActivitySettings = getattr(me, where)
    try:
        setattr(me, where, type(now).parse({**asdict(now), name: st.session_state[key]}))
    except Problem as problem:  # a forged value of a widget
        st.session_state[REFUSED] = problem.notice


def draw_refusal(say: Texts) -> None:
    """Why the last click did nothing, once."""
    refused: Notice | None = st.session_state.pop(REFUSED, None)
    if refused is not None:
        st.warning(say.notice(refused), icon=":material/info:")


# The learning rate


def lr_curve(settings: SpeechSettings) -> Curve:
    """The rate that the schedule writes at each step, and the one that the configuration names."""
    total = budget.STEPS
    ends = range(0, total + 1, total // POINTS)
    warm = (settings.warm_up * part // WARM_POINTS for part in range(WARM_POINTS + 1))
    steps = sorted({*ends, *warm, total})
    return Curve(
        title="preflight.lr.title",
        x="preflight.lr.step",
        y="preflight.lr.rate",
        at=tuple(map(float, steps)),
        lines={
            "preflight.lr.real": tuple(rate_at(step, settings) for step in steps),
            "preflight.lr.declared": (DECLARED_LR,) * len(steps),
        },
    )


def rate_at(step: int, settings: SpeechSettings) -> float:
    return learning_rate(
        step,
        ref=settings.ref_lr,
        start=START_LR,
        final=FINAL_LR,
        warm_up=settings.warm_up,
        total=budget.STEPS,
    )


def lr_text(settings: SpeechSettings, say: Texts) -> str:
    """The curve in words: how high, when, and how often above what is declared."""
    steps = range(0, budget.STEPS, budget.STEPS // 400)
    above = sum(rate_at(step, settings) > DECLARED_LR for step in steps) / len(steps)
    return say(
        "preflight.lr.text",
        peak=written(settings.ref_lr, "", say),
        step=settings.warm_up,
        declared=written(DECLARED_LR, "", say),
        above=100 * above,
    )
