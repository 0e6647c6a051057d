"""Where a picture comes from: any file checked, and what happens to a signature on its way.

Other pages offer their pictures with `signed_download`, so that none leaves without a credential.
"""

from __future__ import annotations

import base64
import functools
import html
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from PIL import Image, ImageDraw

from core.engine.view import JobState, JobView
from core.problems import Problem
from core.safety import tampering
from core.safety.pictures import PNG, SMALL_SIDE, credential_bytes, kind_of, preview
from core.texts import Texts, texts
from core.ui import resources
from core.ui.pixels import data_url
from core.ui.visitor import Visitor, visitor

if TYPE_CHECKING:  # loading the library of C2PA takes a moment: the first to need it waits
    from core.safety.credentials import Authority, Finding, Made

STYLE = Path(__file__).with_name("provenance.css")
UPLOAD, WHAT_HAPPENED, WITH_PROMPT = "provenance-file", "provenance-what", "provenance-prompt"
KINDS_OF_FILE = ["png", "jpg", "jpeg", "webp"]
SAMPLE_SIZE = (480, 320)

# IPTC's names of sources that have words of their own here; the others share one sentence.
SOURCES = (
    "trainedAlgorithmicMedia",
    "algorithmicMedia",
    "compositeWithTrainedAlgorithmicMedia",
    "digitalCapture",
    "digitalCreation",
    "humanEdits",
    "screenCapture",
)
ICONS = {
    "ours": ("#1a8f6a", "M20 34l9 9 17-20"),
    "stranger": ("#d9760a", "M24 25c0-10 16-10 16 0 0 6-8 7-8 13 M32 47v1"),
    "broken": ("#c8372d", "M22 22l20 20 M42 22l-20 20"),
    "none": ("#64748b", "M20 32h24"),
}


def draw() -> None:
    """The whole page."""
    me = visitor()
    say = texts(me.language)
    st.html(STYLE)
    st.html(
        f"<style>:root {{ --provenance-choose: '{say('provenance.choose')}'; "
        f"--provenance-limits: '{say('provenance.limits')}' }}</style>"
    )
    st.title(say("provenance.title"))
    st.badge(say("provenance.badge"), icon=":material/shield:", color="blue")
    try:
        resources.authority()
    except Problem as problem:
        st.error(say.notice(problem.notice), icon=":material/key_off:")
        return
    st.fragment(_draw_check)()
    st.header(say("provenance.demo"), divider="blue")
    st.fragment(_draw_demo)()
    st.header(say("provenance.meaning"), divider="blue")
    _draw_meaning(say)


def signed_download(
    say: Texts, png: bytes, made: Made, file_name: str, key: str, *, label: str = ""
) -> None:
    """A button that hands out this PNG, signed at the click; a sentence where nothing can sign."""
    try:
        authority = resources.authority()
    except Problem as problem:
        st.warning(say.notice(problem.notice), icon=":material/key_off:")
        return
    titled = replace(made, title=made.title or file_name)
    st.download_button(
        label or say("provenance.download"),
        data=lambda: authority.sign(png, titled),  # on another thread: no session state in here
        file_name=file_name,
        mime="image/png",
        key=key,
        icon=":material/verified:",
        on_click="ignore",
    )


# Any file


def _draw_check() -> None:
    say = texts(visitor().language)
    words, drop = st.columns(2, gap="large", vertical_alignment="center")
    words.markdown(say.prose("provenance/intro"))
    file = drop.file_uploader(
        say("provenance.drop"), KINDS_OF_FILE, key=UPLOAD, help=say("provenance.drop.help")
    )
    if file is None:
        return
    data = file.getvalue()
    try:
        finding = resources.authority().check(data)
        shown = _preview(data, finding)
    except Problem as problem:
        st.warning(say.notice(problem.notice), icon=":material/broken_image:")
        return
    st.html(verdict_html(finding, say))
    picture, facts = st.columns([2, 3], gap="large")
    with picture:
        if shown is None:
            st.info(say("provenance.no_preview"), icon=":material/broken_image:")
        else:
            st.html(figure_html(shown, say("provenance.uploaded"), file_caption(data, say)))
    with facts:
        _draw_facts(finding, say)
        st.markdown(say(f"provenance.not.{finding.kind}"))


def _preview(data: bytes, finding: Finding) -> bytes | None:
    """The picture drawn again; None where a broken one cannot be. Raises Problem for a damaged."""
    try:
        return preview(data)
    except Problem:
        if finding.kind == "broken":
            return None
        raise


# What happens on the way


@dataclass(frozen=True, slots=True)
class Sample:
    """A picture to play with: the student's newest, or one that is drawn here."""

    name: str  # says where it comes from: provenance.sample.<name>
    png: bytes
    made: Made


