"""Part 4, the attack: choose, run, and see what the network makes of the same-looking picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.activities.attack import FGSM, METHODS, MINIMAL, AttackResult
from core.data import photos
from core.engine.view import JobState, JobView
from core.texts import Texts, texts
from core.ui import charts, replays, resources
from core.ui.diagrams import adversarial
from core.ui.job_panel import (
    card_of,
    current_job,
    failure_sentence,
    job_panel,
    last_result,
    run_button,
)
from core.ui.panels import Host
from core.ui.part1 import summary_html
from core.ui.part4_charts import draw_beliefs, draw_guesses
from core.ui.part4_pictures import (
    VIEWS,
    already_html,
    belief_of,
    compared_html,
    figure_html,
    verdict_html,
    versions_html,
)
from core.ui.part4_subject import (
    NETWORKS,
    draw_picture,
    draw_refusal,
    draw_slider,
    draw_target,
    model_choices,
    name_of,
    network_now,
    networks_here,
    picture_or_none,
    pictures_of,
    ready,
    require_picture,
    show,
    take,
)
from core.ui.pixels import shaped, tiles_html
from core.ui.visitor import Visitor, visitor

ACTIVITY = "attack"
METHOD, VIEW, FIT, MODEL, SEED = (
    "part4-method",
    "part4-view",
    "part4-fit",
    "part4-model",
    "part4-seed",
)  # keys of widgets
TICK_SECONDS = 0.5  # an attack takes about a second: a whole one would be a long wait
ALREADY = "problem.attack_target_is_source"


def draw_fool(say: Texts) -> None:
    """Choices on the left, the verdict and the pictures on the right, all else below."""
    me = visitor()
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    values = shaped(result.result, AttackResult) if result is not None else None
    running = job is not None and not job.state.over
    left, right = st.columns([5, 8], gap="medium")
    with left:
        _draw_controls(me, job, say)
    with right:
        if job is not None and job.state is not JobState.DONE:
            _draw_state(job, say)
        if result is None or values is None:
            if not running and not _is_already(job):
                _draw_nothing_yet(me, say)
        elif not running and not _is_already(job):
            st.html(verdict_html(values, say))
            st.fragment(_draw_compared)(values, pictures_of(result))
    if result is None or values is None or running or _is_already(job):
        _draw_how(values, {}, say)
        _draw_replays(say)
        return
    _draw_believed(values, say)
    _draw_versions(values, pictures_of(result), say)
    _draw_how(values, pictures_of(result), say)
    _draw_measured(result, values, say)
    _draw_replays(say)


# Choices


def _draw_controls(me: Visitor, job: JobView | None, say: Texts) -> None:
    draw_picture(say)
    draw_target(say)
    minimal = me.attack.method == MINIMAL
    strength, steps = st.columns(2, gap="medium")
    with strength:
        help = say("part4.attack.epsilon.minimal" if minimal else "part4.attack.epsilon.help")
        draw_slider("attack", "epsilon", say, unit="/255", help=help)
    with steps:
        one = me.attack.method == FGSM
        help = say("part4.attack.steps.fgsm" if one else "part4.attack.steps.help")
        draw_slider("attack", "steps", say, help=help)
    show(METHOD, me.attack.method)
    method, more = st.columns([3, 2], gap="medium", vertical_alignment="bottom")
    method.selectbox(
        say("part4.method"),
        METHODS,
        format_func=lambda name: say(f"part4.method.{name}"),
        key=METHOD,
        filter_mode=None,
        help=say("part4.method.help"),
        on_change=lambda: take("attack", method=st.session_state[METHOD]),
    )
    with more.popover(say("part4.more"), icon=":material/tune:", width="stretch"):
        _draw_more(me, say)
    draw_refusal(say)
    if not networks_here():
        st.caption(say("part4.no_network.button"))
    elif not ready(me):
        st.caption(say("part4.own.first"))
    else:
        run_button(ACTIVITY, me.attack, job, admit=require_picture)


def _draw_more(me: Visitor, say: Texts) -> None:
    show(FIT, me.attack.fit)
    st.segmented_control(
        say("part4.fit"),
        photos.FITS,
        key=FIT,
        required=True,
        format_func=lambda name: say(f"part4.fit.{name}"),
        help=say("part4.fit.help"),
        on_change=lambda: take("attack", fit=st.session_state[FIT]),
    )
    choices = model_choices()
    show(MODEL, me.attack.model if me.attack.model in choices else choices[0])
    st.selectbox(
        say("part4.model"),
        choices,
        format_func=lambda name: NETWORKS.get(name) or say("part4.model.auto"),
        key=MODEL,
        filter_mode=None,
        on_change=lambda: take("attack", model=st.session_state[MODEL]),
    )
    limit = me.attack.limits()["seed"]
    show(SEED, me.attack.seed)
    st.number_input(
        say("part4.seed"),
        limit.low,
        limit.high,
        key=SEED,
        help=say("part4.seed.help"),
        on_change=lambda: take("attack", seed=st.session_state[SEED]),
    )


# The job


def _draw_state(job: JobView, say: Texts) -> None:
    if _is_already(job):
        target = int(job.settings.get("target", 0))
        png = picture_or_none(str(job.settings.get("picture")), str(job.settings.get("fit")))
        st.html(already_html(target, say, downloaded=_is_own_download(job), png=png))
        return
    if job.state is JobState.FAILED:
        st.error(failure_sentence(job, say), icon=":material/error:")
        return
    job_panel(ACTIVITY, job, extra=draw_running, tick_seconds=TICK_SECONDS)


def _is_already(job: JobView | None) -> bool:
    """Whether the network saw the target before any attack."""
    return job is not None and job.problem is not None and job.problem.key == ALREADY


def _is_own_download(job: JobView) -> bool:
    """Whether the picture of this job is one that the last attack has left."""
    earlier = resources.records().latest(visitor().token, ACTIVITY, state=JobState.DONE)
    newest = resources.engine().jobs_of(visitor().token, ACTIVITY)
    made = [one for one in (*newest, earlier) if one is not None and "attacked" in one.pictures]
    name = str(job.settings.get("picture", ""))
    return photos.is_upload(name) and any(
        photos.name_of(one.pictures["attacked"]) == name for one in made
    )


def draw_running(job: JobView, say: Texts) -> None:
    """What a running attack adds to its panel: the belief in the target, step by step."""
    steps = 1 if job.settings.get("method") == FGSM else int(job.settings.get("steps", 20))
    draw_beliefs(say, job.beliefs, steps, projector=visitor().projector)


def _draw_nothing_yet(me: Visitor, say: Texts) -> None:
    """The chosen picture, and a question to guess at before the run."""
    picture, words = st.columns([1, 1], gap="medium", vertical_alignment="center")
    png = picture_or_none(me.attack.picture, me.attack.fit) if ready(me) else None
    if png is not None:
        picture.html(figure_html(png, say("part4.original"), say("part4.original.before")))
    else:
        picture.html(f"<div class='lab-canvas empty easel'>{say('part4.own.first')}</div>")
    words.markdown(say("part4.guess", target=name_of(me.attack.target, say)))


# The result


def _draw_compared(values: AttackResult, pictures: dict[str, bytes]) -> None:
    say = texts(visitor().language)
    names = {name: say(f"part4.view.{name}") for name in VIEWS}
    view = st.segmented_control(
        say("part4.view"),
        VIEWS,
        default=VIEWS[0],
        key=VIEW,
        required=True,
        format_func=lambda name: names[name],
        label_visibility="collapsed",
    )
    st.html(compared_html(view or VIEWS[0], values, pictures, say))
    attacked = pictures.get("attacked")
    if attacked is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            say("part4.download"),
            attacked,
            file_name=f"{say('part4.file')}-{values.target}.png",
            mime="image/png",
            key="part4-download",
            icon=":material/download:",
            on_click="ignore",
        )
        if values.fooled_png:
            st.caption(say("part4.again"))


def _draw_believed(values: AttackResult, say: Texts) -> None:
    projector = visitor().projector
    st.header(say("part4.believes"), divider="blue")
    before, after = st.columns(2, gap="large")
    for column, when, guesses, classes in (
        (before, "before", values.before, values.before_classes),
        (after, "after", values.after, values.after_classes),
    ):
        named = [
            (name_of(index, say), belief)
            for (_, belief), index in zip(guesses, classes, strict=True)
        ]
        with column:
            draw_guesses(say, when, named, kinds(classes, values), projector=projector)
    course, told = st.columns([3, 2], gap="large", vertical_alignment="center")
    with course:
        draw_beliefs(say, values.beliefs, values.steps, projector=projector)
    told.markdown(say.prose("part4/course"))


def _draw_versions(values: AttackResult, pictures: Mapping[str, bytes], say: Texts) -> None:
    st.header(say("part4.rounding"), divider="blue")
    st.html(versions_html(values, say))
    control, words = st.columns([1, 4], gap="large", vertical_alignment="center")
    png = pictures.get("control")
    if png is not None:
        name = name_of(values.control.guess_class, say)
        control.html(figure_html(png, say("part4.control"), name))
    words.markdown(
        say(
            "part4.control.fooled" if values.control.fooled else "part4.control.line",
            linf=values.control.linf_255,
            name=name_of(values.control.guess_class, say),
            target=name_of(values.target, say),
        )
    )


def kinds(classes: Sequence[int], values: AttackResult) -> list[str]:
    """Of each guess: whether it is the target, what the network saw at first, or neither."""
    known = {values.target: "target", values.source: "source"}
    return [known.get(index, "other") for index in classes]


def _draw_measured(job: JobView, values: AttackResult, say: Texts) -> None:
    st.header(say("part4.measured"), divider="blue")
    st.html(tiles_html(figures(values, say)))
    draw_meter(job, say)
    st.caption(
        say(
            "part4.measured_on",
            device=values.device_name,
            network=NETWORKS.get(values.model, values.model),
            method=say(f"part4.method.{values.method}"),
            fit=say(f"part4.fit.{values.fit}"),
        )
    )


def figures(values: AttackResult, say: Texts) -> list[tuple[str, str, float | None]]:
    """How long it took, and how large the change is."""
    each = values.milliseconds / values.steps if values.steps else None
    return [
        (say("part4.figure.time"), time_of(values.milliseconds, say), None),
        (say("part4.figure.steps"), say.number(values.steps), None),
        (say("part4.figure.step"), say.ms(each), None),
        (say("part4.figure.largest"), f"{say.number(values.linf_255)}/255", None),
        (say("part4.figure.length"), say.number(values.l2, digits=2), None),
    ]


def _draw_replays(say: Texts) -> None:
    """The same attack on other machines, as far as it was recorded there."""
    recorded = [
        (replay, values)
        for replay in resources.recordings(ACTIVITY)
        if (values := shaped(replay.values, AttackResult)) is not None
    ]
    if not recorded:
        return
    with st.expander(say("part1.replays.compare"), icon=":material/videocam:"):
        for replay, values in recorded:
            replays.draw_badge(replay, say)
            st.html(tiles_html(figures(values, say)))
            if replay.rows:
                st.html(summary_html(replay.rows, say)[0])


def time_of(milliseconds: float, say: Texts) -> str:
    return say.ms(milliseconds) if milliseconds < 1000 else say.seconds(milliseconds / 1000)


def draw_meter(job: JobView, say: Texts) -> None:
    """The meter's summary and curves of a finished job."""
    if job.rows:
        table, missing = summary_html(job.rows, say)
        st.html(table)
        if missing:
            absences = charts.merged(recording.absences for recording in job.recordings)
            st.caption(charts.absent_sentence(say, missing, absences))
    if any(len(recording.readings) > 1 for recording in job.recordings):
        host = Host(resources.machine(), card_of(job), resources.lab_settings().cpu_threads)
        projector = visitor().projector
        charts.draw_overlay(say, job.recordings, host, key=job.id, projector=projector)


