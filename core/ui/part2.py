"""Part 2: a GAN learns to draw digits, and the class watches."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import streamlit as st

from core.activities import CpuVsGpuResult
from core.activities.train_gan import EpochResult, TrainGanResult, TrainGanSettings
from core.engine.view import JobState, JobView
from core.models import judge
from core.problems import Notice, Problem
from core.recordings import Replay
from core.telemetry.readings import Recording, SummaryRow
from core.texts import Texts, texts
from core.ui import charts, replays, resources
from core.ui.job_panel import about, card_of, current_job, job_panel, last_result, run_button
from core.ui.learning_charts import HEIGHT, TALL, Curve, draw_curve, learning_data
from core.ui.panels import Host
from core.ui.part1 import summary_html
from core.ui.pixels import data_url, mime, picture_html, shaped, tiles_html
from core.ui.studio import draw_studio
from core.ui.visitor import visitor

ACTIVITY = "train-gan"
STYLE = Path(__file__).with_name("part2.css")
BATCH = 128  # pictures of one training step
SHORT_EPOCH, WHOLE_EPOCH = 6_400, 60_000  # pictures
EPOCH_SIZES = (1_280, SHORT_EPOCH, 12_800, 25_600, WHOLE_EPOCH)
EPOCHS, SEED, SIZE = "part2-epochs", "part2-seed", "part2-images"  # keys of the widgets
REFUSED = "part2-refused"  # why the last change of a widget was not taken


def draw() -> None:
    """The whole page."""
    me = visitor()
    say = texts(me.language)
    job = current_job(ACTIVITY)
    result = last_result(ACTIVITY, job)
    charts.draw_style()
    st.html(STYLE)
    st.title(say("part2.title"))
    st.badge(say("part2.badge"), icon=":material/pin_drop:", color="blue")
    above, below = st.container(), st.container()
    running = job is not None and not job.state.over
    with below if running else above:
        prose, controls = st.columns([3, 2], gap="large")
        with prose:
            st.markdown(say.prose("part2/intro"))
        with controls, st.container(border=True):
            _draw_controls(say, job)
    with above if running else below:  # while it runs, the digits are what the class looks at
        job_panel(ACTIVITY, job, extra=draw_learning, steerable=True)
    if running or result is None:
        _draw_how_to_watch(say)
    else:
        _draw_own_result(result, say, earlier=result is not job)
    _draw_replays(say)


def _draw_how_to_watch(say: Texts) -> None:
    st.header(say("part2.watch"), divider="gray")
    losses, pictures = st.columns(2, gap="large")
    losses.markdown(say.prose("part2/losses"))
    pictures.markdown(say.prose("part2/pictures"))


# Settings


def has_gpu() -> bool:
    return bool(resources.engine().gpu_uuids())


def defaults(*, gpu: bool) -> TrainGanSettings:
    """A full epoch where a GPU does it in seconds, else a short one that ends in the lesson."""
    return TrainGanSettings(images_per_epoch=WHOLE_EPOCH if gpu else SHORT_EPOCH)


def settings_now() -> TrainGanSettings:
    return visitor().train_gan or defaults(gpu=has_gpu())


def _draw_controls(say: Texts, job: JobView | None) -> None:
    notice = take_settings_from_address() or st.session_state.pop(REFUSED, None)
    settings = settings_now()
    if notice is not None:
        kept = say(
            "part2.default_kept",
            epochs=settings.epochs,
            images=settings.images_per_epoch,
            seed=settings.seed,
        )
        st.warning(f"{say.notice(notice)} {kept}", icon=":material/info:")
    limits = TrainGanSettings.limits()
    # The widgets' state is lost when the page is left; what lasts is the visitor's.
    st.session_state[EPOCHS] = settings.epochs
    st.session_state[SEED] = settings.seed
    st.session_state[SIZE] = settings.images_per_epoch
    st.slider(
        say("part2.epochs"),
        limits["epochs"].low,
        limits["epochs"].high,
        key=EPOCHS,
        help=say("part2.epochs.help"),
        on_change=_keep,
        args=("epochs", EPOCHS),
    )
    # A whole epoch takes seconds on a GPU: there its size is a detail.
    with st.expander(say("part2.more")) if has_gpu() else st.container():
        _draw_size(say, settings)
        st.number_input(
            say("part2.seed"),
            limits["seed"].low,
            limits["seed"].high,
            key=SEED,
            help=say("part2.seed.help"),
            on_change=_keep,
            args=("seed", SEED),
        )
    st.caption(_expectation(settings, say))
    run_button(ACTIVITY, settings, job)


def _draw_size(say: Texts, settings: TrainGanSettings) -> None:
    sizes = sorted({*EPOCH_SIZES, settings.images_per_epoch})  # a link may name another one
    st.selectbox(
        say("part2.images"),
        sizes,
        key=SIZE,
        format_func=lambda size: size_in_words(size, say),
        help=say("part2.images.help"),
        on_change=_keep,
        args=("images_per_epoch", SIZE),
    )


def size_in_words(images: int, say: Texts) -> str:
    """`6,400 · a short epoch`: no short epoch may pass for a whole one."""
    return say("part2.size.whole" if images == WHOLE_EPOCH else "part2.size.short", images=images)


def take_settings_from_address() -> Notice | None:
    """Use `?epochs=2&seed=7`; if it names what cannot be, keep what was and say why."""
    asked = {
        name: st.query_params[name] for name in TrainGanSettings.limits() if name in st.query_params
    }
    if not asked:
        return None
    return _take(asked)


def _keep(setting: str, key: str) -> None:
    """A widget has changed: remember it, and let the address name it, so that a reload keeps it."""
    value = st.session_state[key]
    notice = _take({setting: value})
    if notice is not None:  # a forged widget value: the widget goes back to what was
        st.session_state[REFUSED] = notice
        return
    st.query_params[setting] = str(value)


def _take(asked: dict[str, Any]) -> Notice | None:
    me = visitor()
    try:
        me.train_gan = TrainGanSettings.parse({**msgspec.structs.asdict(settings_now()), **asked})
    except Problem as problem:
        return problem.notice
    return None


def _back_to_defaults() -> None:
    visitor().train_gan = None
    for name in TrainGanSettings.limits():
        st.query_params.pop(name, None)


def _expectation(settings: TrainGanSettings, say: Texts) -> str:
    pace = pace_here()
    if pace is None:
        return say("part2.expected.unknown")
    seconds = settings.epochs * settings.images_per_epoch / pace.images_per_second
    return say(f"part2.expected.{pace.source}", seconds=about(seconds, say))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast this machine trains, and where we know it from."""

    images_per_second: float
    source: str  # "own", "class" or "part1": whose measurement it is


