"""The demonstrations: small networks and seconds of time, but each trap really closes.

A demonstration is green when it shows what it claims, and amber when it did not come out so.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from core.activities.preflight import SpeechSettings, SpeechTrapSettings
from core.context import Context
from core.events import Staged
from core.labs.device import wait_for
from core.preflight.gate import Cell, Colour, Curve, Evidence, Figure, Judgement, Judging, Table
from core.preflight.speech import budget, checkpoint, masks, schedules
from core.preflight.speech.bench import SpeechBench
from core.preflight.speech.collapse import CASES, Metrics, metrics, synthetic_cases
from core.preflight.speech.encoder import Encoder
from core.preflight.speech.loss import token_loss
from core.preflight.speech.training import FINAL_LR, START_LR
from core.preflight.speech.weights import STUDENT
from core.problems import Notice

METRICS = ("std_token", "rank_eff", "rank_raw", "cos_cross", "std_utt")
METRIC_COLUMNS = ("speech.column.case", *(f"speech.metric.{name}" for name in METRICS))
COLLAPSE_STEPS, COLLAPSE_LR = 24, 1e-3
SILENT_COSINE = 0.95
BLOCK = (8, 2)  # rows and columns of a block mask, to compare scattered ones with


class SmallBench(SpeechBench):
    """A bench of few and narrow layers, so that a demonstration takes seconds."""

    width, depth, heads = 128, 2, 2
    narrow, narrow_depth, narrow_heads = 64, 1, 2
    clips = 12

    def __init__(self, _settings: SpeechTrapSettings, context: Context) -> None:
        super().__init__(SpeechSettings(), context)

    @property
    def on_speech(self) -> Tensor:
        """Mels (clips, 1, 256, 128), each bin brought to mean 0 and spread 1 as networks like."""
        mels = self.mels
        return (mels - mels.mean()) / mels.std()


def _shown(shown: bool, message: str, *evidence: Evidence, **facts: str | int | float) -> Judgement:
    colour = Colour.GREEN if shown else Colour.AMBER
    return Judgement(colour, Notice(message if shown else "trap.not_shown", facts), evidence)


def _metric_row(name: str, found: Metrics) -> tuple[Cell, ...]:
    return (name, *(float(getattr(found, metric)) for metric in METRICS))


def positions(bench: SmallBench) -> Judging:
    """The table of another grid has the same shape: it loads, and nothing complains."""
    right = bench.encoder(STUDENT)
    wrong = bench.encoder(STUDENT)
    state = wrong.state_dict()
    state["pos_embed"] = bench.weights.tensors[f"{STUDENT}pos_embed"]
    outcome = wrong.load_state_dict(state, strict=True)
    yield Staged("speech.stage.encode")
    one, other = bench.encoded(right, bench.mels), bench.encoded(wrong, bench.mels)
    alike = float(nn.functional.cosine_similarity(one, other, dim=-1).mean())
    old, new = state["pos_embed"], right.pos_embed.detach()
    apart = float((old - new).abs().max())
    silent = not outcome.missing_keys and not outcome.unexpected_keys
    return _shown(
        silent and apart > 1 and alike > SILENT_COSINE,
        "trap.positions.shown",
        Figure("speech.g1.missing", ", ".join(outcome.missing_keys) or "-"),
        Figure("speech.g1.unexpected", ", ".join(outcome.unexpected_keys) or "-"),
        Figure("trap.positions.apart", apart),
        Figure("trap.positions.alike", alike),
        Table(
            "speech.g4.metrics",
            METRIC_COLUMNS,
            (
                _metric_row("trap.positions.right", metrics(one)),
                _metric_row("trap.positions.wrong", metrics(other)),
            ),
        ),
        alike=round(alike, 3),
    )


def rate(_bench: SmallBench) -> Judging:
    """The rate in the configuration is written over before the first step."""
    yield from ()
    warm_up, steps = 1_000, range(0, 20_001, 100)
    real = tuple(
        schedules.learning_rate(
            step, ref=1e-3, start=START_LR, final=FINAL_LR, warm_up=warm_up, total=budget.STEPS
        )
        for step in steps
    )
    return _shown(
        max(real) > 3e-4,
        "trap.rate.shown",
        Curve(
            "speech.g2.curve",
            "speech.axis.step",
            "speech.axis.lr",
            tuple(map(float, steps)),
            {"trap.rate.real": real, "trap.rate.declared": (3e-4,) * len(steps)},
        ),
        times=round(max(real) / 3e-4, 1),
    )


def collapse(bench: SmallBench) -> Judging:
    """A teacher that follows its student at once: the loss falls to nothing, and so does the rest.

    The shortcut is the one that a stopped gradient and a slow teacher are there to prevent.
    """
    encoder, predictor = bench.encoder(STUDENT), bench.predictor()
    mels = bench.on_speech
    optimiser = torch.optim.AdamW([*encoder.parameters(), *predictor.parameters()], lr=COLLAPSE_LR)
    places: list[float] = []
    losses: list[float] = []
    seen: list[Metrics] = []
    for step in range(COLLAPSE_STEPS):
        if step % 3 == 0:
            yield Staged("speech.stage.step")
            seen.append(metrics(bench.encoded(encoder, mels)))
            places.append(float(step))
        context, targets, _ = masks.masks(step, len(mels), bench.tokens)
        context, targets = context.to(bench.device), targets.to(bench.device)
        whole = encoder(mels)  # the gradient passes: this is the mistake
        wanted = torch.gather(whole, 1, targets[..., None].expand(-1, -1, whole.shape[-1]))
        loss = token_loss(predictor(encoder(mels, context), context, targets), wanted)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    seen.append(metrics(bench.encoded(encoder, mels)))
    places.append(float(COLLAPSE_STEPS))
    losses.append(losses[-1])
    at = [min(int(place), len(losses) - 1) for place in places]
    return _shown(
        losses[-1] < 0.3 * losses[0] and seen[-1].cos_cross > 0.95,
        "trap.collapse.shown",
        Curve(
            "trap.collapse.curve",
            "speech.axis.step",
            "trap.collapse.axis",
            tuple(places),
            {
                "speech.line.loss": tuple(losses[place] for place in at),
                "speech.metric.cos_cross": tuple(found.cos_cross for found in seen),
                "trap.collapse.std": tuple(
                    found.std_token * math.sqrt(bench.width) for found in seen
                ),
            },
        ),
        Table(
            "speech.g4.metrics",
            METRIC_COLUMNS,
            (
                _metric_row("trap.collapse.before", seen[0]),
                _metric_row("trap.collapse.after", seen[-1]),
            ),
        ),
        first=round(losses[0], 2),
        last=round(losses[-1], 3),
    )


def rank(_bench: SmallBench) -> Judging:
    """Four made-up cases: no single figure sees them all."""
    found: dict[str, Metrics] = {}
    for case, tokens in synthetic_cases(clips=16).items():
        yield Staged("speech.stage.metrics")
        found[case] = metrics(tokens)
    healthy, fallen = found["healthy"], found["collapse"]
    return _shown(
        fallen.rank_eff > 0.9 * healthy.rank_eff and fallen.std_token < 0.01 * healthy.std_token,
        "trap.rank.shown",
        Table(
            "trap.rank.cases",
            METRIC_COLUMNS,
            tuple(
                _metric_row(f"trap.rank.{case.replace(' ', '_')}", found[case]) for case in CASES
            ),
        ),
    )


def scatter(bench: SmallBench) -> Judging:
    """Scattered masks leave a neighbour in sight of nearly every hidden token; blocks do not."""
    yield from ()
    rows, columns = bench.grid
    tokens = bench.tokens
    scattered = [
        masks.visible_neighbours(masks.masks(seed, 1, tokens)[0], rows, columns)
        for seed in range(1000, 1100)
    ]
    blocks = [
        masks.visible_neighbours(_block_context(seed, rows, columns), rows, columns)
        for seed in range(1000, 1100)
    ]
    any_scattered, any_block = (
        100 * statistics.fmean(share for share, _ in seen) for seen in (scattered, blocks)
    )
    return _shown(
        any_scattered > any_block,
        "trap.scatter.shown",
        Figure("trap.scatter.scattered", any_scattered, "percent"),
        Figure("trap.scatter.blocks", any_block, "percent"),
    )


def _block_context(seed: int, rows: int, columns: int) -> Tensor:
    """What is left, (1, tokens), when blocks are hidden until half of the grid is."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.zeros(rows, columns, dtype=torch.bool)
    while hidden.float().mean() < 0.5:
        row = int(torch.randint(0, rows - BLOCK[0] + 1, (), generator=generator))
        column = int(torch.randint(0, columns - BLOCK[1] + 1, (), generator=generator))
        hidden[row : row + BLOCK[0], column : column + BLOCK[1]] = True
    return (~hidden).flatten().nonzero().flatten()[None]


