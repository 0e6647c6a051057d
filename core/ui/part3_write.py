"""Part 3, write: a sentence, what the rules and the model make of it, and the wish for pictures."""

from __future__ import annotations

import html
import time
from typing import Any

import streamlit as st
from msgspec.structs import asdict

from core.activities.make_images import (
    MINI_TURBO,
    PROMPT_CHARACTERS,
    SD_TURBO,
    MakeImagesResult,
    MakeImagesSettings,
)
from core.engine.view import JobState, JobView
from core.models.image_models import ImageModel
from core.models.mini_turbo.words import Understood, understand
from core.problems import Notice, Problem
from core.safety.prompts import Verdict, check, load_rules
from core.texts import Texts, texts
from core.ui import resources
from core.ui.job_panel import last_result
from core.ui.part3_model import model_now, models_here
from core.ui.pixels import shaped
from core.ui.visitor import Visitor, visitor

ACTIVITY = "make-images"
PROMPT, READY, MODEL = "part3-prompt", "part3-ready", "part3-model-choice"  # keys of widgets
SEED, COUNT, STEPS, PROMISE = "part3-seed", "part3-count", "part3-steps", "part3-promise"
REFUSED = "part3-refused"  # why the last wish was not taken
TYPING_PAUSE = "400ms"  # then a sentence is read while it is being typed
MOST_UNKNOWN = 4  # words shown that the model does not know
AT_ONCE_SECONDS = 0.15  # mini-turbo draws in less: worth a wait, and a tick less

# Ready-made sentences; the first of the reader's language is where a newcomer begins.
READY_PROMPTS: dict[str, dict[str, tuple[str, ...]]] = {
    MINI_TURBO: {
        "vi": ("giày đỏ trên nền trắng", "váy tím trên nền vàng", "số bảy trắng trên nền đen"),
        "en": (
            "a red sneaker on white",
            "a purple dress on yellow",
            "a blue bag on pink",
        ),
    },
    SD_TURBO: {
        "vi": ("một chú cáo trong rừng, tranh màu nước",),
        "en": (
            "a fox in a forest, watercolor",
            "laptop and coffee on a wooden desk, photo",
            "an astronaut reading a newspaper",
            "a security camera on a brick wall",
            "an invented young engineer in a server room",
        ),
    },
}


def ready_prompts(model: str, language: str) -> list[str]:
    """All ready-made sentences for a model, those in the reader's language first."""
    by_language = READY_PROMPTS[model]
    others = (name for name in by_language if name != language)
    return [prompt for name in (language, *others) for prompt in by_language[name]]


def judge(prompt: str) -> Verdict:
    return check(prompt, load_rules(resources.lab_settings()))


def admit(*prompts: str) -> None:
    """Judge sentences that are about to be sent, and count the decisions. Raises Problem."""
    verdicts = [judge(prompt) for prompt in prompts]
    kept = resources.lab_settings().keep_refused_prompts
    for prompt, verdict in zip(prompts, verdicts, strict=True):
        resources.records().count_decision(verdict, words=prompt if kept else None)
    for notice in (verdict.notice for verdict in verdicts):
        if notice is not None:
            raise Problem(notice.key, **notice.facts)


def take_up(me: Visitor, last: JobView | None, model: ImageModel | None) -> None:
    """Begin where this student was: their own last wish after a reload, else an example."""
    if me.prompt is not None:
        return
    me.prompt = ready_prompts(model.id if model else MINI_TURBO, me.language)[0]
    if last is None:
        return
    me.promised = True  # nobody has a job here who has not promised
    try:
        me.make_images = MakeImagesSettings.parse(last.settings)
    except Problem:  # from another version
        return
    me.prompt = me.make_images.prompt


