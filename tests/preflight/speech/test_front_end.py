"""The way from sound to picture, against the known figures of the released model's front end."""

import math

import pytest
import torch

from core.preflight.speech.front_end import (
    DETECTION,
    FLOOR,
    ORIGINAL,
    bank,
    filters,
    log_mel,
    mel_input,
    resampled,
)

CLIP = 40_960  # samples of 2.56 s at 16 kHz


@pytest.fixture(scope="module")
def sine():
    n = torch.arange(CLIP, dtype=torch.float64)
    return (0.1 * torch.sin(2 * math.pi * 1000 * n / 16_000)).float()


def test_the_resampler_has_the_two_known_filters():
    whole, half = filters()[:, 0]

    assert whole[7:13].tolist() == pytest.approx(
        [0.990000, 0.009342, -0.007540, 0.005071, -0.002584, 0.000734], abs=1e-6
    )
    assert half[7:14].tolist() == pytest.approx(
        [0.625911, 0.625911, -0.181515, 0.080693, -0.034302, 0.010846, -0.001195], abs=1e-6
    )
    assert float(whole.sum()) == pytest.approx(1.000039, abs=1e-6)
    assert float(half.sum()) == pytest.approx(1.000875, abs=1e-6)


def test_resampling_doubles_the_samples_and_keeps_the_pitch(sine):
    doubled = resampled(sine)

    assert doubled.shape == (2 * CLIP,)
    loudest = int(torch.fft.rfft(doubled).abs().argmax()) * 32_000 / len(doubled)
    assert loudest == pytest.approx(1000, abs=0.5)


def test_a_pure_tone_comes_out_as_the_known_picture(sine):
    mel = mel_input(sine[None])[0, 0]

    assert mel.shape == (256, 128)
    assert float(mel[:254].mean()) == pytest.approx(-14.3813, abs=1e-3)
    row = mel[100]
    assert int(row.argmax()) == 43
    assert float(row.max()) == pytest.approx(2.43626, abs=1e-3)
    assert row[37:42].tolist() == pytest.approx(
        [-9.3571, -9.5321, -8.7477, -5.2751, -1.9455], abs=2e-3
    )
    assert row[[0, 3, 20, 64, 127]].tolist() == pytest.approx([math.log(FLOOR)] * 5)


def test_the_last_two_rows_are_padding_and_bin_three_hears_nothing():
    noise = torch.randn(2, CLIP, generator=torch.Generator().manual_seed(0))
    mel = mel_input(noise)

    assert (mel[:, 0, 254:] == 0).all()
    assert (mel[:, 0, :254].abs().sum(-1) > 0).all()
    assert (mel[:, 0, :254, 3] == math.log(FLOOR)).all()
    assert not bank(DETECTION)[3].any()


def test_the_filters_hold_the_known_numbers_of_fourier_lines():
    lines = (bank(DETECTION) > 0).sum(dim=1).tolist()

    assert lines[:12] == [1, 1, 1, 0, 1, 1, 1, 2, 1, 1, 1, 1]
    assert lines[120:] == [9, 9, 10, 10, 10, 10, 10, 10]
    assert lines.count(1) == 24


def test_silence_is_the_floor_and_stays_silent_when_made_loud():
    for loud in (False, True):
        mel = mel_input(torch.zeros(1, CLIP), peak_normalised=loud)
        assert (mel[0, 0, :254] == math.log(FLOOR)).all()


def test_peak_normalisation_takes_the_loudness_away(sine):
    loud, quiet = mel_input(torch.stack((sine, sine / 8)), peak_normalised=True)

    assert torch.allclose(loud, quiet, atol=1e-3)


def test_a_clip_does_not_depend_on_its_neighbours():
    noise = torch.randn(3, CLIP, generator=torch.Generator().manual_seed(1))

    assert torch.equal(mel_input(noise)[1], mel_input(noise[1:2])[0])


def test_ten_seconds_of_the_original_configuration_have_as_many_rows():
    for front in (DETECTION, ORIGINAL):
        clip = torch.zeros(front.clip)
        assert log_mel(clip, front).shape == (front.frames, front.mels) == (254, 128)
    assert (DETECTION.clip, ORIGINAL.clip) == (81_920, 320_000)