def optimiser(bench: SmallBench) -> Judging:
    """The state of both networks does not fit one of them; in a wrong order it fits in silence."""
    training = bench.training()
    yield Staged("speech.stage.step")
    training.advance(bench.batch_of(4))
    state = training.optimiser.state_dict()
    alone = torch.optim.AdamW(training.student.parameters())
    said = ""
    try:
        alone.load_state_dict(state)
    except ValueError as error:
        said = str(error).splitlines()[0]
    turned = torch.optim.AdamW([*training.predictor.parameters(), *training.student.parameters()])
    try:
        turned.load_state_dict(state)
        silent = True
    except ValueError:
        silent = False
    misfits = sum(
        held["exp_avg"].shape != parameter.shape
        for parameter, held in turned.state.items()
        if "exp_avg" in held
    )
    return _shown(
        bool(said) and silent and misfits > 0,
        "trap.optimiser.shown",
        Figure("trap.optimiser.alone", said or "-"),
        Figure("trap.optimiser.silent", silent),
        Figure("trap.optimiser.misfits", misfits),
    )


def storage(bench: SmallBench) -> Judging:
    """What a checkpoint of this size makes of twenty epochs, and a folder that was asked first."""
    yield from ()
    # Parts of the published sizes, in bytes: student, teacher, predictor, two moments.
    whole = round(1500.1e6)
    needed = budget.storage(whole)
    with tempfile.TemporaryDirectory(dir=_cache(bench)) as folder:
        probe = checkpoint.probed(Path(folder))
    return _shown(
        needed.every_epoch > 5 * needed.rolling,
        "trap.storage.shown",
        Table(
            "speech.g6.storage",
            ("speech.column.plan", "speech.column.gigabytes"),
            (
                ("speech.g6.one", needed.checkpoint),
                ("speech.g6.every", needed.every_epoch),
                ("speech.g6.rolling", needed.rolling),
                ("speech.g6.free", None if probe.free_bytes is None else probe.free_bytes / 1e9),
            ),
        ),
        Figure("trap.storage.probe", probe.seconds, "seconds"),
    )


