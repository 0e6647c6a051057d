"""What the gates of one run share: settings, weights, speech, and fresh copies of the networks.

Tests make smaller benches of it, and broken ones.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from core.activities.preflight import SpeechSettings
from core.context import Context
from core.preflight.speech.encoder import Encoder, build_encoder, from_checkpoint
from core.preflight.speech.front_end import DETECTION, ORIGINAL, FrontEnd, mel_input
from core.preflight.speech.predictor import Predictor, build_predictor
from core.preflight.speech.speech_files import Speech, load_speech
from core.preflight.speech.training import Plan, Training
from core.preflight.speech.weights import (
    PREDICTOR,
    STUDENT,
    TEACHER,
    Weights,
    load_weights,
)

CLIPS = 64  # of the fixed batch that collapse is watched on
CLIP_SECONDS, ORIGINAL_SECONDS = 2.56, 10.0
ENCODED_AT_ONCE = 8
GPU_BATCH, CPU_BATCH = 32, 4


class SpeechBench:
    """One run's. Sizes are those of the published model."""

    width, depth, heads = 768, 12, 12
    narrow, narrow_depth, narrow_heads = 384, 6, 12
    patch, grid = (8, 32), (32, 4)
    original_patch, original_grid = (16, 16), (16, 8)
    clips = CLIPS

    def __init__(self, settings: SpeechSettings, context: Context) -> None:
        self.settings = settings
        self.context = context
        self.device = torch.device(context.device)
        self.batch = settings.batch or (GPU_BATCH if self.on_gpu else CPU_BATCH)
        self.plan = Plan(settings.ref_lr, settings.warm_up, settings.ema)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def tokens(self) -> int:
        return self.grid[0] * self.grid[1]

    # Weights and networks

    def expected(self) -> dict[str, tuple[int, ...]]:
        """Full name -> shape of every tensor of the released weights."""
        encoder = self.fresh(self.original_patch, seed=0).state_dict()
        predictor = self._fresh_predictor(self.original_grid, seed=0).state_dict()
        shapes = {f"{STUDENT}{name}": tuple(tensor.shape) for name, tensor in encoder.items()}
        shapes |= {f"{TEACHER}{name}": tuple(tensor.shape) for name, tensor in encoder.items()}
        shapes |= {f"{PREDICTOR}{name}": tuple(tensor.shape) for name, tensor in predictor.items()}
        return shapes

    @cached_property
    def weights(self) -> Weights:
        return load_weights(self.context.lab, self.expected())

    def fresh(self, patch: tuple[int, int] | None = None, *, seed: int) -> Encoder:
        """An encoder that has learnt nothing."""
        return build_encoder(
            patch=patch or self.patch,
            seed=seed,
            width=self.width,
            depth=self.depth,
            heads=self.heads,
        )

    def _fresh_predictor(self, grid: tuple[int, int], *, seed: int) -> Predictor:
        return build_predictor(
            rows=grid[0],
            columns=grid[1],
            seed=seed,
            width=self.narrow,
            outer=self.width,
            depth=self.narrow_depth,
            heads=self.narrow_heads,
        )

    def encoder(self, prefix: str = STUDENT) -> Encoder:
        """Student or teacher for the new geometry, by the loading rule; a copy of its own."""
        encoder, _missing, _unexpected = self.loaded(prefix)
        return encoder.to(self.device)

    def loaded(self, prefix: str) -> tuple[Encoder, list[str], list[str]]:
        """The encoder, and which names were missing or unexpected."""
        encoder, missing, unexpected = from_checkpoint(
            self.weights.tensors, prefix, patch=self.patch, heads=self.heads
        )
        return encoder, list(missing), list(unexpected)

    def original_encoder(self, prefix: str = STUDENT) -> Encoder:
        """The encoder as it was trained: its own patches and its own table."""
        encoder = self.fresh(self.original_patch, seed=0)
        encoder.load_state_dict(
            {
                name.removeprefix(prefix): tensor
                for name, tensor in self.weights.tensors.items()
                if name.startswith(prefix)
            }
        )
        return encoder.to(self.device)

    def predictor(self) -> Predictor:
        """The predictor for the new geometry: everything but its table comes from the weights."""
        predictor = self._fresh_predictor(self.grid, seed=0)
        own = predictor.state_dict()
        for name, tensor in self.weights.tensors.items():
            short = name.removeprefix(PREDICTOR)
            if name.startswith(PREDICTOR) and short != "predictor_pos_embed":
                own[short] = tensor
        predictor.load_state_dict(own)
        return predictor.to(self.device)

    def training(self, precision: str = "fp32") -> Training:
        """A run at step 0, on copies."""
        return Training(
            self.encoder(STUDENT),
            self.encoder(TEACHER),
            self.predictor(),
            self.plan,
            precision=precision,
        )

    # Speech

    @cached_property
    def speech(self) -> Speech:
        return self._speech(CLIP_SECONDS, self.clips)

    def long_speech(self, count: int) -> Speech:
        """Clips of the length that the released weights were trained on."""
        return self._speech(ORIGINAL_SECONDS, count)

    def _speech(self, seconds: float, count: int) -> Speech:
        return load_speech(
            self.settings.branch,
            self.settings.folder,
            seconds=seconds,
            count=count,
            offline=self.context.lab.offline,
        )

    def mel(self, clips: Tensor, front: FrontEnd = DETECTION, *, peak: bool = False) -> Tensor:
        """(clips, samples) at 16 kHz -> (clips, 1, 256, 128), on the CPU as a loader would."""
        return mel_input(clips, front, peak_normalised=peak)

    def original_mel(self, clips: Tensor, *, peak: bool) -> Tensor:
        return self.mel(clips, ORIGINAL, peak=peak)

    @cached_property
    def mels(self) -> Tensor:
        """Of the fixed clips, on the device."""
        return self.mel(self.speech.clips).to(self.device)

    def batch_of(self, size: int) -> Tensor:
        """A batch of the fixed clips' mels; they come round again where there are fewer."""
        index = torch.arange(size) % len(self.mels)
        return self.mels[index.to(self.mels.device)]

    @torch.inference_mode()
    def encoded(self, encoder: Encoder, mels: Tensor) -> Tensor:
        """(clips, tokens, width) in float32, on the CPU."""
        parts = [
            encoder(mels[start : start + ENCODED_AT_ONCE].to(self.device)).float().cpu()
            for start in range(0, len(mels), ENCODED_AT_ONCE)
        ]
        return torch.cat(parts)
