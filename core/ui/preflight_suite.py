"""One suite on the page: its wall, its controls, and each of its gates opened."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
from msgspec.structs import replace

from core.engine.view import JobState, JobView
from core.preflight.export import change_text, sums, to_html, to_json, verdict
from core.preflight.gate import Colour, Gate, Outcome, PreflightResult, Suite
from core.preflight.history import Change, compare, merged
from core.preflight.suites import CLASSROOM
from core.problems import Problem
from core.texts import Texts
from core.ui import resources
from core.ui.job_panel import current_job, job_panel, run_button
from core.ui.pixels import shaped
from core.ui.preflight_controls import (
    REFUSED,
    address_here,
    draw_classroom_controls,
    draw_refusal,
    draw_speech_controls,
)
from core.ui.preflight_gate import (
    DARK_ICON,
    ICONS,
    about_html,
    draw_outcome,
    inked,
    opened,
    said_html,
)
from core.ui.preflight_results import class_results, may_run, own_results, require_right
from core.ui.preflight_wall import Light, lamp_html, tiles, wall_html
from core.ui.visitor import visitor

CONTROLS: dict[str, Callable[[Texts], None]] = {
    "classroom": draw_classroom_controls,
    "speech": draw_speech_controls,
}
SO_FAR = 4  # gates whose message is shown while others still run


def draw_suite(suite: Suite, say: Texts) -> None:
    """The wall first, because it is what a whole class looks at."""
    activity = activity_of(suite)
    job = current_job(activity) if may_run() else None
    results = own_results(activity, job) if may_run() else class_results(activity)
    last = merged(results)
    changes = compare(last, merged(results[1:]))
    ended = last.gates if last is not None else ()

    def head(now: JobView | None, say: Texts) -> None:
        _draw_head(suite, now, ended, last, say)

    if job is None or job.state is JobState.DONE:
        head(job, say)
    else:
        job_panel(activity, job, head=head, extra=_draw_so_far)
    running = job is not None and not job.state.over
    if may_run():
        _draw_start(suite, job, say)
    elif not ended:
        st.info(say("preflight.students"), icon=":material/school:")
    if last is not None and not running:
        _draw_changes(changes, results, say)
        _draw_export(last, changes, _settings_of(job), say)
    _draw_gates(suite, last, results, say, running=running)
    _draw_recorded(suite, activity, say)


def activity_of(suite: Suite) -> str:
    return f"preflight-{suite.id}"


def _settings_of(job: JobView | None) -> dict[str, Any]:
    """What the exported files say that was asked for; paths of the server stay here."""
    settings = dict(job.settings) if job is not None else {}
    return {name: value for name, value in settings.items() if name not in ("folder", "remote")}


# The wall


def _draw_head(
    suite: Suite,
    job: JobView | None,
    ended: Sequence[Outcome],
    last: PreflightResult | None,
    say: Texts,
) -> None:
    running = job is not None and not job.state.over
    told = say("preflight.verdict.running") if running else verdict(ended, say, suite=suite.id)
    shown = tiles(suite, job if running else None, ended)
    missing = sum(tile.light is Light.DARK for tile in shown)
    counted = [] if running or not ended else [sums(ended, say)]
    if ended and missing and not running:
        counted.append(say.count("preflight.missing", missing))
    when = "" if last is None or running else about_text(last, say)
    st.html(
        f"<div class='pf-verdict'><p class='told'>{html.escape(told)}</p>"
        f"<p>{html.escape(' · '.join(counted))}</p><p class='when'>{html.escape(when)}</p></div>"
        + wall_html(shown, say)
    )
    for outcome in ended:
        if outcome.colour is Colour.RED and not running:
            title = html.escape(gate_name(outcome.gate, say))
            st.html(f"<h4 class='pf-part'>{title}</h4>{said_html(outcome, say)}")


def about_text(result: PreflightResult, say: Texts) -> str:
    """When, on what, and with which versions."""
    day = say("preflight.when", day=say.date(result.made_at), time=result.made_at[11:16])
    versions = [f"{name} {result.versions[name]}" for name in ("torch",) if name in result.versions]
    return " · ".join(part for part in (day, result.device_name, *versions) if part)


def _draw_so_far(job: JobView, say: Texts) -> None:
    """What the newest gates have found, while others still run."""
    lines = "".join(
        f"<li>{lamp_html(Light(outcome.colour.value))}<span>"
        f"<b>{html.escape(gate_name(outcome.gate, say))}</b> "
        f"{html.escape(say.notice(outcome.message))}</span></li>"
        for outcome in reversed(job.gates[-SO_FAR:])
    )
    if lines:
        st.html(f"<ul class='pf-lines'>{lines}</ul>")


def gate_name(gate: str, say: Texts) -> str:
    """`G1 · Geometry`, or the title alone where the id is a plain word."""
    title = say(f"gate.{gate}.title")
    return title if gate.islower() else f"{gate} · {title}"


# Starting


def _draw_start(suite: Suite, job: JobView | None, say: Texts) -> None:
    with st.container(border=True, key=f"preflight-start-{suite.id}"):
        CONTROLS[suite.id](say)
        draw_refusal(say)
        settings = replace(_wanted(suite), gates="all")
        with st.container(horizontal=True, vertical_alignment="center"):
            run_button(
                activity_of(suite),
                settings,
                job,
                admit=require_right,
                label=say("preflight.run_all", n=len(suite.gates)),
            )
            minutes = sum(gate.budget_seconds for gate in suite.gates) / 60
            st.caption(say("preflight.run_all.time", minutes=round(minutes)))


def _wanted(suite: Suite) -> Any:
    """The settings that stand in the controls; without an address, that of this browser."""
    settings = getattr(visitor(), f"preflight_{suite.id}")
    if suite is CLASSROOM and not settings.address:
        return replace(settings, address=address_here())
    return settings


def _run_alone(suite: Suite, gate: str) -> None:
    try:
        require_right()
        settings = replace(_wanted(suite), gates=gate)
        resources.engine().submit(visitor().token, activity_of(suite), settings)
    except Problem as problem:
        st.session_state[REFUSED] = problem.notice


# After a run


def _draw_changes(
    changes: Sequence[Change], results: Sequence[PreflightResult], say: Texts
) -> None:
    if len(results) < 2:
        return
    st.subheader(say("preflight.changes"))
    if not changes:
        st.caption(say("preflight.changes.none"))
        return
    lines = "".join(
        f"<li>{lamp_html(Light(change.after.value))}<span>{html.escape(change_text(change, say))}"
        "</span></li>"
        for change in changes
    )
    st.html(f"<ul class='pf-lines'>{lines}</ul>")


def _draw_export(
    result: PreflightResult, changes: Sequence[Change], settings: dict[str, Any], say: Texts
) -> None:
    name = f"preflight-{result.suite}-{result.made_at[:10]}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            say("preflight.export.html"),
            lambda: to_html(result, changes, settings, say),
            f"{name}.html",
            "text/html",
            key=f"preflight-html-{result.suite}",
            icon=":material/print:",
            on_click="ignore",
        )
        st.download_button(
            say("preflight.export.json"),
            lambda: to_json(result, settings, say),
            f"{name}.json",
            "application/json",
            key=f"preflight-json-{result.suite}",
            icon=":material/data_object:",
            on_click="ignore",
        )


# Gates


def _draw_gates(
    suite: Suite,
    last: PreflightResult | None,
    results: Sequence[PreflightResult],
    say: Texts,
    *,
    running: bool,
) -> None:
    st.subheader(say("preflight.gates"))
    outcomes = {outcome.gate: outcome for outcome in last.gates} if last is not None else {}
    box = st.container(key=f"preflight-list-{suite.id}")
    for gate in suite.gates:
        outcome = outcomes.get(gate.id)
        icon = DARK_ICON if outcome is None else ICONS[outcome.colour]
        with box:
            key = f"preflight-gate-{suite.id}-{gate.id}"
            shown = opened(_label(gate, outcome, say), icon, key)
        if shown.open:
            with shown:
                _draw_gate(suite, gate, outcome, _run_of(gate, results), say, running=running)


def _label(gate: Gate, outcome: Outcome | None, say: Texts) -> str:
    if outcome is None:
        return f"{gate_name(gate.id, say)} · :gray[{say('preflight.colour.dark')}]"
    word = inked(outcome.colour, say(f"preflight.colour.{outcome.colour}"))
    return f"{gate_name(gate.id, say)} · {word} · {say.seconds(outcome.seconds)}"


def _run_of(gate: Gate, results: Sequence[PreflightResult]) -> PreflightResult | None:
    """The run that the newest word on this gate is from."""
    has = (r for r in results if any(outcome.gate == gate.id for outcome in r.gates))
    return next(has, None)


def _draw_gate(
    suite: Suite,
    gate: Gate,
    outcome: Outcome | None,
    run: PreflightResult | None,
    say: Texts,
    *,
    running: bool,
) -> None:
    found, about = st.columns([3, 2], gap="large")
    with found:
        if outcome is None:
            st.markdown(say("preflight.not_yet"))
        else:
            draw_outcome(outcome, say)
    with about:
        st.html(about_html(gate, outcome, say))
        if run is not None:
            st.caption(about_text(run, say))
        if may_run():
            st.button(
                say("preflight.run_one"),
                icon=":material/play_arrow:",
                key=f"preflight-run-{suite.id}-{gate.id}",
                disabled=running,
                on_click=_run_alone,
                args=(suite, gate.id),
            )


# Runs of other machines


def _draw_recorded(suite: Suite, activity: str, say: Texts) -> None:
    """The same gates on a machine that most do not have, as they were recorded there."""
    for place, replay in enumerate(resources.recordings(activity)):
        result = shaped(replay.values, PreflightResult)
        if result is None:
            continue
        day = say.date(replay.made_at)
        label = say("preflight.recorded", device=replay.device_name, day=day)
        shown = opened(label, ":material/history:", f"preflight-recorded-{suite.id}-{place}")
        if shown.open:
            with shown:
                st.html(wall_html(tiles(suite, None, result.gates), say))
                for outcome in result.gates:
                    st.html(f"<h4 class='pf-part'>{html.escape(gate_name(outcome.gate, say))}</h4>")
                    draw_outcome(outcome, say)
