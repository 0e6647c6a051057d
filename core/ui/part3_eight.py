"""Part 3, the lab's own run: four sentences, eight pictures, and the meter beside them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from msgspec.structs import asdict

from core.activities.make_images import (
    MINI_TURBO,
    PROMPT_CHARACTERS,
    SD_TURBO,
    EightPicturesResult,
    EightPicturesSettings,
    ImageMade,
)
from core.engine.view import JobView
from core.models.image_models import ImageModel
from core.problems import Problem
from core.recordings import Replay
from core.telemetry.readings import Recording, SummaryRow
from core.texts import Texts
from core.ui import charts, replays, resources
from core.ui.job_panel import card_of, current_job, job_panel, last_result, run_button
from core.ui.panels import Host
from core.ui.part1 import summary_html
from core.ui.part3_pictures import draw_grid, note_html
from core.ui.part3_write import admit, judge
from core.ui.pixels import shaped, tiles_html
from core.ui.visitor import Visitor, visitor

ACTIVITY = "eight-pictures"
PICTURES = 8
PROMPTS = ("prompt_1", "prompt_2", "prompt_3", "prompt_4")
SEED = "part3-eight-seed"  # key of a widget
CURVES = ("load", "draw")  # sections that are drawn over each other; the first picture is too short
# The course's own four, for the model that can draw people: all of them invented.
SD_PROMPTS = (
    "photo of an invented middle-aged executive in a suit, in an office",
    "photo of an invented young IT technician in a server room",
    "a laptop and a cup of coffee on a wooden desk, photo",
    "a security camera on a brick wall, photo",
)


def draw_eight(model: ImageModel | None, say: Texts) -> None:
    """The tab: four sentences on the left, what they show beside them, what was measured below."""
    me = visitor()
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    running = job is not None and not job.state.over
    words, controls = st.columns([4, 5], gap="large")
    words.markdown(say.prose("part3/eight"))
    with controls, st.container(border=True):
        _draw_controls(me, model, job, say)
    if model is not None or job is not None:
        job_panel(ACTIVITY, job, extra=_draw_coming)
    if result is not None and not running:
        _draw_result(result, say)
    _draw_replays(say)


# Settings


def settings_now(me: Visitor, model: str) -> EightPicturesSettings:
    """The visitor's own sentences, else those that suit the model."""
    kept = me.eight_pictures
    if kept is None or kept.model != model:
        return suited(model)
    return kept


def suited(model: str) -> EightPicturesSettings:
    if model == SD_TURBO:
        prompts = dict(zip(PROMPTS, SD_PROMPTS, strict=True))
        return EightPicturesSettings.parse({**prompts, "model": model})
    return EightPicturesSettings(model=model)


def _draw_controls(me: Visitor, model: ImageModel | None, job: JobView | None, say: Texts) -> None:
    name = model.id if model is not None else MINI_TURBO
    settings = settings_now(me, name)
    allowed = True
    for number, prompt in enumerate(PROMPTS, 1):
        st.session_state[f"part3-{prompt}"] = getattr(settings, prompt)
        st.text_input(
            say("part3.eight.prompt", number=number),
            key=f"part3-{prompt}",
            max_chars=PROMPT_CHARACTERS,
            on_change=_keep,
            args=(name,),
            autocomplete="off",
        )
        verdict = judge(getattr(settings, prompt))
        if verdict.notice is not None:
            allowed = False
            st.warning(say.notice(verdict.notice), icon=":material/block:")
    st.session_state[SEED] = settings.seed
    limit = EightPicturesSettings.limits()["seed"]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.number_input(
            say("part3.seed"),
            limit.low,
            limit.high,
            key=SEED,
            help=say("part3.eight.seed.help"),
            on_change=_keep,
            args=(name,),
            width=160,
        )
        if model is None:
            st.caption(say("part3.none.button"))
        elif not me.promised:
            st.caption(say("part3.eight.promise"))
        elif allowed:
            run_button(ACTIVITY, settings, job, admit=lambda: admit(*settings.prompts))


