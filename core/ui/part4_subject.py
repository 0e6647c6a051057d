"""Part 4, what is attacked: the network in use, the picture, and what it shall be taken for.

One choice for the whole page: the first tab makes it, the others show it.
"""

from __future__ import annotations

import functools
import html
import io
from pathlib import Path
from typing import Any

import streamlit as st
from msgspec.structs import asdict
from PIL import Image

from core.activities import ActivitySettings
from core.activities.attack import AUTO, LITE_0, LITE_1, RESNET_18, AttackSettings
from core.data import image_classes, photos
from core.engine.local import kept_folder
from core.engine.view import JobView
from core.models.classifier_files import classifiers_here
from core.problems import Notice, Problem
from core.texts import Texts
from core.ui import resources
from core.ui.pixels import data_url
from core.ui.visitor import Visitor, visitor

NETWORKS = {
    RESNET_18: "ResNet-18",
    LITE_0: "EfficientNet-Lite0",
    LITE_1: "EfficientNet-Lite1",
}
OWN = "own"  # in place of a sample: the student's own picture
PICTURES = ("cat", "coffee", "motorcycle", "photographer", OWN)  # the short names share a row
KINDS_OF_FILE = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"]
THUMB_SIDE = 72  # pixels
PICTURE, TARGET = "part4-picture", "part4-target"  # keys of widgets
REFUSED = "part4-refused"  # why the last change was not taken


# The network


def networks_here() -> tuple[str, ...]:
    """Those whose weights are on this machine, the best first."""
    return classifiers_here(resources.lab_settings())


def network_now(me: Visitor) -> str | None:
    """What this visitor attacks: their choice, else the best that is here; None: none is."""
    here = networks_here()
    chosen = me.attack.model
    return chosen if chosen in here else next(iter(here), None)


def draw_network(say: Texts) -> None:
    """Its name, with why this one and what it knows one click away."""
    name = network_now(visitor())
    if name is None:
        return
    st.badge(
        say("part4.network", network=NETWORKS[name]), icon=":material/visibility:", color="green"
    )
    with st.popover(say("part4.network.why"), icon=":material/info:", type="tertiary"):
        st.markdown(say.prose(f"part4/{name}"))


# Names of classes


def name_of(index: int, say: Texts) -> str:
    """A class by its name in the reader's language alone, as far as it has one."""
    one = image_classes.image_classes()[index]
    return one.vietnamese if say.language == "vi" and one.vietnamese else one.english


def name_in(english: str, say: Texts) -> str:
    """The same for a class that a result names in English; a name that stands twice stays so."""
    found = _indices().get(english, ())
    return name_of(found[0], say) if len(found) == 1 else english


@functools.cache
def _indices() -> dict[str, tuple[int, ...]]:
    """English name -> the classes that are called so."""
    found: dict[str, tuple[int, ...]] = {}
    for one in image_classes.image_classes():
        found[one.english] = (*found.get(one.english, ()), one.index)
    return found


@functools.cache
def _targets(language: str) -> dict[int, str]:
    """Index -> what the list shows; names repeat, so the index is a part of it."""
    return {
        one.index: f"{one.label(language)} · {one.index}" for one in image_classes.targets(language)
    }


# What the page remembers


def take_up(me: Visitor, last: JobView | None) -> None:
    """After a reload, begin with what this student attacked last."""
    if me.attack_taken_up:
        return
    me.attack_taken_up = True
    if last is not None:
        try:
            me.attack = AttackSettings.parse(last.settings)
        except Problem:  # from another version
            return
        me.brings_own = photos.is_upload(me.attack.picture)


def with_subject(settings: ActivitySettings) -> Any:
    """The same settings for the picture, target and network of the first tab. Raises Problem."""
    subject = asdict(visitor().attack)
    shared = {name: subject[name] for name in settings.rules() if name in SUBJECT}
    return type(settings).parse({**asdict(settings), **shared})


SUBJECT = ("target", "model", "picture", "fit")