@st.fragment
def draw_request(running: bool) -> None:
    """Sentence, verdict, what was understood, how many, and the button: redrawn while typing."""
    me = visitor()
    say = texts(me.language)
    model = model_now()
    # Set only where the widget is new: to set it while somebody types would undo their letters.
    if PROMPT not in st.session_state:
        st.session_state[PROMPT] = me.prompt or ""
    st.text_input(
        say("part3.prompt"),
        key=PROMPT,
        max_chars=PROMPT_CHARACTERS,
        placeholder=say("part3.prompt.placeholder"),
        on_change=_keep_prompt,
        live=TYPING_PAUSE,
        autocomplete="off",
    )
    _draw_ready(me, model, say)
    prompt = (me.prompt or "").strip()
    verdict = judge(prompt) if prompt else None
    knows_few_words = model is not None and model.id == MINI_TURBO
    understood = understand(prompt) if prompt and knows_few_words else None
    st.html(ruling_html(verdict, understood, say))
    with st.expander(say("part2.more")) if me.projector else st.container():
        _draw_numbers(me, model, say)
    if model is None:
        st.button(say("part3.run"), type="primary", icon=":material/brush:", disabled=True)
        st.caption(say("part3.none.button"))
        return
    if not me.promised:
        st.session_state[PROMISE] = False
        st.checkbox(say("part3.promise"), key=PROMISE, on_change=_promise)
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            say("part3.run"),
            key=f"run-{ACTIVITY}",
            type="primary",
            icon=":material/brush:",
            disabled=running or not me.promised or verdict is None or verdict.decision != "allow",
            on_click=_wish,
        )
        expected = expectation(me, say)
        if expected:
            st.caption(expected)
    if pressed:
        st.rerun()  # the whole page: the pictures stand beside this fragment
    refused: Notice | None = st.session_state.pop(REFUSED, None)
    if refused is not None:
        st.warning(say.notice(refused), icon=":material/info:")


# The sentence


def _draw_ready(me: Visitor, model: ImageModel | None, say: Texts) -> None:
    name = model.id if model else MINI_TURBO
    ready = ready_prompts(name, me.language)
    if me.projector:  # large letters: fewer of them leave room for the rest
        ready = ready[: len(READY_PROMPTS[name][me.language])]
    st.session_state[READY] = me.prompt if me.prompt in ready else None
    st.pills(say("part3.ready"), ready, key=READY, on_change=_take_ready)


def _take_ready() -> None:
    chosen = st.session_state[READY]
    if chosen is not None:  # a second click lets go of it: the sentence stays
        write(chosen)


def write(prompt: str) -> None:
    """Put this sentence into the box."""
    visitor().prompt = prompt
    st.session_state[PROMPT] = prompt


def _keep_prompt() -> None:
    visitor().prompt = st.session_state[PROMPT]


def ruling_html(verdict: Verdict | None, understood: Understood | None, say: Texts) -> str:
    """What the rules say of the sentence; where they allow it, what mini-turbo reads out of it."""
    if verdict is None:
        return _ruling("ask", html.escape(say("part3.verdict.empty")))
    notice = verdict.notice
    if notice is not None:
        return _ruling(verdict.decision, html.escape(say.notice(notice)))
    if understood is None:
        return _ruling(verdict.decision, html.escape(say("part3.verdict.allow")))
    return _ruling("ask" if understood.hint else "allow", understood_html(understood, say))


def _ruling(decision: str, inside: str) -> str:
    return f"<div class='lab-ruling {decision}' role='status'>{inside}</div>"


def understood_html(understood: Understood, say: Texts) -> str:
    """The words that mini-turbo knows, as chips; why it cannot be drawn as asked."""
    known = [
        ("object", ", ".join(understood.objects)),
        ("colour", understood.colour),
        ("background", understood.background),
        ("size", understood.size),
    ]
    chips = "".join(
        f"<span><b>{html.escape(say(f'part3.understood.{kind}'))}</b>{html.escape(word)}</span>"
        for kind, word in known
        if word
    )
    chips += "".join(
        f"<span class='unknown'><b>{html.escape(say('part3.understood.unknown'))}</b>"
        f"{html.escape(word)}</span>"
        for word in understood.unknown[:MOST_UNKNOWN]
    )
    chips += "".join(
        f"<span class='unknown'>{html.escape(typed)} → <b>{html.escape(read)}</b></span>"
        for typed, read in understood.corrected[:MOST_UNKNOWN]
    )
    told = html.escape(say("part3.understood"))
    hint = understood.hint
    why = f"<div>{html.escape(say.notice(hint))}</div>" if hint is not None else ""
    return f"<div class='lab-chips'>{told} {chips}</div>{why}"


