"""Part 5b, two sides: what an attacker makes of each part of the lab, and what a SOC answers."""

from __future__ import annotations

import html

import streamlit as st

from core.texts import Texts

# Each row of the lesson, and the pages of the lab that it rests on.
ROWS: dict[str, tuple[str, ...]] = {
    "deepfake": ("pictures_from_words",),
    "noise": ("fool_the_classifier",),
    "habits": ("cpu_or_gpu", "watch_it_learn"),
    "mining": ("cpu_or_gpu", "feed_the_gpu", "what_did_it_cost"),
    "running": ("feed_the_gpu", "pictures_from_words"),
}
NO_ATTACKER = "running"


def draw_rows(say: Texts) -> None:
    """Five rows; the SOC's side is opened one by one, or all at once for a projector."""
    words, switch = st.columns([4, 2], vertical_alignment="center")
    words.markdown(say.prose("part5b/rows"))
    with switch:
        everything = st.toggle(say("part5b.rows.open_all"), key="soc-open-all")
    for name in ROWS:
        with st.container(border=True):
            _draw_row(name, say, opened=everything)


def _draw_row(name: str, say: Texts, *, opened: bool) -> None:
    attacker, soc = st.columns(2, gap="medium")
    attacker.html(attacker_html(name, say))
    with soc:
        # Another key when all are opened: a box keeps what was done to it by hand.
        with st.expander(
            say("part5b.rows.soc"),
            expanded=opened,
            icon=":material/shield:",
            key=f"soc-row-{name}-{opened}",
        ):
            st.markdown(say(f"part5b.row.{name}.soc"))
        with st.container(horizontal=True, gap="small"):
            for page in ROWS[name]:
                st.page_link(f"pages/{page}.py", label=say(f"shell.page.{page}"))


def attacker_html(name: str, say: Texts) -> str:
    """The left half of a row: which part, what it is about, and the attacker's side of it."""
    kind = " none" if name == NO_ATTACKER else ""
    part, title, attacker = (
        html.escape(say(f"part5b.row.{name}.{what}")) for what in ("part", "title", "attacker")
    )
    who = "" if kind else f"<span class='who'>{html.escape(say('part5b.rows.attacker'))}</span>"
    return (
        f"<div class='soc-card{kind}'><small>{part}</small><h4>{title}</h4>"
        f"<p>{who}{attacker}</p></div>"
    )