def pace_here() -> Pace | None:
    """From this student's last training, else from a classmate's, else from a step of Part 1."""
    me, records = visitor(), resources.records()
    own = records.latest(me.token, ACTIVITY, state=JobState.DONE)
    speed = training_speed(own.result) if own is not None else None
    if speed is not None:
        return Pace(speed, "own")
    for other in records.of_class(ACTIVITY, asked_by=me.token):
        speed = training_speed(other.values)
        if speed is not None:
            return Pace(speed, "class")
    for other in records.of_class("cpu-vs-gpu", asked_by=me.token):
        speed = step_speed(other.values)
        if speed is not None:
            return Pace(speed, "part1")
    return None


def training_speed(values: object) -> float | None:
    """Images a second of a finished training, if it ran where the next one will."""
    result = shaped(values, TrainGanResult)
    if result is None or not result.epochs or result.device_name not in _devices():
        return None
    speed = sum(epoch.images_per_second for epoch in result.epochs) / len(result.epochs)
    return speed if speed > 0 else None


def step_speed(values: object) -> float | None:
    """Images a second by the compute alone of Part 1's faster section, if it ran there."""
    result = shaped(values, CpuVsGpuResult)
    if result is None or result.device_name not in _devices():
        return None
    median = result.compute[1].ms_median
    return 1000 * result.batch / median if median > 0 else None


