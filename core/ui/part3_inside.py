"""Part 3, inside the model: its blocks with their figures, and one picture taken apart."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from core.activities.make_images import (
    EXAMPLE,
    MINI_TURBO,
    SD_TURBO,
    BlockFacts,
    EightPicturesResult,
    MakeImagesSettings,
    PictureInsideResult,
    PictureInsideSettings,
)
from core.engine.view import JobState, JobView
from core.models.image_models import ImageModel
from core.problems import Problem
from core.texts import Texts
from core.ui.diagrams import sd_turbo_blocks
from core.ui.job_panel import current_job, job_panel, last_result, run_button
from core.ui.part3_model import Blocks, blocks_of, published_blocks
from core.ui.part3_pictures import CRISP_BELOW, note_html, prompt_html
from core.ui.part3_write import admit
from core.ui.pixels import data_url, shaped
from core.ui.visitor import visitor

ACTIVITY = "picture-inside"
ACTIVITIES_WITH_BLOCKS = (ACTIVITY, "eight-pictures")
HALF_A_LETTER = "▯"  # among the tokens: a piece too small to be read
GAN_PARAMETERS = 672_898  # generator and discriminator of Parts 1 and 2 together


def draw_inside(model: ImageModel | None, say: Texts) -> None:
    """The tab: the blocks drawn to scale with their table, then the look inside one picture."""
    _draw_blocks(model, say)
    st.header(say("part3.inside"), divider="blue")
    _draw_look(model, say)


# The blocks


def _draw_blocks(model: ImageModel | None, say: Texts) -> None:
    name = model.id if model is not None else SD_TURBO
    blocks = blocks_to_show(model)
    figures = {block.name: block.parameters / 1e6 for block in blocks.facts}
    st.markdown(sd_turbo_blocks(say, name, figures), unsafe_allow_html=True)
    st.html(blocks_html(blocks.facts, say))
    st.caption(say(f"part3.blocks.{blocks.source}", model=name))
    total, told = st.columns([2, 3], gap="large")
    times = blocks.total_millions * 1e6 / GAN_PARAMETERS
    total.markdown(
        say(
            "part3.blocks.sum",
            millions=say.number(round(blocks.total_millions, 1)),
            memory=say.mib(sum(block.mib for block in blocks.facts)),
            times=round(times, -2) if times > 1000 else round(times, 1 if times < 10 else None),
        )
    )
    told.markdown(say.prose("part3/blocks"))
    other = SD_TURBO if name == MINI_TURBO else MINI_TURBO
    with st.expander(say("part3.blocks.other", model=other), icon=":material/compare:"):
        published = published_blocks(other)
        figures = {block.name: block.parameters / 1e6 for block in published.facts}
        st.markdown(sd_turbo_blocks(say, other, figures), unsafe_allow_html=True)
        st.html(blocks_html(published.facts, say))
        st.caption(say("part3.blocks.published", model=other))


def blocks_to_show(model: ImageModel | None) -> Blocks:
    """Counted on the loaded model where a job of this student has done so, else without loading."""
    if model is None:
        return published_blocks(SD_TURBO)
    for activity in ACTIVITIES_WITH_BLOCKS:
        job = last_result(activity, current_job(activity))
        facts = loaded_blocks(job, model.id)
        if facts:
            return Blocks(facts, "loaded")
    return blocks_of(model)


def loaded_blocks(job: JobView | None, model: str) -> tuple[BlockFacts, ...]:
    """The blocks in a job's result, if they are of this model."""
    if job is None:
        return ()
    values: PictureInsideResult | EightPicturesResult | None
    if job.activity == ACTIVITY:
        values = shaped(job.result, PictureInsideResult)
    else:
        values = shaped(job.result, EightPicturesResult)
    return values.blocks if values is not None and values.model == model else ()