def _happenings() -> dict[str, Callable[[bytes, Sample, Authority], bytes]]:
    """What may happen to a signed picture; labels are provenance.happens.<name>."""
    return {
        "nothing": lambda signed, sample, authority: signed,
        "jpeg": lambda signed, sample, authority: tampering.saved_as_jpeg(signed),
        "crop": lambda signed, sample, authority: tampering.cropped(signed),
        "byte": lambda signed, sample, authority: tampering.one_byte_changed(signed),
        "screenshot": lambda signed, sample, authority: tampering.screenshot(signed),
        "stolen": lambda signed, sample, authority: tampering.with_credential_of(
            landscape(night=True), signed
        ),
        "impostor": lambda signed, sample, authority: authority.impostor().sign(
            sample.png, sample.made
        ),
    }


def _draw_demo() -> None:
    me = visitor()
    say = texts(me.language)
    st.markdown(say("provenance.demo.line"))
    happenings, sample = _happenings(), sample_of(me)
    what = st.segmented_control(
        say("provenance.happens"),
        list(happenings),
        default="nothing",
        required=True,
        key=WHAT_HAPPENED,
        format_func=lambda name: say(f"provenance.happens.{name}"),
        width="stretch",
        wrap=True,
    )
    if sample.made.prompt and not st.toggle(
        say("provenance.with_prompt"), key=WITH_PROMPT, help=say("provenance.with_prompt.help")
    ):
        sample = replace(sample, made=replace(sample.made, prompt=None))
    authority = resources.authority()
    signed = authority.sign(sample.png, sample.made)
    after = happenings[what or "nothing"](signed, sample, authority)
    finding = authority.check(after)
    st.html(verdict_html(finding, say))
    left, right = st.columns(2, gap="large")
    for column, data, title in (
        (left, signed, say("provenance.before")),
        (right, after, say("provenance.after", what=say(f"provenance.happens.{what}"))),
    ):
        column.html(figure_html(preview(data), title, file_caption(data, say)))
    with left:
        st.markdown(say(f"provenance.why.{what}"))
        file_name = f"{say('provenance.file')}.png"
        signed_download(say, sample.png, sample.made, file_name, "provenance-signed")
        st.caption(f"{say(f'provenance.sample.{sample.name}')} {say('provenance.download.line')}")
    with right:
        _draw_facts(finding, say)


def sample_of(me: Visitor) -> Sample:
    """The newest picture of Part 3, or of Part 2's generator; before there is any, a drawn one."""
    from core.safety.credentials import ALGORITHM, Made

    title = f"{texts(me.language)('provenance.file')}.png"
    for activity, name, picture in (
        ("make-images", "part3", "image-0"),
        ("draw-digits", "part2", "many"),
    ):
        job = _newest(me, activity)
        png = as_png(job.pictures.get(picture)) if job is not None else None
        if job is not None and png is not None:
            made = Made(
                model=str(job.settings.get("model", "GAN")),
                version="",
                made_at=job.submitted_at,
                prompt=str(job.settings.get("prompt", "")) or None,
                title=title,
            )
            return Sample(name, png, made)
    drawn_at = 1_796_083_200.0  # the day on which its program was written
    made = Made(DRAWN_BY, "1", drawn_at, title=title, source=ALGORITHM)
    return Sample("drawn", landscape(), made)


DRAWN_BY = "GPU lab landscape"


def _newest(me: Visitor, activity: str) -> JobView | None:
    jobs = (
        resources.engine().latest(me.token, activity),
        resources.records().latest(me.token, activity, state=JobState.DONE),
    )
    return next((job for job in jobs if job is not None and job.state is JobState.DONE), None)


def as_png(image: bytes | None) -> bytes | None:
    """One of the lab's own pictures as a PNG in colours; None where there is none."""
    if image is None:
        return None
    with Image.open(io.BytesIO(image), formats=("PNG", "WEBP")) as picture:
        out = io.BytesIO()
        picture.convert("RGB").save(out, "PNG")
        return out.getvalue()


