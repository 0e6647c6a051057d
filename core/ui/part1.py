"""Part 1: the same GAN steps on two processors, measured live and said honestly."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
import streamlit as st

from core.activities import CpuVsGpuResult, CpuVsGpuSettings
from core.engine.view import JobView
from core.problems import Notice, Problem
from core.recordings import Replay
from core.telemetry.readings import Recording, SummaryRow
from core.texts import Texts, texts
from core.ui import charts, replays, resources
from core.ui.diagrams import gan_loop
from core.ui.job_panel import about, card_of, current_job, job_panel, last_result, run_button
from core.ui.panels import Host
from core.ui.visitor import visitor

ACTIVITY = "cpu-vs-gpu"
SLIDER = "part1-steps"
BUSY_PERCENT = 50.0  # of a core, taken by others: more than this server and one browser need


def draw() -> None:
    """The whole page."""
    me = visitor()
    say = texts(me.language)
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    charts.draw_style()
    st.title(say("part1.title"))
    st.badge(say("part1.badge"), icon=":material/pin_drop:", color="blue")
    above, below = st.container(), st.container()
    running = job is not None and not job.state.over
    with below if running else above:
        prose, controls = st.columns([3, 2], gap="large")
        with prose:
            st.markdown(say.prose("part1/intro"))
        with controls, st.container(border=True):
            _draw_controls(say, job, result)
    with above if running else below:  # while it runs, the gauges are what the class looks at
        job_panel(ACTIVITY, job)
    if result is None or running:
        _draw_loop(say)
        _draw_replays(say)
    else:
        _draw_own_result(result, say, earlier=result is not job)
        _draw_replays(say)
        _draw_loop(say)


# Settings


def _draw_controls(say: Texts, job: JobView | None, result: JobView | None) -> None:
    me = visitor()
    notice = take_settings_from_address()
    if notice is not None:
        kept = say("part1.default_kept", steps=me.cpu_vs_gpu.steps)
        st.warning(f"{say.notice(notice)} {kept}", icon=":material/info:")
    limit = CpuVsGpuSettings.limits()["steps"]
    # The widget's state is lost when the page is left; what lasts is the visitor's.
    st.session_state[SLIDER] = me.cpu_vs_gpu.steps
    st.slider(
        say("part1.steps"),
        limit.low,
        limit.high,
        step=limit.step,
        key=SLIDER,
        help=say("part1.steps.help"),
        on_change=_keep_steps,
    )
    expected = expected_seconds(result, me.cpu_vs_gpu, has_gpu=bool(resources.engine().gpu_uuids()))
    if expected is not None:
        st.caption(say("part1.expected", seconds=about(expected, say)))
    with st.container(horizontal=True, vertical_alignment="center"):
        run_button(ACTIVITY, me.cpu_vs_gpu, job)
        with st.popover(say("part1.share"), icon=":material/share:"):
            st.caption(say("part1.share.help"))
            st.code(share_link(st.context.url or "", me.cpu_vs_gpu), language=None)


def take_settings_from_address() -> Notice | None:
    """Use `?steps=80` of a shared link; if it names what cannot be, keep what was and say why."""
    me = visitor()
    asked = {
        name: st.query_params[name] for name in CpuVsGpuSettings.limits() if name in st.query_params
    }
    if not asked:
        return None
    try:
        me.cpu_vs_gpu = CpuVsGpuSettings.parse({**msgspec.structs.asdict(me.cpu_vs_gpu), **asked})
    except Problem as problem:
        return problem.notice
    return None


def _keep_steps() -> None:
    """The slider has moved: remember it, and let the address name it, so that a reload keeps it."""
    me = visitor()
    steps = st.session_state[SLIDER]
    try:
        me.cpu_vs_gpu = CpuVsGpuSettings(steps=steps, seed=me.cpu_vs_gpu.seed)
    except Problem:  # a forged widget value: the slider goes back to what was
        return
    st.query_params["steps"] = str(steps)


def share_link(address: str, settings: CpuVsGpuSettings) -> str:
    """The page's address with these settings and nothing else: no name, no token."""
    scheme, host, path, _, _ = urlsplit(address)
    return urlunsplit((scheme, host, path, urlencode({"steps": settings.steps}), ""))


