"""Pictures that students bring do not outlast them."""

import os
import time

import pytest

from core.data import photos
from core.engine.local import kept_folder
from core.engine.view import JobView
from core.settings import LabSettings
from core.ui import resources


@pytest.fixture
def lab(tmp_path, monkeypatch):
    settings = LabSettings(cache_dir=tmp_path, grace_seconds=0.2)
    monkeypatch.setattr(resources, "lab_settings", lambda: settings)
    resources.uploads_forgotten.clear()
    yield settings
    resources.close()
    resources.uploads_forgotten.clear()


def brought(settings, student):
    folder = settings.cache / "kept" / student
    return folder, photos.keep_upload(folder, photos.sample_png("coffee"))


def test_what_an_earlier_server_left_is_gone_before_the_first_visitor(lab):
    folder, name = brought(lab, "an")
    resources.uploads_forgotten()
    assert not photos.has_upload(folder, name)


def test_an_upload_goes_soon_after_its_student_and_not_before(lab):
    resources.uploads_forgotten()
    stays, goes = brought(lab, "an"), brought(lab, "binh")
    later = time.time() + 60  # as if the page of this student had been touched just now, all along
    os.utime(stays[0] / photos.UPLOADS / f"{stays[1]}.png", (later, later))
    deadline = time.monotonic() + 20
    while photos.has_upload(*goes):
        assert time.monotonic() < deadline, "it is never forgotten"
        time.sleep(0.02)
    assert photos.has_upload(*stays)


def test_the_end_of_the_server_forgets_all(lab):
    resources.uploads_forgotten()
    folder, name = brought(lab, "an")
    future = time.time() + 60
    os.utime(folder / photos.UPLOADS / f"{name}.png", (future, future))
    resources.close()
    assert not photos.has_upload(folder, name)


def test_the_engine_may_hold_pictures_of_an_upload_as_long_as_the_upload_is_here(lab):
    folder = kept_folder(lab, "an")
    name = photos.keep_upload(folder, photos.sample_png("coffee"))
    of_upload = JobView("j1", "an", "attack", {"picture": name})
    of_sample = JobView("j2", "an", "attack", {"picture": "coffee"})
    of_neither = JobView("j3", "an", "train-gan", {})
    assert resources.may_keep(of_upload)
    photos.forget_uploads(folder)
    assert not resources.may_keep(of_upload)
    assert resources.may_keep(of_sample)
    assert resources.may_keep(of_neither)
