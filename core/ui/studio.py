"""The student's own trained generator at work: a walk between two noises, 64 more, a look inside.

Each drawing is a short job. A slider that is dragged wishes for many pictures; only the newest wish
of a kind is kept, and it becomes a job when the one before has ended, so jobs never pile up.
"""

from __future__ import annotations

import html
import time

import streamlit as st
from msgspec.structs import asdict

from core.activities.train_gan import (
    DrawResult,
    DrawSettings,
    InsideResult,
    InsideSettings,
    LayerMaps,
)
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.texts import Texts, texts
from core.ui import resources
from core.ui.job_panel import failure_sentence
from core.ui.pixels import picture_html, shaped, tiles_html
from core.ui.visitor import Visitor, visitor

DRAW, INSIDE_ACTIVITY = "draw-digits", "look-inside"
WALK, MANY, INSIDE = "walk", "many", "inside"  # kinds of wishes and of drawings
ACTIVITY_OF = {WALK: DRAW, MANY: DRAW, INSIDE: INSIDE_ACTIVITY}
MANY_COUNT = 64
WALK_DIGITS = 9  # in the picture of a whole walk, its ends included
TICK_SECONDS = 0.5  # while a job is unfinished
AT_ONCE_SECONDS = 0.15  # a drawing usually takes less: worth a wait, and a tick less
SEED_A, SEED_B, PERCENT = "studio-seed-a", "studio-seed-b", "studio-percent"  # keys of widgets
INSIDE_SEED, INSIDE_DIGIT = "studio-inside-seed", "studio-inside-digit"


def draw_studio(trained: JobView, say: Texts) -> None:
    """All three, for the generator that this finished job of Part 2 has trained."""
    me = visitor()
    if not me.drawn:  # a new tab, or a reload: what was drawn before is remembered
        for activity in (DRAW, INSIDE_ACTIVITY):
            for job in resources.engine().jobs_of(me.token, activity):
                _collect(me, job)
    problem = serve(me)
    ticking = busy(me)
    st.header(say("studio.title"), divider="blue")
    st.fragment(_studio, run_every=TICK_SECONDS if ticking else None)(
        trained.submitted_at, ticking, problem
    )


def _studio(trained_at: float, ticking: bool, problem: Problem | None) -> None:
    me = visitor()
    say = texts(me.language)
    if ticking:
        resources.engine().seen(me.token)
    problem = serve(me) or problem
    if busy(me) != ticking:
        st.rerun()  # the whole page: this fragment has to begin to tick, or to rest
    if problem is not None:
        st.warning(say.notice(problem.notice), icon=":material/info:")
    _draw_walk(_newest(me, WALK, trained_at), say, waiting=_waiting(me, WALK))
    _draw_many(_newest(me, MANY, trained_at), say, waiting=_waiting(me, MANY))
    st.header(say("studio.inside"), divider="blue")
    _draw_inside(_newest(me, INSIDE, trained_at), say, waiting=_waiting(me, INSIDE))


# Wishes and jobs


def serve(me: Visitor) -> Problem | None:
    """Collect what is drawn, and hand the next wish to the engine; why not, where it refuses."""
    engine = resources.engine()
    for activity in (DRAW, INSIDE_ACTIVITY):
        job = engine.latest(me.token, activity)
        _collect(me, job)
        kind = next((kind for kind in me.wishes if ACTIVITY_OF[kind] == activity), None)
        if kind is None or (job is not None and not job.state.over):
            continue
        settings = me.wishes.pop(kind)
        try:
            new = engine.submit(me.token, activity, settings)
        except Problem as problem:
            return problem
        if kind in me.drawn:  # a worker is awake, so the picture will be there in a moment
            _collect(me, _wait(me, new))
    return None


def _wait(me: Visitor, job: str) -> JobView | None:
    """The job when it is over, or as it is after a moment."""
    deadline = time.monotonic() + AT_ONCE_SECONDS
    while True:
        view = resources.engine().view(job, student=me.token)
        if view is None or view.state.over or time.monotonic() > deadline:
            return view
        time.sleep(0.01)


def _collect(me: Visitor, job: JobView | None) -> None:
    """Keep a finished drawing, or why it failed, until there is a newer one of its kind."""
    if job is None or job.state not in (JobState.DONE, JobState.FAILED):
        return
    kind = kind_of(job)
    kept = me.drawn.get(kind)
    if kept is None or kept.submitted_at <= job.submitted_at:
        me.drawn[kind] = job


