"""Part 2b: find out why the GPU waits, repair it, and race the class with what was learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
import streamlit as st
from msgspec.structs import asdict, replace

from core.activities.feed_gpu import BATCHES, Diagnosis, FeedGpuResult, FeedGpuSettings
from core.engine.view import JobState, JobView
from core.problems import Notice, Problem
from core.recordings import Replay
from core.telemetry.readings import Recording, SummaryRow
from core.texts import Texts, texts
from core.ui import charts, race_board, replays, resources
from core.ui.diagrams import gpu_starved
from core.ui.feed_charts import WAYS, draw_speeds, draw_timelines
from core.ui.feed_tables import (
    ANSWERS,
    Ending,
    Verdict,
    causes_html,
    drawn_html,
    has_drawings,
    quality_sentence,
    results_html,
    so_far_html,
    split_html,
    verdict,
)
from core.ui.job_panel import card_of, current_job, job_panel, run_button
from core.ui.panels import Host
from core.ui.visitor import visitor

ACTIVITY = "feed-gpu"
STYLE = Path(__file__).with_name("feed.css")
NEED_GPU = ("graph", "lean")  # ways that only a card can go
REPAIRS = {"data": "resident", "wait": "no_wait", "launch": "graph"}  # of what may be guessed
CPU_IMAGES = 2_560  # with which four ways end in about a minute on two CPU threads
IMAGES = (1_280, 2_560, 5_120, 10_240, 20_480, 40_960, 60_000)  # to choose from
LAST_RUNS = 12  # of this student, to find a result and its tests among


def draw() -> None:
    """The whole page."""
    me = visitor()
    say = texts(me.language)
    job = current_job(ACTIVITY)
    findings = read_findings(own_runs(job))
    charts.draw_style()
    st.html(STYLE)
    st.title(say("part2b.title"))
    st.badge(say("part2b.badge"), icon=":material/pin_drop:", color="blue")
    above, below = st.container(), st.container()
    running = job is not None and not job.state.over
    with below if running else above:
        prose, controls = st.columns([3, 2], gap="large")
        with prose:
            st.markdown(say.prose("part2b/intro"))
        with controls, st.container(border=True):
            _draw_controls(say, job)
    with above if running else below:  # while it runs, the gauges are what the class looks at
        job_panel(ACTIVITY, job, extra=_draw_so_far)
    if findings is None or running:
        _draw_causes_told(say)
        _draw_replays(say)
    else:
        _draw_findings(findings, say, earlier=findings.job is not job and not findings.tests)
        _draw_replays(say)
        _draw_causes_told(say)
    race_board.draw(say)


def _draw_so_far(job: JobView, say: Texts) -> None:
    st.html(so_far_html(job, say))


# Settings


def suited(*, has_gpu: bool) -> FeedGpuSettings:
    """What a visitor finds on this machine: all ways of a GPU, or what a CPU can do in a minute."""
    if has_gpu:
        return FeedGpuSettings()
    return FeedGpuSettings(images=CPU_IMAGES, **dict.fromkeys(NEED_GPU, 0))


def _has_gpu() -> bool:
    return bool(resources.engine().gpu_uuids())


def settings_now() -> FeedGpuSettings:
    """This visitor's settings, as they can be run here."""
    me = visitor()
    settings = me.feed_gpu or suited(has_gpu=_has_gpu())
    if not _has_gpu():
        settings = replace(settings, **dict.fromkeys(NEED_GPU, 0))
    return settings


