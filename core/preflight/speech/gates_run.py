"""G5, G5b and G6: a real step and what it costs, mixed precision, and a checkpoint that restores.

All of it works on copies: what was trained here is never what a run starts from.
"""

from __future__ import annotations

import gc
import math
import statistics
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from core.events import Staged
from core.labs.device import wait_for
from core.preflight.gate import Cell, Colour, Evidence, Figure, Judgement, Judging, Table
from core.preflight.speech import budget, checkpoint
from core.preflight.speech.bench import SpeechBench
from core.preflight.speech.budget import Verdict
from core.preflight.speech.training import Training
from core.problems import Fact, Notice, Problem

WARM_UPS = {True: 3, False: 1}  # on a GPU, on the CPU
TIMED = {True: 12, False: 3}
MEL_CLIPS = 32
SAME_LOSS = 0.02  # of the loss: precisions may differ by so much
MOST_DIFFERENCES = 10  # that are shown


@dataclass(frozen=True, slots=True)
class Timed:
    """Steps of one precision and batch size."""

    first_loss: float
    losses: tuple[float, ...]
    ms: float  # median of a step
    ms_low: float
    ms_high: float


def one_step(bench: SpeechBench) -> Judging:
    """G5: a whole step, whether it moves the weights, how long it takes, and what that means."""
    mels = bench.batch_of(bench.batch)
    training = bench.training()
    weight = training.student.get_parameter("blocks.0.mlp.fc1.weight")
    before = weight.detach().clone()
    yield Staged("speech.stage.step")
    loss = training.advance(mels)
    furthest = float((weight.detach() - before).abs().max())
    timed = yield from _timed(bench, training, mels, loss)
    mel_ms = _mel_ms(bench)
    del training, weight
    _free()
    right = math.isfinite(loss) and furthest > 0 and all(map(math.isfinite, timed.losses))
    ms_sample = timed.ms / bench.batch
    evidence: list[Evidence] = [
        Figure("speech.device", str(bench.device)),
        Figure("speech.batch", bench.batch),
        Figure("speech.g5.loss", loss, "", 2.0),
        Figure("speech.g5.moved", furthest),
        Figure("speech.g5.step", timed.ms, "ms"),
        Figure("speech.g5.range", f"{timed.ms_low:.0f} - {timed.ms_high:.0f}"),
        Figure("speech.g5.sample", ms_sample, "ms"),
        Figure("speech.g5.mel", mel_ms, "ms"),
        Figure("speech.g5.loaders", math.ceil(mel_ms / ms_sample)),
    ]
    if not right:
        return Judgement(
            Colour.RED, Notice("speech.g5.red"), tuple(evidence), Notice("speech.g5.hint")
        )
    if not bench.on_gpu:
        return Judgement(Colour.GREEN, Notice("speech.g5.cpu"), tuple(evidence))
    return _against_plan(bench, ms_sample, evidence)


def _against_plan(bench: SpeechBench, ms_sample: float, evidence: list[Evidence]) -> Judgement:
    """The hours that the measured step makes, beside those that were planned."""
    hours, planned = budget.hours(ms_sample), bench.settings.planned_hours
    found = budget.verdict(hours, planned)
    evidence += [
        Figure("speech.g5.hours", hours, "", planned),
        Figure("speech.g5.two", budget.whole(hours, 2), "", budget.whole(planned, 2)),
        Figure("speech.g5.three", budget.whole(hours, 3), "", budget.whole(planned, 3)),
        Figure("speech.g5.steps", budget.STEPS),
    ]
    facts: dict[str, Fact] = {"hours": round(hours, 1), "planned": planned}
    if found is Verdict.KEEP and hours <= budget.WARN_HOURS:
        return Judgement(Colour.GREEN, Notice("speech.g5.keep", facts), tuple(evidence))
    slower = hours > planned
    hint = "speech.g5.redo" if found is Verdict.REDO else "speech.g5.look_again"
    message = "speech.g5.slower" if slower else "speech.g5.faster"
    colour = Colour.AMBER if slower else Colour.GREEN
    return Judgement(colour, Notice(message, facts), tuple(evidence), Notice(hint))


