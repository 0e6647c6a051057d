"""Part 3, one picture taken apart: its words, its noise, its latent, and what each block took.

Noise and latent are shown as they lie before the VAE: their channels side by side, in grey, -3..3
to black..white, so that the two can be compared. What lies beyond is cut.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import msgspec
import torch
from torch import Tensor

from core.activities.make_images import PictureInsideResult, PictureInsideSettings
from core.context import Context
from core.events import AnyEvent, Drawn, Progressed, Result, Staged, Stopped
from core.labs import pictures
from core.labs.device import device_name, device_of, wait_for
from core.labs.image_pipeline import ImagePipeline, loading
from core.labs.make_images import require_all_allowed
from core.models.image_models import image_model

STEPS = (1, 2, 4)  # of those that the model has learnt
GREATEST = 3.0  # value of noise or latent that is white; minus that is black
SIDE = 64  # pixels of one channel, or what it has where that is more
UNREADABLE, HALF_A_LETTER = "\ufffd", "▯"
TIMED = 3  # times that a block works, of which the median is told


def run(settings: PictureInsideSettings, context: Context) -> Iterator[AnyEvent]:
    """Pictures "noise", "latent", and "steps-1" and so on; the `Result` is a
    `PictureInsideResult`.

    Raises Problem for a sentence that may not be drawn, without the model, and without memory.
    """
    with device_of(context) as device:
        yield from _run(settings, context, device)


def _run(
    settings: PictureInsideSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    require_all_allowed([settings.prompt], context)
    model = image_model(context.lab, settings.model)
    pipeline = yield from loading(model, context, device)

    yield Staged("stage.image_inside")
    inside = Inside(pipeline, settings.prompt, settings.seed)
    yield Drawn("noise", inside.noise_png())
    steps = tuple(count for count in STEPS if count <= model.most_steps)
    for number, count in enumerate(steps, 1):
        if context.stopped():
            yield Stopped()
            return
        if count == 1:
            yield Drawn("latent", inside.latent_png())
        yield Drawn(f"steps-{count}", inside.picture_png(count))
        yield Progressed(number, len(steps) + 1)
    result = PictureInsideResult(
        model=model.id,
        tokens=inside.tokens(),
        seats=pipeline.seats,
        blocks=pipeline.blocks(),
        latent_shape=pipeline.latent_shape,
        pixels=model.pixels,
        seconds=inside.seconds(),
        steps=steps,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(), values=msgspec.to_builtins(result))


class Inside:
    """One sentence and seed on its way through the blocks of a pipeline."""

    @torch.inference_mode()
    def __init__(self, pipeline: ImagePipeline, prompt: str, seed: int) -> None:
        self._pipeline, self._prompt = pipeline, prompt
        self._ids = pipeline.ids([prompt]).to(pipeline.device)
        self._noise = pipeline.noise([seed]).to(pipeline.device)
        self._words = pipeline.read(self._ids)

    def tokens(self) -> tuple[str, ...]:
        """The pieces of the sentence that have a seat, without the marks of start and end.

        A rare letter may be cut into its bytes: a piece that is none by itself is told as such.
        """
        tokenizer = self._pipeline.tokenizer
        ids = tokenizer(self._prompt, add_special_tokens=False).input_ids
        pieces = (tokenizer.decode([one]).strip() for one in ids[: self._pipeline.seats - 2])
        return tuple(piece.replace(UNREADABLE, HALF_A_LETTER) for piece in pieces)

    def noise_png(self) -> bytes:
        return channels_png(self._noise)

    @torch.inference_mode()
    def latent_png(self) -> bytes:
        return channels_png(self._pipeline.denoise(self._words, self._noise, 1))

    @torch.inference_mode()
    def picture_png(self, steps: int) -> bytes:
        latent = self._pipeline.denoise(self._words, self._noise, steps)
        return pictures.png(self._pipeline.develop(latent)[0].cpu().numpy())

    @torch.inference_mode()
    def seconds(self) -> dict[str, float]:
        """What each block with weights takes for this one picture with one step."""
        pipeline = self._pipeline
        latent = pipeline.denoise(self._words, self._noise, 1)
        works: dict[str, Callable[[], Tensor]] = {
            "text": lambda: pipeline.read(self._ids),
            "unet": lambda: pipeline.denoise(self._words, self._noise, 1),
            "vae": lambda: pipeline.develop(latent),
        }
        return {name: self._median(work) for name, work in works.items()}

    def _median(self, work: Callable[[], Tensor]) -> float:
        work()  # warm-up
        times = []
        for _ in range(TIMED):
            wait_for(self._pipeline.device)
            began = time.perf_counter()
            work()
            wait_for(self._pipeline.device)
            times.append(time.perf_counter() - began)
        return statistics.median(times)


def channels_png(latent: Tensor) -> bytes:
    """The channels of a latent (1, C, h, w) side by side, in grey."""
    cells = pictures.grey(latent.float().transpose(0, 1) / GREATEST)  # (C, h, w)
    scale = max(1, SIDE // cells.shape[-1])
    return pictures.png(pictures.grid(cells, columns=len(cells), scale=scale))
