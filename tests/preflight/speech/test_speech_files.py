"""Where the gates' speech comes from, and what is passed over."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from core.activities.preflight import FOLDER, SPOKEN, VOXPOPULI
from core.preflight.speech.speech_files import RATE, load_speech
from core.preflight.speech.synthesis import speakers
from core.problems import Problem

SECONDS = 0.5


def tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One usable file, one at 44.1 kHz in stereo, and one of every kind that is not."""
    soundfile.write(tmp_path / "fit.wav", tone(1, RATE), RATE)
    (tmp_path / "deeper").mkdir()
    stereo = np.stack([tone(1, 44_100), tone(1, 44_100)], axis=1)
    soundfile.write(tmp_path / "deeper" / "stereo.FLAC", stereo, 44_100, format="FLAC")
    soundfile.write(tmp_path / "short.wav", tone(0.1, RATE), RATE)
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    soundfile.write(tmp_path / "clipped.wav", np.clip(20 * tone(1, RATE), -1, 1), RATE)
    soundfile.write(tmp_path / "telephone.wav", tone(1, 8_000), 8_000)
    (tmp_path / "corrupt.wav").write_bytes(b"RIFF....WAVE but no more than that")
    (tmp_path / "notes.txt").write_text("no speech at all")
    return tmp_path


def from_folder(folder: Path, count: int = 8):
    return load_speech(FOLDER, str(folder), seconds=SECONDS, count=count, offline=True)


def test_each_unusable_file_is_named_with_its_reason_and_the_others_are_used(folder):
    speech = from_folder(folder)

    assert {file.name: file.reason.removeprefix("speech.skipped.") for file in speech.skipped} == {
        "short.wav": "short",
        "silent.wav": "silent",
        "clipped.wav": "clipped",
        "telephone.wav": "low_rate",
        "corrupt.wav": "corrupt",
    }
    assert speech.clips.shape == (2, round(SECONDS * RATE))
    assert {source.split("@")[0] for source in speech.sources} == {"fit.wav", "deeper/stereo.FLAC"}


def test_another_rate_is_brought_to_16_khz_and_keeps_its_pitch(folder):
    (folder / "fit.wav").unlink()
    (clip,) = from_folder(folder).clips.numpy()

    loudest = np.abs(np.fft.rfft(clip)).argmax() * RATE / len(clip)

    assert loudest == pytest.approx(440, abs=RATE / len(clip))


def test_the_same_seed_chooses_the_same_clips(folder):
    assert from_folder(folder).sources == from_folder(folder).sources


@pytest.mark.parametrize(
    ("branch", "place", "key"),
    [
        (FOLDER, "", "problem.speech_no_folder"),
        (FOLDER, "/no/such/folder", "problem.speech_folder_empty"),
        (VOXPOPULI, "", "problem.speech_offline"),
    ],
)
def test_a_branch_without_speech_says_what_to_do(branch, place, key):
    with pytest.raises(Problem) as raised:
        load_speech(branch, place, seconds=SECONDS, count=1, offline=True)

    assert raised.value.notice.key == key


def test_a_folder_of_unusable_files_is_told_with_their_number(folder):
    for name in ("fit.wav", "deeper/stereo.FLAC"):
        (folder / name).unlink()

    with pytest.raises(Problem) as raised:
        from_folder(folder)

    assert raised.value.notice.facts["skipped"] == 5


def test_without_any_files_many_voices_speak_both_languages():
    speech = load_speech(SPOKEN, "", seconds=2.56, count=12, offline=True)

    assert speech.clips.shape == (12, 40_960)
    assert not speech.skipped
    assert len(set(speech.sources)) == 12
    assert {source[:2] for source in speech.sources} == {"vi", "en"}
    assert len({voice for _, voice in speakers()}) == len(speakers()) >= 24
