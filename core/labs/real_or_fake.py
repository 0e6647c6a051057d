"""Real or fake? Eight digits, half of them by the student's own G, and what D makes of each.

Everybody judges the same evidence: D is given the pictures as the page shows them, in 256 greys.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import torch

from core.activities.soc import DIGITS, RealOrFakeResult, RealOrFakeSettings
from core.context import Context
from core.events import AnyEvent, Drawn, Result, Staged
from core.labs import keeping, pictures
from core.labs.dcgan import NOISE
from core.labs.device import device_of

SCALE = 4  # each pixel of a digit, as large on the page


def run(settings: RealOrFakeSettings, context: Context) -> Iterator[AnyEvent]:
    """Pictures "digit-0" to "digit-7", whose names and order tell nothing; the `Result` is a
    `RealOrFakeResult`. Raises Problem when this student has trained nothing yet."""
    with device_of(context) as device:
        yield Staged("stage.drawing")
        gan = keeping.load(context.keep, device)
        images = context.digits().images  # (N, 28, 28)
        chance = torch.Generator().manual_seed(settings.seed)
        places = torch.randint(len(images), (DIGITS // 2,), generator=chance)
        noise = torch.randn(DIGITS - DIGITS // 2, NOISE, 1, 1, generator=chance)
        order = torch.randperm(DIGITS, generator=chance).numpy()
        with torch.inference_mode():
            fakes = pictures.grey(gan.generator(noise.to(device)))
            cells = np.concatenate([images[places.numpy()], fakes])[order]  # (8, 28, 28)
            seen = torch.from_numpy(cells).to(device).float().div(127.5).sub(1)[:, None]
            beliefs = gan.discriminator(seen).sigmoid().flatten().tolist()
        for number, cell in enumerate(cells):
            picture = pictures.grid(cell[None], columns=1, scale=SCALE)
            yield Drawn(f"digit-{number}", pictures.png(picture))
    truths = tuple(bool(place < DIGITS // 2) for place in order)
    result = RealOrFakeResult(truths=truths, beliefs=tuple(beliefs))
    yield Result(rows=(), values=msgspec.to_builtins(result))
