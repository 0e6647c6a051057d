"""Part 3, before the class: the image model in memory, its U-Net and VAE compiled, graphs captured.

The server runs this once at its start where the teacher asks for it (`LAB_COMPILE_PICTURES`), in
the worker that owns the model: from then on everybody's pictures come the fastest way. It takes a
minute or two the first time; what was compiled stays on disk for the next start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from core.activities.make_images import PreparePicturesResult, PreparePicturesSettings
from core.context import Context
from core.events import AnyEvent, Progressed, Result, Staged, Stopped
from core.labs.device import device_name, device_of
from core.labs.image_pipeline import Order, loading
from core.labs.image_speed import BATCHES, impossible
from core.labs.picture_graphs import Compiling
from core.models.image_models import image_model


def run(settings: PreparePicturesSettings, context: Context) -> Iterator[AnyEvent]:
    """Load, compile where this device can, draw once at each batch size.

    Raises Problem without the model, and without memory.
    """
    with device_of(context) as device:
        began = time.monotonic()
        pipeline = yield from loading(image_model(context.lab, settings.model), context, device)
        sizes = tuple(size for size in BATCHES if size <= pipeline.most_at_once)
        total = len(sizes) + 1
        yield Progressed(0, total)
        why_not = impossible("compiled", pipeline, context)
        if why_not is None:
            yield Staged("stage.image_speed_compiled")
            compiling = Compiling(pipeline, sizes)
            for _ in compiling.waiting():
                if context.stopped():  # what was begun goes on by itself, and is not used
                    yield Stopped()
                    return
                yield Progressed(0, total)
            why_not = None if compiling.usable else "image_speed.not_compiled"
        for number, size in enumerate(sizes):
            yield Staged("stage.image_first")
            pipeline.draw([Order("", seed) for seed in range(size)])
            yield Progressed(number + 2, total)
        result = PreparePicturesResult(
            model=pipeline.model.id,
            seconds=time.monotonic() - began,
            not_compiled=why_not,
            device_name=device_name(device, context.machine),
        )
        yield Result(rows=(), values=msgspec.to_builtins(result))