# The numbers


def _draw_numbers(me: Visitor, model: ImageModel | None, say: Texts) -> None:
    here = models_here()
    if len(here) > 1 and model is not None:
        st.session_state[MODEL] = model.id
        st.segmented_control(
            say("part3.choose_model"), list(here), key=MODEL, required=True, on_change=_keep_model
        )
    limits = MakeImagesSettings.limits()
    st.session_state[SEED] = me.make_images.seed
    st.session_state[COUNT] = me.make_images.count
    count, seed, steps = st.columns([5, 4, 4], gap="medium", vertical_alignment="bottom")
    count.slider(
        say("part3.count"), limits["count"].low, limits["count"].high, key=COUNT, on_change=_keep
    )
    seed.number_input(
        say("part3.seed"),
        limits["seed"].low,
        limits["seed"].high,
        key=SEED,
        help=say("part3.seed.help"),
        on_change=_keep,
    )
    most = model.most_steps if model is not None else 1
    st.session_state[STEPS] = min(me.make_images.steps, most)
    steps.number_input(
        say("part3.steps"),
        1,
        max(most, 1),
        key=STEPS,
        help=say("part3.steps.help" if most > 1 else "part3.steps.one"),
        disabled=most == 1,
        on_change=_keep,
    )


def _keep() -> None:
    state = st.session_state
    _take(seed=state[SEED], count=state[COUNT], steps=state[STEPS])


def _take(**asked: Any) -> None:
    me = visitor()
    try:
        me.make_images = MakeImagesSettings.parse({**asdict(me.make_images), **asked})
    except Problem as problem:  # a forged widget value: the widget goes back to what was
        st.session_state[REFUSED] = problem.notice


def _keep_model() -> None:
    visitor().image_model = st.session_state[MODEL]


def _promise() -> None:
    visitor().promised = bool(st.session_state[PROMISE])


# The wish


def settings_now(me: Visitor, model: ImageModel) -> MakeImagesSettings:
    """What would be asked for now. Raises Problem, as for an empty sentence."""
    settings = me.make_images
    return MakeImagesSettings.parse(
        {
            "prompt": me.prompt or "",
            "seed": settings.seed,
            "count": settings.count,
            "steps": min(settings.steps, model.most_steps),
            "model": model.id,
        }
    )


def _wish() -> None:
    """The button was pressed: judge the sentence once more, count the decision, queue the job."""
    me, model = visitor(), model_now()
    if model is None or not me.promised:
        return
    try:
        settings = settings_now(me, model)
        admit(settings.prompt)
        job = resources.engine().submit(me.token, ACTIVITY, settings)
    except Problem as problem:
        st.session_state[REFUSED] = problem.notice
        return
    if any(view.state is JobState.DONE for view in resources.engine().jobs_of(me.token, ACTIVITY)):
        _wait(me, job)  # a worker holds the model, so the picture will be there in a moment


def _wait(me: Visitor, job: str) -> None:
    deadline = time.monotonic() + AT_ONCE_SECONDS
    while time.monotonic() < deadline:
        view = resources.engine().view(job, student=me.token)
        if view is None or view.state.over:
            return
        time.sleep(0.01)


def expectation(me: Visitor, say: Texts) -> str | None:
    """How long the last set took, as far as this student has drawn any."""
    last = last_result(ACTIVITY, resources.engine().latest(me.token, ACTIVITY))
    result = shaped(last.result, MakeImagesResult) if last is not None else None
    if result is None or not result.images:
        return None
    took = max(image.seconds for image in result.images)
    return say.count("part3.expected", len(result.images), took=took)
