"""Results do not outlast the days that the settings keep them, on a server that runs for long."""

import os
import time

import pytest

from core.engine.local import kept_folder
from core.engine.view import JobState, JobView
from core.records.store import DAY, Records
from core.settings import LabSettings
from core.ui import resources

AN, BINH = "token-of-an", "token-of-binh"


@pytest.fixture
def lab(tmp_path, monkeypatch):
    settings = LabSettings(cache_dir=tmp_path, retention_days=30)
    store = Records.open(settings)
    monkeypatch.setattr(resources, "lab_settings", lambda: settings)
    monkeypatch.setattr(resources, "records", lambda: store)
    monkeypatch.setattr(resources, "RETENTION_SECONDS", 0.02)
    resources.results_forgotten.clear()
    yield settings, store
    resources.close()
    resources.results_forgotten.clear()
    store.close()


def leave(settings, store, student):
    store.save(JobView(student, student, "train-gan", {}, state=JobState.DONE))
    folder = kept_folder(settings, student)
    folder.mkdir(parents=True)
    (folder / "generator.pt").write_bytes(b"weights")
    return folder


def age(folder, days):
    then = time.time() - days * DAY
    for path in (folder / "generator.pt", folder):
        os.utime(path, (then, then))


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_old_results_and_networks_go_while_the_server_runs_and_newer_ones_stay(lab, monkeypatch):
    settings, store = lab
    thread = resources.results_forgotten()
    old = leave(settings, store, AN)
    now = time.time() + 31 * DAY
    monkeypatch.setattr(time, "time", lambda: now)
    new = leave(settings, store, BINH)
    age(new, days=29)

    wait_until(lambda: not old.exists() and store.of_student(AN) == ())

    assert (new / "generator.pt").exists()
    assert store.of_student(BINH)
    resources.close()
    assert not thread.is_alive()
