"""Stage "student": the teacher's twenty steps learnt as one, in the spirit of ADD and LADD.

First it imitates pairs: noise -> the teacher's picture. Then a discriminator joins in: the
teacher's downward half, trained to tell real latents from the student's. Where there is a checker,
pairs whose thing it does not know are left out, and it has a say in the second half as well.
Source: Sauer et al. 2023 (arXiv:2311.17042) and 2024 (arXiv:2403.12015); the relativistic loss
with both gradient penalties: Huang et al. 2024 (arXiv:2501.05441).
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.models.mini_turbo.bank import Bank, embedded, prepared, token_ids, tokenizer_for
from core.models.mini_turbo.blocks import Sizes, build_text_encoder, build_unet
from core.models.mini_turbo.captions import caption, random_scene
from core.models.mini_turbo.checker import Checker
from core.models.mini_turbo.diffusion import PURE, EulerDraw, Noise
from core.models.mini_turbo.pictures import Material, contact_sheet
from core.models.mini_turbo.plumbing import (
    Clock,
    Learner,
    Run,
    Step,
    note,
    read_weights,
    write_weights,
)
from core.models.mini_turbo.train_teacher import GUIDANCE, STEPS

BATCH = 256
RATE = 2e-4
CLIP = 2.0
LEVELS_TAUGHT = {1: (PURE,), 4: (PURE, 749, 499, 249)}  # by the most steps it may be used with
HEAD_WIDTH = 96
STEERED = 4  # every so manieth picture of a step is shown to the checker: decoding takes time
PENALTY_STEP = 0.05  # noise of the finite difference that stands for the gradient penalty


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilling:
    """What may be changed about the second half of the training."""

    most_steps: int = 1
    pairs: int = 200_000
    pair_batch: int = 2_000
    pair_seconds: float = 75.0
    guidance: float = GUIDANCE  # of the teacher that draws them
    imitate: float = 0.33  # share of the time without the discriminator
    relativistic: bool = True  # real and drawn are compared in pairs; False: each on its own
    noise: int = 300  # the discriminator looks at latents of up to this level
    rate: float = 2e-4  # of the discriminator
    heads: float = 2.0  # its new heads learn so many times faster
    penalty: float = 10.0
    wrong: float = 0.5  # weight of "a real picture under another sentence is no good"
    wrong_later: float = 0.1  # ... after the first quarter of the discriminator's time
    wrong_floor: float = -4.0  # from this score down such a picture is told apart well enough
    strength: float = 1.0  # of the discriminator's gradient, against that of imitation
    imitate_end: float = 0.4  # weight of imitation at the end
    steer: float = 0.3  # of the checker's, on the pictures it is shown; imitation's is 1


class Discriminator(nn.Module):
    """Latents, level, words and sentence -> one score for each place, at four scales.

    The teacher's downward half, which knows pictures, levels and words already, with a small new
    head on each scale.
    """

    def __init__(self, teacher: Any, sizes: Sizes) -> None:
        super().__init__()
        self.body = copy.deepcopy(teacher)
        self.body.up_blocks = nn.ModuleList()
        self.body.conv_norm_out = self.body.conv_out = nn.Identity()
        channels = (*sizes.unet_channels, sizes.unet_channels[-1])
        self.heads = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(sizes.norm_groups, count),
                nn.SiLU(),
                nn.Conv2d(count, HEAD_WIDTH, 3, padding=1),
                nn.SiLU(),
            )
            for count in channels
        )
        self.plain = nn.ModuleList(nn.Conv2d(HEAD_WIDTH, 1, 1) for _ in channels)
        self.fitting = nn.ModuleList(nn.Linear(sizes.text_width, HEAD_WIDTH) for _ in channels)

    def forward(
        self, latents: Tensor, levels: Tensor, words: Tensor, sentence: Tensor
    ) -> list[Tensor]:
        body = self.body
        level = body.time_embedding(body.time_proj(levels).to(latents.dtype))
        hidden, scales = body.conv_in(latents), []
        for block in body.down_blocks:
            if getattr(block, "has_cross_attention", False):
                hidden, kept = block(hidden_states=hidden, temb=level, encoder_hidden_states=words)
            else:
                hidden, kept = block(hidden_states=hidden, temb=level)
            scales.append(kept[0])
        scales.append(body.mid_block(hidden, level, encoder_hidden_states=words))
        scores = []
        for scale, head, plain, fitting in zip(
            scales, self.heads, self.plain, self.fitting, strict=True
        ):
            found = head(scale)
            fits = (found * fitting(sentence)[:, :, None, None]).sum(dim=1, keepdim=True)
            scores.append((plain(found) + fits / 10).flatten(1))
        return scores


@dataclass(frozen=True, slots=True)
class Pairs:
    """What the student imitates, and the words to it; all on the device."""

    noise: Tensor  # (N, 4, 16, 16)
    drawn: Tensor  # the teacher's picture of that noise
    words: Tensor  # (N or more, 77, width)
    sentence: Tensor  # (N or more, width)
    real: Tensor  # latents of real pictures of the same sentences
    things: Tensor  # (N or more,): which thing they are of

    def only(self, kept: Tensor) -> Pairs:
        """Those whose place in `kept` (N,) is true."""
        fields = (self.noise, self.drawn, self.words, self.sentence, self.real, self.things)
        return Pairs(*(field[: len(kept)][kept] for field in fields))


def train_student(run: Run, material: Material | None, how: Distilling) -> None:
    """Writes `student`, a U-Net to be used with 1 to `how.most_steps` steps and no guidance.

    It begins as the teacher, or, with `run.begin` above 0, as the student of an earlier run.
    """
    tokenizer = tokenizer_for(run)
    teacher: nn.Module = build_unet(run.sizes)
    text: nn.Module = build_text_encoder(len(tokenizer), run.sizes)
    bank, vae = prepared(run, tokenizer, material)
    if vae is None:
        teacher = teacher.to(run.device).eval().requires_grad_(False)
        text = text.to(run.device).eval().requires_grad_(False)
    else:
        teacher, text = run.read(teacher, "teacher"), run.read(text, "text")
    nothing = torch.from_numpy(token_ids(tokenizer, [""])).to(run.device)
    pairs = _pairs(run, how, teacher, text, bank=bank, nothing=nothing)
    checker = Checker(run, vae) if vae is not None and Checker.is_there(run) else None
    if checker is not None:
        known = checker.knows(pairs.drawn, pairs.things[: len(pairs.drawn)])
        note("pairs of things that the checker knows", share=float(known.float().mean()))
        if known.any():  # none at all: a teacher or a checker that has learnt nothing
            pairs = pairs.only(known)
    student = _Student(run, how, teacher, pairs, checker)
    if run.warm:
        student.imitation_step()
        student.both_step()
        return
    student.train()
    finished = copy.deepcopy(teacher)
    finished.load_state_dict(student.learner.state(), strict=False)
    write_weights(finished.state_dict(), "student", run.out)
    if vae is not None:
        _show(run, finished, text, vae, tokenizer)


def _pairs(
    run: Run,
    how: Distilling,
    teacher: nn.Module,
    text: nn.Module,
    *,
    bank: Bank,
    nothing: Tensor,
) -> Pairs:
    """The teacher draws, guided, as many pictures as there is time for."""
    words = embedded(run, text, bank.ids)
    ends = (bank.ids == int(nothing[0, 1])).int().argmax(dim=1)  # first end of the sentence
    sentence = words[torch.arange(len(words), device=run.device), ends]
    count = min(how.pairs, len(words))
    batch = min(how.pair_batch, count)
    noise = torch.randn(count, *bank.latents.shape[1:], device=run.device).half()
    drawn = torch.zeros_like(noise)
    working = run.compiler(copy.deepcopy(teacher).to(run.dtype))
    euler = EulerDraw(
        working, embedded(run, text, nothing), run, batch=batch, steps=STEPS, guidance=how.guidance
    )
    if run.warm:
        euler.step()
        return Pairs(noise, drawn, words, sentence, bank.latents, bank.scenes[:, 0])
    go, started, done = Step(euler.step, run, "the teacher's step"), time.perf_counter(), 0
    while done + batch <= count:
        part = slice(done, done + batch)
        drawn[part] = euler.draw(noise[part], words[part], go).half()
        done += batch
        if run.on_gpu:
            torch.cuda.synchronize()
        if time.perf_counter() - started > how.pair_seconds:
            break
    note(
        "pairs",
        count=done,
        seconds=time.perf_counter() - started,
        spread=float(drawn[:done].float().std()),
        real_spread=float(bank.latents[:20_000].float().std()),
    )
    return Pairs(noise[:done], drawn[:done], words, sentence, bank.latents, bank.scenes[:, 0])


class _Student:
    """The two networks, and the two kinds of step that train them."""

    def __init__(
        self,
        run: Run,
        how: Distilling,
        teacher: nn.Module,
        pairs: Pairs,
        checker: Checker | None,
    ) -> None:
        self._run, self._how, self._pairs, self._checker = run, how, pairs, checker
        self._batch = run.batch or BATCH
        network = copy.deepcopy(teacher).requires_grad_(True).train()
        if run.begin > 0 and not run.warm:
            network.load_state_dict(read_weights("student", run.folders))
        critic = Discriminator(teacher, run.sizes).requires_grad_(True)
        self.learner = Learner(network, run, rate=RATE, betas=(0.5, 0.99), average=0.999)
        self._critic_learner = Learner(
            critic,
            run,
            rate=how.rate,
            betas=(0.0, 0.99),
            quicker=("heads", "plain", "fitting"),
            times=how.heads,
        )
        self._network, self._critic = run.compiler(network), run.compiler(critic)
        self._noise = Noise(run.device)
        taught = LEVELS_TAUGHT[how.most_steps]
        # The first level, on which everything rests, gets more than half of the samples.
        often = (PURE,) * (len(taught) - 1) + taught if len(taught) > 1 else taught
        self._levels = torch.tensor(often, device=run.device)
        # Set by the host between steps, read on the device.
        self._strength, self._wrong = (torch.zeros((), device=run.device) for _ in range(2))
        self._imitate = torch.ones((), device=run.device)
        self._figures = torch.zeros(6, device=run.device)

    # One step

    def _sample(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(places in the pairs, what the student drew, the teacher's pictures, their words)."""
        run, pairs = self._run, self._pairs
        chosen = torch.randint(len(pairs.noise), (self._batch,), device=run.device)
        target, words = pairs.drawn[chosen].float(), pairs.words[chosen]
        some = pairs.noise[chosen].float()
        at = torch.randint(len(self._levels), (self._batch,), device=run.device)
        levels = self._levels[at]
        keep, add = self._noise.at(levels)
        if self._how.most_steps == 1:
            noisy = add * some
        else:  # at lower levels: the teacher's picture under fresh noise
            pure = (levels == PURE)[:, None, None, None]
            fresh = torch.randn_like(some)
            noisy = torch.where(pure, add * some, keep * target + add * fresh)
        answer = self._network(noisy.to(run.dtype), levels, words, return_dict=False)[0].float()
        return chosen, keep * noisy - add * answer, target, words

    def imitation_step(self) -> None:
        _, drawn, target, _ = self._sample()
        difference = (drawn - target).flatten(1)
        self.learner.forget()
        torch.autograd.backward((difference.square().sum(dim=1) + 1).sqrt().mean())
        self.learner.learn(clip=CLIP)
        self._figures[0].copy_(difference.detach().square().mean())

    def both_step(self) -> None:
        chosen, drawn, target, words = self._sample()
        fixed = drawn.detach()
        sentence = self._pairs.sentence[chosen]
        real = self._pairs.real[chosen].float()
        real_scores, levels = self._teach_critic(real, fixed, words, sentence)

        # The discriminator's wish, as a gradient at the latent, made as long as imitation's: so
        # there is nothing to tune between the two, and neither can run away.
        self._critic_learner.frozen(True)
        wished = fixed.clone().requires_grad_(True)
        seen, _ = self._noised(wished, levels)  # as the real ones, that it is compared with
        scores = [
            score.float()
            for score in self._critic(seen.to(self._run.dtype), levels, words, sentence)
        ]
        if self._how.relativistic:
            loss = _mean([F.softplus(r - s) for r, s in zip(real_scores, scores, strict=True)])
        else:
            loss = _mean([F.softplus(-s) for s in scores])
        (wish,) = torch.autograd.grad(loss, wished)
        self._critic_learner.frozen(False)
        with torch.no_grad():
            away = fixed - target
            length = (away.flatten(1).square().sum(dim=1) + 1).sqrt()[:, None, None, None]
            imitation = away / length / self._batch
            scale = (imitation.norm() / (wish.norm() + 1e-12)).clamp(max=1e6)
            pull = imitation * self._imitate + wish * scale * self._strength
        if self._checker is not None and self._how.steer > 0:
            things = self._pairs.things[chosen[::STEERED]]
            doubt = self._checker.slope(fixed[::STEERED], things)
            pull[::STEERED] += doubt * (self._how.steer / self._batch)
        self.learner.forget()
        torch.autograd.backward(drawn, pull)
        self.learner.learn(clip=CLIP)
        self._figures[0].copy_(away.square().mean())
        self._figures[1].copy_(loss.detach())

    def _noised(self, latents: Tensor, levels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Under noise of a random level, low ones oftener; and those levels."""
        if levels is None:
            share = torch.rand(len(latents), device=latents.device).square()
            levels = (share * self._how.noise).long()
        keep, add = self._noise.at(levels)
        return keep * latents + add * torch.randn_like(latents), levels

    def _teach_critic(
        self, real: Tensor, drawn: Tensor, words: Tensor, sentence: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """One update of the discriminator; (its scores of the real latents, at which levels)."""
        how, count = self._how, len(real)
        half, some = count // 2, count // 4
        seen_real, levels = self._noised(real)
        seen_drawn, _ = self._noised(drawn, levels)
        # Real; drawn; real under the neighbour's sentence; and a few again, nudged.
        nudged = [
            seen[:some] + PENALTY_STEP * torch.randn_like(seen[:some])
            for seen in (seen_real, seen_drawn)
        ]
        parts = torch.cat([seen_real, seen_drawn, seen_real[:half], *nudged])
        places = torch.cat([levels, levels, levels[:half], levels[:some], levels[:some]])
        others, another = torch.roll(words, 1, 0), torch.roll(sentence, 1, 0)
        said = torch.cat([words, words, others[:half], words[:some], words[:some]])
        meant = torch.cat([sentence, sentence, another[:half], sentence[:some], sentence[:some]])
        sizes = [count, count, half, some, some]
        scores = [
            torch.split(score.float(), sizes)
            for score in self._critic(parts.to(self._run.dtype), places, said, meant)
        ]
        if how.relativistic:
            apart = _mean([F.softplus(d - r) for r, d, *_ in scores]) * 2
            misfits = [w - r[:half] for r, _, w, *_ in scores]
        else:
            apart = _mean([F.softplus(-r) for r, *_ in scores])
            apart = apart + _mean([F.softplus(d) for _, d, *_ in scores])
            misfits = [w for _, _, w, *_ in scores]
        wrong = _mean([F.softplus(misfit.clamp(min=how.wrong_floor)) for misfit in misfits])
        steep = _mean([(r[:some] - near).square() for r, _, _, near, _ in scores])
        steep = steep + _mean([(d[:some] - near).square() for _, d, _, _, near in scores])
        self._critic_learner.forget()
        torch.autograd.backward(apart + self._wrong * wrong + how.penalty * steep)
        self._critic_learner.learn(clip=5.0)
        means = [_mean([score[part] for score in scores]) for part in range(3)]
        self._figures[2:].copy_(torch.stack([apart, *means]).detach())
        return [score[0].detach() for score in scores], levels

    # All of them

    def train(self) -> None:
        """Imitation alone, then both, by the clock."""
        run, how = self._run, self._how
        self.learner.set_rate(1e-7)
        self._critic_learner.set_rate(1e-7)
        imitation = Step(self.imitation_step, run, "imitation") if how.imitate > 0 else None
        both = Step(self.both_step, run, "imitation and discriminator")
        clock = Clock(run)
        for progress in clock.ticks():
            late = max(0.02, 0.5 * (1 + math.cos(math.pi * max(0.0, progress - 0.6) / 0.4)))
            rate = min(1.0, progress / 0.02 + 0.01) * late
            self.learner.set_rate(RATE * rate)
            share = (progress - how.imitate) / (1 - how.imitate)  # of the discriminator's time
            if share < 0 and imitation is not None:
                imitation()
            else:
                self._critic_learner.set_rate(how.rate * min(1.0, 0.02 + share / 0.02, rate + 0.05))
                self._strength.fill_(how.strength * _ramp(share, 0.04, 0.16))
                self._wrong.fill_(how.wrong if share < 0.25 else how.wrong_later)
                self._imitate.fill_(1 - (1 - how.imitate_end) * _ramp(share, 0.3, 0.8))
                both()
            if clock.steps % 500 == 0:
                names = ("squared", "wish", "apart", "real", "drawn", "wrong")
                figures = dict(zip(names, self._figures.tolist(), strict=True))
                note("student", step=clock.steps, progress=progress, a_second=clock.rate, **figures)
        note("student", steps=clock.steps)


def _mean(values: list[Tensor]) -> Tensor:
    """Over the scales, each with the same weight."""
    return torch.stack([value.mean() for value in values]).mean()


def _ramp(share: float, start: float, end: float) -> float:
    return min(1.0, max(0.0, (share - start) / (end - start)))


@torch.no_grad()
def _show(run: Run, student: nn.Module, text: nn.Module, vae: Any, tokenizer: Any) -> None:
    """A contact sheet of what it draws in one step."""
    chance, count = Random(99), 48 if run.on_gpu else 4
    sentences = [
        caption(chance, random_scene(chance, held=None, two_colours=True), full=True)
        for _ in range(count)
    ]
    words = embedded(run, text, torch.from_numpy(token_ids(tokenizer, sentences)).to(run.device))
    keep, add = Noise(run.device).at(torch.full((count,), PURE, device=run.device))
    side = run.sizes.latent
    noise = torch.randn(count, 4, side, side, generator=torch.Generator().manual_seed(7))
    noise = noise.to(run.device)
    levels = torch.full((count,), PURE, device=run.device)
    with run.amp():
        answer = student(add * noise, levels, words.float(), return_dict=False)[0].float()
    drawn = vae.decode(keep * add * noise - add * answer).sample
    contact_sheet(drawn, sentences, run.out / "student.png")