def expected_seconds(
    result: JobView | None, settings: CpuVsGpuSettings, *, has_gpu: bool
) -> float | None:
    """How long both runs will take, from the steps of an earlier result on this kind of machine."""
    values = read_result(result.result) if result is not None else None
    if result is None or values is None or values.steps == 0:
        return None
    if has_gpu != ("gpu" in values.sections):
        return None
    return float(round(sum(row.seconds for row in result.rows) / values.steps * settings.steps))


def read_result(values: object) -> CpuVsGpuResult | None:
    """The result's values, or None where they have another shape, as from an older version."""
    try:
        return msgspec.convert(values, CpuVsGpuResult)
    except msgspec.ValidationError:
        return None


# Results


@dataclass(frozen=True, slots=True)
class Outcome:
    """What there is to show of a finished run, the student's own or a recorded one."""

    key: str
    values: CpuVsGpuResult
    rows: tuple[SummaryRow, ...]
    recordings: tuple[Recording, ...]
    host: Host
    replayed: bool = False  # not the reader's own: its curves come when asked for


def _draw_own_result(job: JobView, say: Texts, *, earlier: bool) -> None:
    values = read_result(job.result)
    if values is None:
        return
    st.header(say("part1.result.earlier" if earlier else "part1.result"), divider="blue")
    host = Host(resources.machine(), card_of(job), max(values.threads))
    outcome = Outcome(job.id, values, job.rows, job.recordings, host)
    _draw_outcome(outcome, say)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader(say("part1.how_to_read"))
        st.markdown(say.prose("part1/how-to-read"))
    with right:
        st.subheader(say("part1.two_speedups"))
        st.markdown(say.prose("part1/two-speedups"))
    with st.container(border=True):
        st.subheader(say("part1.takeaway"))
        st.markdown(say.prose("part1/takeaway"))


def _draw_outcome(outcome: Outcome, say: Texts) -> None:
    values = outcome.values
    st.html(figures_html(values, outcome.rows, say))
    absences = charts.merged(recording.absences for recording in outcome.recordings)
    table, missing = summary_html(outcome.rows, say)
    st.html(table)
    if missing:
        st.caption(charts.absent_sentence(say, missing, absences))
    others = max((row.others_cpu_percent_mean or 0.0 for row in outcome.rows), default=0.0)
    if others > BUSY_PERCENT:
        st.caption(say("part1.others_busy", cpu=others))
    _draw_overlay(outcome)
    st.caption(
        say(
            "part1.measured_on",
            device=values.device_name,
            steps=values.steps,
            batch=values.batch,
            digits=say(f"data.source.{values.digits}"),
            generator=values.parameters.get("generator"),
            discriminator=values.parameters.get("discriminator"),
        )
    )


@st.fragment
def _draw_overlay(outcome: Outcome) -> None:
    me = visitor()
    say = texts(me.language)
    longest = max((recording.seconds for recording in outcome.recordings), default=0.0)
    if longest <= 0:
        return
    if outcome.replayed and not st.toggle(say("part1.replay.play"), key=f"play-{outcome.key}"):
        return  # four charts less in everybody's first page
    end = math.ceil(longest)
    until = st.slider(
        say("part1.scrub"),
        0,
        end,
        end,
        format="%d s",
        key=f"scrub-{outcome.key}",
        help=say("part1.scrub.help"),
    )
    charts.draw_overlay(
        say,
        outcome.recordings,
        outcome.host,
        key=outcome.key,
        projector=me.projector,
        until=until if until < end else None,
    )


def figures_html(values: CpuVsGpuResult, rows: Sequence[SummaryRow], say: Texts) -> str:
    """The speed-up said two ways: a big figure and a line each."""
    seconds = {row.name: row.seconds for row in rows}
    whole = [
        say("part1.whole.time", name=say(f"section.{name}"), time=seconds.get(name))
        for name in values.sections
    ]
    compute = [
        say(
            "part1.compute.time",
            name=say(f"section.{time.name}"),
            median=time.ms_median,
            low=say.number(time.ms_low),
            high=say.number(time.ms_high),
        )
        for time in values.compute
    ]
    figures = (
        _figure("whole", values.speedup.whole, whole, say),
        _figure("compute", values.speedup.compute, compute, say),
    )
    return f"<div class='lab-figures'>{''.join(figures)}</div>"