# How it works


def _draw_how(values: AttackResult | None, pictures: Mapping[str, bytes], say: Texts) -> None:
    st.header(say("part4.how"), divider="blue")
    facts = _facts(values, say)
    shown = {name: pictures[name] for name in DRAWN if name in pictures} if values else {}
    st.markdown(adversarial(say, shown, **facts), unsafe_allow_html=True)
    st.markdown(say.prose("part4/how"))


DRAWN = ("original", "noise", "attacked")  # pictures that the diagram has


def _facts(values: AttackResult | None, say: Texts) -> dict[str, Any]:
    """What the diagram is told: of the last run, else of the run that is about to be."""
    if values is None:
        me = visitor()
        network = network_now(me)
        return {
            "source": "?",
            "target": name_of(me.attack.target, say),
            "epsilon": me.attack.epsilon,
            "steps": me.attack.steps,
            "network": NETWORKS.get(network or "", ""),
        }
    belief = belief_of(values.png)
    after = name_of(values.png.guess_class, say)
    return {
        "source": f"{name_of(values.source, say)} {say.percent(100 * values.before[0][1])}",
        "target": after if belief is None else f"{after} {say.percent(100 * belief)}",
        "epsilon": values.linf_255,
        "steps": values.steps,
        "network": NETWORKS.get(values.model, values.model),
    }