def take(where: str, **asked: Any) -> None:
    """Change some of the settings that the visitor's field `where` holds; if not, say why."""
    me = visitor()
    now = getattr(me, where)
    try:
        setattr(me, where, type(now).parse({**asdict(now), **asked}))
    except Problem as problem:  # a forged widget value: the widget goes back to what was
        st.session_state[REFUSED] = problem.notice


def show(key: str, value: object) -> None:
    """What a widget shows. Told on every run: one in a closed popover would miss a single time."""
    st.session_state[key] = value


def draw_slider(
    where: str, name: str, say: Texts, *, unit: str = "", scale: float = 1.0, help: str = ""
) -> None:
    """A slider for one setting of the visitor's field `where`, with the reader's numbers."""
    settings = getattr(visitor(), where)
    rule = settings.rules()[name]
    count = round((rule.high - rule.low) / rule.step) + 1
    key = f"part4-{where}-{name}"
    values = [rule.low + place * rule.step for place in range(count)]
    now = getattr(settings, name)
    show(key, now if now in values else min(values, key=lambda value: abs(value - now)))
    st.select_slider(
        say(f"part4.{where}.{name}"),
        values,
        key=key,
        format_func=lambda value: f"{say.number(scale * value if scale != 1 else value)}{unit}",
        help=help or None,
        on_change=_slid,
        args=(where, name, key),
    )


def _slid(where: str, name: str, key: str) -> None:
    take(where, **{name: st.session_state[key]})


def draw_refusal(say: Texts) -> None:
    refused: Notice | None = st.session_state.pop(REFUSED, None)
    if refused is not None:
        st.warning(say.notice(refused), icon=":material/info:")


# The target


def draw_target(say: Texts) -> None:
    if st.session_state.get(TARGET) != visitor().attack.target:
        # Only then: a message of a thousand names that stays the same is not sent again.
        st.session_state[TARGET] = visitor().attack.target
    labels = _targets(say.language)
    st.selectbox(
        say("part4.target"),
        list(labels),
        format_func=lambda index: labels[index],
        key=TARGET,
        filter_mode="contains",
        help=say("part4.target.help"),
        on_change=lambda: take("attack", target=st.session_state[TARGET]),
    )


# The picture


def my_folder() -> Path:
    return kept_folder(resources.lab_settings(), visitor().token)


def is_there(name: str) -> bool:
    """Whether a picture of this name can be used now."""
    return (
        photos.has_upload(my_folder(), name) if photos.is_upload(name) else name in photos.SAMPLES
    )


def require_picture() -> None:
    """Raises Problem where the picture that is chosen is gone."""
    if not is_there(visitor().attack.picture):
        raise Problem("problem.photo_gone")


def pictures_of(job: JobView) -> dict[str, bytes]:
    """A job's pictures; of a student's own picture only as long as that is kept."""
    picture = str(job.settings.get("picture", ""))
    return job.pictures if not photos.is_upload(picture) or is_there(picture) else {}


def stay() -> None:
    """Note, again and again, that the page of a student with an upload is open."""
    me = visitor()
    if me.brings_own and photos.is_upload(me.attack.picture):
        grace = resources.lab_settings().grace_seconds
        st.fragment(_touch, run_every=min(30.0, grace / 4))()


def _touch() -> None:
    name = visitor().attack.picture
    if photos.is_upload(name):
        photos.still_here(my_folder(), name)


def draw_picture(say: Texts) -> None:
    """The samples, and the student's own picture with the way to bring and to remove it."""
    me = visitor()
    show(PICTURE, OWN if me.brings_own else me.attack.picture)
    st.pills(
        say("part4.picture"),
        PICTURES,
        key=PICTURE,
        required=True,
        format_func=lambda name: _pill(name, say),
        wrap=True,
        on_change=_choose_picture,
    )
    if me.brings_own:
        _draw_own(me, say)


def _pill(name: str, say: Texts) -> str:
    told = say(f"part4.picture.{name}")
    return f":material/upload: {told}" if name == OWN else f"![]({thumb_url(name)}) {told}"


