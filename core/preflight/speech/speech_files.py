"""Where the speech of the gates comes from: a folder, a public set, or the synthesiser.

A clip is (samples,) at 16 kHz, mono, float32. Files of another rate are brought to 16 kHz with
SciPy's polyphase filter (`resample_poly`, its default Kaiser window) before the front end's own
fixed step of 1:2. What is of no use is skipped by name, with the reason.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import resample_poly
from torch import Tensor

from core.activities.preflight import FOLDER, LIBRISPEECH, SPOKEN, VOXPOPULI
from core.preflight.speech import synthesis
from core.problems import Problem

RATE = 16_000  # Hz
SUFFIXES = (".wav", ".flac")
SILENT_PEAK = 1e-4
CLIPPED_LEVEL, CLIPPED_SHARE = 0.999, 0.01  # so many samples at the rim: the recording is cut off
MOST_FILES = 20_000  # that are looked at in one folder
LONGEST_SECONDS = 3_600.0  # of one file, before it is decoded

# Name on the hub, configuration, split, of the sets that can be streamed.
STREAMS = {
    VOXPOPULI: ("facebook/voxpopuli", "en", "train"),
    LIBRISPEECH: ("openslr/librispeech_asr", "clean", "train.100"),
}


class Unfit(Exception):
    """A file that cannot be used; the text is the id of the reason."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was passed over."""

    name: str
    reason: str  # catalogue id


@dataclass(frozen=True, slots=True)
class Speech:
    """Clips of one length, chosen by a seed among all that are fit."""

    origin: str  # one of core.activities.preflight.BRANCHES
    clips: Tensor  # (clips, samples) at 16 kHz
    sources: tuple[str, ...]  # name of each clip, with its place: kept, so it can be made again
    skipped: tuple[Skipped, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """Reason -> how many files were skipped for it."""
        return dict(Counter(file.reason for file in self.skipped))


def load_speech(
    branch: str, folder: str, *, seconds: float, count: int, offline: bool, seed: int = 0
) -> Speech:
    """So many clips. Raises Problem where the branch has none at all."""
    if branch == SPOKEN:
        found: Iterable[tuple[str, NDArray[np.float32] | Unfit]] = synthesis.utterances(seconds)
    elif branch == FOLDER:
        found = _files(folder, seed)
    else:
        found = _streamed(branch, offline=offline)
    return _chosen(branch, found, samples=round(seconds * RATE), count=count, seed=seed)


def _chosen(
    branch: str,
    found: Iterable[tuple[str, NDArray[np.float32] | Unfit]],
    *,
    samples: int,
    count: int,
    seed: int,
) -> Speech:
    """The first `count` fit recordings, of each a cut at a seeded place."""
    places = np.random.default_rng(seed)
    clips: list[Tensor] = []
    sources: list[str] = []
    skipped: list[Skipped] = []
    for name, wave in found:
        try:
            if isinstance(wave, Unfit):
                raise wave
            _check(wave, samples)
        except Unfit as unfit:
            skipped.append(Skipped(name, str(unfit)))
            continue
        start = int(places.integers(0, len(wave) - samples + 1))
        clips.append(torch.from_numpy(wave[start : start + samples].copy()))
        sources.append(f"{name}@{start}")
        if len(clips) == count:
            break
    if not clips:
        raise Problem("problem.speech_none", skipped=len(skipped), seconds=samples / RATE)
    return Speech(branch, torch.stack(clips), tuple(sources), tuple(skipped))


def _check(wave: NDArray[np.float32], samples: int) -> None:
    """Raises Unfit for a recording that would spoil a figure."""
    if len(wave) < samples:
        raise Unfit("speech.skipped.short")
    if not np.isfinite(wave).all():
        raise Unfit("speech.skipped.corrupt")
    peaks = np.abs(wave)
    if peaks.max() < SILENT_PEAK:
        raise Unfit("speech.skipped.silent")
    if (peaks >= CLIPPED_LEVEL).mean() > CLIPPED_SHARE:
        raise Unfit("speech.skipped.clipped")


def _files(folder: str, seed: int) -> Iterator[tuple[str, NDArray[np.float32] | Unfit]]:
    """Every WAV and FLAC file under the folder, in an order drawn by the seed."""
    if not folder.strip():
        raise Problem("problem.speech_no_folder")
    root = Path(folder).expanduser()
    try:
        paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise Problem("problem.speech_folder", folder=folder, reason=str(error.strerror)) from None
    if not root.is_dir() or not paths:
        raise Problem("problem.speech_folder_empty", folder=folder, kinds=", ".join(SUFFIXES))
    order = np.random.default_rng(seed).permutation(len(paths))[:MOST_FILES]
    for index in order:
        path = paths[int(index)]
        try:
            yield path.relative_to(root).as_posix(), decoded(path.read_bytes())
        except OSError:
            yield path.relative_to(root).as_posix(), Unfit("speech.skipped.unreadable")
        except Unfit as unfit:
            yield path.relative_to(root).as_posix(), unfit


def decoded(data: bytes) -> NDArray[np.float32]:
    """A WAV or FLAC file as (samples,) at 16 kHz, channels averaged. Raises Unfit."""
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate = int(file.samplerate)
            if rate < RATE:  # telephone speech: nothing above 4 kHz, the mel bins there lie empty
                raise Unfit("speech.skipped.low_rate")
            if file.frames > LONGEST_SECONDS * rate:
                raise Unfit("speech.skipped.long")
            wave = file.read(dtype="float32", always_2d=True).mean(axis=1)
    except (soundfile.LibsndfileError, RuntimeError, ValueError) as error:
        raise Unfit("speech.skipped.corrupt") from error
    if rate == RATE:
        return np.asarray(wave, dtype=np.float32)
    shared = int(np.gcd(RATE, rate))
    return np.asarray(resample_poly(wave, RATE // shared, rate // shared), dtype=np.float32)


def _streamed(branch: str, *, offline: bool) -> Iterator[tuple[str, NDArray[np.float32] | Unfit]]:
    """Utterances of a public set as its host sends them; only as many as are asked for."""
    if offline:
        raise Problem("problem.speech_offline", branch=branch)
    try:
        import datasets
    except ImportError:
        raise Problem("problem.speech_no_datasets", branch=branch) from None
    name, configuration, split = STREAMS[branch]
    try:
        rows: Any = datasets.load_dataset(name, configuration, split=split, streaming=True)
        rows = rows.cast_column("audio", datasets.Audio(decode=False))  # decoded here, as files are
        for number, row in enumerate(rows):
            try:
                yield f"{branch}/{number}", decoded(row["audio"]["bytes"])
            except Unfit as unfit:
                yield f"{branch}/{number}", unfit
    except (OSError, ValueError, RuntimeError) as error:  # the network, or a set that has moved
        reason = f"{type(error).__name__}"
        raise Problem("problem.speech_stream", branch=branch, reason=reason) from error
