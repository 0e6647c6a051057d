"""Part 2, afterwards: what happens inside the student's own G and D, layer by layer.

Each picture shows feature maps of one layer side by side: every map is what one channel has found,
as the next layer receives it. Within a layer all maps share one scale: mid-grey is zero, white the
largest values, black as far below zero. The same channels are shown each time, so that two noises
can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from core.activities.train_gan import InsideResult, InsideSettings, LayerMaps
from core.context import Context
from core.data.digits import Digits
from core.events import AnyEvent, Drawn, Result, Staged
from core.labs import keeping, pictures
from core.labs.device import device_of
from core.labs.draw_digits import noises

SHOWN = 16  # channels of a layer, the first ones
COLUMNS = 8
SIDE = 56  # pixels of one map: 2, 4 or 8 times what it is
ENDS_A_LAYER = (nn.ReLU, nn.LeakyReLU, nn.Tanh)  # what the next layer receives


def run(settings: InsideSettings, context: Context) -> Iterator[AnyEvent]:
    """A picture for each layer of G, drawing from one noise, and of D, judging one real digit.

    The `Result` is an `InsideResult`. Raises Problem when this student has trained nothing yet,
    and when the card is full.
    """
    with device_of(context) as device:
        yield Staged("stage.looking_inside")
        yield from _looked(settings, context, device)


def _looked(settings: InsideSettings, context: Context, device: torch.device) -> Iterator[AnyEvent]:
    gan = keeping.load(context.keep, device)
    noise = noises(1, settings.seed).to(device)
    real = _real(context.digits(), settings.digit, settings.seed).to(device)
    with torch.inference_mode():
        made = maps_of(gan.generator, noise)  # the last is the picture itself
        seen = maps_of(gan.discriminator, real)
        beliefs = gan.discriminator(torch.cat([made[-1], real])).sigmoid()  # (2, 1)

    layers = []
    for network, all_maps in (("generator", made), ("discriminator", seen)):
        for place, maps in enumerate(all_maps):
            facts, picture = _shown(f"{network}-{place}", network, maps)
            layers.append(facts)
            yield Drawn(facts.picture, picture)
    score_fake, score_real = beliefs.flatten().tolist()
    result = InsideResult(layers=tuple(layers), score_fake=score_fake, score_real=score_real)
    yield Result(rows=(), values=msgspec.to_builtins(result))


def _real(digits: Digits, digit: int, seed: int) -> Tensor:
    """A real picture (1, 1, 28, 28) of this digit in -1..1; another seed takes another one."""
    places = np.flatnonzero(digits.labels == digit)
    # Every digit is in the real data; a set without it shows what it has.
    place = int(places[seed % len(places)]) if len(places) else seed % len(digits.images)
    picture = torch.tensor(digits.images[place], dtype=torch.float32)
    return picture.div_(127.5).sub_(1).view(1, 1, 28, 28)


def maps_of(network: nn.Sequential, given: Tensor) -> list[Tensor]:
    """What goes in, then what leaves each layer after its activation: (1, channels, H, W) each."""
    maps = [given]
    for module in network:
        given = module(given)
        if isinstance(module, ENDS_A_LAYER):
            maps.append(given)
    return maps


def _shown(name: str, network: str, maps: Tensor) -> tuple[LayerMaps, bytes]:
    channels, height, width = maps.shape[1:]
    # The noise is 64 numbers, each a map of one pixel: all of them fit.
    shown = channels if height == width == 1 else min(channels, SHOWN)
    some = maps[0, :shown]  # (shown, height, width)
    # The largest of two hundred values is white: one wild value would leave all others grey.
    scaled = some / some.abs().flatten().quantile(0.995).clamp(min=1e-9)
    side = SIDE if shown <= SHOWN else SIDE // 4  # smaller where there are many
    cells = pictures.grey(scaled[:, None])
    picture = pictures.grid(cells, columns=min(shown, COLUMNS), scale=side // height)
    facts = LayerMaps(
        picture=name, network=network, channels=channels, shown=shown, height=height, width=width
    )
    return facts, pictures.png(picture)
