"""Part 0: the data, and the machine that the lab runs on."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

import streamlit as st

from core.data.digits import Digits
from core.problems import Problem
from core.telemetry.machine import list_gpus
from core.telemetry.readings import Gpu
from core.texts import Texts, texts
from core.ui import charts, resources
from core.ui.gauges import now
from core.ui.visitor import visitor

FIRST_DIGITS = 10


def draw() -> None:
    """The whole page."""
    me = visitor()
    say = texts(me.language)
    charts.draw_style()
    st.title(say("part0.title"))
    st.badge(say("part0.badge"), icon=":material/pin_drop:", color="blue")
    st.markdown(say.prose("part0/why-generative"))
    st.header(say("part0.machine.title"))
    _draw_machine(say)
    st.header(say("part0.data.title"))
    loading = not resources.digits().done()
    st.fragment(_draw_digits, run_every=1.0 if loading else None)(loading)
    st.subheader(say("part0.questions.title"))
    with st.container(border=True):
        st.markdown(say.prose("part0/questions"))


# The machine


def _draw_machine(say: Texts) -> None:
    computer, gpus = resources.machine(), gpus_now()
    tiles = [
        tile(
            say("part0.cpu"),
            say.count("part0.threads", resources.lab_settings().cpu_threads),
            [computer.cpu, say.count("part0.cores", computer.cores)],
        ),
        tile(say("part0.ram"), say.mib(computer.ram_mib), [_host_load(say)]),
        *(gpu_tile(gpu, say, in_use=gpu.uuid in resources.engine().gpu_uuids()) for gpu in gpus),
    ]
    if not gpus:
        tiles.append(no_gpu_tile(computer.gpu_absence, say))
    st.html(f"<div class='lab-tiles'>{''.join(tiles)}</div>")
    left, right = st.columns(2) if not gpus else (st.container(), None)
    left.markdown(say.prose("part0/threads"))
    if right is not None:
        right.markdown(say.prose("part0/no-gpu"))


@st.cache_resource(ttl=2.0, show_spinner=False)
def gpus_now() -> tuple[Gpu, ...]:
    """The cards as they are; asked at most every two seconds, however many students look."""
    return list_gpus()[0]


def _host_load(say: Texts) -> str:
    load = now(resources.host_meter().history, "host_cpu_percent")
    if load is None:
        return say("part0.host_cpu_unknown")
    return say("part0.host_cpu", load=load, ceiling=100 * resources.machine().cores)


def gpu_tile(gpu: Gpu, say: Texts, *, in_use: bool) -> str:
    """One card: its memory, how much is free, how busy it is; absent values in words."""
    return tile(
        say("part0.gpu"),
        _or_why(gpu.total_mib, "total_mib", gpu, say, say.mib(gpu.total_mib)),
        [
            gpu.name,
            say(
                "part0.gpu.free",
                free=_or_why(gpu.free_mib, "free_mib", gpu, say, say.mib(gpu.free_mib)),
            ),
            say(
                "part0.gpu.busy",
                busy=_or_why(
                    gpu.busy_percent, "busy_percent", gpu, say, say.percent(gpu.busy_percent)
                ),
            ),
            *([] if in_use else [say("part0.gpu.not_used")]),
        ],
    )


def _or_why(value: float | None, field: str, gpu: Gpu, say: Texts, text: str) -> str:
    reason = gpu.absences.reasons.get(field)
    return text if value is not None or reason is None else f"{text} ({say(reason)})"


def no_gpu_tile(reason: str | None, say: Texts) -> str:
    return tile(
        say("part0.gpu"), say("part0.gpu.none"), [say(reason)] if reason else [], quiet=True
    )


def tile(name: str, value: str, lines: Sequence[str] = (), *, quiet: bool = False) -> str:
    """A card of one big figure, as HTML."""
    small = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    kind = "lab-gauge quiet" if quiet else "lab-gauge"
    return (
        f"<div class='{kind}'><div class='name'>{html.escape(name)}</div>"
        f"<div class='value'>{html.escape(value)}</div><div class='lines'>{small}</div></div>"
    )


# The digits


def _draw_digits(loading: bool) -> None:
    me = visitor()
    say = texts(me.language)
    future = resources.digits()
    if not future.done():
        st.info(say("part0.digits.loading"), icon=":material/hourglass_top:")
        return
    if loading:
        st.rerun()  # a last full run, which ends the ticking
    problem = future.exception()
    if problem is not None:
        told = say.notice(problem.notice) if isinstance(problem, Problem) else ""
        st.error(told or say("part0.digits.failed"), icon=":material/error:")
        return
    data = future.result()
    st.markdown(say("part0.digits.source", source=say(f"data.source.{data.source}")))
    for notice in data.notices:
        st.warning(say.notice(notice), icon=":material/info:")
    st.html(digits_html(data, say))
    facts = data.facts
    tiles = [
        tile(say("part0.shape"), str(facts.shape)),
        tile(say("part0.count"), say.number(facts.count)),
        tile(say("part0.before"), f"{facts.low} … {facts.high}"),
        tile(
            say("part0.after"),
            f"{_signed(facts.scaled_low, say)} … {_signed(facts.scaled_high, say)}",
        ),
    ]
    st.html(f"<div class='lab-tiles facts'>{''.join(tiles)}</div>")
    st.caption(say("part0.scaling"))


def digits_html(data: Digits, say: Texts) -> str:
    """The first digits in file order, each with its label above it."""
    figures = "".join(
        f"<figure><figcaption>{label}</figcaption>"
        f"<img src='data:image/png;base64,{base64.b64encode(png).decode('ascii')}' "
        f"alt='{html.escape(say('part0.digit.alt', label=int(label)), quote=True)}'></figure>"
        for png, label in zip(data.pictures(FIRST_DIGITS), data.labels[:FIRST_DIGITS], strict=True)
    )
    return f"<div class='lab-digits'>{figures}</div>"


def _signed(value: float, say: Texts) -> str:
    return say.number(value, digits=0).replace("-", "\N{MINUS SIGN}")
