"""What the whole server shares: one engine, one set of records, one meter, one load of the digits.

Each is made by whoever asks first, once, however many sessions open together, and is closed when
the server ends.
"""

from __future__ import annotations

import atexit
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

import streamlit as st
from msgspec.structs import replace

from core.problems import Problem
from core.settings import LabSettings
from core.ui.access import Attempts
from core.ui.identity import Tickets

if TYPE_CHECKING:
    from core.data.digits import Digits
    from core.engine.engine import Engine
    from core.engine.view import JobView
    from core.models.fetches import Fetches
    from core.recordings import Replay
    from core.records.store import Records
    from core.safety.credentials import Authority
    from core.telemetry.meter import Meter
    from core.telemetry.readings import Machine

HOST_METER_SECONDS = 1.0
FORGET_SECONDS = 30.0  # between two looks for pictures whose students are gone
RETENTION_SECONDS = 86_400.0  # between two looks for results that are too old
END_SECONDS = 5.0  # for a look that is under way when the server ends

T = TypeVar("T")
_log = logging.getLogger(__name__)


@st.cache_resource(show_spinner=False)
def lab_settings() -> LabSettings:
    """Raises Problem, each time it is asked, while the environment or the secrets are wrong."""
    return LabSettings.load(secrets=_secrets())


@st.cache_resource(show_spinner=False)
def engine() -> Engine:
    from core.engine.local import LocalEngine

    local = LocalEngine(lab_settings(), on_over=remember, may_keep=may_keep)
    _at_end().callback(local.close)
    return local


def remember(job: JobView) -> None:
    """Keep a finished job in the records; of a picture that a student brought, only the figures."""
    from core.data.photos import is_upload

    own = is_upload(str(job.settings.get("picture", "")))
    records().save(replace(job, pictures={}) if own else job)


def may_keep(job: JobView) -> bool:
    """Whether the engine may still hold a job's pictures: of a student's own, while it is here."""
    from core.data.photos import has_upload, is_upload
    from core.engine.local import kept_folder

    own = str(job.settings.get("picture", ""))
    return not is_upload(own) or has_upload(kept_folder(lab_settings(), job.student), own)


@st.cache_resource(show_spinner=False)
def records() -> Records:
    from core.records.store import Records

    store = Records.open(lab_settings())
    _at_end().callback(store.close)
    return store


@st.cache_resource(show_spinner=False)
def digits() -> Future[Digits]:
    """The training digits, being loaded beside the pages; `.done()` says whether they are there."""
    settings = lab_settings()

    def load() -> Digits:
        from core.data.digits import load_digits

        return load_digits(settings)

    return _in_background(load, name="digits")


@st.cache_resource(show_spinner=False)
def machine() -> Machine:
    from core.telemetry.machine import describe_machine

    return describe_machine()


@st.cache_resource(show_spinner=False)
def host_meter() -> Meter:
    """The meter of the idle gauges: this machine, and the first card that jobs may run on."""
    from core.telemetry.meter import open_meter

    cards = engine().gpu_uuids()
    meter = open_meter(gpu_uuid=cards[0] if cards else None, period_seconds=HOST_METER_SECONDS)
    _at_end().callback(meter.close)
    return meter


@st.cache_resource(ttl=60.0, show_spinner=False)
def recordings(activity: str) -> tuple[Replay, ...]:
    """Read again every minute, so that a recording that the teacher adds needs no restart."""
    from core.recordings import replays

    return replays(activity, extra=lab_settings().recordings_dir)


@st.cache_resource(show_spinner=False)
def authority() -> Authority:
    """Signs the pictures that leave. Raises Problem, each time, while its keys are damaged."""
    from core.safety.credentials import Authority

    return Authority.open(lab_settings().keys)


@st.cache_resource(show_spinner=False)
def uploads_forgotten() -> threading.Thread:
    """Deletes pictures that students brought: what an earlier server left, then each whose student
    has been gone for the grace time, and all at the end."""
    from core.data.photos import forget_stale_uploads

    kept, grace = lab_settings().cache / "kept", lab_settings().grace_seconds
    closing = threading.Event()

    def forget() -> None:
        while not closing.wait(min(grace, FORGET_SECONDS)):
            forget_stale_uploads(kept, seconds=grace)

    forget_stale_uploads(kept, seconds=0)
    thread = threading.Thread(target=forget, name="forget-uploads", daemon=True)
    thread.start()
    _at_end().callback(forget_stale_uploads, kept, seconds=0)
    _at_end().callback(closing.set)
    return thread


@st.cache_resource(show_spinner=False)
def results_forgotten() -> threading.Thread:
    """Deletes what is older than the settings keep it: at once, and then each day."""
    settings, store = lab_settings(), records()
    closing = threading.Event()

    def forget() -> None:
        from core.engine.local import delete_old_kept

        while True:
            jobs = store.forget_old(settings.retention_days)
            folders = delete_old_kept(settings, days=settings.retention_days)
            if jobs or folders:
                _log.info("too old, deleted: %d results, files of %d students", jobs, folders)
            if closing.wait(RETENTION_SECONDS):
                return

    thread = threading.Thread(target=forget, name="forget-results", daemon=True)
    thread.start()
    _at_end().callback(thread.join, END_SECONDS)
    _at_end().callback(closing.set)
    return thread


@st.cache_resource(show_spinner=False)
def fetches() -> Fetches:
    """The downloads that a teacher has begun, whoever looks at them."""
    from core.models.fetches import Fetches

    running = Fetches(lab_settings())
    _at_end().callback(running.close)
    return running


@st.cache_resource(show_spinner=False)
def attempts() -> Attempts:
    return Attempts()


@st.cache_resource(show_spinner=False)
def tickets() -> Tickets:
    return Tickets()


def prepare_pictures() -> None:
    """Have the best image model that is here compiled before a student asks for it; nobody's job,
    which the teacher sees, and may stop, among those of the class."""
    from core.activities.make_images import PreparePicturesSettings
    from core.models.image_models import default_image_model

    model = default_image_model(lab_settings())
    if model is not None and engine().gpu_uuids():
        settings = PreparePicturesSettings(model=model)
        engine().submit(secrets.token_urlsafe(), "prepare-pictures", settings)


def warm_up() -> None:
    """Make everything before the first visitor asks for it."""
    try:
        for make in (lab_settings, records, engine, digits, machine, host_meter):
            make()
        uploads_forgotten()
        results_forgotten()
        if lab_settings().compile_pictures:
            prepare_pictures()
    except Problem as problem:
        _log.error("the lab is not ready: %s", problem)  # every page says so in plain words
    except Exception:
        _log.exception("the lab is not ready")


def close() -> None:
    """End every job, worker process and meter. Asking twice is harmless."""
    _at_end().close()


@st.cache_resource(show_spinner=False)
def _at_end() -> ExitStack:
    stack = ExitStack()
    atexit.register(stack.close)  # for servers that end without saying so to `core.ui.server`
    return stack


def _secrets() -> dict[str, str]:
    """The plain entries of secrets.toml, if there is one."""
    if not st.secrets.load_if_toml_exists():
        return {}
    return {name: str(value) for name, value in st.secrets.items() if not hasattr(value, "keys")}


def _in_background(work: Callable[[], T], *, name: str) -> Future[T]:
    """The outcome of `work`, which runs on a thread that does not hold up the server's end."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
