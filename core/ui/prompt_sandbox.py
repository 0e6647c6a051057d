"""Where students try to get past the prompt check. Nothing is drawn, nothing is kept or counted."""

from __future__ import annotations

import html
from pathlib import Path

import streamlit as st

from core.activities.make_images import PROMPT_CHARACTERS
from core.safety import spelling
from core.safety.prompts import Rules, Verdict, check, load_rules
from core.texts import Texts
from core.ui import resources
from core.ui.visitor import visitor

STYLE = Path(__file__).with_name("sandbox.css")
BOX, TRICKS = "sandbox-text", "sandbox-trick"
TRICK_NAMES = (
    "plain",
    "spaces",
    "look_alikes",
    "invisible",
    "leet",
    "no_accents",
    "innocent",
    "description",
)


@st.fragment
def prompt_sandbox(say: Texts) -> None:
    """The box, the verdict on what is in it, and how the check came to it."""
    me = visitor()
    rules = load_rules(resources.lab_settings())
    st.html(STYLE)
    st.subheader(say("safety.sandbox.title"))
    st.markdown(say("safety.sandbox.intro"))
    if rules.notice is not None and me.teacher:
        st.warning(say.notice(rules.notice), icon=":material/rule:")
    tricks = {say(f"safety.trick.{name}"): say(f"safety.trick_text.{name}") for name in TRICK_NAMES}
    st.pills(
        say("safety.sandbox.tricks"),
        list(tricks),
        key=TRICKS,
        on_change=_take_trick,
        args=(tricks,),
    )
    st.text_input(
        say("safety.sandbox.box"),
        key=BOX,
        max_chars=PROMPT_CHARACTERS,
        placeholder=say("safety.sandbox.box.placeholder"),
        on_change=_let_go_of_trick,
    )
    prompt = st.session_state[BOX]
    if any(map(str.isalnum, prompt)):
        _draw_try(prompt, rules, say)
    with st.expander(say("safety.sandbox.lesson"), icon=":material/lightbulb:"):
        st.markdown(say.prose("safety/lesson"))


def _take_trick(tricks: dict[str, str]) -> None:
    chosen = tricks.get(st.session_state[TRICKS] or "")
    if chosen is not None:  # a second click lets go of it: the sentence stays
        st.session_state[BOX] = chosen


def _let_go_of_trick() -> None:
    st.session_state[TRICKS] = None


def _draw_try(prompt: str, rules: Rules, say: Texts) -> None:
    tries = visitor().sandbox_tries
    verdict = check(prompt, rules)
    tries[prompt] = verdict.allowed
    if verdict.notice is None:
        st.success(say("safety.sandbox.through"), icon=":material/lock_open:")
    else:
        caught = say("safety.sandbox.caught", step=f"safety.step.{verdict.step}")
        st.error(f"**{caught}** {_plain(say.notice(verdict.notice))}", icon=":material/block:")
    st.caption(say.count("safety.sandbox.score", sum(tries.values()), tries=len(tries)))
    st.html(steps_html(verdict, say))


def _plain(text: str) -> str:
    """A sentence in markdown, with the teacher's own phrases in it as they are."""
    return "".join("\\" + c if c in "\\`*_[]<>$:~#" else c for c in text)


def steps_html(verdict: Verdict, say: Texts) -> str:
    """What each step made of the sentence, up to the one after which a rule knew its words."""
    rows: list[str] = []
    before: str | None = None  # what was typed differs from nothing
    for step in verdict.steps:
        caught = step.name == verdict.step
        look = "caught" if caught else "same" if step.text == before else "changed"
        if look == "same":
            note = f"<em>{html.escape(say('safety.sandbox.same'))}</em>"
        else:
            note = f"<code>{shown_html(step.text)}</code>"
        badge = f" · {html.escape(say('safety.sandbox.here'))}" if caught else ""
        rows.append(
            f"<li class='{look}'><div><b>{html.escape(say(f'safety.step.{step.name}'))}{badge}</b>"
            f"<small>{html.escape(say(f'safety.step_help.{step.name}'))}</small></div>"
            f"<div>{note}</div></li>"
        )
        before = step.text
        if caught:
            break
    return f"<ol class='lab-steps'>{''.join(rows)}</ol>"


def shown_html(text: str) -> str:
    """Text with what nobody sees made visible, as ⟨U+200B⟩; direction marks turn nothing round."""
    return "".join(
        f"<mark>U+{ord(c):04X}</mark>"
        if spelling.is_hidden(c) and not c.isspace()
        else html.escape(c)
        for c in text
    )