def _choose_picture() -> None:
    me, chosen = visitor(), st.session_state[PICTURE]
    me.brings_own = chosen == OWN
    if not me.brings_own:
        take("attack", picture=chosen)


def ready(me: Visitor) -> bool:
    """Whether there is a picture to attack."""
    return is_there(me.attack.picture) and me.brings_own == photos.is_upload(me.attack.picture)


def _draw_own(me: Visitor, say: Texts) -> None:
    name = me.attack.picture
    minutes = max(1, round(resources.lab_settings().grace_seconds / 60))
    if photos.is_upload(name) and is_there(name):
        with st.container(key="part4-own"):
            shown, words, forget = st.columns([2, 8, 4], gap="small", vertical_alignment="center")
        png = picture_or_none(name, me.attack.fit)
        if png is not None:
            shown.image(png, alt=say("part4.own.alt"))
        words.caption(say("part4.own.kept", minutes=minutes))
        forget.button(
            say("part4.own.forget"),
            key="part4-forget",
            icon=":material/delete:",
            help=say("part4.own.forget.help"),
            on_click=_forget,
        )
        return
    st.html(
        f"<style>:root {{ --part4-choose: '{say('part4.own.choose')}'; "
        f"--part4-limits: '{say('part4.own.limits')}' }}</style>"
    )
    key = f"part4-upload-{me.uploads}"
    if photos.is_upload(name):
        st.warning(say("problem.photo_gone"), icon=":material/timer_off:")
    st.file_uploader(say("part4.own.drop"), KINDS_OF_FILE, key=key, on_change=_bring, args=(key,))
    st.caption(say("part4.own.what", minutes=minutes))


def _bring(key: str) -> None:
    """A file has come: keep what is a picture of it, and let go of the file itself."""
    me, file = visitor(), st.session_state.get(key)
    if file is None:
        return
    me.uploads += 1  # another widget: Streamlit forgets the file, with all that it told
    try:
        name = photos.keep_upload(my_folder(), photos.sanitised(file.getvalue()))
    except Problem as problem:
        st.session_state[REFUSED] = problem.notice
        return
    take("attack", picture=name)


def _forget() -> None:
    photos.forget_uploads(my_folder())
    visitor().brings_own = False
    take("attack", picture=next(iter(photos.SAMPLES)))


def picture_png(name: str, fit: str) -> bytes:
    """The picture as the network looks at it. Raises Problem where it is gone."""
    if photos.is_upload(name):
        return photos.png(photos.fitted(photos.pixels_of(name, my_folder()), fit))
    return _sample(name, fit)


def picture_or_none(name: str, fit: str) -> bytes | None:
    try:
        return picture_png(name, fit)
    except Problem:  # an upload that has just been forgotten
        return None


@functools.cache
def _sample(name: str, fit: str) -> bytes:
    return photos.png(photos.fitted(photos.pixels_of(name, None), fit))


@functools.cache
def thumb_url(name: str) -> str:
    """A sample, small: a few hundred bytes that a label can hold."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(_sample(name, "crop"))) as picture:
        picture.resize((THUMB_SIDE, THUMB_SIDE)).save(file, "WEBP", quality=60)
    return data_url(file.getvalue())


def subject_html(say: Texts) -> str:
    """What the other tabs attack, in one line with the picture."""
    me = visitor()
    name = me.attack.picture
    told = say(
        "part4.subject",
        picture=say(f"part4.picture.{OWN if photos.is_upload(name) else name}"),
        target=name_of(me.attack.target, say),
    )
    png = picture_or_none(name, me.attack.fit)
    picture = f"<img src='{data_url(png)}' alt=''>" if png else ""
    return (
        f"<div class='p4-subject'>{picture}<div><b>{html.escape(told)}</b>"
        f"<p>{html.escape(say('part4.subject.change'))}</p></div></div>"
    )


def model_choices() -> list[str]:
    return [AUTO, *networks_here()]
