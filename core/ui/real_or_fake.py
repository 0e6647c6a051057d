"""Real or fake? The student plays the discriminator; then, which sentence made the picture?

The truth stays in the job, on the server, until the student has marked all eight.
"""

from __future__ import annotations

import html
import random
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from core.activities.soc import DIGITS, RealOrFakeResult, RealOrFakeSettings
from core.activities.train_gan import TrainGanResult
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.soc.rounds import FIRST_ROUND, Round, mean_of, share_of
from core.texts import Texts, texts
from core.ui import charts, resources
from core.ui.job_panel import current_job, job_panel, last_result
from core.ui.pixels import data_url, shaped, tiles_html
from core.ui.real_or_fake_captions import draw_captions
from core.ui.visitor import visitor

STYLE = Path(__file__).with_name("part5b.css")
PART2_STYLE = Path(__file__).with_name("part2.css")  # big figures
PART3_STYLE = Path(__file__).with_name("part3.css")  # what a picture shows of its sentence
ACTIVITY = "real-or-fake"
REAL, FAKE = "real", "fake"
SEEDS = 10_000
TICK_SECONDS = 0.5
DIGIT_WIDTH = 140  # pixels


def draw() -> None:
    """The whole page, for whoever is looking."""
    me = visitor()
    say = texts(me.language)
    charts.draw_style()
    for style in (PART2_STYLE, PART3_STYLE, STYLE):
        st.html(style)
    st.title(say("fake.title"))
    st.badge(say("fake.badge"), icon=":material/quiz:", color="blue")
    labels = [say(f"fake.tab.{name}") for name in TABS]
    key = f"fake-tabs-{me.language}"  # their state is a label, which each language has its own of
    tabs = st.tabs(labels, default=labels[me.fake_tab], key=key, on_change=_keep, args=(key,))
    for tab, draw_tab in zip(tabs, TABS.values(), strict=True):
        if tab.open:
            with tab:
                draw_tab(say)


def _keep(key: str) -> None:
    me = visitor()
    say = texts(me.language)
    me.fake_tab = [say(f"fake.tab.{name}") for name in TABS].index(st.session_state[key])


# Eight digits


def _draw_digits(say: Texts) -> None:
    """The round that is on: to be drawn, to be marked, or told."""
    job = current_job(ACTIVITY)
    if not _has_gan() or _nothing_trained(job):
        st.subheader(say("fake.none"))
        st.markdown(say.prose("real_or_fake/none"))
        st.page_link("pages/watch_it_learn.py", label=say("fake.none.link"), icon=":material/draw:")
        return
    result = shaped(job.result, RealOrFakeResult) if job is not None else None
    if job is None:
        st.markdown(say.prose("real_or_fake/intro"))
        _draw_new(say, "fake.first")
    elif job.state is not JobState.DONE or result is None:
        job_panel(ACTIVITY, job, tick_seconds=TICK_SECONDS)
        if job.state.over:
            _draw_new(say, "fake.new")
    else:
        played = next((one for one in visitor().rounds if one.job == job.id), None)
        if played is None:
            _draw_question(job, result, say)
        else:
            _draw_truth(job, played, say)


def _has_gan() -> bool:
    """Whether this student has trained a GAN that is kept."""
    trained = last_result("train-gan", current_job("train-gan"))
    values = shaped(trained.result, TrainGanResult) if trained is not None else None
    return values is not None and values.kept


def _nothing_trained(job: JobView | None) -> bool:
    """The networks were kept once, and are not there any more."""
    trained = current_job("train-gan")
    newer = job is None or (trained is not None and trained.submitted_at > job.submitted_at)
    problem = None if job is None or newer else job.problem
    return problem is not None and problem.key == "problem.nothing_trained"


def _draw_new(say: Texts, label: str) -> None:
    if not st.button(say(label), key="fake-new", type="primary", icon=":material/casino:"):
        return
    settings = RealOrFakeSettings(seed=random.randrange(SEEDS))
    try:
        resources.engine().submit(visitor().token, ACTIVITY, settings)
    except Problem as problem:
        st.warning(say.notice(problem.notice), icon=":material/info:")
    else:
        st.rerun()