def kind_of(job: JobView) -> str:
    if job.activity == INSIDE_ACTIVITY:
        return INSIDE
    return WALK if job.settings.get("count", 1) == 1 else MANY


def busy(me: Visitor) -> bool:
    """Whether a drawing is wished for or on its way."""
    jobs = (resources.engine().latest(me.token, a) for a in (DRAW, INSIDE_ACTIVITY))
    return bool(me.wishes) or any(job is not None and not job.state.over for job in jobs)


def _waiting(me: Visitor, kind: str) -> bool:
    job = resources.engine().latest(me.token, ACTIVITY_OF[kind])
    drawing = job is not None and not job.state.over and kind_of(job) == kind
    return drawing or kind in me.wishes


def _newest(me: Visitor, kind: str, trained_at: float) -> JobView | None:
    """The newest drawing by this very generator: not by the one of an earlier training."""
    job = me.drawn.get(kind)
    return job if job is not None and job.submitted_at >= trained_at else None


# The walk


def _draw_walk(job: JobView | None, say: Texts, *, waiting: bool) -> None:
    me = visitor()
    st.subheader(say("studio.walk"))
    words, picture = st.columns([3, 2], gap="large", vertical_alignment="center")
    with words:
        st.markdown(say.prose("part2/walk"))
        _walk_widgets(me, say)
    percent = job.settings.get("percent", 0) if job is not None else 0
    with picture:
        caption = say("studio.walk.caption", percent=percent)
        _draw_picture(job, "here", say("studio.walk.alt"), caption, say, waiting=waiting)
    row = job.pictures.get("walk") if job is not None else None
    if row is not None:
        st.html(walk_html(row, percent, say))


def _walk_widgets(me: Visitor, say: Texts) -> None:
    limits = DrawSettings.limits()
    st.session_state[SEED_A] = me.draw_digits.seed_a
    st.session_state[SEED_B] = me.draw_digits.seed_b
    st.session_state[PERCENT] = me.draw_digits.percent
    seeds = st.columns(2)
    for column, key, name in zip(seeds, (SEED_A, SEED_B), ("seed_a", "seed_b"), strict=True):
        column.number_input(
            say(f"studio.{name}"),
            limits[name].low,
            limits[name].high,
            key=key,
            on_change=_wish_walk,
        )
    st.slider(
        say("studio.percent"),
        limits["percent"].low,
        limits["percent"].high,
        key=PERCENT,
        format="%d%%",
        on_change=_wish_walk,
    )
    if WALK not in me.drawn:
        st.button(
            say("studio.walk.draw"),
            key="studio-walk",
            icon=":material/brush:",
            on_click=_wish_walk,
        )


def _wish_walk() -> None:
    me = visitor()
    state = st.session_state
    try:
        me.draw_digits = DrawSettings(
            seed_a=state[SEED_A], seed_b=state[SEED_B], percent=state[PERCENT]
        )
    except Problem:  # a forged widget value: the widgets go back to what was
        return
    me.wishes[WALK] = me.draw_digits


def walk_html(png: bytes, percent: float, say: Texts) -> str:
    """The whole walk in a row, with a mark where the slider stands."""
    # The ends are the middles of the first and of the last of the digits.
    at = (0.5 + (WALK_DIGITS - 1) * percent / 100) / WALK_DIGITS
    return (
        f"<div class='lab-walk'><i style='left:{at:.1%}'></i>"
        f"{picture_html(png, say('studio.walk.row.alt'), say('studio.walk.row'))}</div>"
    )


def _draw_picture(
    job: JobView | None, name: str, alt: str, caption: str, say: Texts, *, waiting: bool
) -> None:
    """A drawing's picture; before it, a frame; instead of it, why it failed."""
    if job is not None and job.state is JobState.FAILED:
        st.error(failure_sentence(job, say), icon=":material/error:")
        return
    png = job.pictures.get(name) if job is not None else None
    if png is None:
        text = say("studio.waiting" if waiting else "studio.nothing")
        st.html(f"<div class='lab-canvas empty {name}'>{html.escape(text)}</div>")
    else:
        st.html(picture_html(png, alt, caption, kind=name))


# 64 more