def _draw_controls(say: Texts, job: JobView | None) -> None:
    notice = take_settings_from_address()
    if notice is not None:
        st.warning(f"{say.notice(notice)} {say('part2b.default_kept')}", icon=":material/info:")
    settings = settings_now()
    has_gpu = _has_gpu()
    # The widgets' state is lost when the page is left; what lasts is the visitor's.
    st.session_state["part2b-batch"] = settings.batch
    st.session_state["part2b-images"] = settings.images
    left, right = st.columns(2, gap="medium")
    left.select_slider(
        say("part2b.batch"),
        BATCHES,
        key="part2b-batch",
        format_func=say.number,
        help=say("part2b.batch.help"),
        on_change=_keep,
    )
    right.select_slider(
        say("part2b.images"),
        images_offered(settings),
        key="part2b-images",
        format_func=say.number,
        help=say("part2b.images.help"),
        on_change=_keep,
    )
    if not has_gpu:
        st.caption(say("part2b.on_cpu", images=CPU_IMAGES))
    for way in WAYS:
        possible = has_gpu or way not in NEED_GPU
        name = say(f"section.{way}")
        st.session_state[f"part2b-{way}"] = bool(getattr(settings, way))
        st.toggle(
            name if possible else say("part2b.needs_gpu", way=name),
            key=f"part2b-{way}",
            disabled=not possible,
            help=say(f"part2b.help.{way}"),
            on_change=_keep,
        )
    if not ways_of(settings):
        st.info(say("part2b.no_way"), icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        run_button(ACTIVITY, settings, job)
        with st.popover(say("part1.share"), icon=":material/share:"):
            st.caption(say("part2b.share.help"))
            st.code(share_link(st.context.url or "", settings), language=None)


def images_offered(settings: FeedGpuSettings) -> list[int]:
    """Numbers of images that hold at least one large batch, and the one that is set."""
    return sorted({n for n in IMAGES if n >= settings.batch} | {settings.images})


def ways_of(settings: FeedGpuSettings) -> list[str]:
    return [way for way in WAYS if getattr(settings, way)]


def take_settings_from_address() -> Notice | None:
    """Use `?batch=1024&graph=0` of a shared link; where that cannot be, keep what was, say why."""
    names = FeedGpuSettings.limits()
    asked = {name: st.query_params[name] for name in names if name in st.query_params}
    if not asked:
        return None
    try:
        visitor().feed_gpu = checked({**asdict(settings_now()), **asked})
    except Problem as problem:
        return problem.notice
    return None


def checked(values: dict[str, object]) -> FeedGpuSettings:
    """Settings from untrusted values. Raises Problem for what this page does not offer."""
    settings = FeedGpuSettings.parse(values)
    if settings.batch not in BATCHES:
        offered = ", ".join(map(str, BATCHES))
        raise Problem("problem.batch_not_offered", value=settings.batch, offered=offered)
    if settings.images < settings.batch:
        raise Problem("problem.batch_over_images", batch=settings.batch, images=settings.images)
    return settings


def _keep() -> None:
    """A widget has moved: remember all of them, and let the address name what is not usual."""
    state = st.session_state
    values: dict[str, object] = {
        "batch": state["part2b-batch"],
        "images": max(state["part2b-images"], state["part2b-batch"]),
        "seed": settings_now().seed,
        **{way: int(state[f"part2b-{way}"]) for way in WAYS},
    }
    try:
        settings = checked(values)
    except (Problem, TypeError, ValueError):  # a forged widget value: all goes back to what was
        return
    visitor().feed_gpu = settings
    for name in FeedGpuSettings.limits():
        st.query_params.pop(name, None)
    st.query_params.update(unusual(settings))


def unusual(settings: FeedGpuSettings) -> dict[str, str]:
    """The batch, the images, and the ways that are switched off, as an address names them."""
    off = {way: "0" for way in WAYS if not getattr(settings, way)}
    return {"batch": str(settings.batch), "images": str(settings.images), **off}


def share_link(address: str, settings: FeedGpuSettings) -> str:
    """The page's address with these settings and nothing else: no name, no token."""
    scheme, host, path, _, _ = urlsplit(address)
    return urlunsplit((scheme, host, path, urlencode(unusual(settings)), ""))


# What was found


@dataclass(frozen=True, slots=True)
class Run:
    """A finished job of this page, its values read."""

    job: JobView
    values: FeedGpuResult


@dataclass(frozen=True, slots=True)
class Findings:
    """A run, and the later runs of just two of its ways that put a claim about it to the test."""

    run: Run
    tests: dict[frozenset[str], Run]  # by their two ways

    @property
    def job(self) -> JobView:
        return self.run.job


def own_runs(job: JobView | None) -> list[Run]:
    """The last finished jobs of this visitor whose results can be read, the newest first."""
    kept = resources.records().of_student(visitor().token, activity=ACTIVITY, limit=LAST_RUNS)
    jobs = [view for view in kept if job is None or view.id != job.id]
    if job is not None:
        jobs.insert(0, job)
    runs = ((view, read_result(view.result)) for view in jobs if view.state is JobState.DONE)
    return [Run(view, values) for view, values in runs if values is not None]


def read_result(values: object) -> FeedGpuResult | None:
    """The result's values, or None where they have another shape, as from an older version."""
    try:
        result = msgspec.convert(values, FeedGpuResult)
    except msgspec.ValidationError:
        return None
    return result if result.ways else None


def read_findings(runs: Sequence[Run]) -> Findings | None:
    """The newest run that is no test, with its tests. `runs` has the newest first.

    A run of just two ways, of which the second repairs what may ail the first, is a test of the run
    before it if it has as many images and the same batch; any other run stands for itself.
    """
    findings: Findings | None = None
    for run in reversed(runs):
        if findings is not None and _is_test(findings.run, run):
            pair = frozenset(way.way for way in run.values.ways)
            findings = Findings(findings.run, {**findings.tests, pair: run})
        else:
            findings = Findings(run, {})
    return findings


def _is_test(before: Run, run: Run) -> bool:
    names = ("batch", "images", "seed")
    if any(before.job.settings.get(n) != run.job.settings.get(n) for n in names):
        return False
    ways = {way.way for way in run.values.ways}
    return any(
        ways == {found.way, repair}
        for found in before.values.diagnoses
        for repair in (found.repair, *REPAIRS.values())
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says holds a way back, and the way that is faster if they are right."""

    way: str
    cause: str
    repair: str

    @property
    def pair(self) -> frozenset[str]:
        return frozenset((self.way, self.repair))


def claims(diagnoses: Sequence[Diagnosis], guess: str, *, has_gpu: bool) -> list[Claim]:
    """What can be put to the test here: every diagnosis with a repair, and the student's guess."""
    asked = diagnoses[0]
    found = [Claim(d.way, d.bottleneck, d.repair) for d in diagnoses if d.repair is not None]
    if guess != asked.bottleneck and guess in REPAIRS:
        found.insert(0, Claim(asked.way, guess, REPAIRS[guess]))
    runnable = [claim for claim in found if has_gpu or claim.repair not in NEED_GPU]
    return [c for c in runnable if c.repair in WAYS and c.repair != c.way]


def pair_settings(run: Run, claim: Claim) -> FeedGpuSettings:
    """The pair of ways that puts a claim to the test, else as in the run that it is about."""
    pair = {way: int(way in claim.pair) for way in WAYS}
    return FeedGpuSettings.parse({**run.job.settings, **pair})


# Results


def _draw_findings(findings: Findings, say: Texts, *, earlier: bool) -> None:
    run = findings.run
    st.header(say("part1.result.earlier" if earlier else "part1.result"), divider="blue")
    threads = resources.lab_settings().cpu_threads
    host = Host(resources.machine(), card_of(run.job), threads)
    _draw_figures(Figures(run.job.id, run.values, run.job.rows, run.job.recordings, host), say)
    st.header(say("part2b.diagnosis"), divider="blue")
    _draw_diagnosis(findings, say)
    if has_drawings(run.values, run.job.pictures):
        st.header(say("part2b.drawn"), divider="blue")
        st.markdown(say.prose("part2b/quality"))
        _draw_quality(run, say)
    with st.container(border=True):
        st.subheader(say("part1.takeaway"))
        st.markdown(say.prose("part2b/takeaway"))


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is to draw of a finished run, the student's own or a recorded one."""

    key: str
    values: FeedGpuResult
    rows: tuple[SummaryRow, ...]
    recordings: tuple[Recording, ...]
    host: Host


def _draw_figures(figures: Figures, say: Texts) -> None:
    values, rows, projector = figures.values, figures.rows, visitor().projector
    table, missing = results_html(values.ways, rows, say)
    st.html(table)
    st.caption(say("part2b.table.read"))
    if missing:
        absences = charts.merged(recording.absences for recording in figures.recordings)
        st.caption(charts.absent_sentence(say, missing, absences))
    draw_speeds(say, values.ways, projector=projector)
    draw_timelines(say, values.timelines, projector=projector)
    if any(line.spans for line in values.timelines):
        st.caption(say("part2b.timeline.read"))
    with st.expander(say("part2b.meters"), icon=":material/monitoring:"):
        recordings = of_rows(figures.recordings, rows)
        charts.draw_overlay(say, recordings, figures.host, key=figures.key, projector=projector)
    st.caption(
        say(
            "part2b.measured_on",
            device=values.device_name,
            data=values.data_mib,
            images=values.ways[0].images,
            digits=say(f"data.source.{values.digits}"),
        )
    )


def of_rows(recordings: Sequence[Recording], rows: Sequence[SummaryRow]) -> list[Recording]:
    """One recording a row: of a way's repeats, the one that its row sums up."""
    found = []
    for row in rows:
        repeats = [recording for recording in recordings if recording.name == row.name]
        if repeats:
            found.append(min(repeats, key=lambda one: abs(one.seconds - row.seconds)))
    return found


def _draw_quality(run: Run, say: Texts) -> None:
    st.html(drawn_html(run.values.ways, run.job.pictures, say))
    sentence = quality_sentence(run.values.ways, say)
    if sentence is not None:
        st.info(sentence, icon=":material/balance:")


# Diagnosis


def _draw_diagnosis(findings: Findings, say: Texts) -> None:
    """First the student's own thought, then the class's, then what the figures say."""
    diagnoses = findings.run.values.diagnoses
    if not diagnoses:
        st.info(say("part2b.no_diagnosis"), icon=":material/info:")
        return
    asked = diagnoses[0]
    way = say(f"section.{asked.way}")
    me, question = visitor(), f"{ACTIVITY}/{asked.way}"
    guess = resources.records().guess_of(me.token, question)
    if guess is None:
        st.markdown(say("part2b.guess", way=way))
        with st.container(horizontal=True, key="guesses"):
            for answer in ANSWERS:
                st.button(
                    say(f"part2b.guess.{answer}"),
                    key=f"guess-{answer}",
                    on_click=resources.records().guess,
                    args=(me.token, question, answer),
                )
        st.caption(say("part2b.guess.why"))
        return
    thoughts, causes = st.columns([2, 3], gap="large")
    with thoughts:
        st.markdown(say("part2b.split", way=way))
        st.html(split_html(resources.records().guesses(question), guess, say))
    with causes:
        st.html(causes_html(diagnoses[:1], say))
        st.markdown(_compared(guess, asked, say))
    if diagnoses[1:]:
        st.markdown(say("part2b.others"))
        st.html(causes_html(diagnoses[1:], say))
    _draw_tests(findings, claims(diagnoses, guess, has_gpu=_has_gpu()), say)


def _compared(guess: str, found: Diagnosis, say: Texts) -> str:
    if found.bottleneck not in ANSWERS:
        return say("part2b.compared.unclear")
    key = "part2b.compared.same" if guess == found.bottleneck else "part2b.compared.other"
    return say(key, guess=say(f"part2b.guess.{guess}"))


def _draw_tests(findings: Findings, testable: Sequence[Claim], say: Texts) -> None:
    """Each claim can be put to the test with the repair that belongs to it."""
    if not testable:
        return
    st.subheader(say("part2b.test"))
    st.markdown(say.prose("part2b/test"))
    with st.container(horizontal=True):
        for number, claim in enumerate(testable):
            label = "part2b.test.again" if claim.pair in findings.tests else "part2b.test.run"
            text = say(label, **_named(claim, say))
            if st.button(text, key=f"test-{number}-{claim.way}", icon=":material/science:"):
                _submit_test(findings.run, claim, say)
    for claim in testable:
        if claim.pair in findings.tests:
            _draw_verdict(findings.tests[claim.pair], claim, say)


def _named(claim: Claim, say: Texts) -> dict[str, str]:
    return {
        "cause": say(f"part2b.cause.{claim.cause}"),
        "way": say(f"section.{claim.way}"),
        "repair": say(f"section.{claim.repair}"),
    }


def _submit_test(run: Run, claim: Claim, say: Texts) -> None:
    try:
        resources.engine().submit(visitor().token, ACTIVITY, pair_settings(run, claim))
    except Problem as problem:
        st.warning(say.notice(problem.notice), icon=":material/info:")
    else:
        st.rerun()


def _draw_verdict(test: Run, claim: Claim, say: Texts) -> None:
    ways = {way.way: way for way in test.values.ways}
    outcome = verdict(ways[claim.way], ways[claim.repair], claim.cause)
    text = verdict_sentence(outcome, claim, say)
    match outcome.ending:
        case Ending.HELD:
            st.success(text, icon=":material/check_circle:")
        case Ending.FELL:
            st.warning(text, icon=":material/cancel:")
        case _:
            st.info(text, icon=":material/help:")


def verdict_sentence(outcome: Verdict, claim: Claim, say: Texts) -> str:
    """Whether a claim held, by how many times faster the repair is, and how sure that is."""
    return say(
        f"part2b.verdict.{outcome.ending}",
        most=say.number(outcome.most, digits=2),
        times=say.number(outcome.times, digits=2),
        low=say.number(outcome.low, digits=2),
        high=say.number(outcome.high, digits=2),
        **_named(claim, say),
    )


# The two causes told, and runs on other machines


def _draw_causes_told(say: Texts) -> None:
    st.header(say("part2b.starved"), divider="gray")
    st.markdown(gpu_starved(say), unsafe_allow_html=True)
    st.space("small")
    left, right = st.columns(2, gap="large")
    left.markdown(say.prose("part2b/two-causes"))
    right.markdown(say.prose("part2b/repairs"))


def _draw_replays(say: Texts) -> None:
    recorded = [(replay, read_result(replay.values)) for replay in resources.recordings(ACTIVITY)]
    readable = [(replay, values) for replay, values in recorded if values is not None]
    if not readable:
        return
    if _has_gpu():
        with st.expander(say("part1.replays.compare"), icon=":material/videocam:"):
            for number, (replay, values) in enumerate(readable):
                _draw_replay(replay, values, number, say)
        return
    st.header(say("part1.replays"), divider="orange")
    st.markdown(say.prose("part2b/recorded"))
    for number, (replay, values) in enumerate(readable):
        _draw_replay(replay, values, number, say)


def _draw_replay(replay: Replay, values: FeedGpuResult, number: int, say: Texts) -> None:
    with st.container(border=True):
        replays.draw_badge(replay, say)
        card = replays.card_in(replay)
        # How many threads its lab had is not told: the CPU axis ends where its readings do.
        host = Host(replace(replay.machine, cores=1), card, None)
        key = f"feed-replay-{number}-{replay.made_at}"
        _draw_figures(Figures(key, values, replay.rows, replay.recordings, host), say)
        if values.diagnoses:
            with st.expander(say("part2b.recorded.diagnosis"), icon=":material/stethoscope:"):
                st.html(causes_html(values.diagnoses, say))
        if has_drawings(values, {}):
            st.markdown(say("part2b.drawn.recorded"))
            st.html(drawn_html(values.ways, {}, say))
