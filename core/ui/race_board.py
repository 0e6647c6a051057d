"""The record board of Part 2b: from scratch to a fixed judge's score, as fast as the class can."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import streamlit as st
from msgspec.structs import asdict

from core.activities.feed_gpu import (
    RACE_CHECK_IMAGES,
    RACE_GOAL,
    RACE_MAX_IMAGES,
    RaceResult,
    RaceSettings,
)
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.records.store import ClassResult
from core.texts import Texts, Value
from core.ui import resources
from core.ui.job_panel import current_job, job_panel, run_button
from core.ui.visitor import visitor

ACTIVITY = "race"
SWITCHES = ("no_wait", "graph", "lean")
NEED_GPU = ("graph", "lean")
COLUMNS = ("place", "who", "time", "batch", "switches", "steps", "device")
WORDY = ("who", "switches", "device")  # columns that are read from the left
WORDS = " class='words'"
PICTURE = "race"  # digits drawn at the end
ROWS = 10  # of the board; one's own best comes after them if it is slower


def draw(say: Texts) -> None:
    """The race: its switches, the run, its result, and the class's best."""
    st.header(say("part2b.race"), divider="orange")
    job = current_job(ACTIVITY)
    prose, controls = st.columns([3, 2], gap="large")
    with prose:
        st.markdown(say("part2b.race.task", goal=100 * RACE_GOAL))
        st.markdown(say("part2b.race.rules", check=RACE_CHECK_IMAGES, most=RACE_MAX_IMAGES))
    with controls, st.container(border=True):
        _draw_controls(say, job)
    if job is not None and job.state is JobState.DONE:
        _draw_result(job, say)
    elif job is not None:
        job_panel(ACTIVITY, job, extra=_draw_so_far)
    _draw_board(say)


# Settings


def settings_now() -> RaceSettings:
    """This visitor's settings, as they can be run here."""
    settings = visitor().race
    if resources.engine().gpu_uuids():
        return settings
    return msgspec.structs.replace(settings, **dict.fromkeys(NEED_GPU, 0))


def _draw_controls(say: Texts, job: JobView | None) -> None:
    settings = settings_now()
    has_gpu = bool(resources.engine().gpu_uuids())
    limit = RaceSettings.limits()["batch"]
    st.session_state["race-batch"] = settings.batch
    st.slider(
        say("part2b.race.batch"),
        limit.low,
        limit.high,
        step=limit.step,
        key="race-batch",
        on_change=_keep,
    )
    for switch in SWITCHES:
        possible = has_gpu or switch not in NEED_GPU
        name = say(f"part2b.race.{switch}")
        st.session_state[f"race-{switch}"] = bool(getattr(settings, switch))
        st.toggle(
            name if possible else say("part2b.needs_gpu", way=name),
            key=f"race-{switch}",
            disabled=not possible,
            on_change=_keep,
        )
    if not has_gpu:
        st.caption(say("part2b.race.on_cpu"))
    run_button(ACTIVITY, settings, job)


def _keep() -> None:
    state = st.session_state
    values = {"batch": state["race-batch"], "seed": settings_now().seed}
    values |= {switch: int(state[f"race-{switch}"]) for switch in SWITCHES}
    try:
        visitor().race = RaceSettings.parse(values)
    except (Problem, TypeError, ValueError):  # a forged widget value: it goes back to what was
        return


# Results


@dataclass(frozen=True, slots=True)
class Finish:
    """One race that reached its goal."""

    entry: ClassResult
    settings: RaceSettings
    result: RaceResult

    @property
    def seconds(self) -> float:
        return self.result.seconds or 0.0


def read_result(values: object) -> RaceResult | None:
    """The result's values, or None where they have another shape, as from an older version."""
    try:
        return msgspec.convert(values, RaceResult)
    except msgspec.ValidationError:
        return None


def _draw_result(job: JobView, say: Texts) -> None:
    result = read_result(job.result)
    if result is None:
        return
    facts: dict[str, Value] = {
        "goal": say.percent(100 * result.goal),
        "readable": say.percent(100 * result.readable),
        "images": result.images,
    }
    if result.seconds is None:
        text = say.count("part2b.race.missed", result.steps, **facts)
        st.warning(text, icon=":material/flag:")
    else:
        facts["time"] = say.seconds(result.seconds)
        text = say.count("part2b.race.reached", result.steps, **facts)
        st.success(text, icon=":material/flag:")
    if PICTURE in job.pictures:
        st.image(job.pictures[PICTURE], caption=say("part2b.race.drawn"), width=448)


def _draw_so_far(job: JobView, say: Texts) -> None:
    """The newest score of the judge."""
    if not job.scores:
        return
    newest = job.scores[-1]
    images = newest.step * int(job.settings.get("batch", 0))
    readable = say.percent(100 * newest.readable)
    text = say("part2b.race.so_far", readable=readable, images=images)
    st.progress(min(1.0, max(0.0, newest.readable)), text=text)


def best(entries: Sequence[ClassResult]) -> list[Finish]:
    """Each student's fastest race to the goal that is now raced for, the fastest student first.

    `entries` has the newest first: its goal is the one of now, and races to another are left out.
    """
    finishes: list[Finish] = []
    goal: float | None = None
    for entry in entries:
        result = read_result(entry.values)
        if result is None:
            continue
        goal = result.goal if goal is None else goal
        try:
            settings = RaceSettings.parse(entry.settings)
        except Problem:  # of another version
            continue
        if result.seconds is not None and result.goal == goal:
            finishes.append(Finish(entry, settings, result))
    finishes.sort(key=lambda finish: finish.seconds)
    fastest: dict[int, Finish] = {}
    for finish in finishes:
        fastest.setdefault(finish.entry.who, finish)
    return list(fastest.values())


def _draw_board(say: Texts) -> None:
    st.subheader(say("part2b.board"))
    finishes = best(resources.records().of_class(ACTIVITY, asked_by=visitor().token))
    if not finishes:
        st.info(say("part2b.board.empty"), icon=":material/trophy:")
        return
    st.html(board_html(finishes, say))
    st.caption(say("part2b.board.read"))


def board_html(finishes: Sequence[Finish], say: Texts) -> str:
    """The first `ROWS` places, and the student's own if it comes later."""
    places = list(enumerate(finishes, start=1))
    shown = places[:ROWS] + [place for place in places[ROWS:] if place[1].entry.mine]
    head = "".join(
        f"<th scope='col'{WORDS if column in WORDY else ''}>"
        f"{html.escape(say(f'part2b.board.{column}'))}</th>"
        for column in COLUMNS
    )
    body = "".join(_row(place, finish, say) for place, finish in shown)
    return (
        f"<div class='lab-table lab-feed'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(place: int, finish: Finish, say: Texts) -> str:
    entry = finish.entry
    name = entry.name or say("part2b.board.somebody")
    if entry.mine:
        name = say("part2b.board.mine", name=name)
    chosen = asdict(finish.settings)
    switches = [say(f"part2b.race.{s}.short") for s in SWITCHES if chosen[s]]
    cells = (
        name,
        say.seconds(finish.seconds),
        say.number(finish.settings.batch),
        " + ".join(switches) or say("part2b.board.no_switch"),
        say.number(finish.result.steps),
        finish.result.device_name,
    )
    texts = "".join(
        f"<td{WORDS if column in WORDY else ''}>{html.escape(cell)}</td>"
        for column, cell in zip(COLUMNS[1:], cells, strict=True)
    )
    kind = "mine" if entry.mine else ""
    return f"<tr class='{kind}'><th scope='row'>{place}</th>{texts}</tr>"
