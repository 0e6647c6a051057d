"""Stage "judge": the small network that says what a picture shows. See `obey`.

Stage "checker" is the same from another seed: the student's training may ask it, and the judge
stays a stranger to what it judges.
"""

from __future__ import annotations

from random import Random

import torch
import torch.nn.functional as F
from torch import Tensor

from core.models.mini_turbo.captions import random_scene
from core.models.mini_turbo.obey import JudgeNetwork
from core.models.mini_turbo.pictures import Composer, Material, as_tensor
from core.models.mini_turbo.plumbing import Clock, Run, cosine, note, write_weights

BATCH = 512
RATE = 2e-3
SCENES = 60_000
SMOOTHING = 0.05  # of the right answer, so much is given to all others together
GRAIN = 0.03  # noise of up to so much of the range


def train_judge(run: Run, material: Material, name: str = "judge") -> None:
    """Writes weights of this name. All combinations take part, the held-out ones too: it has to
    know them."""
    composer = Composer(material.train, run.device)
    scenes = judge_scenes(min(SCENES, run.bank), run)
    network = JudgeNetwork().to(run.device).to(memory_format=torch.channels_last)
    adam = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.02)
    batch = run.batch or BATCH
    clock = Clock(run)
    for progress in clock.ticks():
        for group in adam.param_groups:
            group["lr"] = cosine(progress, RATE)
        some = scenes[torch.randint(len(scenes), (batch,), device=run.device)]
        pictures = _roughened(composer(some, vary=1.3), blur=clock.steps % 2 == 1)
        with run.amp():
            scores = network(pictures.contiguous(memory_format=torch.channels_last))
        loss = torch.stack(
            [
                F.cross_entropy(score.float(), right, label_smoothing=SMOOTHING)
                for score, right in zip(scores, some.unbind(dim=1), strict=True)
            ]
        ).sum()
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        if clock.steps % 500 == 0:
            note(name, step=clock.steps, loss=float(loss.detach()))
    write_weights(network.eval().state_dict(), name, run.out)

    test = judge_scenes(min(2_000, run.bank), run, seed=5)
    pictures = Composer(material.unseen, run.device)(test)
    with torch.no_grad():
        places = torch.cat(
            [
                torch.stack([score.argmax(1) for score in network(part)], dim=1)
                for part in torch.split(pictures, 500)
            ]
        )
    right = (places == test).float().mean(dim=0).tolist()
    named = dict(zip(("thing", "colour", "background", "size"), right, strict=True))
    note(f"{name} on unseen pictures", steps=clock.steps, **named)


def judge_scenes(count: int, run: Run, seed: int = 2) -> Tensor:
    chance = Random(seed)
    scenes = [random_scene(chance, digits=0.4, held=None) for _ in range(count)]
    return as_tensor(scenes).to(run.device)


def _roughened(pictures: Tensor, *, blur: bool) -> Tensor:
    """Softer and grainier, so that it judges shapes and not a decoder's texture."""
    if blur:
        pictures = (F.avg_pool2d(pictures, 3, 1, 1) + pictures) / 2
    grain = GRAIN * torch.rand((), device=pictures.device)
    return pictures + grain * torch.randn_like(pictures)