def _figure(kind: str, times: float, lines: Sequence[str], say: Texts) -> str:
    faster = times >= 1  # on a crowded machine the second run may be the slower one
    name = say(f"part1.{kind}" if faster else f"part1.{kind}.slower")
    big = say("part1.times", times=say.number(times if faster else 1 / times, digits=1))
    small = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return (
        f"<div class='{kind}'><div class='name'>{html.escape(name)}</div>"
        f"<div class='value'>{html.escape(big)}</div>"
        f"<div class='line'>{html.escape(say(f'part1.{kind}.line'))}</div><ul>{small}</ul></div>"
    )


# Column of the summary -> the field of `SummaryRow` and the signal of `Reading` that it sums up.
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("gpu", "gpu_percent_mean", "gpu_percent"),
    ("card", "card_used_mib_max", "card_used_mib"),
    ("own", "own_vram_mib_max", "own_vram_mib"),
    ("power", "power_watts_max", "power_watts"),
    ("energy", "energy_wh", "energy"),
    ("cpu", "cpu_percent_mean", "cpu_percent"),
    ("loader", "children_cpu_percent_mean", "children_cpu_percent"),
    ("wait", "data_wait_share", "data_wait"),
)


def summary_html(rows: Sequence[SummaryRow], say: Texts) -> tuple[str, list[str]]:
    """The rows as a table, and the signals of which no row has a value.

    Those get one sentence under the table instead of a column of "not measured".
    """
    shown = [c for c in COLUMNS if any(getattr(row, c[1]) is not None for row in rows)]
    missing = [signal for _, field, signal in COLUMNS if field not in {c[1] for c in shown}]
    heads = [say("part1.column.section"), say("part1.column.time")]
    heads += [say(f"part1.column.{column}") for column, _, _ in shown]
    body = "".join(
        _row_html(
            [
                say(f"section.{row.name}"),
                say.seconds(row.seconds),
                *(_cell(column, getattr(row, field), say) for column, field, _ in shown),
            ]
        )
        for row in rows
    )
    head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in heads)
    return (
        f"<div class='lab-table'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    ), missing


def _row_html(cells: Sequence[str]) -> str:
    first, *rest = (html.escape(cell) for cell in cells)
    return f"<tr><th scope='row'>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"


def _cell(column: str, value: float | None, say: Texts) -> str:
    match column:
        case "card" | "own":
            return say.mib(value)
        case "power":
            return say.watts(value if value is None else round(value))
        case "energy":
            return (
                say("part1.wh", wh=say.number(value, digits=3))
                if value is not None
                else say.mib(None)
            )
        case "wait":
            return say.percent(None if value is None else 100 * value)
        case _:
            return say.percent(value)


# The GAN loop, and runs on other machines


def _draw_loop(say: Texts) -> None:
    st.header(say("part1.loop"), divider="gray")
    st.markdown(gan_loop(say), unsafe_allow_html=True)
    st.markdown(say.prose("part1/gan-loop"))


def _draw_replays(say: Texts) -> None:
    recorded = resources.recordings(ACTIVITY)
    if not recorded:
        return
    if resources.engine().gpu_uuids():
        with st.expander(say("part1.replays.compare"), icon=":material/videocam:"):
            _draw_each(recorded, say)
    else:
        st.header(say("part1.replays"), divider="orange")
        _draw_each(recorded, say)


def _draw_each(recorded: Sequence[Replay], say: Texts) -> None:
    st.markdown(say.prose("part1/recorded"))
    for number, replay in enumerate(recorded):
        values = read_result(replay.values)
        if values is None:
            continue
        with st.container(border=True):
            replays.draw_badge(replay, say)
            card = replays.card_in(replay)
            key = f"replay-{number}-{replay.made_at}"
            host = Host(replay.machine, card, max(values.threads))
            outcome = Outcome(key, values, replay.rows, replay.recordings, host, replayed=True)
            _draw_outcome(outcome, say)
