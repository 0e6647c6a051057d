"""Part 4, defences: which stop the attack, at what price, and what an attacker does who knows."""

from __future__ import annotations

import html

import streamlit as st

from core.activities.attack import DefenceOutcome, DefencesResult, DefencesSettings
from core.engine.view import JobState, JobView
from core.texts import Texts, texts
from core.ui.job_panel import current_job, job_panel, last_result, run_button
from core.ui.part4_fool import draw_meter
from core.ui.part4_subject import (
    NETWORKS,
    draw_refusal,
    draw_slider,
    name_in,
    name_of,
    networks_here,
    pictures_of,
    ready,
    require_picture,
    subject_html,
    with_subject,
)
from core.ui.pixels import data_url, shaped
from core.ui.visitor import visitor

ACTIVITY = "defences"
KNOWS = "part4-knows"  # key of a widget
# Setting -> what its slider shows: the unit, and how many of it one step of the setting is.
SLIDERS = {
    "jpeg_quality": ("", 1.0),
    "resize_percent": ("%", 1.0),
    "blur_tenths": (" px", 0.1),
    "noise_255": ("/255", 1.0),
    "votes": ("", 1.0),
    "bits": ("", 1.0),
}


def draw_defences(say: Texts) -> None:
    """The tab: six defences with their sliders, how each does, and then the attacker who knows."""
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    words, controls = st.columns([2, 3], gap="large")
    with words:
        st.markdown(say.prose("part4/defences"))
    with controls, st.container(border=True):
        _draw_controls(job, say)
    if job is not None and job.state is not JobState.DONE:
        job_panel(ACTIVITY, job)
    values = shaped(result.result, DefencesResult) if result is not None else None
    if result is not None and values is not None and (job is None or job.state.over):
        st.header(say("part4.defences.result"), divider="blue")
        st.fragment(_draw_outcomes)(values, pictures_of(result), result.settings.get("votes", 0))
        st.markdown(say.prose("part4/defences-read"))
        draw_meter(result, say)
        st.caption(
            say(
                "part4.defences.measured_on",
                device=values.device_name,
                network=NETWORKS.get(values.model, values.model),
                epsilon=values.epsilon,
                steps=values.steps,
            )
        )


def _draw_controls(job: JobView | None, say: Texts) -> None:
    me = visitor()
    st.html(subject_html(say))
    grid = st.grid(3, min_column_width=140)
    for name, (unit, scale) in SLIDERS.items():
        with grid.cell():
            draw_slider("defences", name, say, unit=unit, scale=scale)
    draw_refusal(say)
    if not networks_here():
        st.caption(say("part4.no_network.button"))
    elif not ready(me):
        st.caption(say("part4.own.first"))
    else:
        run_button(ACTIVITY, settings_now(), job, admit=require_picture)


def settings_now() -> DefencesSettings:
    """The sliders of this tab, on the attack of the first tab."""
    me = visitor()
    settings: DefencesSettings = with_subject(me.defences)
    return type(settings).parse(
        {
            **{name: getattr(settings, name) for name in settings.rules()},
            "epsilon": me.attack.epsilon,
            "steps": me.attack.steps,
        }
    )


# How each does


def _draw_outcomes(values: DefencesResult, pictures: dict[str, bytes], votes: int) -> None:
    say = texts(visitor().language)
    stopped = sum(not one.survives for one in values.outcomes[1:])
    fell = sum(one.adaptive_fooled for one in values.outcomes[1:])
    knows = st.toggle(say("part4.knows"), key=KNOWS, help=say("part4.knows.help"))
    st.html(
        f"<p class='p4-score {'fallen' if knows else ''}' role='status'>"
        + html.escape(
            say(
                "part4.defences.fell" if knows else "part4.defences.stopped",
                some=fell if knows else stopped,
                all=len(values.outcomes) - 1,
            )
        )
        + "</p>"
    )
    cards = "".join(
        _card_html(one, pictures.get(one.name), votes, say, knows=bool(knows))
        for one in values.outcomes[1:]
    )
    st.html(f"<div class='p4-cards'>{cards}</div>")
    with st.expander(say("part4.defences.table"), icon=":material/table:"):
        st.html(outcomes_html(values, votes, say))


def title_of(one: DefenceOutcome, votes: int, say: Texts) -> str:
    """`JPEG · quality 75`."""
    name = say(f"attack.defence.{one.name}")
    amount = f"part4.amount.{one.name}"
    return f"{name} · {say(amount, amount=one.amount, votes=votes)}" if say.has(amount) else name


def _card_html(
    one: DefenceOutcome, png: bytes | None, votes: int, say: Texts, *, knows: bool
) -> str:
    lost = one.adaptive_fooled if knows else one.survives
    if knows:
        verdict = "fell" if lost else "holds"
        line = say(
            f"part4.defence.{verdict}.line",
            epsilon=one.adaptive_epsilon,
            belief=say.percent(100 * one.adaptive_confidence, digits=1),
            name=name_in(one.adaptive_guess, say),
        )
    else:
        verdict = "survives" if lost else "repaired" if one.repaired else "stopped"
        line = say("part4.defence.sees", name=name_of(one.guess_class, say))
    cost = say("part4.defence.cost", right=one.right, clean=one.clean)
    shown = f"<img src='{data_url(png)}' alt=''>" if png and not knows else ""
    return (
        f"<div class='p4-card {'lost' if lost else 'won'}'>{shown}<div>"
        f"<h4>{html.escape(title_of(one, votes, say))}</h4>"
        f"<b>{html.escape(say(f'part4.defence.{verdict}'))}</b>"
        f"<p>{html.escape(line)}</p><small>{html.escape(cost)}</small></div></div>"
    )


def outcomes_html(values: DefencesResult, votes: int, say: Texts) -> str:
    """All figures: the ordinary attack, the price on clean pictures, the attacker who knows."""
    columns = ("defence", "survives", "guess", "belief", "repaired", "cost", "adaptive", "strength")
    head = "".join(
        f"<th scope='col'>{html.escape(say(f'part4.defences.column.{name}'))}</th>"
        for name in columns
    )
    body = ""
    for one in values.outcomes:
        plain = one.name == "none"
        cells = (
            say("part4.yes" if one.survives else "part4.no"),
            name_of(one.guess_class, say),
            say.percent(100 * one.confidence, digits=1),
            say("part4.yes" if one.repaired else "part4.no"),
            say("part4.of", some=one.right, all=one.clean),
            "" if plain else say("part4.yes" if one.adaptive_fooled else "part4.no"),
            "" if plain else f"{say.number(one.adaptive_epsilon)}/255",
        )
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        title = html.escape(title_of(one, votes, say))
        body += f"<tr><th scope='row'>{title}</th>{row}</tr>"
    return (
        f"<div class='lab-table'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
