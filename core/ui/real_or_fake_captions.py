"""The second game of "Real or fake?": mini-turbo has drawn a picture; which sentence was it?"""

from __future__ import annotations

import html
import random

import streamlit as st

from core.activities.make_images import MINI_TURBO, MakeImagesResult, MakeImagesSettings
from core.engine.view import JobState, JobView
from core.models.image_models import image_models
from core.problems import Problem
from core.soc.rounds import Captions, captions_of
from core.texts import LANGUAGES, Texts
from core.ui import resources
from core.ui.job_panel import current_job, job_panel
from core.ui.part3_pictures import made_html
from core.ui.pixels import data_url, shaped
from core.ui.visitor import visitor

ACTIVITY = "make-images"
SEEDS = 10_000
TICK_SECONDS = 0.5


def draw_captions(say: Texts) -> None:
    """A picture and four sentences, offered where mini-turbo is."""
    if not image_models(resources.lab_settings())[MINI_TURBO].here:
        st.info(say("fake.captions.none"), icon=":material/info:")
        return
    me = visitor()
    st.markdown(say.prose("real_or_fake/captions"))
    job = current_job(ACTIVITY)
    asked = captions_of(me.caption_seed) if me.caption_seed is not None else None
    if asked is not None and job is not None and _is_of(job, asked):
        if job.state is JobState.DONE:
            _draw_picture(job, asked, say)
        else:
            job_panel(ACTIVITY, job, tick_seconds=TICK_SECONDS)
        if job.state.over and (asked.seed in me.caption_answers or job.state is not JobState.DONE):
            _draw_new(say)
    elif job is not None and not job.state.over:
        st.info(say("fake.captions.busy"), icon=":material/hourglass_top:")
    else:
        _draw_new(say)
    if me.caption_answers:
        right = sum(captions_of(s).right == place for s, place in me.caption_answers.items())
        st.caption(say("fake.captions.tally", right=right, all=len(me.caption_answers)))


def _is_of(job: JobView, asked: Captions) -> bool:
    """Whether the job draws this very picture: it may be one of Part 3."""
    prompts = {asked.prompt(language) for language in LANGUAGES}
    return job.settings.get("seed") == asked.seed and job.settings.get("prompt") in prompts


def _draw_new(say: Texts) -> None:
    pressed = st.button(
        say("fake.captions.new"), key="fake-caption-new", type="primary", icon=":material/brush:"
    )
    if not pressed:
        return
    me = visitor()
    asked = captions_of(random.randrange(SEEDS))
    settings = MakeImagesSettings(
        prompt=asked.prompt(say.language), seed=asked.seed, model=MINI_TURBO
    )
    try:
        resources.engine().submit(me.token, ACTIVITY, settings)
    except Problem as problem:
        st.warning(say.notice(problem.notice), icon=":material/info:")
    else:
        me.caption_seed = asked.seed
        st.rerun()


def _draw_picture(job: JobView, asked: Captions, say: Texts) -> None:
    me = visitor()
    picture, words = st.columns([2, 3], gap="large", vertical_alignment="center")
    png = job.pictures.get("image-0")
    with picture:
        st.html(_picture_html(png, say))
    chosen = me.caption_answers.get(asked.seed)
    sentences = asked.sentences(say.language)
    with words:
        if chosen is None:
            st.markdown(f"**{say('fake.captions.question')}**")
            for place, sentence in enumerate(sentences):
                st.button(
                    sentence,
                    key=f"fake-caption-{place}",
                    width="stretch",
                    on_click=_chose,
                    args=(asked.seed, place),
                )
            return
        true = sentences[asked.right]
        if chosen == asked.right:
            st.success(say("fake.captions.right", sentence=true), icon=":material/check_circle:")
        else:
            st.warning(say("fake.captions.wrong", sentence=true), icon=":material/cancel:")
            st.markdown(say("fake.captions.yours", sentence=sentences[chosen]))
        result = shaped(job.result, MakeImagesResult)
        for image in result.images[:1] if result is not None else ():
            st.html(made_html(image, say))


def _chose(seed: int, place: int) -> None:
    visitor().caption_answers.setdefault(seed, place)


def _picture_html(png: bytes | None, say: Texts) -> str:
    alt = html.escape(say("fake.captions.alt"), quote=True)
    image = f"<img src='{data_url(png)}' alt='{alt}'>" if png else html.escape(say("part3.lost"))
    told = html.escape(say("fake.captions.made"))
    return f"<figure class='fake-picture'>{image}<figcaption>{told}</figcaption></figure>"
