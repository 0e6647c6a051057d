"""G3, G4 and G4b: what the networks are fed, and how healthy their answers are."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from core.events import Staged
from core.preflight.gate import Cell, Colour, Evidence, Figure, Judgement, Judging, Table
from core.preflight.speech import collapse, masks
from core.preflight.speech.bench import SpeechBench
from core.preflight.speech.collapse import Metrics
from core.preflight.speech.encoder import Encoder
from core.preflight.speech.weights import STUDENT, TEACHER
from core.problems import Notice

MEL_SHAPE = (1, 256, 128)
PADDED_ROWS = [254, 255]
MASKED_BATCH = 8
NEIGHBOUR_SEEDS = range(1000, 1300)
RANK_FLOOR, STD_FLOOR = 10.0, 0.005
CONTROL_SEED = 1
LIKE_RANDOM = 0.05  # cos_cross this close to an untrained encoder's tells nothing of training
ANISOTROPY = 0.15
LONG_CLIPS_ON_CPU = 8

METRICS = ("std_token", "rank_eff", "rank_raw", "cos_cross", "std_utt")
METRIC_COLUMNS = ("speech.column.encoder", *(f"speech.metric.{name}" for name in METRICS))

Measuring = Generator[Any, None, Metrics]


def mel_and_masks(bench: SpeechBench) -> Judging:
    """G3: the picture of a clip, its two padded rows, and how easy the masks make the task."""
    speech = bench.speech
    yield Staged("speech.stage.mel")
    mel = bench.mel(speech.clips[:MASKED_BATCH])
    zero = [row for row in range(mel.shape[2]) if bool((mel[:, 0, row] == 0).all())]
    anywhere = [row for row in range(mel.shape[2]) if bool((mel[:, 0, row] == 0).all(-1).any())]
    context, targets, ratio = masks.masks(0, MASKED_BATCH, bench.tokens)
    kept = int(bench.tokens * (1 - ratio))
    together = torch.cat((context, targets), dim=1).sort(dim=1).values
    whole = bool((together == torch.arange(bench.tokens)).all())
    visible, neighbours = _in_sight(bench)
    sound = mel[:, 0, : PADDED_ROWS[0]]
    evidence: tuple[Evidence, ...] = (
        *_speech_used(bench),
        Figure("speech.g3.shape", _shape(mel), "", _shape_text((len(mel), *MEL_SHAPE))),
        Figure("speech.g3.zero_rows", ", ".join(map(str, zero)) or "-", "", "254, 255"),
        Figure("speech.g3.padding_above", float(100 * (sound < 0).float().mean()), "percent"),
        Figure("speech.g3.mean", float(sound.mean())),
        Figure("speech.g3.floor", float(100 * (sound < -15.94).float().mean()), "percent"),
        Figure("speech.g3.context", _shape(context), "", f"{MASKED_BATCH} x {kept}"),
        Figure("speech.g3.targets", _shape(targets), "", f"{MASKED_BATCH} x {bench.tokens - kept}"),
        Figure("speech.g3.visible", 100 * visible, "percent"),
        Figure("speech.g3.neighbours", 100 * neighbours, "percent"),
    )
    right = (
        tuple(mel.shape[1:]) == MEL_SHAPE
        and bool(torch.isfinite(mel).all())
        and zero == anywhere == PADDED_ROWS
        and tuple(context.shape) == (MASKED_BATCH, kept)
        and whole
    )
    if not right:
        return Judgement(Colour.RED, Notice("speech.g3.red"), evidence, Notice("speech.g3.hint"))
    return Judgement(Colour.GREEN, Notice("speech.g3.green"), evidence)


def baseline(bench: SpeechBench) -> Judging:
    """G4: the figures that every later epoch is compared with, beside an untrained encoder's."""
    trained = bench.weights.trained
    measured: dict[str, Metrics] = {}
    if trained:
        measured["speech.row.student"] = yield from _measured(bench, bench.encoder(STUDENT))
        measured["speech.row.teacher"] = yield from _measured(bench, bench.encoder(TEACHER))
        control = bench.fresh(seed=CONTROL_SEED).to(bench.device)
        measured["speech.row.random"] = yield from _measured(bench, control)
    else:
        measured["speech.row.stand_in"] = yield from _measured(bench, bench.encoder(STUDENT))
    base = next(iter(measured.values()))
    evidence: tuple[Evidence, ...] = (
        *_speech_used(bench),
        _metrics_table("speech.g4.metrics", measured),
        _limits(base),
    )
    alive = all(_alive(metrics) for metrics in measured.values())
    if not alive:
        return Judgement(Colour.RED, Notice("speech.g4.red"), evidence, Notice("speech.g4.hint"))
    if not trained:
        return Judgement(Colour.NOT_JUDGED, Notice("speech.needs_weights"), evidence, _where(bench))
    if abs(base.cos_cross - measured["speech.row.random"].cos_cross) < LIKE_RANDOM:
        return Judgement(
            Colour.AMBER, Notice("speech.g4.like_random"), evidence, Notice("speech.g4.hint_random")
        )
    return Judgement(Colour.GREEN, Notice("speech.g4.green"), evidence)