def _draw_question(job: JobView, result: RealOrFakeResult, say: Texts) -> None:
    """Eight pictures to be marked; one form, so that a mark costs no run of the page."""
    me = visitor()
    st.markdown(say("fake.how"))
    with st.form("fake-round", border=False):
        marks = []
        grid = st.grid(4, min_column_width=DIGIT_WIDTH)
        for number in range(DIGITS):
            with grid.cell():
                st.html(digit_html(job, number, say))
                marks.append(
                    st.segmented_control(
                        say("fake.mark", number=number + 1),
                        (REAL, FAKE),
                        format_func=lambda mark: say(f"fake.{mark}"),
                        key=f"fake-{len(me.rounds)}-{number}",
                        label_visibility="collapsed",
                        width="stretch",
                    )
                )
        checked = st.form_submit_button(
            say("fake.check"), type="primary", icon=":material/visibility:", key="fake-check"
        )
    if not checked:
        return
    if None in marks:
        st.warning(say("fake.all_first"), icon=":material/info:")
        return
    played = Round(job.id, tuple(mark == REAL for mark in marks), result.truths, result.beliefs)
    me.rounds.append(played)
    # The first round alone counts for the class, and the records keep the first of all.
    resources.records().guess(me.token, FIRST_ROUND, str(played.right))
    st.rerun()


def _draw_truth(job: JobView, played: Round, say: Texts) -> None:
    grid = st.grid(4, min_column_width=DIGIT_WIDTH)
    for number in range(DIGITS):
        with grid.cell():
            st.html(digit_html(job, number, say, played))
    both: list[tuple[str, str, float | None]] = [
        (say(name), say(f"answer.real_or_fake.{right}"), right / DIGITS)
        for name, right in (("fake.you", played.right), ("fake.d", played.d_right))
    ]
    st.html(tiles_html(both + tally(say)))
    ahead = played.right - played.d_right
    st.markdown(say("fake.same" if not ahead else "fake.better" if ahead > 0 else "fake.worse"))
    _draw_new(say, "fake.new")
    st.markdown(say.prose("real_or_fake/read"))


def digit_html(job: JobView, number: int, say: Texts, played: Round | None = None) -> str:
    """A picture of the round; what it is, only once the round is `played`."""
    png = job.pictures.get(f"digit-{number}")
    alt = html.escape(say("fake.digit.alt", number=number + 1), quote=True)
    image = f"<img src='{data_url(png)}' alt='{alt}'>" if png else ""
    if played is None:
        return f"<figure class='fake-digit'>{image}</figure>"
    truth = played.truths[number]
    right = played.marks[number] == truth
    told = "".join(
        f"<span>{html.escape(text)}</span>"
        for text in (
            say("fake.mine.right" if right else "fake.mine.wrong"),
            say(
                "fake.d_mark.real" if played.d_marks[number] else "fake.d_mark.fake",
                belief=100 * played.beliefs[number],
            ),
        )
    )
    return (
        f"<figure class='fake-digit {'right' if right else 'wrong'}'>{image}<figcaption>"
        f"<b>{html.escape(say('fake.truth.real' if truth else 'fake.truth.fake'))}</b>"
        f"{told}</figcaption></figure>"
    )


def tally(say: Texts) -> list[tuple[str, str, float | None]]:
    """All rounds of this tab, and the first rounds of the class."""
    me = visitor()
    own, ds = share_of(me.rounds), share_of(me.rounds, d=True)
    tiles: list[tuple[str, str, float | None]] = []
    if len(me.rounds) > 1 and own is not None and ds is not None:
        n = len(me.rounds)
        tiles = [
            (say("fake.rounds", n=n), say.percent(100 * own), own),
            (say("fake.d_rounds", n=n), say.percent(100 * ds), ds),
        ]
    told = mean_of(resources.records().guesses(FIRST_ROUND))
    if told is not None:
        mean, students = told
        tiles.append(
            (
                say("fake.class", n=say.count("part5b.students", students)),
                say("fake.class.mean", mean=say.number(mean, digits=1)),
                mean / DIGITS,
            )
        )
    return tiles


TABS: dict[str, Callable[[Texts], None]] = {"digits": _draw_digits, "captions": draw_captions}
