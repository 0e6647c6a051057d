"""Part 3: pictures as they come, what was measured on them, and the way to take them home."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from core.activities.make_images import (
    IMAGE_MODELS,
    MINI_TURBO,
    SD_TURBO,
    ImageMade,
    MakeImagesResult,
    MakeImagesSettings,
)
from core.engine.view import JobState, JobView
from core.models.image_models import image_models
from core.texts import Texts
from core.ui import resources
from core.ui.part3_write import ACTIVITY, write
from core.ui.pixels import shaped
from core.ui.provenance import signed_download
from core.ui.visitor import visitor

A_ROW = 4  # pictures side by side
ALONE_PIXELS = 360  # width of a picture that is alone
CRISP_BELOW = 256  # pixels; smaller pictures are drawn large, and their pixels stay square
LAST_SETS = 6  # of this student, kept at hand
OBEYED = ("object", "colour", "background", "size")  # what mini-turbo's judge looks for
VERSIONS = {MINI_TURBO: "1", SD_TURBO: "1"}  # as a signature names them
SIGN_PROMPT = "part3-sign-prompt"  # key of a widget


def draw_coming(job: JobView, say: Texts) -> None:
    """What a running job has drawn so far, and empty frames for what is to come."""
    settings = shaped(job.settings, MakeImagesSettings)
    if settings is None:
        return
    made = [
        ImageMade(settings.seed + number, 0.0, f"image-{number}.png")
        for number in range(settings.count)
    ]
    st.html(note_html(say))
    draw_grid(job, made, say, waiting=True)


def draw_set(job: JobView, say: Texts) -> None:
    """A finished set: the sentence, the pictures with what was measured, and the way on."""
    result = shaped(job.result, MakeImagesResult)
    settings = shaped(job.settings, MakeImagesSettings)
    if result is None or settings is None:
        return
    st.html(prompt_html(settings.prompt) + note_html(say))
    draw_grid(job, result.images, say, model=result.model)
    judged = any(image.obeyed for image in result.images)
    st.caption(told_of(result, say) + (f" {say('part3.obeyed.read')}" if judged else ""))
    st.checkbox(say("part3.sign_prompt"), key=SIGN_PROMPT, help=say("part3.sign_prompt.help"))
    st.page_link(
        "pages/check_a_picture.py", label=say("part3.check_page"), icon=":material/verified_user:"
    )


def told_of(result: MakeImagesResult, say: Texts) -> str:
    """How the run went: how long, with whom it was shared, whether the model had to be loaded."""
    seconds = [image.seconds for image in result.images]
    parts = [
        say(
            "part3.made.seconds",
            most=max(seconds, default=0.0),
            device=result.device_name,
        )
    ]
    if result.students > 1:
        parts.append(say("part3.made.together", pictures=result.together, students=result.students))
    else:
        parts.append(say("part3.made.alone"))
    if result.load_seconds is not None:
        parts.append(say("part3.made.loaded", load=result.load_seconds))
    return " ".join(parts)


def prompt_html(prompt: str) -> str:
    return f"<p class='lab-prompt'>{html.escape(prompt)}</p>"


def note_html(say: Texts) -> str:
    """What stands by every picture of this page."""
    return f"<p class='lab-invented'>{html.escape(say('part3.invented'))}</p>"


def draw_grid(
    job: JobView,
    images: Sequence[ImageMade],
    say: Texts,
    *,
    model: str = "",
    waiting: bool = False,
) -> None:
    """The pictures of a job in rows of four; `model` drew them, and each can be taken home."""
    pixels = pixels_of(str(job.settings.get("model", "")))
    key = "part3-crisp" if pixels < CRISP_BELOW else "part3-smooth"
    with st.container(key=f"{key}-{job.activity}"):
        for start in range(0, len(images), A_ROW):
            row = images[start : start + A_ROW]
            columns = st.columns(1 if len(images) == 1 else min(A_ROW, len(images)), gap="small")
            for column, (number, image) in zip(columns, enumerate(row, start), strict=False):
                with column, st.container(gap="xxsmall"):
                    _draw_cell(job, number, image, say, model=model, waiting=waiting)


def _draw_cell(
    job: JobView, number: int, image: ImageMade, say: Texts, *, model: str, waiting: bool
) -> None:
    png = job.pictures.get(image.file.removesuffix(".png"))
    if png is None:
        text = say("part3.coming" if waiting else "part3.lost")
        st.html(f"<div class='lab-canvas empty square'>{html.escape(text)}</div>")
        return
    alone = job.settings.get("count", 1) == 1 and job.activity == ACTIVITY
    st.image(
        png,
        width=ALONE_PIXELS if alone else "stretch",
        alt=say("part3.picture.alt", number=number + 1, prompt=prompt_of(job, number)),
    )
    if waiting:
        return
    st.html(made_html(image, say))
    if model:
        _draw_download(job, number, image, model, say)


def prompt_of(job: JobView, number: int) -> str:
    """The sentence of a job's picture: the lab's own run has four of them, in turn."""
    several = [job.settings.get(f"prompt_{place}") for place in range(1, 5)]
    asked = several[number % 4] if all(several) else job.settings.get("prompt")
    return str(asked or "")


def pixels_of(model: str) -> int:
    models = image_models(resources.lab_settings())
    return models[model if model in models else IMAGE_MODELS[0]].pixels


def made_html(image: ImageMade, say: Texts) -> str:
    """Seed and seconds of one picture, and what the judge sees of what was asked."""
    marks = "".join(
        f"<span class='{'yes' if image.obeyed[name] else 'no'}'>"
        f"{'✓' if image.obeyed[name] else '✗'} {html.escape(say(f'part3.obeyed.{name}'))}</span>"
        for name in OBEYED
        if name in image.obeyed
    )
    facts = (say("part3.seed_of", seed=image.seed), say.seconds(image.seconds))
    told = "".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
    return f"<div class='lab-made'><div>{told}</div><div>{marks}</div></div>"


def _draw_download(job: JobView, number: int, image: ImageMade, model: str, say: Texts) -> None:
    from core.safety.credentials import Made  # its library takes a moment: not for a first look

    prompt = prompt_of(job, number) if st.session_state.get(SIGN_PROMPT) else None
    made = Made(
        model=model, version=VERSIONS.get(model, ""), made_at=job.submitted_at, prompt=prompt
    )
    file_name = f"{model}-{image.seed}.png"
    key = f"part3-save-{job.activity}-{number}"
    png = job.pictures[image.file.removesuffix(".png")]
    signed_download(say, png, made, file_name, key, label=say("part3.download"))


# Earlier sets


def draw_history(shown: JobView, say: Texts) -> None:
    """This student's last sets, drawn only when the box is open: pictures are heavy."""
    box = st.expander(
        say("part3.history"), icon=":material/history:", key="part3-history", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        sets = [job for job in last_sets() if job.id != shown.id]
        if not sets:
            st.caption(say("part3.history.none"))
        for job in sets:
            _draw_earlier(job, say)


def last_sets() -> tuple[JobView, ...]:
    kept = resources.records().of_student(visitor().token, activity=ACTIVITY, limit=LAST_SETS)
    return tuple(job for job in kept if job.state is JobState.DONE)


def _draw_earlier(job: JobView, say: Texts) -> None:
    settings = shaped(job.settings, MakeImagesSettings)
    if settings is None:
        return
    words, pictures = st.columns([2, 3], gap="medium", vertical_alignment="center")
    with words:
        st.html(prompt_html(settings.prompt))
        st.caption(say("part3.seed_of", seed=settings.seed))
        st.button(
            say("part3.history.again"),
            key=f"part3-again-{job.id}",
            icon=":material/replay:",
            on_click=_again,
            args=(settings,),
        )
    with pictures, st.container(key=f"part3-crisp-{job.id}", horizontal=True, gap="small"):
        for number in range(settings.count):
            png = job.pictures.get(f"image-{number}")
            if png is not None:
                told = say("part3.picture.alt", number=number + 1, prompt=settings.prompt)
                st.image(png, width=88, alt=told)


def _again(settings: MakeImagesSettings) -> None:
    visitor().make_images = settings
    write(settings.prompt)