def anisotropy(bench: SpeechBench) -> Judging:
    """G4b: is the narrow cone in the weights, or did our change of mel make it?"""
    trained = bench.weights.trained
    count = bench.clips if bench.on_gpu or trained else min(LONG_CLIPS_ON_CPU, bench.clips)
    clips = bench.long_speech(count).clips
    encoder = bench.original_encoder(STUDENT)
    ours = bench.encoder(STUDENT)
    measured: dict[str, Metrics] = {}
    for name, peak in (("speech.row.original", False), ("speech.row.original_peak", True)):
        yield Staged("speech.stage.encode")
        mels = bench.original_mel(clips, peak=peak)
        measured[name] = collapse.metrics(bench.encoded(encoder, mels))
    yield Staged("speech.stage.encode")
    measured["speech.row.detection"] = collapse.metrics(bench.encoded(ours, bench.mels[:count]))
    moved = measured["speech.row.detection"].cos_cross - measured["speech.row.original"].cos_cross
    evidence: tuple[Evidence, ...] = (
        Figure("speech.g4b.clips", count),
        _metrics_table("speech.g4b.metrics", measured),
        Figure("speech.g4b.moved", moved, "", ANISOTROPY),
        Figure("speech.g4b.band", 25, "", None),
    )
    if not all(math.isfinite(value) for m in measured.values() for value in asdict(m).values()):
        return Judgement(Colour.RED, Notice("speech.g4.red"), evidence, Notice("speech.g4.hint"))
    if not trained:
        return Judgement(Colour.NOT_JUDGED, Notice("speech.needs_weights"), evidence, _where(bench))
    message = "speech.g4b.weights" if abs(moved) < ANISOTROPY else "speech.g4b.mel"
    return Judgement(Colour.GREEN, Notice(message), evidence)


def _measured(bench: SpeechBench, encoder: Encoder) -> Measuring:
    yield Staged("speech.stage.encode")
    return collapse.metrics(bench.encoded(encoder, bench.mels))


def _alive(metrics: Metrics) -> bool:
    return metrics.rank_eff > RANK_FLOOR and metrics.std_token > STD_FLOOR


def _metrics_table(title: str, measured: dict[str, Metrics]) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(float(getattr(metrics, metric)) for metric in METRICS))
        for name, metrics in measured.items()
    )
    return Table(title, METRIC_COLUMNS, rows)


def _limits(base: Metrics) -> Table:
    """Where a later epoch would be stopped. A rule that can never act says so by its limit."""
    edge = collapse.limits(base)
    return Table(
        "speech.g4.limits",
        ("speech.column.metric", "speech.column.now", "speech.column.limit"),
        tuple(
            (f"speech.metric.{name}", float(getattr(base, name)), float(getattr(edge, name)))
            for name in METRICS
        ),
    )


def _speech_used(bench: SpeechBench) -> tuple[Evidence, ...]:
    speech = bench.speech
    skipped: tuple[Evidence, ...] = ()
    if speech.skipped:
        skipped = (
            Table(
                "speech.skipped",
                ("speech.column.file", "speech.column.reason"),
                tuple((file.name, file.reason) for file in speech.skipped[:20]),
            ),
        )
    return (
        Figure("speech.used", f"speech.branch.{speech.origin}"),
        Figure("speech.clips", len(speech.clips), "", bench.clips),
        Figure("speech.skipped_count", len(speech.skipped)),
        *skipped,
    )


def _where(bench: SpeechBench) -> Notice:
    from core.preflight.speech.weights import NAMES, folder_of

    folder = str(folder_of(bench.context.lab))
    return Notice("speech.put_weights", {"folder": folder, "name": NAMES[1]})


def _in_sight(bench: SpeechBench) -> tuple[float, float]:
    """Of all hidden tokens of many masks: the share with a visible neighbour, and the mean share
    of neighbours that are visible."""
    hidden, visible, neighbours = 0, 0.0, 0.0
    for seed in NEIGHBOUR_SEEDS:
        context, targets, _ = masks.masks(seed, 1, bench.tokens)
        any_visible, share = masks.visible_neighbours(context, *bench.grid)
        hidden += targets.shape[1]
        visible += targets.shape[1] * any_visible
        neighbours += targets.shape[1] * share
    return visible / hidden, neighbours / hidden


def _shape(tensor: Tensor) -> str:
    return _shape_text(tuple(tensor.shape))


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