@functools.cache
def landscape(*, night: bool = False) -> bytes:
    """Hills that do not exist, drawn by a few lines of geometry: no model, no data."""
    scale = 2  # drawn larger and made smaller: smooth edges
    width, height = (scale * side for side in SAMPLE_SIZE)
    top, bottom = ((16, 22, 52), (60, 66, 120)) if night else ((96, 165, 226), (250, 218, 170))
    share = np.linspace(0.0, 1.0, height)[:, None, None]  # (height, 1, 1)
    sky = np.broadcast_to((1 - share) * top + share * bottom, (height, width, 3))
    picture = Image.fromarray(sky.astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    x, y, radius = (0.74, 0.26, 0.07) if night else (0.28, 0.42, 0.1)
    centre, size = (x * width, y * height), radius * width
    pen.ellipse(
        (centre[0] - size, centre[1] - size, centre[0] + size, centre[1] + size),
        fill=(238, 238, 222) if night else (255, 244, 206),
    )
    across = np.arange(0, width + 8, 8)
    for depth in range(4):
        swing = 0.05 * np.sin(across / width * (5 + 3 * depth) + 1.7 * depth)
        swing += 0.02 * np.sin(across / width * (17 + 5 * depth) + 0.6 * depth)
        edge = height * (0.56 + 0.11 * depth + swing)
        light = 1 - 0.2 * depth
        colour = (70, 84, 130) if night else (112, 152, 132)
        tone = tuple(round(light * part) for part in colour)
        hill = np.column_stack((across, edge)).ravel().tolist()  # x, y, x, y, ...
        pen.polygon([*hill, width, height, 0, height], fill=tone)
    out = io.BytesIO()
    picture.resize(SAMPLE_SIZE, Image.Resampling.LANCZOS).save(out, "PNG", optimize=True)
    return out.getvalue()


# What it means


def _draw_meaning(say: Texts) -> None:
    proves, does_not = st.columns(2, gap="large")
    for column, name in ((proves, "proves"), (does_not, "does-not")):
        with column.container(border=True, height="stretch"):
            st.markdown(say.prose(f"provenance/{name}"))
    with st.container(border=True):
        st.markdown(say.prose("provenance/trust"))
        authority = resources.authority()
        with st.container(horizontal=True, vertical_alignment="center"):
            st.download_button(
                say("provenance.root"),
                authority.root_pem,
                file_name="gpu-lab-class-root.pem",
                mime="application/x-pem-file",
                key="provenance-root",
                icon=":material/license:",
                on_click="ignore",
            )
            st.badge(authority.name, icon=":material/verified_user:", color="green")


# Drawing


def verdict_html(finding: Finding, say: Texts) -> str:
    """The verdict as a card that can be read from the last row: colour, sign and words."""
    lines = [say(f"provenance.verdict.{finding.kind}.line")]
    if finding.expired:
        lines.append(say("provenance.expired"))
    if finding.elsewhere:
        lines.append(say("provenance.elsewhere"))
    colour, sign = ICONS[finding.kind]
    icon = (
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 64 64'>"
        f"<circle cx='32' cy='32' r='30' fill='{colour}'/><path d='{sign}' fill='none' "
        "stroke='white' stroke-width='6' stroke-linecap='round' stroke-linejoin='round'/></svg>"
    )
    encoded = base64.b64encode(icon.encode()).decode()
    return (
        f"<div class='lab-verdict' role='status' style='--tint:{colour}'>"
        f"<img src='data:image/svg+xml;base64,{encoded}' alt=''><div>"
        f"<p class='word'>{html.escape(say(f'provenance.verdict.{finding.kind}'))}</p>"
        f"<p>{html.escape(' '.join(lines))}</p></div></div>"
    )


def _draw_facts(finding: Finding, say: Texts) -> None:
    if facts := facts_html(finding, say):
        st.html(facts)


def facts_html(finding: Finding, say: Texts) -> str:
    """What the credential says, and how far that can be believed; nothing where there is none."""
    rows = [(name, value) for name, value in facts_of(finding, say) if value]
    if not rows:
        return ""
    drawn = "".join(
        f"<dt>{html.escape(say(f'provenance.fact.{name}'))}</dt><dd>{html.escape(value)}</dd>"
        for name, value in rows
    )
    title = html.escape(say(f"provenance.facts.{finding.kind}"))
    return f"<div class='lab-facts'><h4>{title}</h4><dl>{drawn}</dl></div>"


def facts_of(finding: Finding, say: Texts) -> list[tuple[str, str]]:
    source = ""
    if finding.source:
        known = finding.source if finding.source in SOURCES else "other"
        source = say(f"provenance.source.{known}", name=finding.source)
    return [
        ("signer", finding.signer),
        ("source", source),
        ("model", " ".join(filter(None, (finding.model, finding.version)))),
        ("made_at", say.date(finding.made_at) if finding.made_at is not None else ""),
        ("prompt", finding.prompt or ""),
        ("program", finding.program),
        ("title", finding.title),
    ]


def figure_html(image: bytes, title: str, caption: str) -> str:
    with Image.open(io.BytesIO(image)) as picture:
        small = "small" if max(picture.size) <= SMALL_SIDE else ""
    return (
        f"<figure class='lab-evidence {small}'><figcaption><b>{html.escape(title)}</b></figcaption>"
        f"<img src='{data_url(image)}' alt='{html.escape(title, quote=True)}'>"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def file_caption(data: bytes, say: Texts) -> str:
    """Kind, size, and for a PNG how much of it is the credential."""
    mime = kind_of(data) or ""
    kind, held = mime.removeprefix("image/").upper(), credential_bytes(data)
    caption = say("provenance.size", kind=kind, kb=len(data) / 1000)
    if held:
        return f"{caption}; {say('provenance.size.credential', kb=held / 1000)}"
    return f"{caption}; {say('provenance.size.no_credential')}" if mime == PNG else caption
