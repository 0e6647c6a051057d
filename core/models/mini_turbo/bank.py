"""Captions, and the latents of the pictures they tell of: what teacher and student learn from.

Made anew for each run, in seconds: the captions in processes of their own, the latents on the GPU.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import CLIPTokenizer

from core.models.mini_turbo.blocks import (
    LATENT_CHANNELS,
    SEATS,
    build_vae,
    tokenizer_of,
    train_tokenizer,
)
from core.models.mini_turbo.captions import caption, random_scene
from core.models.mini_turbo.pictures import Composer, Material
from core.models.mini_turbo.plumbing import Run, note

TOKENS = "tokens.json"  # the tokenizer's merges, beside the weights
CORPUS = 60_000  # captions that the tokenizer learns its pieces from
AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Captions:
    """Scenes (N, 4) and the token ids of one sentence for each (N, 77)."""

    scenes: Tensor
    ids: Tensor


@dataclass(frozen=True, slots=True)
class Bank:
    """All on the device."""

    latents: Tensor  # (N, 4, 16, 16), half precision
    ids: Tensor  # (N, 77), int16
    scenes: Tensor  # (N, 4)


def tokenizer_for(run: Run) -> CLIPTokenizer:
    """The one of an earlier stage, or a new one, which is then kept."""
    if any((folder / TOKENS).is_file() for folder in run.folders):
        return read_tokenizer(run.folders)
    chance = Random(7)
    count = min(CORPUS, max(2_000, run.bank))
    tokenizer = train_tokenizer(caption(chance, random_scene(chance)) for _ in range(count))
    keep_tokenizer(tokenizer, run.out)
    return tokenizer


def keep_tokenizer(tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write its merges, all that `read_tokenizer` needs."""
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOKENS).write_text(json.dumps(merges, ensure_ascii=False), "utf-8")


def read_tokenizer(folders: Sequence[Path]) -> CLIPTokenizer:
    """From the first folder that has it. Raises FileNotFoundError."""
    file = next((f / TOKENS for f in folders if (f / TOKENS).is_file()), folders[0] / TOKENS)
    merges = json.loads(file.read_text("utf-8"))
    return tokenizer_of([(left, right) for left, right in merges])


def token_ids(tokenizer: CLIPTokenizer, sentences: list[str]) -> NDArray[np.int16]:
    """(N, 77)"""
    cut = tokenizer(sentences, padding="max_length", truncation=True, max_length=SEATS)
    return np.array(cut.input_ids, dtype=np.int16)


def write_captions(run: Run, tokenizer: CLIPTokenizer) -> Captions:
    """`run.bank` scenes of the training and their sentences; call it before CUDA starts.

    The processes are forked, which is safe only as long as CUDA sleeps.
    """
    started = time.perf_counter()
    processes = run.processes or max(1, (os.cpu_count() or 2) - 1)
    share = math.ceil(run.bank / processes)
    jobs = [(share, run.seed * 1_000 + place, tokenizer) for place in range(processes)]
    if processes == 1:
        parts = [_written(job) for job in jobs]
    else:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            parts = pool.map(_written, jobs)
    scenes = np.concatenate([scenes for scenes, _ in parts])[: run.bank]
    ids = np.concatenate([ids for _, ids in parts])[: run.bank]
    note("captions", count=len(ids), seconds=time.perf_counter() - started)
    return Captions(torch.from_numpy(scenes), torch.from_numpy(ids))


def _written(job: tuple[int, int, CLIPTokenizer]) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    count, seed, tokenizer = job
    chance = Random(seed)
    scenes = [random_scene(chance) for _ in range(count)]
    ids = [
        token_ids(tokenizer, [caption(chance, scene) for scene in scenes[start : start + AT_ONCE]])
        for start in range(0, count, AT_ONCE)
    ]
    return np.array(scenes, dtype=np.int64), np.concatenate(ids)


@torch.no_grad()
def build_bank(run: Run, captions: Captions, material: Material, vae: Any) -> Bank:
    """Each scene drawn once and encoded: the mean of what the encoder says."""
    started = time.perf_counter()
    composer = Composer(material.train, run.device)
    scenes = captions.scenes.to(run.device)
    side = run.sizes.latent
    latents = torch.empty(
        len(scenes), LATENT_CHANNELS, side, side, device=run.device, dtype=torch.float16
    )
    for start in range(0, len(scenes), AT_ONCE):
        with run.amp():
            part = vae.encode(composer(scenes[start : start + AT_ONCE])).latent_dist.mean
        latents[start : start + AT_ONCE] = part.half()
    note("latents", spread=float(latents[:10_000].float().std()), s=time.perf_counter() - started)
    return Bank(latents, captions.ids.to(run.device), scenes)


def prepared(run: Run, tokenizer: CLIPTokenizer, material: Material | None) -> tuple[Bank, Any]:
    """The bank and the VAE that made it; a bank of noise and no VAE for a warm run."""
    if run.warm or material is None:
        return _made_up(run, 4_096, len(tokenizer)), None
    captions = write_captions(run, tokenizer)
    vae = run.read(build_vae(run.sizes), "vae")
    return build_bank(run, captions, material, vae), vae


@torch.no_grad()
def embedded(run: Run, text: nn.Module, ids: Tensor) -> Tensor:
    """Token ids (N, 77) -> words as the U-Net reads them (N, 77, width)."""
    parts = []
    for some in torch.split(ids, 4_096):
        with run.amp():
            parts.append(text(some.long())[0].to(run.dtype))
    return torch.cat(parts)


def _made_up(run: Run, count: int, vocabulary: int) -> Bank:
    """A bank of noise: enough to compile with."""
    side = run.sizes.latent
    return Bank(
        torch.randn(count, LATENT_CHANNELS, side, side, device=run.device).half(),
        torch.full((count, SEATS), vocabulary - 1, device=run.device, dtype=torch.int16),
        torch.zeros(count, 4, device=run.device, dtype=torch.long),
    )