def _timed(
    bench: SpeechBench, training: Training, mels: torch.Tensor, first_loss: float
) -> Generator[Any, None, Timed]:
    """Steps of a run that has made its first, with the clock read when the device is done."""
    for _ in range(WARM_UPS[bench.on_gpu] - 1):
        training.advance(mels)
    losses, took = [], []
    for _ in range(TIMED[bench.on_gpu]):
        yield Staged("speech.stage.step")
        wait_for(bench.device)
        began = time.perf_counter()
        losses.append(training.advance(mels))
        wait_for(bench.device)
        took.append(1e3 * (time.perf_counter() - began))
    return Timed(first_loss, tuple(losses), statistics.median(took), min(took), max(took))


def _mel_ms(bench: SpeechBench) -> float:
    """One clip's mel on one CPU core, as a loader's process makes it."""
    clips = bench.speech.clips[:MEL_CLIPS]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        bench.mel(clips[:2])
        began = time.perf_counter()
        bench.mel(clips)
        return 1e3 * (time.perf_counter() - began) / len(clips)
    finally:
        torch.set_num_threads(threads)


def mixed_precision(bench: SpeechBench) -> Judging:
    """G5b: the same weights, batch and masks in each precision; too little memory is a row."""
    rows: list[tuple[Cell, ...]] = []
    losses: list[float] = []
    for precision, size in _modes(bench):
        try:
            mels = bench.batch_of(size)
            training = bench.training(precision)
            first = training.advance(mels)
            timed = yield from _timed(bench, training, mels, first)
        except (torch.OutOfMemoryError, MemoryError):
            rows.append((precision, size, None, None, None, "speech.out_of_memory"))
            continue
        finally:
            training = None  # type: ignore[assignment]
            _free()
        hours = budget.hours(timed.ms / size) if bench.on_gpu else None
        rows.append((precision, size, timed.ms, timed.ms / size, hours, first))
        if size == bench.batch:
            losses.append(first)
    evidence: tuple[Evidence, ...] = (
        Figure("speech.device", str(bench.device)),
        Table(
            "speech.g5b.modes",
            (
                "speech.column.precision",
                "speech.column.batch",
                "speech.column.ms_step",
                "speech.column.ms_sample",
                "speech.column.hours",
                "speech.column.loss",
            ),
            tuple(rows),
        ),
    )
    sound = bool(losses) and all(map(math.isfinite, losses))
    if not sound or max(losses) - min(losses) > SAME_LOSS * max(losses):
        return Judgement(Colour.RED, Notice("speech.g5b.red"), evidence, Notice("speech.g5b.hint"))
    message = "speech.g5b.green" if bench.on_gpu else "speech.g5b.cpu"
    return Judgement(Colour.GREEN, Notice(message), evidence)


def _modes(bench: SpeechBench) -> list[tuple[str, int]]:
    """Precision and batch of each row. fp16 needs CUDA: on a CPU a step would take 45 s."""
    asked = bench.settings.precision
    can = ["fp32", "fp16", "bf16"] if bench.on_gpu else ["fp32", "bf16"]
    if asked != "auto":
        if asked not in can:
            raise Problem("problem.precision", precision=asked, near=", ".join(can))
        can = ["fp32"] if asked == "fp32" else ["fp32", asked]
    modes = [(precision, bench.batch) for precision in can]
    if bench.on_gpu and len(can) > 1:
        modes.append((can[1], 2 * bench.batch))
    return modes


