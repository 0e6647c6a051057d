"""Stage "vae": pictures into small latents and back."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from torch import Tensor

from core.models.mini_turbo.blocks import LATENT_CHANNELS, build_vae
from core.models.mini_turbo.pictures import Composer, Material, contact_sheet
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
from core.models.mini_turbo.train_judge import judge_scenes

BATCH = 128
RATE = 1e-3
SCENES = 60_000
PRIOR = 3e-4  # weight of the pull towards latents of mean 0 and spread 1


def train_vae(run: Run, material: Material) -> None:
    """Writes `vae`."""
    composer = Composer(material.train, run.device)
    scenes = judge_scenes(min(SCENES, run.bank), run, seed=1)
    batch = run.batch or BATCH
    vae = build_vae(run.sizes)
    if run.begin > 0:
        vae.load_state_dict(read_weights("vae", run.folders))
    learner = Learner(vae, run, rate=RATE, decay=1e-3, average=0.999)
    figures = torch.zeros(3, device=run.device)

    def step() -> None:
        some = scenes[torch.randint(len(scenes), (batch,), device=run.device)]
        pictures = composer(some)
        encoded = vae.quant_conv(vae.encoder(pictures.to(run.dtype)))
        mean, log_variance = (part.float() for part in encoded.chunk(2, dim=1))
        log_variance = log_variance.clamp(-30, 20)
        latents = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        drawn = vae.decoder(vae.post_quant_conv(latents.to(run.dtype))).float()
        loss, squared = _difference(drawn, pictures)
        prior = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).mean()
        learner.forget()
        torch.autograd.backward(loss + PRIOR * prior)
        learner.learn(clip=1.0)
        figures.copy_(torch.stack([loss, squared, prior]).detach())

    learner.set_rate(1e-5)
    go, clock = Step(step, run, "vae"), Clock(run)
    for progress in clock.ticks():
        learner.set_rate(cosine(progress, RATE))
        go()
        if clock.steps % 1_000 == 0:
            loss, squared, prior = figures.tolist()
            note("vae", step=clock.steps, loss=loss, psnr=_psnr(squared), prior=prior)

    vae.float()
    vae.load_state_dict(learner.state(), strict=False)
    vae.eval()
    with torch.no_grad():
        several = [composer(some) for some in torch.split(scenes[:1_024], 256)]
        _fold(vae, torch.cat([vae.encode(pictures).latent_dist.mean for pictures in several]))
        unseen = Composer(material.unseen, run.device)(scenes[-512:])
        latents = vae.encode(unseen).latent_dist.mean
        drawn = vae.decode(latents).sample
    squared = float(F.mse_loss(drawn.clamp(-1, 1), unseen))
    note(
        "vae on unseen pictures",
        steps=clock.steps,
        psnr=_psnr(squared),
        mean=float(latents.mean()),
        spread=float(latents.std()),
    )
    write_weights(vae.state_dict(), "vae", run.out)
    pairs = torch.stack([unseen[:24], drawn[:24]], dim=1).flatten(0, 1)
    names = ["real", "through the VAE"] * (len(pairs) // 2)
    contact_sheet(pairs, names, run.out / "vae.png", columns=12)


def _difference(drawn: Tensor, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, mean squared error): pixels, their edges, and the picture at a quarter of its size."""
    plain, squared = (drawn - pictures).abs().mean(), F.mse_loss(drawn, pictures)
    edges = sum((drawn.diff(dim=along) - pictures.diff(dim=along)).abs().mean() for along in (2, 3))
    coarse = (F.avg_pool2d(drawn, 4) - F.avg_pool2d(pictures, 4)).abs().mean()
    return plain + squared + 0.5 * edges + 0.5 * coarse, squared


def _psnr(squared: float) -> float:
    """Decibels, for values in -1..1."""
    return float(10 * torch.log10(torch.tensor(4 / max(squared, 1e-12))))


def _fold(vae: AutoencoderKL, latents: Tensor) -> None:
    """Make latents of mean 0 and spread 1 a channel, inside the two 1x1 convolutions."""
    mean, spread = latents.mean((0, 2, 3)), latents.std((0, 2, 3))
    into, back = vae.quant_conv, vae.post_quant_conv
    into.weight[:LATENT_CHANNELS] /= spread[:, None, None, None]
    into.bias[:LATENT_CHANNELS] = (into.bias[:LATENT_CHANNELS] - mean) / spread
    into.bias[LATENT_CHANNELS:] -= 2 * spread.log()  # of the log variances
    back.bias += back.weight[:, :, 0, 0] @ mean
    back.weight *= spread[None, :, None, None]