def _draw_many(job: JobView | None, say: Texts, *, waiting: bool) -> None:
    st.subheader(say("studio.many"))
    words, picture = st.columns([2, 3], gap="large", vertical_alignment="center")
    with words:
        st.markdown(say.prose("part2/many"))
        st.button(
            say("studio.many.draw"),
            key="studio-many",
            icon=":material/casino:",
            disabled=waiting,
            on_click=_wish_many,
        )
        result = shaped(job.result, DrawResult) if job is not None else None
        if result is not None and result.readable is not None and result.digits_seen is not None:
            st.html(
                tiles_html(
                    [
                        (
                            say("part2.figure.readable"),
                            say.percent(100 * result.readable),
                            result.readable,
                        ),
                        (
                            say("part2.figure.digits"),
                            say("part2.digits_seen", seen=result.digits_seen),
                            result.digits_seen / 10,
                        ),
                    ]
                )
            )
    with picture:
        caption = say("studio.many.caption", time=result.milliseconds if result else None)
        _draw_picture(job, "many", say("studio.many.alt"), caption, say, waiting=waiting)


def _wish_many() -> None:
    """Other digits each time: the next seed."""
    me = visitor()
    before = me.drawn.get(MANY)
    seed = (before.settings.get("seed_a", 0) + 1) % 10_000 if before is not None else 0
    me.wishes[MANY] = DrawSettings(seed_a=seed, count=MANY_COUNT)


# A look inside


def _draw_inside(job: JobView | None, say: Texts, *, waiting: bool) -> None:
    me = visitor()
    words, controls = st.columns([3, 2], gap="large")
    words.markdown(say.prose("part2/inside"))
    limits = InsideSettings.limits()
    st.session_state[INSIDE_SEED] = me.look_inside.seed
    st.session_state[INSIDE_DIGIT] = me.look_inside.digit
    with controls.container(border=True):
        st.number_input(
            say("studio.inside.seed"),
            limits["seed"].low,
            limits["seed"].high,
            key=INSIDE_SEED,
            on_change=_wish_inside,
        )
        st.segmented_control(
            say("studio.inside.digit"),
            range(limits["digit"].low, limits["digit"].high + 1),
            key=INSIDE_DIGIT,
            on_change=_wish_inside,
        )
        if INSIDE not in me.drawn:
            st.button(
                say("studio.inside.look"),
                key="studio-inside",
                icon=":material/visibility:",
                disabled=waiting,
                on_click=_wish_inside,
            )
    if job is not None and job.state is JobState.FAILED:
        st.error(failure_sentence(job, say), icon=":material/error:")
        return
    result = shaped(job.result, InsideResult) if job is not None else None
    if job is None or result is None:
        if waiting:
            st.info(say("studio.waiting"), icon=":material/hourglass_top:")
        return
    for network, score in (
        ("generator", result.score_fake),
        ("discriminator", result.score_real),
    ):
        st.subheader(say(f"studio.inside.{network}"))
        layers = [layer for layer in result.layers if layer.network == network]
        st.html(layers_html(layers, job.pictures, say))
        st.markdown(say(f"studio.inside.{network}.score", score=100 * score))


def _wish_inside() -> None:
    me = visitor()
    digit = st.session_state[INSIDE_DIGIT]
    asked = {**asdict(me.look_inside), "seed": st.session_state[INSIDE_SEED]}
    if digit is not None:  # a second click on a digit lets go of it: the digit stays
        asked["digit"] = digit
    try:
        me.look_inside = InsideSettings.parse(asked)
    except Problem:
        return
    me.wishes[INSIDE] = me.look_inside


def layers_html(layers: list[LayerMaps], pictures: dict[str, bytes], say: Texts) -> str:
    """One network's layers side by side, each with what it shows."""
    drawn = ""
    for layer in layers:
        png = pictures.get(layer.picture)
        if png is None:
            continue
        words = layer_words(layer, say)
        size = "small" if layer.channels == 1 or layer.height == 1 else ""
        drawn += picture_html(png, words, words, kind=size)
    return f"<div class='lab-layers'>{drawn}</div>"


def layer_words(layer: LayerMaps, say: Texts) -> str:
    """What a layer is called, and how much of it is shown."""
    facts = asdict(layer)
    name = f"studio.layer.{layer.picture}"
    title = say(name) if say.has(name) else say("studio.layer", **facts)
    if layer.channels == 1:
        return f"{title}: {say('studio.size', **facts)}"
    return title if layer.shown == layer.channels else f"{title}: {say('studio.channels', **facts)}"