def checkpoint_restores(bench: SpeechBench) -> Judging:
    """G6: save everything, read it back, and see that the run goes on as if nothing had been."""
    mels = bench.batch_of(bench.batch)
    training = bench.training()
    yield Staged("speech.stage.step")
    for _ in range(2):
        training.advance(mels)
    state = training.state() | {
        "epoch": 0,
        "config": msgspec.to_builtins(bench.settings),
        "metrics": {},
    }
    with tempfile.TemporaryDirectory(dir=_local(bench)) as folder:
        path = Path(folder) / "checkpoint.pt"
        yield Staged("speech.stage.save")
        began = time.perf_counter()
        size = checkpoint.save(path, state)
        save_seconds = time.perf_counter() - began
        began = time.perf_counter()
        kept = checkpoint.load(path)
        load_seconds = time.perf_counter() - began
    differing = checkpoint.differences(state, kept)
    count = checkpoint.tensors_in(state)
    moments = sum("exp_avg" in held for held in state["optimiser"]["state"].values())
    grouped = sum(len(group["params"]) for group in state["optimiser"]["param_groups"])
    alone = _encoder_alone_is_refused(training, kept)
    yield Staged("speech.stage.step")
    uninterrupted = [training.advance(mels) for _ in range(2)]
    # The second set of networks only after the first has gone: together they fill a small machine.
    ended = {name: module.state_dict() for name, module in training.parts().items()}
    del training, state
    _free()
    resumed = bench.training()
    resumed.restore(kept)
    del kept
    step_right = resumed.step == 2
    yield Staged("speech.stage.step")
    replayed = [resumed.advance(mels) for _ in range(2)]
    replay = checkpoint.differences(
        ended, {name: module.state_dict() for name, module in resumed.parts().items()}
    )
    del resumed, ended
    _free()
    free = checkpoint.free_bytes(_local(bench))
    needed = budget.storage(size)
    evidence: list[Evidence] = [
        Figure("speech.g6.size", size / 1e6, "", None),
        Figure("speech.g6.save", save_seconds, "seconds"),
        Figure("speech.g6.load", load_seconds, "seconds"),
        Figure("speech.g6.tensors", count - len(differing), "", count),
        Figure("speech.g6.moments", f"{moments} / {grouped}"),
        Figure("speech.g6.alone", alone, "", True),
        Figure("speech.g6.replay", len(replay), "", 0),
        Figure("speech.g6.losses", replayed == uninterrupted, "", True),
        Table(
            "speech.g6.storage",
            ("speech.column.plan", "speech.column.gigabytes"),
            (
                ("speech.g6.one", needed.checkpoint),
                ("speech.g6.every", needed.every_epoch),
                ("speech.g6.rolling", needed.rolling),
                ("speech.g6.both", 2 * needed.rolling),
                ("speech.g6.free", None if free is None else free / 1e9),
            ),
        ),
    ]
    if differing or replay:
        places = tuple((place,) for place in (*differing, *replay)[:MOST_DIFFERENCES])
        evidence.append(Table("speech.g6.differ", ("speech.column.place",), places))
    if differing or replay or not step_right or replayed != uninterrupted:
        return Judgement(
            Colour.RED, Notice("speech.g6.red"), tuple(evidence), Notice("speech.g6.hint")
        )
    if remote := bench.settings.remote.strip():
        try:
            probe = checkpoint.probed(Path(remote).expanduser())
        except Problem as problem:
            return Judgement(
                Colour.RED, problem.notice, tuple(evidence), Notice("speech.g6.hint_remote")
            )
        evidence.append(Figure("speech.g6.remote", probe.seconds, "seconds"))
        if probe.free_bytes is not None and probe.free_bytes < 2e9 * needed.rolling:
            return Judgement(
                Colour.AMBER,
                Notice("speech.g6.remote_full", {"free": round(probe.free_bytes / 1e9, 1)}),
                tuple(evidence),
                Notice("speech.g6.hint_remote"),
            )
    if free is not None and free < 1e9 * needed.rolling:
        return Judgement(
            Colour.AMBER,
            Notice("speech.g6.disk_full", {"free": round(free / 1e9, 1)}),
            tuple(evidence),
            Notice("speech.g6.hint_disk"),
        )
    return Judgement(Colour.GREEN, Notice("speech.g6.green"), tuple(evidence))


def _encoder_alone_is_refused(training: Training, kept: dict[str, Any]) -> bool:
    """The trap: an optimiser over the encoder alone does not take the state of both."""
    alone = torch.optim.AdamW(training.student.parameters())
    try:
        alone.load_state_dict(kept["optimiser"])
    except ValueError:
        return True
    return False


def _local(bench: SpeechBench) -> Path:
    """A folder on this machine's own disk."""
    folder = bench.context.lab.cache
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