def baseline(bench: SmallBench) -> Judging:
    """Networks that have learnt nothing already look like the "0.72 of the checkpoint"."""
    found: dict[str, Metrics] = {}
    for seed in range(3):
        yield Staged("speech.stage.encode")
        encoder: Encoder = bench.fresh(seed=seed).to(bench.device)
        found[f"{seed}"] = metrics(bench.encoded(encoder, bench.mels))
    cosines = [one.cos_cross for one in found.values()]
    return _shown(
        min(cosines) > 0.3,
        "trap.baseline.shown",
        Table(
            "speech.g4.metrics",
            METRIC_COLUMNS,
            tuple(_metric_row(f"#{seed}", one) for seed, one in found.items()),
        ),
        low=round(min(cosines), 2),
        high=round(max(cosines), 2),
    )


def estimate(bench: SmallBench) -> Judging:
    """Hours guessed from one step at one size, beside those measured at the size of the plan."""
    guessed = yield from _sample_ms(bench, size=1, timed=1, warm_up=0)
    measured = yield from _sample_ms(bench, size=16, timed=5, warm_up=2)
    off = 100 * abs(guessed - measured) / measured
    return _shown(
        off > 20,
        "trap.estimate.shown",
        Figure("trap.estimate.guessed", guessed, "ms"),
        Figure("trap.estimate.measured", measured, "ms"),
        Figure("trap.estimate.off", off, "percent"),
        off=round(off),
    )


def _sample_ms(
    bench: SmallBench, *, size: int, timed: int, warm_up: int
) -> Generator[Any, None, float]:
    training, mels = bench.training(), bench.batch_of(size)
    for _ in range(warm_up):
        training.advance(mels)
    took = []
    for _ in range(timed):
        yield Staged("speech.stage.step")
        wait_for(bench.device)
        began = time.perf_counter()
        training.advance(mels)
        wait_for(bench.device)
        took.append(1e3 * (time.perf_counter() - began) / size)
    return statistics.median(took)


def _cache(bench: SmallBench) -> Path:
    folder = bench.context.lab.cache
    folder.mkdir(parents=True, exist_ok=True)
    return folder
