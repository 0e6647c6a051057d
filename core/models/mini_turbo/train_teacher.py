"""Stage "teacher": U-Net and text encoder learn to take noise away, over many steps."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import CLIPTokenizer

from core.models.mini_turbo.bank import embedded, prepared, token_ids, tokenizer_for
from core.models.mini_turbo.blocks import build_text_encoder, build_unet
from core.models.mini_turbo.captions import caption, random_scene
from core.models.mini_turbo.diffusion import LEVELS, PURE, EulerDraw, Noise
from core.models.mini_turbo.pictures import Material, contact_sheet
from core.models.mini_turbo.plumbing import (
    Clock,
    Learner,
    Run,
    Step,
    cosine,
    note,
    read_weights,
    write_weights,
)

BATCH = 512
RATE = 6e-4
TEXT_SHARE = 0.7  # of that rate, for the text encoder
WORDLESS = 0.1  # share of samples without their caption: guidance needs to know that case
PURE_SHARE = 0.04  # of samples that are noise alone, as at the very start of drawing
AVERAGE = 0.9995
STEPS, GUIDANCE = 20, 2.0  # how the teacher is used


def train_teacher(run: Run, material: Material | None) -> None:
    """Writes `teacher` and `text`. `material` is None for a warm run."""
    tokenizer = tokenizer_for(run)
    bank, vae = prepared(run, tokenizer, material)
    noise, batch = Noise(run.device), run.batch or BATCH
    nothing = torch.from_numpy(token_ids(tokenizer, [""])).long().to(run.device)
    unet, text = build_unet(run.sizes), build_text_encoder(len(tokenizer), run.sizes)
    if run.begin > 0:
        unet.load_state_dict(read_weights("teacher", run.folders))
        text.load_state_dict(read_weights("text", run.folders))
    learners = [Learner(net, run, rate=RATE, decay=0.01, average=AVERAGE) for net in (unet, text)]
    draw, read = run.compiler(unet), run.compiler(text)
    figure = torch.zeros((), device=run.device)

    def step() -> None:
        chosen = torch.randint(len(bank.latents), (batch,), device=run.device)
        latents, ids = bank.latents[chosen].float(), bank.ids[chosen].long()
        ids = torch.where(torch.rand(batch, 1, device=run.device) < WORDLESS, nothing, ids)
        noisy, levels, v = _noisy(latents, noise)
        for learner in learners:
            learner.forget()
        answer = draw(noisy.to(run.dtype), levels, read(ids)[0], return_dict=False)[0]
        loss = F.mse_loss(answer.float(), v)
        torch.autograd.backward(loss)
        for learner in learners:
            learner.learn(clip=1.0)
        figure.copy_(loss.detach())

    for learner in learners:
        learner.set_rate(1e-6)
    if run.warm:
        step()
        return
    go, clock = Step(step, run, "teacher"), Clock(run)
    for progress in clock.ticks():
        rate = cosine(progress, RATE, warm=0.02)
        if run.begin > 0:  # Adam starts anew: a gentle second start
            rate *= min(1.0, 0.05 + clock.steps / 300)
        learners[0].set_rate(rate)
        learners[1].set_rate(rate * TEXT_SHARE)
        go()
        if clock.steps % 1_000 == 0:
            note("teacher", step=clock.steps, loss=float(figure), a_second=clock.rate)

    for net, learner, name in zip((unet, text), learners, ("teacher", "text"), strict=True):
        net.float()
        net.load_state_dict(learner.state(), strict=False)
        net.eval()
        write_weights(net.state_dict(), name, run.out)
    note("teacher", steps=clock.steps, samples=clock.steps * batch, loss=float(figure))
    if vae is not None:
        _show(run, unet, text, vae, tokenizer)


def _noisy(latents: Tensor, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    """Latents (N, 4, 16, 16) under noise, its levels (N,), and the v to be answered."""
    count, device = len(latents), latents.device
    # Levels spread evenly over the batch: less chance in the loss than free draws.
    even = torch.arange(count, device=device) + torch.rand(count, device=device)
    levels = (even / count * LEVELS).long().clamp(0, LEVELS - 1)
    pure = torch.rand(count, device=device) < PURE_SHARE
    levels = torch.where(pure, PURE, levels)
    keep, add = noise.at(levels)
    pure = pure[:, None, None, None]
    some = torch.randn_like(latents)
    noisy = torch.where(pure, add * some, keep * latents + add * some)
    # From noise alone, too, keep * noisy - add * v has to be the latent.
    v = torch.where(pure, keep * some - latents / add, keep * some - add * latents)
    return noisy, levels, v


@torch.no_grad()
def _show(run: Run, unet: nn.Module, text: nn.Module, vae: Any, tokenizer: CLIPTokenizer) -> None:
    """A contact sheet of what it draws by now."""
    chance = Random(99)
    count = 48 if run.on_gpu else 4
    sentences = [
        caption(chance, random_scene(chance, held=None, two_colours=True), full=True)
        for _ in range(count)
    ]
    ids = torch.from_numpy(token_ids(tokenizer, ["", *sentences])).to(run.device)
    words = embedded(run, text, ids)
    working = copy.deepcopy(unet).to(run.dtype)
    steps = STEPS if run.on_gpu else 2
    euler = EulerDraw(working, words[:1], run, batch=count, steps=steps, guidance=GUIDANCE)
    side = run.sizes.latent
    noise = torch.randn(count, 4, side, side, generator=torch.Generator().manual_seed(7))
    latents = euler.draw(noise.to(run.device), words[1:])
    contact_sheet(vae.decode(latents).sample, sentences, run.out / "teacher.png")
