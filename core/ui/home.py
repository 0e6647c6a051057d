"""The first page: what the lab is, how far this student has come, and where to go on."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from pathlib import Path

import streamlit as st

from core.engine.view import JobState, JobView
from core.texts import Texts, texts
from core.ui.dream import dream_url
from core.ui.resources import engine, records
from core.ui.shell import ENTRIES
from core.ui.visitor import Visitor, visitor

STYLE = Path(__file__).with_name("home.css")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the lab; its words are `home.part.<id>.title` and `.line`."""

    id: str
    steps: tuple[int, ...]  # of the seven, in the order in which it takes them
    page: str  # its url_path
    # It is done when this activity has been run to its end, or a question answered whose id begins
    # so; where it has neither, when its page was seen.
    activity: str = ""
    questions: str = ""

    @property
    def file(self) -> str:
        """The page's script, as Streamlit names it."""
        return f"pages/{self.page.replace('-', '_')}.py"


PARTS = (
    Part("0", (1, 2, 3), page="data-and-machine"),
    Part("1", (4, 6), page="cpu-or-gpu", activity="cpu-vs-gpu"),
    Part("2", (4, 6), page="watch-it-learn", activity="train-gan"),
    Part("2b", (6, 5), page="feed-the-gpu", activity="feed-gpu"),
    Part("3", (3, 4, 6, 5), page="pictures-from-words", activity="make-images"),
    Part("4", (4, 6), page="fool-the-classifier", activity="attack"),
    Part("5", (6,), page="what-did-it-cost"),
    Part("5b", (7,), page="in-a-soc", questions="soc."),
    Part("6", (5, 7), page="clean-up", questions="hand."),
)
ROWS = (PARTS[:5], PARTS[5:])  # of the map
BESIDES = ("real_or_fake", "check_a_picture", "preflight")  # pages that are no part
OUTCOMES = ("2", "1", "3", "4", "5")  # what a student can do afterwards, by the part that shows it
STEPS = range(1, 8)
FIRST_TERMS = 8  # of the glossary, in sight before anybody searches
TINTS = ("blue", "orange", "green", "pink")


class Progress(StrEnum):
    """How far one student is with one part."""

    OPEN = "open"
    RUNNING = "running"
    DONE = "done"


def progress(
    part: Part,
    *,
    visited: Collection[str],
    jobs: Collection[JobView],
    answered: Collection[str] = (),
) -> Progress:
    """How far somebody is who has seen these pages (url_paths), owns these jobs and has answered
    these questions."""
    if part.questions:
        done = any(question.startswith(part.questions) for question in answered)
        return Progress.DONE if done else Progress.OPEN
    if not part.activity:
        # Whoever has a job has come past the first part, perhaps in another tab.
        seen = part.page in visited or (part is PARTS[0] and bool(jobs))
        return Progress.DONE if seen else Progress.OPEN
    states = {job.state for job in jobs if job.activity == part.activity}
    if any(not state.over for state in states):
        return Progress.RUNNING
    return Progress.DONE if JobState.DONE in states else Progress.OPEN


def next_part(progress_of: dict[Part, Progress]) -> Part:
    """Where to go on: what is running, else the first part not done, else the last one again."""
    for wanted in (Progress.RUNNING, Progress.OPEN):
        for part, how_far in progress_of.items():
            if how_far is wanted:
                return part
    return list(progress_of)[-1]


def matching(glossary: str, searched: str) -> list[str]:
    """The glossary's lines that hold what was searched, whatever its case and accents."""
    wanted = _plain(searched)
    return [line for line in glossary.splitlines() if line and wanted in _plain(line)]


def draw() -> None:
    """The whole page, for whoever is looking."""
    me = visitor()
    say = texts(me.language)
    jobs, answered = _jobs(me), _answered(me)
    progress_of = {
        part: progress(part, visited=me.visited, jobs=jobs, answered=answered) for part in PARTS
    }
    st.html(STYLE)
    _hero(say, progress_of)
    st.header(say("home.map"), divider="blue")
    _map(say, progress_of)
    st.header(say("home.use"), divider="blue")
    st.html(_how_to_use(say))
    st.header(say("home.outcomes"), divider="blue")
    st.html(_outcomes(say))
    st.header(say("home.pipeline"), divider="blue")
    st.markdown(say("home.pipeline.line"))
    st.html(_pipeline(say))
    st.header(say("home.look_up"), divider="blue")
    _look_up(say)


def _jobs(me: Visitor) -> list[JobView]:
    """Of each activity the student's newest job, finished or not, and the newest that succeeded."""
    found = []
    for activity in (part.activity for part in PARTS if part.activity):
        found.append(engine().latest(me.token, activity))
        found.append(records().latest(me.token, activity, state=JobState.DONE))
    return [job for job in found if job]


def _answered(me: Visitor) -> set[str]:
    """The questions that this student has answered, in whatever part."""
    return set(records().guesses_of(me.token))


def _hero(say: Texts, progress_of: dict[Part, Progress]) -> None:
    words, picture = st.columns([5, 4], gap="large", vertical_alignment="center")
    with words.container(key="begin-here"):
        st.title(say("app.title"))
        st.html(
            f'<p class="lab-lead">{escape(say("home.lead"))}</p>'
            f'<p class="lab-lead">{escape(say("home.promise"))}</p>'
        )
        part = next_part(progress_of)
        started = any(p in (Progress.DONE, Progress.RUNNING) for p in progress_of.values())
        if progress_of[part] is Progress.RUNNING:
            label = say("home.watch", part=part.id)
        elif progress_of[part] is Progress.DONE:
            label = say("home.again", part=part.id)
        else:
            label = say("home.go_on" if started else "home.begin", part=part.id)
        if st.button(label, type="primary", icon=":material/arrow_forward:", key="begin"):
            st.switch_page(part.file)
    with picture:
        st.html(
            f'<div class="lab-dream" role="img" aria-label="{escape(say("home.dream"))}" '
            f'style="background-image:url({dream_url()})"></div>'
            f'<p class="lab-caption">{escape(say("home.dream.caption"))}</p>'
        )