def _devices() -> set[str]:
    """Names of what trainings run on here: the cards, or else the processor."""
    machine, cards = resources.machine(), resources.engine().gpu_uuids()
    return {gpu.name for gpu in machine.gpus if gpu.uuid in cards} if cards else {machine.cpu}


# While it learns


def draw_learning(job: JobView, say: Texts) -> None:
    """What a running training adds to the job's panel: digits, figures and curves."""
    settings = shaped(job.settings, TrainGanSettings)
    if settings is None:
        return
    st.html(live_figures_html(job, settings, say))
    left, right = st.columns([5, 4], gap="medium")
    with left:
        st.html(grid_html(job.pictures.get("grid"), say))
    with right:
        _draw_curve(Curve.QUALITY, job, settings, say, height=TALL)
    for column, curve in zip(
        st.columns(2, gap="medium"), (Curve.LOSSES, Curve.ACCURACY), strict=True
    ):
        with column:
            _draw_curve(curve, job, settings, say)


def _draw_curve(
    curve: Curve, job: JobView, settings: TrainGanSettings, say: Texts, *, height: int = HEIGHT
) -> None:
    data = learning_data(
        job.id,
        len(job.losses_d),
        len(job.scores),
        max(1, settings.images_per_epoch // BATCH),
        job.losses_d,
        job.losses_g,
        job.scores,
    )
    projector = visitor().projector
    draw_curve(curve, data, say, epochs=settings.epochs, projector=projector, height=height)


def grid_html(png: bytes | None, say: Texts) -> str:
    """The digits of the fixed noises, large; before the first ones, an empty frame."""
    if png is None:
        return f"<div class='lab-canvas empty'>{html.escape(say('part2.grid.soon'))}</div>"
    return picture_html(png, say("part2.grid.alt"), say("part2.grid.caption"))


def live_figures_html(job: JobView, settings: TrainGanSettings, say: Texts) -> str:
    """The newest score in big figures."""
    if not job.scores:
        names = ("readable", "digits", "epoch", "speed")
        return tiles_html([(say(f"part2.figure.{name}"), "…", None) for name in names])
    now = job.scores[-1]
    return tiles_html(
        [
            (say("part2.figure.readable"), say.percent(100 * now.readable), now.readable),
            (
                say("part2.figure.digits"),
                say("part2.digits_seen", seen=now.digits_seen),
                now.digits_seen / 10,
            ),
            (
                say("part2.figure.epoch"),
                say(
                    "part2.epoch_of",
                    epoch=say.number(min(now.epoch, settings.epochs), digits=1),
                    epochs=settings.epochs,
                ),
                now.epoch / settings.epochs,
            ),
            (say("part2.figure.speed"), say.number(round(now.images_per_second)), None),
        ]
    )


# Afterwards


def _draw_own_result(job: JobView, say: Texts, *, earlier: bool) -> None:
    values, settings = shaped(job.result, TrainGanResult), shaped(job.settings, TrainGanSettings)
    if values is None or settings is None:
        return
    st.header(say("part2.result.earlier" if earlier else "part2.result"), divider="blue")
    if values.trouble is not None:
        _draw_trouble(values.trouble, say)
    if values.stopped_early:
        st.info(say.count("part2.stopped_early", len(values.epochs)), icon=":material/save:")
    if values.epochs:
        st.html(figures_html(values, job.rows, say))
    _draw_pictures(job, values, settings, say)
    st.subheader(say("part2.curves"))
    losses, pictures = st.columns(2, gap="large")
    with losses:
        _draw_curve(Curve.LOSSES, job, settings, say)
        st.markdown(say.prose("part2/losses"))
    with pictures:
        _draw_curve(Curve.ACCURACY, job, settings, say)
        st.markdown(say.prose("part2/pictures"))
    host = Host(resources.machine(), card_of(job), resources.lab_settings().cpu_threads)
    st.subheader(say("part2.measured"))
    _draw_measured(Outcome(job.id, values, job.rows, job.recordings, host), settings, say)
    with st.container(border=True):
        st.subheader(say("part2.takeaway"))
        st.markdown(say.prose("part2/takeaway"))
    if values.kept:
        draw_studio(job, say)


def _draw_trouble(trouble: str, say: Texts) -> None:
    """What went wrong while training, why that happens to GANs, and one click to begin afresh."""
    with st.container(border=True):
        st.badge(say("part2.trouble"), icon=":material/healing:", color="orange")
        st.subheader(say(f"part2.trouble.{trouble}"))
        st.markdown(say(f"part2.trouble.{trouble}.why"))
        st.button(
            say("part2.trouble.back"),
            key="part2-defaults",
            icon=":material/restart_alt:",
            type="primary",
            on_click=_back_to_defaults,
        )


def figures_html(values: TrainGanResult, rows: Sequence[SummaryRow], say: Texts) -> str:
    """What came of a training of at least one epoch, in four big figures."""
    last = values.epochs[-1]
    seconds = rows[0].seconds if rows else sum(epoch.seconds for epoch in values.epochs)
    speed = sum(epoch.images_per_second for epoch in values.epochs) / len(values.epochs)
    return tiles_html(
        [
            (say("part2.figure.readable"), say.percent(100 * last.readable), last.readable),
            (
                say("part2.figure.digits"),
                say("part2.digits_seen", seen=last.digits_seen),
                last.digits_seen / 10,
            ),
            (say("part2.figure.time"), say.seconds(seconds), None),
            (say("part2.figure.speed"), say.number(round(speed)), None),
        ]
    )


def _draw_pictures(
    job: JobView, values: TrainGanResult, settings: TrainGanSettings, say: Texts
) -> None:
    """The digits as they are now, how each grew, the same in motion, and what the judge saw."""
    strip, animation = job.pictures.get("strip"), job.pictures.get("animation")
    left, right = st.columns([10, 9], gap="medium")
    with left:
        st.subheader(say("part2.grid"))
        st.html(grid_html(job.pictures.get("grid"), say))
    if strip is not None:
        with right:
            st.subheader(say("part2.strip"))
            st.html(strip_html(strip, len(values.epochs), say))
            st.markdown(say.prose("part2/strip"))
    left, right = st.columns([10, 9], gap="medium")
    if animation is not None:
        with left:
            _draw_animation(animation, say)
    with right:
        st.subheader(say("part2.judged"))
        _draw_curve(Curve.QUALITY, job, settings, say)
        _draw_judge(say)


def _draw_animation(animation: bytes, say: Texts) -> None:
    st.subheader(say("part2.animation"))
    alt, caption = say("part2.animation.alt"), say("part2.animation.caption")
    st.html(picture_html(animation, alt, caption))
    kind = mime(animation)
    st.download_button(
        say("part2.animation.download"),
        animation,
        file_name=f"gan.{kind.removeprefix('image/')}",
        mime=kind,
        icon=":material/download:",
        on_click="ignore",
    )


def _draw_judge(say: Texts) -> None:
    """Who says what can be read, and how far that is to be believed."""
    card = judge.card()
    st.caption(
        say(
            "part2.judge",
            parameters=card.parameters,
            accuracy=say.percent(100 * card.test_accuracy, digits=1),
            test=card.test_digits,
            threshold=say.percent(100 * card.threshold),
            real=say.percent(100 * card.readable_real, digits=1),
        )
    )


def strip_html(png: bytes, epochs: int, say: Texts) -> str:
    """The film strip with a label before each row."""
    labels = "".join(
        f"<span>{html.escape(say('part2.strip.row', epoch=epoch))}</span>"
        for epoch in range(1, epochs + 1)
    )
    alt = html.escape(say("part2.strip.alt", epochs=epochs), quote=True)
    return (
        f"<figure class='lab-canvas lab-strip'><div>{labels}</div>"
        f"<img src='{data_url(png)}' alt='{alt}'></figure>"
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measured side of a finished training, the student's own or a recorded one."""

    key: str
    values: TrainGanResult
    rows: tuple[SummaryRow, ...]
    recordings: tuple[Recording, ...]
    host: Host


def _draw_measured(outcome: Outcome, settings: TrainGanSettings, say: Texts) -> None:
    values = outcome.values
    if values.epochs:
        st.html(epochs_html(values.epochs, say))
    absences = charts.merged(recording.absences for recording in outcome.recordings)
    if outcome.rows:
        table, missing = summary_html(outcome.rows, say)
        st.html(table)
        if missing:
            st.caption(charts.absent_sentence(say, missing, absences))
    if outcome.recordings:
        projector = visitor().projector
        charts.draw_overlay(
            say, outcome.recordings, outcome.host, key=outcome.key, projector=projector
        )
    st.caption(
        say(
            "part2.measured_on",
            device=values.device_name,
            steps=values.steps,
            batch=values.batch,
            images=settings.images_per_epoch,
            seed=settings.seed,
            digits=say(f"data.source.{values.digits}"),
        )
    )


Write = Callable[[EpochResult, Texts], str]
COLUMNS: dict[str, Write] = {
    "epoch": lambda epoch, say: say.number(epoch.epoch),
    "seconds": lambda epoch, say: say.seconds(epoch.seconds),
    "speed": lambda epoch, say: say.number(round(epoch.images_per_second)),
    "loss_d": lambda epoch, say: say.number(epoch.loss_d, digits=2),
    "loss_g": lambda epoch, say: say.number(epoch.loss_g, digits=2),
    "accuracy_real": lambda epoch, say: say.percent(100 * epoch.accuracy_real),
    "accuracy_fake": lambda epoch, say: say.percent(100 * epoch.accuracy_fake),
    "readable": lambda epoch, say: say.percent(100 * epoch.readable),
    "digits": lambda epoch, say: say("part2.digits_seen", seen=epoch.digits_seen),
}


def epochs_html(epochs: Sequence[EpochResult], say: Texts) -> str:
    """One row an epoch."""
    head = "".join(
        f"<th scope='col'>{html.escape(say(f'part2.column.{name}'))}</th>" for name in COLUMNS
    )
    body = ""
    for epoch in epochs:
        first, *rest = (html.escape(write(epoch, say)) for write in COLUMNS.values())
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        body += f"<tr><th scope='row'>{first}</th>{cells}</tr>"
    return (
        f"<div class='lab-table'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


# Runs on other machines


def _draw_replays(say: Texts) -> None:
    recorded = resources.recordings(ACTIVITY)
    if not recorded:
        return
    if has_gpu():
        with st.expander(say("part1.replays.compare"), icon=":material/videocam:"):
            _draw_each(recorded, say)
    else:
        st.header(say("part1.replays"), divider="orange")
        _draw_each(recorded, say)


def _draw_each(recorded: Sequence[Replay], say: Texts) -> None:
    st.markdown(say.prose("part2/recorded"))
    for number, replay in enumerate(recorded):
        values = shaped(replay.values, TrainGanResult)
        settings = shaped(replay.settings, TrainGanSettings)
        if values is None or settings is None:
            continue
        with st.container(border=True):
            replays.draw_badge(replay, say)
            card = replays.card_in(replay)
            host = Host(replay.machine, card, None)
            if values.epochs:
                st.html(figures_html(values, replay.rows, say))
            key = f"replay-{ACTIVITY}-{number}-{replay.made_at}"
            outcome = Outcome(key, values, replay.rows, replay.recordings, host)
            _draw_measured(outcome, settings, say)
