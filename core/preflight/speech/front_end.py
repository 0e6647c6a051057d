"""From a clip of speech to the picture that the encoder sees.

Resample 16 -> 32 kHz, cut, take the clip's mean away, log-mel, fill up to 256 rows. The resampler
is the windowed sinc and the filter bank the Kaldi-style one that the released model was trained
with, to the last bit (compared with torchaudio 2.11.1, which has both); written out here because
torchaudio is kept alive only, and the other packages refuse these options or sound different.

Filter 3, around 77.8 Hz, lies between two lines of the Fourier transform and hears nothing.
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
    """One setting of the filter bank. Lengths are in samples at 32 kHz."""

    clip_seconds: float
    hop: int
    frame: int
    fft: int
    low_hz: float
    high_hz: float
    mels: int = BINS
    rows: int = ROWS

    @property
    def clip(self) -> int:
        """Length of a clip, in samples."""
        return round(self.clip_seconds * MODEL_RATE)

    @property
    def frames(self) -> int:
        """Whole frames in a clip; the other rows of its picture are padding."""
        return 1 + (self.clip - self.frame) // self.hop


# How the long run will listen, with frames of 25 ms every 10 ms; and how the released weights have
# listened, with frames of 97.65625 ms every 39.0625 ms.
DETECTION = FrontEnd(clip_seconds=2.56, hop=320, frame=800, fft=1_024, low_hz=20, high_hz=8_000)
ORIGINAL = FrontEnd(clip_seconds=10.0, hop=1_250, frame=3_125, fft=4_096, low_hz=20, high_hz=16_000)


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
    """The triangles, (mels, fft / 2 + 1): straight in mel, their peaks 1; the last column is 0.

    All in float32, as the released model had them: in float64 the last bits differ.
    """
    spacing = (_mel(front.high_hz) - _mel(front.low_hz)) / (front.mels + 1)
    points = _mel(front.low_hz) + torch.arange(front.mels + 2.0) * spacing
    left, peak, right = points[:-2, None], points[1:-1, None], points[2:, None]  # (mels, 1)
    line = 1127.0 * (1.0 + torch.arange(front.fft // 2) * (MODEL_RATE / front.fft) / 700.0).log()
    rising, falling = (line - left) / (peak - left), (right - line) / (right - peak)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return torch.nn.functional.pad(triangles, (0, 1))


def log_mel(clip_32k: Tensor, front: FrontEnd = DETECTION) -> Tensor:
    """(samples,) at 32 kHz -> (frames, mels): natural logarithm of energy, whole frames only."""
    frames = clip_32k.unfold(-1, front.frame, front.hop)  # (frames, frame)
    frames = frames - frames.mean(dim=-1, keepdim=True)
    before = torch.cat((frames[:, :1], frames[:, :-1]), dim=-1)
    frames = frames - PRE_EMPHASIS * before
    window = torch.hann_window(front.frame, periodic=False, device=clip_32k.device)
    # Magnitude first, then squared: the other way round the last bit differs.
    power = torch.fft.rfft(frames * window, n=front.fft).abs() ** 2  # (frames, fft / 2 + 1)
    energy: Tensor = power @ bank(front).to(power.device).T
    return energy.clamp(min=FLOOR).log()


def mel_input(
    waves_16k: Tensor, front: FrontEnd = DETECTION, *, peak_normalised: bool = False
) -> Tensor:
    """(B, L) at 16 kHz -> (B, 1, rows, mels).

    `peak_normalised`: each clip scaled to its loudest sample, as the released weights were trained.
    Rows past the last frame are 0, which is far above the floor: kept for compatibility. A wave
    that is too short gives more of them.
    """
    pictures = [_picture(wave, front, peak_normalised) for wave in waves_16k]
    return torch.stack(pictures)[:, None]


def _picture(wave: Tensor, front: FrontEnd, peak_normalised: bool) -> Tensor:
    """Of one clip by itself: a mean over a batch sums in another order, and moves what is small."""
    clip = resampled(wave)[: front.clip]
    clip = clip - clip.mean()
    if peak_normalised:
        clip = clip / clip.abs().max().clamp(min=1e-12) + 1e-6  # silence stays silent
    mel = log_mel(clip, front)[: front.rows]
    return torch.nn.functional.pad(mel, (0, 0, 0, front.rows - len(mel)))