def _map(say: Texts, progress_of: dict[Part, Progress]) -> None:
    """The parts as cards with a link, in two rows, and beneath them what is no part."""
    done = sum(how_far is Progress.DONE for how_far in progress_of.values())
    st.progress(done / len(PARTS), text=say.count("home.parts_done", done, total=len(PARTS)))
    for row in ROWS:
        for column, part in zip(st.columns(len(row)), row, strict=True):
            with column.container(border=True, height="stretch"):
                _card(say, part, progress_of[part])
    with st.container(key="besides", horizontal=True, vertical_alignment="center"):
        st.markdown(say("home.besides"))
        for name in BESIDES:
            entry = next(entry for entry in ENTRIES if entry.name == name)
            label = say(f"shell.page.{name}")
            st.page_link(f"pages/{name}.py", label=label, icon=entry.icon, width="content")


def _card(say: Texts, part: Part, how_far: Progress) -> None:
    st.subheader(say("home.part.heading", part=part.id, title=_title(say, part)))
    st.markdown(say(f"home.part.{part.id}.line"))
    with st.container(horizontal=True, vertical_alignment="center"):
        _badge(say, how_far)
        st.badge(_steps(say, part), icon=":material/location_on:", color="gray")
    st.page_link(part.file, label=say("home.open", part=part.id), icon=":material/arrow_forward:")


def _badge(say: Texts, how_far: Progress) -> None:
    if how_far is Progress.DONE:
        st.badge(say("home.done"), icon=":material/check:", color="green")
    elif how_far is Progress.RUNNING:
        st.badge(say("home.running"), icon=":material/play_arrow:", color="blue")
    else:
        st.badge(say("home.not_done"), color="orange")


def _title(say: Texts, part: Part) -> str:
    return say(f"home.part.{part.id}.title")


def _steps(say: Texts, part: Part) -> str:
    """The badge that says which of the seven steps a part takes."""
    return say.count("home.steps", len(part.steps), steps=" + ".join(map(str, part.steps)))


def _how_to_use(say: Texts) -> str:
    """Three cards, each with a small drawing made by the style sheet."""
    cards = "".join(
        f'<div class="lab-card {tint}">'
        f'<div class="lab-do"><i class="{drawing}" aria-hidden="true"></i>'
        f"<h4>{number}. {escape(title)}</h4></div><p>{escape(line)}</p></div>"
        for number, (drawing, tint, title, line) in enumerate(
            (
                ("lab-set", "orange", say("home.use.set"), say("home.use.set.line")),
                ("lab-run", "green", say("home.use.run"), say("home.use.run.line")),
                ("lab-read", "blue", say("home.use.read"), say("home.use.read.line")),
            ),
            start=1,
        )
    )
    return f'<div class="lab-row wide">{cards}</div>'


def _outcomes(say: Texts) -> str:
    cards = "".join(
        f'<div class="lab-card lab-outcome {TINTS[number % len(TINTS)]}">'
        f'<div class="lab-big" aria-hidden="true">{number + 1}</div>'
        f"<div><p>{escape(say(f'home.outcome.{part}'))}</p>"
        f'<p class="lab-small">{escape(say("home.in_part", part=part))}</p></div></div>'
        for number, part in enumerate(OUTCOMES)
    )
    return f'<div class="lab-row wide">{cards}</div>'


def _pipeline(say: Texts) -> str:
    steps = "".join(
        f'<div role="listitem" style="--step:{step}">'
        f"<b><small>{escape(say('home.step', step=step))}</small>"
        f"{escape(say(f'home.step.{step}.name'))}</b>"
        f"<p>{escape(say(f'home.step.{step}.question'))}</p>"
        f'<p class="lab-small">{escape(_parts_with(say, step))}</p></div>'
        for step in STEPS
    )
    return f'<div class="lab-steps" role="list">{steps}</div>'


def _parts_with(say: Texts, step: int) -> str:
    parts = [part.id for part in PARTS if step in part.steps]
    return say.count("home.in_parts", len(parts), parts=", ".join(parts))


def _look_up(say: Texts) -> None:
    glossary, models, data = st.tabs(
        [say("home.glossary"), say("home.models"), say("home.data")],
    )
    with glossary:
        _glossary(say)
    models.markdown(say.prose("home/models"))
    data.markdown(say.prose("home/data"))


@st.fragment
def _glossary(say: Texts) -> None:
    searched = st.text_input(
        say("home.search"),
        key="glossary",
        placeholder=say("home.search.example"),
        icon=":material/search:",
        max_chars=60,
    )
    lines = matching(say.prose("home/glossary"), searched)
    if not lines:
        st.info(say("home.search.nothing"))
    shown = len(lines) if searched.strip() else FIRST_TERMS
    _two_columns(lines[:shown])
    if lines[shown:]:
        with st.expander(say("home.glossary.more", n=len(lines) - shown)):
            _two_columns(lines[shown:])


def _two_columns(lines: list[str]) -> None:
    half = (len(lines) + 1) // 2
    for column, some in zip(st.columns(2, gap="large"), (lines[:half], lines[half:]), strict=True):
        column.markdown("\n\n".join(some))


def _plain(text: str) -> str:
    """Small letters without accents, so that "hat giong" finds "Hạt giống"."""
    letters = unicodedata.normalize("NFKD", text.casefold().replace("đ", "d"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).strip()
