import json
import logging

import msgspec
import pytest

from core.activities import CpuVsGpuSettings
from core.events import Result
from core.recordings import MAX_READINGS, SHIPPED, replay_of, replays, write_replay
from core.telemetry.readings import Gpu, Machine, Reading, Recording, SummaryRow

MACHINE = Machine(
    cpu="a processor",
    cores=8,
    ram_mib=1_000.0,
    gpus=(Gpu(uuid="GPU-11111111-2222", name="a card"),),
)
VALUES = {
    "parameters": {"generator": 534_081, "discriminator": 138_817},
    "sections": ["cpu", "gpu"],
    "speedup": {"whole": 8.0, "compute": 25.0},
    "compute": [
        {"name": name, "steps": 15, "ms_median": 5.0, "ms_low": 4.0, "ms_high": 6.0}
        for name in ("cpu", "gpu")
    ],
    "steps": 20,
    "batch": 128,
    "threads": [2, 2],
    "device_name": "a card",
    "digits": "folder",
}


def replay(readings=3):
    recordings = tuple(
        Recording(
            name=name,
            seconds=readings * 0.2,
            readings=tuple(
                Reading(seconds=k * 0.2, cpu_percent=123.456789) for k in range(readings)
            ),
        )
        for name in ("cpu", "gpu")
    )
    rows = tuple(SummaryRow(name=name, seconds=1.0) for name in ("cpu", "gpu"))
    result = Result(rows=rows, values=VALUES)
    return replay_of("cpu-vs-gpu", CpuVsGpuSettings(steps=20), MACHINE, recordings, result)


def own(folder, activity="cpu-vs-gpu"):
    """The recordings of `folder` alone, without those that come with the app."""
    return replays(activity, folder)[len(replays(activity)) :]


def test_a_written_recording_is_read_back_as_it_was(tmp_path):
    write_replay(replay(), tmp_path / "mine.json")
    assert own(tmp_path) == (replay(),)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_a_recording_says_what_it_was_made_on_but_not_which_card_it_was():
    kept = replay()
    assert kept.device_name == "a card"
    assert kept.machine.gpus[0].name == "a card"
    assert kept.machine.gpus[0].uuid == ""


def test_a_long_run_makes_a_small_file(tmp_path):
    write_replay(replay(readings=5_000), tmp_path / "long.json")
    (kept,) = own(tmp_path)
    assert all(len(recording.readings) <= MAX_READINGS for recording in kept.recordings)
    assert kept.recordings[0].readings[1].cpu_percent == 123.5
    assert (tmp_path / "long.json").stat().st_size < 100_000


def spoilt(**changes):
    return msgspec.json.encode({**msgspec.to_builtins(replay()), **changes})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n",
        b"[]",
        msgspec.json.encode(replay())[:-20],
        spoilt(activity="mine-bitcoin"),
        spoilt(settings={"steps": 1_000_000}),
        spoilt(made_at="yesterday"),
        spoilt(values={}),
        spoilt(recordings=[]),
        spoilt(rows=[]),
        spoilt(surprise=1),
        b" " * 2_000_000,
    ],
    ids=[
        "empty",
        "not_json",
        "another_thing",
        "half_a_file",
        "unknown_activity",
        "settings_out_of_range",
        "no_date",
        "no_values",
        "no_recordings",
        "no_rows",
        "unknown_field",
        "huge",
    ],
)
def test_a_file_that_does_not_hold_is_left_out_and_logged(content, tmp_path, caplog):
    (tmp_path / "a-broken.json").write_bytes(content)
    write_replay(replay(), tmp_path / "b-sound.json")
    with caplog.at_level(logging.WARNING):
        assert own(tmp_path) == (replay(),)
    assert "a-broken.json is left out" in caplog.text


def test_a_folder_that_is_not_there_breaks_nothing(tmp_path):
    assert own(tmp_path / "nowhere") == ()
    (tmp_path / "file").write_text("not a folder")
    assert own(tmp_path / "file") == ()


def test_recordings_of_another_activity_are_not_mixed_in(tmp_path):
    write_replay(replay(), tmp_path / "mine.json")
    assert own(tmp_path, "train-gan") == ()


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.name)
def test_every_recording_that_comes_with_the_app_is_sound_and_small(path, tmp_path):
    (tmp_path / path.name).write_bytes(path.read_bytes())
    (kept,) = own(tmp_path, json.loads(path.read_bytes())["activity"])
    assert kept.machine.gpus, "made on a real GPU"
    assert path.stat().st_size < 100_000