def blocks_html(facts: Sequence[BlockFacts], say: Texts) -> str:
    """One row a block: what it does, its class, parameters, memory and kind of numbers."""
    columns = ("block", "kind", "parameters", "memory", "dtype")
    head = "".join(
        f"<th scope='col'>{html.escape(say(f'part3.column.{name}'))}</th>" for name in columns
    )
    body = ""
    for block in facts:
        cells = (
            block.kind,
            say.number(block.parameters) if block.parameters else say("part3.blocks.without"),
            say.mib(block.mib) if block.parameters else "",
            block.dtype,
        )
        name = html.escape(say(f"part3.block.{block.name}"))
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        body += f"<tr><th scope='row'>{name}</th>{row}</tr>"
    return (
        f"<div class='lab-table lab-blocks'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


# One picture, taken apart


def settings_now(model: ImageModel) -> PictureInsideSettings:
    """The picture that this student made last, else the example."""
    job = last_result("make-images", current_job("make-images"))
    last = shaped(job.settings, MakeImagesSettings) if job is not None else None
    if last is None:
        return PictureInsideSettings(model=model.id)
    try:
        return PictureInsideSettings(prompt=last.prompt, seed=last.seed, model=model.id)
    except Problem:  # from another version
        return PictureInsideSettings(prompt=EXAMPLE, model=model.id)


def _draw_look(model: ImageModel | None, say: Texts) -> None:
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    words, controls = st.columns([3, 2], gap="large")
    words.markdown(say.prose("part3/inside"))
    with controls, st.container(border=True):
        if model is None:
            st.caption(say("part3.none.button"))
        elif not visitor().promised:
            st.caption(say("part3.eight.promise"))
        else:
            settings = settings_now(model)
            st.html(prompt_html(settings.prompt))
            st.caption(say("part3.seed_of", seed=settings.seed))
            run_button(ACTIVITY, settings, job, admit=lambda: admit(settings.prompt))
    if job is not None and job.state is not JobState.DONE:
        job_panel(ACTIVITY, job)
    if result is not None and (job is None or job.state.over):
        _draw_taken_apart(result, say)


def _draw_taken_apart(job: JobView, say: Texts) -> None:
    values = shaped(job.result, PictureInsideResult)
    if values is None:
        return
    st.html(tokens_html(values, say))
    st.html(stages_html(values, job.pictures, say))
    if len(values.steps) > 1:
        st.subheader(say("part3.inside.steps"))
        st.html(steps_html(values, job.pictures, say))
        st.caption(say("part3.inside.steps.several"))
    else:
        st.caption(say("part3.inside.steps.one"))
    st.html(note_html(say))
    st.caption(say("part3.measured_on", device=values.device_name, model=values.model))


def tokens_html(values: PictureInsideResult, say: Texts) -> str:
    """The pieces of the sentence as chips, and how many seats stay empty."""
    chips = "".join(f"<span>{html.escape(token)}</span>" for token in values.tokens)
    told = say("part3.inside.tokens", n=len(values.tokens), seats=values.seats)
    if HALF_A_LETTER in values.tokens:
        told += f" {say('part3.inside.half', sign=HALF_A_LETTER)}"
    return f"<p class='lab-small'>{html.escape(told)}</p><div class='lab-chips'>{chips}</div>"


def stages_html(values: PictureInsideResult, pictures: dict[str, bytes], say: Texts) -> str:
    """Noise, latent and picture from left to right, with the time that each block took."""
    channels, height, width = values.latent_shape
    latent = {"channels": channels, "height": height, "width": width}
    text, unet, vae = (_ms(values, name) for name in ("text", "unet", "vae"))
    stages = (
        ("noise", "noise", say("part3.inside.noise", **latent), say("part3.inside.noise.why")),
        (
            "latent",
            "latent",
            say("part3.inside.latent", **latent),
            say("part3.inside.latent.why", text=text, unet=unet),
        ),
        (
            "picture",
            "steps-1",
            say("part3.inside.picture", pixels=values.pixels),
            say("part3.inside.picture.why", vae=vae),
        ),
    )
    drawn = "".join(
        _figure_html(pictures[picture], title, why, crisp=stage != "picture" or _crisp(values))
        for stage, picture, title, why in stages
        if picture in pictures
    )
    return f"<div class='lab-stages'>{drawn}</div>"


def _ms(values: PictureInsideResult, block: str) -> float | None:
    seconds = values.seconds.get(block)
    return None if seconds is None else 1000 * seconds


def steps_html(values: PictureInsideResult, pictures: dict[str, bytes], say: Texts) -> str:
    """The same sentence and seed, drawn in 1, 2 and 4 steps."""
    drawn = "".join(
        _figure_html(
            pictures[f"steps-{steps}"],
            say.count("part3.inside.step", steps),
            "",
            crisp=_crisp(values),
        )
        for steps in values.steps
        if f"steps-{steps}" in pictures
    )
    return f"<div class='lab-stages even'>{drawn}</div>"


def _crisp(values: PictureInsideResult) -> bool:
    return values.pixels < CRISP_BELOW


def _figure_html(png: bytes, title: str, why: str, *, crisp: bool) -> str:
    return (
        f"<figure class='lab-canvas {'' if crisp else 'smooth'}'>"
        f"<img src='{data_url(png)}' alt='{html.escape(title, quote=True)}'>"
        f"<figcaption><b>{html.escape(title)}</b><br>{html.escape(why)}</figcaption></figure>"
    )
