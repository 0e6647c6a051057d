"""Part 6, the right-hand rule: five fingers, five rules, and a question on each."""

from __future__ import annotations

import html
from dataclasses import dataclass

import streamlit as st

from core.texts import Texts
from core.ui import resources
from core.ui.visitor import visitor


@dataclass(frozen=True, slots=True)
class Finger:
    """One rule. Its words are `part6.hand.<id>...`, `question.hand.<id>`, `answer.hand.<id>...`."""

    id: str
    choices: tuple[str, ...]  # as they are shown
    right: str

    @property
    def question(self) -> str:
        return f"hand.{self.id}"


FINGERS = (
    Finger("thumb", ("lighter", "output", "sharper"), "output"),
    Finger("index", ("pixels", "weak", "any_noise"), "pixels"),
    Finger("middle", ("train", "cpu", "ready"), "ready"),
    Finger("ring", ("clock", "wait", "percent"), "wait"),
    Finger("little", ("look", "detector", "channel"), "channel"),
)


def draw_hand(say: Texts) -> None:
    """The hand, then a card for each finger, from the thumb on."""
    answers = answers_of(resources.records().guesses_of(visitor().token))
    picture, words = st.columns([1, 3], gap="large", vertical_alignment="center")
    picture.html(hand_html(answers, say))
    with words:
        st.markdown(say.prose("part6/hand"))
        answered = [finger for finger in FINGERS if answers[finger.id] is not None]
        right = sum(answers[finger.id] == finger.right for finger in answered)
        st.progress(
            len(answered) / len(FINGERS),
            text=say("part6.hand.score", answered=len(answered), all=len(FINGERS), right=right),
        )
    for number, finger in enumerate(FINGERS):
        with st.container(border=True, key=f"p6-finger-{finger.id}"):
            _draw_finger(finger, number, answers[finger.id], say)


def answers_of(kept: dict[str, str]) -> dict[str, str | None]:
    """Finger -> its answer among a student's; None before, and where it is no choice any more."""
    answers = {finger.id: kept.get(finger.question) for finger in FINGERS}
    return {f.id: answers[f.id] if answers[f.id] in f.choices else None for f in FINGERS}


def _draw_finger(finger: Finger, number: int, answer: str | None, say: Texts) -> None:
    rule, quiz = st.columns(2, gap="large")
    rule.html(rule_html(finger, number, say))
    with quiz:
        key = f"hand-{finger.id}-{visitor().lives}"
        st.session_state[key] = answer
        st.radio(
            f"**{say(f'question.hand.{finger.id}')}**",
            finger.choices,
            key=key,
            format_func=lambda choice: say(f"answer.hand.{finger.id}.{choice}"),
            on_change=_answer,
            args=(finger, key),
        )
        if answer is not None:
            why = say(f"part6.hand.{finger.id}.why")
            if answer == finger.right:
                st.success(f"**{say('part6.hand.right')}** {why}", icon=":material/check_circle:")
            else:
                st.warning(f"**{say('part6.hand.wrong')}** {why}", icon=":material/lightbulb:")


def _answer(finger: Finger, key: str) -> None:
    choice = st.session_state[key]
    if choice in finger.choices:
        resources.records().answer(visitor().token, finger.question, choice)


def rule_html(finger: Finger, number: int, say: Texts) -> str:
    """The finger lit on a small hand, its rule, what to ask, where it was met, what it costs."""
    lines = "".join(
        f"<dt>{html.escape(say(f'part6.hand.{name}'))}</dt>"
        f"<dd>{html.escape(say(f'part6.hand.{finger.id}.{name}'))}</dd>"
        for name in ("ask", "lab", "forgotten")
    )
    lit = ["lit" if place == number else "" for place in range(len(FINGERS))]
    return (
        f"<div class='p6-rule f{number}'>{_fingers_html(lit)}<div>"
        f"<small>{number + 1} · {html.escape(say(f'part6.hand.{finger.id}.name'))}</small>"
        f"<h4>{html.escape(say(f'part6.hand.{finger.id}.rule'))}</h4><dl>{lines}</dl></div></div>"
    )


def hand_html(answers: dict[str, str | None], say: Texts) -> str:
    """The whole hand: a finger is green when its question was answered right, else orange."""
    kinds = [_kind(finger, answers[finger.id]) for finger in FINGERS]
    return f"<div class='p6-whole'>{_fingers_html(kinds, alt=say('part6.hand.alt'))}</div>"


def _kind(finger: Finger, answer: str | None) -> str:
    if answer is None:
        return ""
    return "right" if answer == finger.right else "wrong"


def _fingers_html(kinds: list[str], alt: str = "") -> str:
    """A right hand seen from its back, drawn by the style sheet; a class for each finger."""
    fingers = "".join(f"<i class='{kind}'><b>{n}</b></i>" for n, kind in enumerate(kinds, start=1))
    role = f"role='img' aria-label='{html.escape(alt, quote=True)}'" if alt else "aria-hidden=true"
    return f"<div class='p6-hand' {role}>{fingers}<u></u></div>"
