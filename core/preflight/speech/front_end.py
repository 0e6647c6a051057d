"""From a clip of speech to the picture that the encoder sees.

Resample 16 -> 32 kHz, cut, take the clip's mean away, log-mel, fill up to 256 rows. The resampler
is the windowed sinc and the filter bank the Kaldi-style one that the released model was trained
with; both are written out here because no packaged one takes these options (filter 3 is empty).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

SOURCE_RATE, MODEL_RATE = 16_000, 32_000  # Hz
ROLL_OFF = 0.99  # of the Nyquist frequency
REACH = 6  # zero crossings of the sinc to either side
TAPS = 15  # of each of the two filters
PRE_EMPHASIS = 0.97
FLOOR = 1.1920929e-07  # energy; its logarithm is -15.9424
ROWS, BINS = 256, 128


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """One setting of the filter bank; lengths in samples at 32 kHz."""

    clip: int
    frame: int
    hop: int
    fft: int
    low_hz: float
    high_hz: float


DETECTION = FrontEnd(clip=81_920, frame=800, hop=320, fft=1_024, low_hz=20.0, high_hz=8_000.0)
ORIGINAL = FrontEnd(clip=320_000, frame=3_125, hop=1_250, fft=4_096, low_hz=20.0, high_hz=16_000.0)


@functools.cache
def filters() -> Tensor:
    """Both filters of the resampler, (2, 1, 15): for whole and for half source samples."""
    k = torch.arange(-(TAPS // 2), TAPS // 2 + 1, dtype=torch.float64)
    phases = torch.tensor([0.0, 0.5], dtype=torch.float64)[:, None]
    u = (ROLL_OFF * (phases - k)).clamp(-REACH, REACH)
    taps = ROLL_OFF * torch.sinc(u) * torch.cos(math.pi * u / (2 * REACH)) ** 2
    # The correlation runs forward over the source, so tap k belongs to sample n + k.
    return taps.float()[:, None]


def resampled(wave: Tensor) -> Tensor:
    """(L,) or (B, L) at 16 kHz -> (2 L,) or (B, 2 L) at 32 kHz, in float32."""
    batch = wave.float().reshape(-1, 1, wave.shape[-1])
    padded = torch.nn.functional.pad(batch, (TAPS // 2, TAPS // 2 + 1))
    both = torch.nn.functional.conv1d(padded, filters().to(batch.device))
    woven = both.transpose(1, 2).reshape(len(batch), -1)[:, : 2 * wave.shape[-1]]
    return woven.reshape(*wave.shape[:-1], -1)


def _mel(hertz: float) -> float:
    return 1127.0 * math.log(1.0 + hertz / 700.0)


@functools.cache
def bank(front: FrontEnd) -> Tensor:
    """The triangles, (128, fft / 2 + 1), straight in mel, none normalised; the last column is 0."""
    edges = torch.linspace(_mel(front.low_hz), _mel(front.high_hz), BINS + 2, dtype=torch.float64)
    spacing = (_mel(front.high_hz) - _mel(front.low_hz)) / (BINS + 1)
    hertz = torch.arange(front.fft // 2, dtype=torch.float64) * MODEL_RATE / front.fft
    mels = 1127.0 * torch.log(1.0 + hertz / 700.0)
    rising = (mels - edges[:BINS, None]) / spacing
    falling = (edges[2:, None] - mels) / spacing
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return torch.nn.functional.pad(triangles, (0, 1)).float()


def log_mel(clip: Tensor, front: FrontEnd = DETECTION) -> Tensor:
    """(samples,) at 32 kHz -> (frames, 128), natural logarithm; whole frames only."""
    frames = clip.unfold(-1, front.frame, front.hop)
    frames = frames - frames.mean(dim=-1, keepdim=True)
    before = torch.cat((frames[..., :1], frames[..., :-1]), dim=-1)
    frames = frames - PRE_EMPHASIS * before
    window = torch.hann_window(front.frame, periodic=False, device=clip.device)
    spectrum = torch.fft.rfft(frames * window, n=front.fft).abs() ** 2
    energy = spectrum @ bank(front).to(clip.device).T
    mel: Tensor = energy.clamp(min=FLOOR).log()
    return mel


def mel_input(
    waves: Tensor, front: FrontEnd = DETECTION, *, peak_normalised: bool = False
) -> Tensor:
    """(B, L) at 16 kHz -> (B, 1, 256, 128).

    `peak_normalised`: each clip scaled to its loudest sample, as the released weights were trained.
    Rows past the last frame are 0, which is far above the floor: kept for compatibility.
    """
    pictures = []
    for wave in waves:
        clip = resampled(wave)[: front.clip]
        # Each by itself: one mean over a batch sums in another order, and moves the logarithms.
        clip = clip - clip.mean()
        if peak_normalised:
            clip = clip / clip.abs().max().clamp(min=1e-12) + 1e-6
        mel = log_mel(clip, front)[:ROWS]
        pictures.append(torch.nn.functional.pad(mel, (0, 0, 0, ROWS - len(mel))))
    return torch.stack(pictures)[:, None]
