"""The server's settings: wrong ones are refused at the start, by name, with what would be right."""

from dataclasses import fields
from pathlib import Path

import pytest

from core.problems import Problem
from core.settings import LabSettings
from core.texts import LANGUAGES, texts


def refusal(environment):
    with pytest.raises(Problem) as caught:
        LabSettings.load(environment)
    return caught.value.notice


def test_without_any_variable_all_is_at_its_default():
    assert LabSettings.load({}) == LabSettings()


def test_every_setting_has_a_line_of_help():
    assert all(setting.metadata["help"] for setting in fields(LabSettings))


def test_each_kind_of_setting_can_be_set():
    settings = LabSettings.load(
        {
            "LAB_DATA_DIR": "/srv/data",
            "LAB_OFFLINE": "true",
            "LAB_CPU_THREADS": " 4 ",
            "LAB_SAMPLE_SECONDS": "0.1",
            "LAB_CLASS_CODE": "sen hồng",
            "PATH": "/usr/bin",
        }
    )

    assert settings == LabSettings(
        data_dir=Path("/srv/data"),
        offline=True,
        cpu_threads=4,
        sample_seconds=0.1,
        class_code="sen hồng",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("YES", True), ("on", True), ("0", False), ("No", False), ("", False)],
)
def test_yes_and_no_may_be_written_in_the_usual_ways(text, value):
    assert LabSettings.load({"LAB_OFFLINE": text}).offline is value


def test_an_unknown_name_is_refused_with_the_nearest():
    notice = refusal({"LAB_CPU_THREAD": "2"})

    assert notice.key == "problem.environment_unknown"
    assert notice.facts == {"name": "LAB_CPU_THREAD", "near": "LAB_CPU_THREADS"}


@pytest.mark.parametrize("name", ["LAB_DATABASE_URI", "LAB_XYZ", "LAB_"])
def test_there_is_always_a_nearest_name(name):
    near = refusal({name: "x"}).facts["near"]

    assert near.removeprefix("LAB_").lower() in {setting.name for setting in fields(LabSettings)}


@pytest.mark.parametrize(
    ("name", "value", "low", "high"),
    [
        ("LAB_CPU_THREADS", "0", 1, 256),
        ("LAB_CPU_THREADS", "-3", 1, 256),
        ("LAB_TRAIN_SLOTS", "17", 1, 16),
        ("LAB_SAMPLE_SECONDS", "0.01", 0.05, 5),
        ("LAB_SAMPLE_SECONDS", "nan", 0.05, 5),
        ("LAB_SAMPLE_SECONDS", "inf", 0.05, 5),
        ("LAB_IDLE_SECONDS", "1e9", 1, 86_400),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(name, value, low, high):
    notice = refusal({name: value})

    assert notice.key == "problem.environment_range"
    assert notice.facts == {"name": name, "value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("LAB_CPU_THREADS", "two", "1 .. 256"),
        ("LAB_CPU_THREADS", "2.5", "1 .. 256"),
        ("LAB_CPU_THREADS", "", "1 .. 256"),
        ("LAB_SAMPLE_SECONDS", "0,2", "0.05 .. 5"),
        ("LAB_OFFLINE", "maybe", "true | false"),
        ("LAB_DEVICES", "0", "auto | cpu | GPU-..."),
        ("LAB_DEVICES", "cuda:0", "auto | cpu | GPU-..."),
        ("LAB_DEVICES", "GPU-1,", "auto | cpu | GPU-..."),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_what_is_expected(name, value, expected):
    notice = refusal({name: value})

    assert notice.key == "problem.environment_kind"
    assert notice.facts == {"name": name, "value": value, "expected": expected}


@pytest.mark.parametrize("name", ["LAB_DATA_DIR", "LAB_CACHE_DIR", "LAB_DEVICES"])
@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_value_is_refused_where_it_would_mean_nothing(name, text):
    """An empty path would be the folder that the server happens to stand in."""
    notice = refusal({name: text})

    assert notice.key == "problem.environment_empty"
    assert notice.facts == {"name": name}


def test_empty_codes_mean_that_there_is_none():
    assert LabSettings.load({"LAB_CLASS_CODE": "", "LAB_TEACHER_CODE": ""}) == LabSettings()


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("AUTO", "auto"),
        ("cpu", "cpu"),
        ("GPU-1, GPU-2", "GPU-1,GPU-2"),
        ("MIG-7", "MIG-7"),
    ],
)
def test_devices_are_named_by_uuid(text, devices):
    assert LabSettings.load({"LAB_DEVICES": text}).devices == devices


def test_folders_are_full_paths_whatever_was_written(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/teacher")

    settings = LabSettings.load({"LAB_DATA_DIR": "data", "LAB_CACHE_DIR": "~/lab"})

    assert settings.data_dir == tmp_path / "data"
    assert settings.cache == Path("/home/teacher/lab")


def test_the_home_of_an_unknown_user_is_refused():
    notice = refusal({"LAB_CACHE_DIR": "~no-such-user-here/lab"})

    assert notice.key == "problem.environment_folder"
    assert notice.facts["value"] == "~no-such-user-here/lab"


def test_secrets_hold_the_codes_and_the_environment_wins():
    settings = LabSettings.load(
        {"LAB_CLASS_CODE": "from the environment"},
        {"class_code": "from secrets", "teacher_code": 1234, "auth": {"cookie": "x"}},
    )

    assert settings.class_code == "from the environment"
    assert settings.teacher_code == "1234"


def test_other_settings_are_not_taken_from_secrets():
    assert LabSettings.load({}, {"offline": "true", "cpu_threads": "9"}) == LabSettings()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "environment",
    [
        {"LAB_NONSENSE": "1"},
        {"LAB_DATA_DIR": ""},
        {"LAB_OFFLINE": "maybe"},
        {"LAB_SAMPLE_SECONDS": "0"},
        {"LAB_CACHE_DIR": "~no-such-user-here"},
    ],
    ids=lambda environment: next(iter(environment)),
)
def test_each_refusal_is_a_sentence_that_names_the_variable(language, environment):
    sentence = texts(language).notice(refusal(environment))

    assert next(iter(environment)) in sentence
    assert sentence.endswith(".")
