"""Part 4, transfer: does a picture that fools one network fool another that nobody attacked?"""

from __future__ import annotations

import html

import streamlit as st

from core.activities.attack import TransferCell, TransferResult
from core.engine.view import JobState, JobView
from core.texts import Texts
from core.ui.job_panel import current_job, job_panel, last_result
from core.ui.part4_fool import draw_meter
from core.ui.part4_subject import NETWORKS, name_in, name_of, networks_here, pictures_of
from core.ui.part4_sweep import draw_run, heat
from core.ui.pixels import data_url, shaped

ACTIVITY = "transfer"


def draw_transfer(say: Texts) -> None:
    """The tab: the question, the button, the table."""
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    words, controls = st.columns([3, 2], gap="large")
    words.markdown(say.prose("part4/transfer"))
    with controls, st.container(border=True):
        if len(networks_here()) > 1:
            draw_run(ACTIVITY, "transfer", ("epsilon", "steps"), job, say)
        else:
            st.caption(say("problem.transfer_needs_two"))
    if job is not None and job.state is not JobState.DONE:
        job_panel(ACTIVITY, job)
    if result is not None and (job is None or job.state.over):
        _draw_result(result, say)


def _draw_result(job: JobView, say: Texts) -> None:
    values = shaped(job.result, TransferResult)
    if values is None or not values.cells:
        return
    target = name_of(values.target, say)
    st.header(say("part4.transfer.result", target=target), divider="blue")
    st.html(table_html(values, pictures_of(job), say))
    st.caption(say("part4.transfer.legend"))
    st.markdown(say(f"part4.transfer.{lesson(values)}", target=target))
    st.markdown(say.prose("part4/transfer-read"))
    draw_meter(job, say)
    st.caption(
        say(
            "part4.transfer.measured_on",
            device=values.device_name,
            epsilon=values.epsilon,
            steps=values.steps,
        )
    )


def lesson(values: TransferResult) -> str:
    """What the cells off the diagonal say: "carries", "misleads" or "stays"."""
    strangers = [cell for cell in values.cells if cell.judged_by not in cell.made_for]
    if any(cell.fooled for cell in strangers):
        return "carries"
    return "misleads" if any(cell.misled for cell in strangers) else "stays"


def table_html(values: TransferResult, pictures: dict[str, bytes], say: Texts) -> str:
    """One row a picture, by the networks it was made for; one column a network that judges it."""
    head = "".join(
        f"<th scope='col'>{html.escape(say('part4.transfer.judge', network=_named(name)))}"
        f"<small>{html.escape(_before(values, place, say))}</small></th>"
        for place, name in enumerate(values.models)
    )
    body = ""
    for made_for in dict.fromkeys(cell.made_for for cell in values.cells):
        png = pictures.get("+".join(made_for))
        shown = f"<img src='{data_url(png)}' alt=''>" if png else ""
        names = " + ".join(map(_named, made_for))
        cells = "".join(_cell_html(cell, say) for cell in values.cells if cell.made_for == made_for)
        body += (
            f"<tr><th scope='row'><div>{shown}"
            f"<span>{html.escape(names)}</span></div></th>"
            f"{cells}</tr>"
        )
    corner = html.escape(say("part4.transfer.corner"))
    return (
        "<div class='lab-table p4-heat p4-transfer'><table><thead><tr>"
        f"<th scope='col'>{corner}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _named(network: str) -> str:
    return NETWORKS.get(network, network)


def _before(values: TransferResult, place: int, say: Texts) -> str:
    name, belief = values.before[place]
    return say("part4.transfer.before", name=name_in(name, say), belief=say.percent(100 * belief))


def _cell_html(cell: TransferCell, say: Texts) -> str:
    verdict = "fooled" if cell.fooled else "misled" if cell.misled else "right"
    belief = say.percent(100 * cell.confidence, digits=1)
    own = " own" if cell.judged_by in cell.made_for else ""
    return (
        f"<td class='{verdict}{own}' style='{heat(cell.confidence)}'>"
        f"<b>{html.escape(say(f'part4.transfer.cell.{verdict}'))}</b>"
        f"<span>{html.escape(name_of(cell.guess_class, say))}</span>"
        f"<small>{html.escape(say('part4.transfer.belief', belief=belief))}</small></td>"
    )
