"""One gate opened: what was found, what to do, the evidence, and what it is for."""

from __future__ import annotations

import html

import streamlit as st
from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

from core.preflight.evidence import DATASET, rows_of, spec_of
from core.preflight.export import figures_html, picture_html, table_html
from core.preflight.gate import Colour, Curve, Figure, Gate, Outcome, Picture, Table
from core.texts import Texts
from core.ui.visitor import visitor

ICONS = {
    Colour.GREEN: ":material/check_circle:",
    Colour.AMBER: ":material/warning:",
    Colour.RED: ":material/dangerous:",
    Colour.NOT_JUDGED: ":material/help:",
}
INKS = {
    Colour.GREEN: "green",
    Colour.AMBER: "orange",
    Colour.RED: "red",
    Colour.NOT_JUDGED: "gray",
}
DARK_ICON = ":material/radio_button_unchecked:"


def inked(colour: Colour, word: str) -> str:
    """A word in the ink of its light, for the label of a widget."""
    return f":{INKS[colour]}[**{word}**]"


def opened(label: str, icon: str, key: str) -> ExpanderContainer:
    """An expander that stays as it was when its label changes, as with each new run."""
    st.session_state[key] = key in visitor().preflight_open
    return st.expander(label, icon=icon, key=key, on_change=_keep_open, args=(key,))


def _keep_open(key: str) -> None:
    open_now = visitor().preflight_open
    (open_now.add if st.session_state[key] else open_now.discard)(key)


def draw_outcome(outcome: Outcome, say: Texts) -> None:
    """Message, hint and evidence of a gate, or of a demonstration."""
    st.html(said_html(outcome, say))
    figures = [piece for piece in outcome.evidence if isinstance(piece, Figure)]
    if figures:
        st.html(figures_html(figures, say))
    for piece in outcome.evidence:
        match piece:
            case Table():
                title = html.escape(say(piece.title))
                st.html(f"<h4 class='pf-part'>{title}</h4>{table_html(piece, say)}")
            case Curve():
                draw_curve(piece, say)
            case Picture():
                st.html(f"<div class='pf-picture'>{picture_html(piece, say)}</div>")
            case Figure():
                pass


def said_html(outcome: Outcome, say: Texts) -> str:
    hint = ""
    if outcome.hint is not None:
        todo, text = html.escape(say("preflight.hint")), html.escape(say.notice(outcome.hint))
        hint = f"<p class='pf-hint'><b>{todo}</b> {text}</p>"
    message = html.escape(say.notice(outcome.message))
    return f"<div class='pf-said {outcome.colour}'><p>{message}</p>{hint}</div>"


def draw_curve(curve: Curve, say: Texts) -> None:
    spec = spec_of(curve, say, projector=visitor().projector)
    lines = ", ".join(say(line) for line in curve.lines)
    told = say("preflight.curve.alt", title=say(curve.title), x=say(curve.x), lines=lines)
    st.vega_lite_chart({**spec, "datasets": {DATASET: rows_of(curve, say)}}, alt=told)


def about_html(gate: Gate, outcome: Outcome | None, say: Texts) -> str:
    """What the gate looks at, what is lost without it, what it needs, and its time."""
    facts = [
        (say("preflight.checks"), say(f"gate.{gate.id}.checks")),
        (say("preflight.skipped"), say(f"gate.{gate.id}.skipped")),
    ]
    if gate.needs:
        needs = ", ".join(say(f"gate.need.{need}") for need in gate.needs)
        facts.append((say("preflight.needs"), needs))
    told = "".join(f"<dt>{html.escape(n)}</dt><dd>{html.escape(v)}</dd>" for n, v in facts)
    return f"<dl class='pf-about'>{told}</dl>{_time_html(gate, outcome, say)}"


def _time_html(gate: Gate, outcome: Outcome | None, say: Texts) -> str:
    """The time that it took as a bar against its budget."""
    if outcome is None:
        told = html.escape(say("preflight.budget", budget=gate.budget_seconds))
        return f"<p class='pf-time'>{told}</p>"
    share = outcome.seconds / outcome.budget_seconds
    over = " over" if share > 1 else ""
    told = say("preflight.took", seconds=outcome.seconds, budget=outcome.budget_seconds)
    return (
        f"<p class='pf-time{over}'>{html.escape(told)}"
        f"<span><i style='width: {min(1.0, share):.0%}'></i></span></p>"
    )
