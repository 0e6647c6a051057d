"""Part 3, the lab's own run: load the model, warm up, then eight pictures one by one.

Loading is part of the lesson: a model that is in memory already is dropped first and loaded anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import torch

from core.activities.make_images import EightPicturesResult, EightPicturesSettings, ImageMade
from core.context import Context
from core.events import AnyEvent, Drawn, Measured, Progressed, Result, Staged, Stopped
from core.labs import pictures
from core.labs.device import device_name, device_of, wait_for
from core.labs.image_pipeline import MIB, Order, held, owner
from core.labs.make_images import require_all_allowed
from core.models.image_models import image_model

PICTURES = 8


def run(settings: EightPicturesSettings, context: Context) -> Iterator[AnyEvent]:
    """Pictures "image-0" to "image-7": sentence k mod 4, seed + k. Sections "load", "first" and
    "draw". The `Result` is an `EightPicturesResult`.

    Raises Problem for a sentence that may not be drawn, without the model, and without memory.
    """
    with device_of(context) as device:
        yield from _run(settings, context, device)


def _run(
    settings: EightPicturesSettings, context: Context, device: torch.device
) -> Iterator[AnyEvent]:
    require_all_allowed(settings.prompts, context)
    model = image_model(context.lab, settings.model)
    orders = [
        Order(settings.prompts[number % len(settings.prompts)], settings.seed + number)
        for number in range(PICTURES)
    ]
    yield Staged("stage.image_load")
    owner().drop()
    with context.meter.section("load") as load:
        pipeline = held(model, device)
        wait_for(device)
    yield Measured(load.recording)
    reserved = torch.cuda.memory_reserved(device) / MIB if device.type == "cuda" else None
    if context.stopped():
        yield Stopped()
        return

    yield Staged("stage.image_first")
    with context.meter.section("first") as first:
        pipeline.draw(orders[:1])
    yield Measured(first.recording)

    yield Staged("stage.image_draw")
    images: list[ImageMade] = []
    drawn: list[Drawn] = []
    with context.meter.section("draw") as draw:
        for number, order in enumerate(orders):
            if context.stopped():
                break
            began = time.perf_counter()
            (picture,) = pipeline.draw([order])
            drawn.append(Drawn(f"image-{number}", pictures.png(picture)))
            seconds = time.perf_counter() - began
            file = f"image-{number}.png"
            images.append(ImageMade(order.seed, seconds, file))
            yield drawn[-1]
            yield Progressed(number + 1, PICTURES, seconds * (PICTURES - 1 - number))
    if len(images) < PICTURES:
        yield Stopped()
        return
    yield Measured(draw.recording)
    result = EightPicturesResult(
        model=model.id,
        blocks=pipeline.blocks(),
        load_seconds=load.row.seconds,
        first_seconds=first.row.seconds,
        images=tuple(images),
        reserved_mib=reserved,
        device_name=device_name(device, context.machine),
    )
    yield Result(rows=(load.row, first.row, draw.row), values=msgspec.to_builtins(result))
