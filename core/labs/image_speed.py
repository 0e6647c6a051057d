"""Part 3, how fast it can go: ways to draw the same pictures, each measured beside the plain one.

plain          the four blocks, one after the other, as PyTorch runs them
cached_words   the sentences were read before: the text encoder is left out
channels_last  weights and pictures with the colour channel innermost in memory
graph          the whole picture captured as one CUDA graph
compiled       U-Net and VAE compiled by Inductor, inside such a graph
small_vae      the same with a VAE of 2 million parameters, where its files are on disk

Each way is warmed up, then timed until the pictures are bytes in the computer's own memory; making
PNG files of them is the same for all and left out. On a CPU only the first three exist. Compiled
blocks stay: from then on this worker draws everybody's pictures with them.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from diffusers import AutoencoderTiny
from torch import Tensor

from core.activities.make_images import EXAMPLE, ImageSpeedResult, ImageSpeedSettings, Rung
from core.context import Context
from core.events import AnyEvent, Progressed, Result, Staged, Stopped
from core.labs.device import device_name, device_of, wait_for
from core.labs.image_pipeline import ImagePipeline, Pictures, loading
from core.labs.picture_graphs import Compiling, PictureGraph, has_compiler
from core.models.image_models import image_model

RUNGS = ("plain", "cached_words", "channels_last", "graph", "compiled", "small_vae")
BATCHES = (1, 8)
WARM_UP = 2  # batches before the clock, after what captures and compiling need
ENOUGH_SECONDS = 20.0  # of one way at one batch size: then there are no more repeats of it
SMALL_VAE = "taesd"  # folder among the fetched models, and the id that its latents go with
SMALL_VAE_CHANNELS, SMALL_VAE_SHRINK = 4, 8  # of the latents that it can read: those of sd-turbo


@dataclass(slots=True)
class Bench:
    """What all rungs of one run share, and what has been found so far."""

    pipeline: ImagePipeline
    context: Context
    repeats: int
    batches: tuple[int, ...]
    plain: dict[int, Pictures] = field(default_factory=dict)  # batch -> its pictures
    rungs: list[Rung] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def ids(self, batch: int) -> Tensor:
        return self.pipeline.ids([EXAMPLE] * batch).to(self.pipeline.device)

    def noise(self, batch: int) -> Tensor:
        return self.pipeline.noise(range(batch)).to(self.pipeline.device)


def run(settings: ImageSpeedSettings, context: Context) -> Iterator[AnyEvent]:
    """All ways that this device has, at batch 1 and 8; the `Result` is an `ImageSpeedResult`.

    The pipeline draws as before afterwards, by the fastest exact way found.
    Raises Problem without the model, and without memory.
    """
    with device_of(context) as device:
        yield from _run(settings, context, device)


def _run(
    settings: ImageSpeedSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    model = image_model(context.lab, settings.model)
    pipeline = yield from loading(model, context, device)
    batches = tuple(batch for batch in BATCHES if batch <= model.most_at_once)
    pipeline.draw_with(*pipeline.own_blocks())  # not what an earlier run has compiled
    bench = Bench(pipeline, context, settings.repeats, batches)
    for number, name in enumerate(RUNGS):
        reason = impossible(name, pipeline, context)
        if reason is not None:
            bench.skipped[name] = reason
        elif not (yield from _climb(name, bench)):
            yield Stopped()
            return
        yield Progressed(number + 1, len(RUNGS))
    result = ImageSpeedResult(
        model=model.id,
        rungs=tuple(bench.rungs),
        skipped=bench.skipped,
        copy_mib=sum(block.mib for block in pipeline.blocks()),
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(), values=msgspec.to_builtins(result))


def impossible(name: str, pipeline: ImagePipeline, context: Context) -> str | None:
    """Catalogue id of the reason why this way does not exist here; None where it does."""
    if name in RUNGS[:3]:
        return None
    if pipeline.device.type != "cuda":
        return "image_speed.needs_gpu"
    if name == "compiled" and not has_compiler(pipeline.device):
        return "image_speed.no_compiler"
    if name == "small_vae":
        if not _reads_latents_of(pipeline):
            return "image_speed.other_latents"
        if not (context.lab.models / SMALL_VAE / "config.json").is_file():
            return "image_speed.no_small_vae"
    return None


def _reads_latents_of(pipeline: ImagePipeline) -> bool:
    channels, height, _ = pipeline.latent_shape
    shrink = pipeline.model.pixels // height
    return (channels, shrink) == (SMALL_VAE_CHANNELS, SMALL_VAE_SHRINK)


# One rung


def _climb(name: str, bench: Bench) -> Generator[AnyEvent, None, bool]:
    """Measure one way at every batch size. False: the student stopped it."""
    pipeline = bench.pipeline
    yield Staged(f"stage.image_speed_{name}")
    if bench.context.stopped():
        return False
    if name == "compiled":
        compiling = Compiling(pipeline, bench.batches)
        for _ in compiling.waiting():
            if bench.context.stopped():
                return False
        if not compiling.usable:
            bench.skipped[name] = "image_speed.not_compiled"
            return True
    with _prepared(name, bench):
        for batch in bench.batches:
            if bench.context.stopped():
                return False
            bench.rungs.append(_measured(name, batch, bench))
    return True


@contextmanager
def _prepared(name: str, bench: Bench) -> Iterator[None]:
    """In this block the pipeline is as this way has it; afterwards as it was before."""
    pipeline = bench.pipeline
    if name == "channels_last":
        pipeline.forget_graphs()  # the weights move
        _lay_out(pipeline, torch.channels_last)
        try:
            yield
        finally:
            _lay_out(pipeline, torch.contiguous_format)
    elif name == "small_vae":
        exact = pipeline.decode
        pipeline.decode = _small_decoder(bench.context.lab.models / SMALL_VAE, pipeline)
        try:
            yield
        finally:
            pipeline.decode = exact
    else:
        yield


def _lay_out(pipeline: ImagePipeline, layout: torch.memory_format) -> None:
    for block in (pipeline.unet, pipeline.vae):
        block.to(memory_format=layout)


def _small_decoder(folder: Path, pipeline: ImagePipeline) -> Callable[[Tensor], Tensor]:
    vae: Any = AutoencoderTiny.from_pretrained(
        folder,
        dtype=pipeline.unet.dtype,
        local_files_only=True,
        use_safetensors=True,
        low_cpu_mem_usage=False,
    )
    vae.to(pipeline.device).eval().requires_grad_(False)
    scale = vae.config.scaling_factor

    def decode(latents: Tensor) -> Tensor:
        decoded: Tensor = vae.decode(latents / scale, return_dict=False)[0]
        return decoded

    return decode


@torch.inference_mode()
def _measured(name: str, batch: int, bench: Bench) -> Rung:
    pipeline = bench.pipeline
    draw = _way(name, batch, bench)
    for _ in range(WARM_UP):
        pictures: Pictures = draw().cpu().numpy()
    bench.plain.setdefault(batch, pictures)  # the plain way comes first
    seconds = _times(lambda: draw().cpu(), bench.repeats, pipeline.device)
    apart = np.abs(pictures.astype(int) - bench.plain[batch]).max() / 255
    median = statistics.median(seconds)
    return Rung(
        name=name,
        batch=batch,
        ms_median=1000 * median,
        ms_low=1000 * min(seconds),
        ms_high=1000 * max(seconds),
        pictures_per_second=batch / median,
        difference=float(apart),
    )


def _way(name: str, batch: int, bench: Bench) -> Callable[[], Tensor]:
    """What draws such a batch in this way."""
    pipeline, ids, noise = bench.pipeline, bench.ids(batch), bench.noise(batch)
    if name == "cached_words":
        words = pipeline.read(ids)
        return lambda: pipeline.develop(pipeline.denoise(words, noise, 1))
    if name in ("graph", "compiled"):
        graph = pipeline.graph(batch, 1)  # kept: the class's pictures come from it
        return lambda: graph.replay(ids, noise)
    if name == "small_vae":
        pipeline.plan(1)
        graph = PictureGraph(
            functools.partial(pipeline.picture, steps=1), ids=ids.clone(), noise=noise.clone()
        )
        return lambda: graph.replay(ids, noise)
    return lambda: pipeline.picture(ids, noise, 1)


def _times(work: Callable[[], object], repeats: int, device: torch.device) -> Sequence[float]:
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < ENOUGH_SECONDS:
        wait_for(device)
        began = time.perf_counter()
        work()
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    return seconds