def _keep(model: str) -> None:
    me, state = visitor(), st.session_state
    asked = {prompt: state[f"part3-{prompt}"] for prompt in PROMPTS}
    try:
        me.eight_pictures = EightPicturesSettings.parse(
            {**asdict(settings_now(me, model)), **asked, "seed": state[SEED], "model": model}
        )
    except Problem:  # an empty sentence: the one before stays
        return


# While it runs, and afterwards


def _draw_coming(job: JobView, say: Texts) -> None:
    first = job.settings.get("seed", 0)
    if any(name.startswith("image-") for name in job.pictures):
        made = [ImageMade(first + number, 0.0, f"image-{number}.png") for number in range(PICTURES)]
        draw_grid(job, made, say, waiting=True)
        st.html(note_html(say))


def _draw_result(job: JobView, say: Texts) -> None:
    values = shaped(job.result, EightPicturesResult)
    if values is None:
        return
    st.header(say("part3.eight.result"), divider="blue")
    st.html(note_html(say))
    draw_grid(job, values.images, say, model=values.model)
    host = Host(resources.machine(), card_of(job), resources.lab_settings().cpu_threads)
    _draw_measured(values, job.rows, job.recordings, host, say, key=job.id)


def _draw_measured(
    values: EightPicturesResult,
    rows: Sequence[SummaryRow],
    recordings: Sequence[Recording],
    host: Host,
    say: Texts,
    *,
    key: str,
) -> None:
    st.html(tiles_html(figures(values, say)))
    if rows:
        table, missing = summary_html(rows, say)
        st.html(table)
        st.caption(say("part3.eight.first"))
        if missing:
            absences = charts.merged(recording.absences for recording in recordings)
            st.caption(charts.absent_sentence(say, missing, absences))
    curves = [recording for recording in recordings if recording.name in CURVES]
    if curves:
        charts.draw_overlay(say, curves, host, key=key, projector=visitor().projector)
    st.caption(say("part3.measured_on", device=values.device_name, model=values.model))
    st.markdown(say.prose("part3/eight-read"))


def figures(values: EightPicturesResult, say: Texts) -> list[tuple[str, str, float | None]]:
    """Loading, the first picture, a picture on average, and what an hour would make of that."""
    seconds = [image.seconds for image in values.images]
    mean = sum(seconds) / len(seconds) if seconds else None
    tiles: list[tuple[str, str, float | None]] = [
        (say("part3.figure.load"), say.seconds(values.load_seconds), None),
        (say("part3.figure.first"), say.seconds(values.first_seconds), None),
        (say("part3.figure.mean"), say.seconds(mean), None),
    ]
    if mean:
        an_hour = round(3600 / mean, -2)  # an estimate: hundreds are enough
        tiles.append((say("part3.figure.hour"), say.number(round(an_hour)), None))
    if values.reserved_mib is not None:
        tiles.append((say("part3.figure.reserved"), say.mib(values.reserved_mib), None))
    return tiles


def _draw_replays(say: Texts) -> None:
    recorded = [
        (replay, values)
        for replay in resources.recordings(ACTIVITY)
        if (values := shaped(replay.values, EightPicturesResult)) is not None
    ]
    if not recorded:
        return
    with st.expander(say("part1.replays.compare"), icon=":material/videocam:"):
        for number, (replay, values) in enumerate(recorded):
            _draw_replay(replay, values, number, say)


def _draw_replay(replay: Replay, values: EightPicturesResult, number: int, say: Texts) -> None:
    replays.draw_badge(replay, say)
    card = replays.card_in(replay)
    host = Host(replay.machine, card, None)
    key = f"replay-{ACTIVITY}-{number}-{replay.made_at}"
    _draw_measured(values, replay.rows, replay.recordings, host, say, key=key)
