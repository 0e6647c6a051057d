"""G1, G2 and G7: the geometry and its tables, the rate that really runs, the untouched branch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.preflight.gate import Cell, Colour, Curve, Evidence, Figure, Judgement, Judging, Table
from core.preflight.speech import budget, positions, schedules
from core.preflight.speech.bench import SpeechBench
from core.preflight.speech.encoder import assembled, fingerprint
from core.preflight.speech.optimiser import Schedule
from core.preflight.speech.training import FINAL_LR, START_LR, WEIGHT_DECAY
from core.preflight.speech.weights import PREDICTOR, STUDENT, TEACHER
from core.problems import Notice

TABLES_DIFFER = 1e-3  # how far a table of the other grid lies at least
LR_TOLERANCE, WD_TOLERANCE = 1e-3, 1e-12
LOOKED_AT = (0, 1, 250, 499, 500, 501, 2000, 5000)  # steps
RUN_STEPS, WD_STEPS = 8_000, 50
DECLARED_LR = 3e-4  # what the public configuration says ...
DEFAULT_REF, DEFAULT_WARM_UP = 1e-3, 1_000  # ... and what its schedule does instead


def geometry(bench: SpeechBench) -> Judging:
    """G1: the grid, both tables made anew, and the silence in which the wrong one would load."""
    rows, columns = bench.grid
    encoder, missing, unexpected = bench.loaded(STUDENT)
    yield from ()
    predictor = bench.predictor()
    tables: list[tuple[Cell, ...]] = []
    differ = True
    for name, key, table in (
        ("speech.g1.encoder", f"{STUDENT}pos_embed", encoder.pos_embed),
        ("speech.g1.predictor", f"{PREDICTOR}predictor_pos_embed", predictor.predictor_pos_embed),
    ):
        old, new = bench.weights.tensors[key].float(), table.detach().cpu().float()
        shapes_equal = old.shape == new.shape
        right = bool(torch.equal(new, positions.table(new.shape[-1], rows, columns)))
        furthest = float((old - new).abs().max()) if shapes_equal else float("nan")
        alike = float(nn.functional.cosine_similarity(old, new, dim=-1).mean())
        moved = int(((old - new).abs().amax(dim=-1) > TABLES_DIFFER).sum())
        tables.append((name, furthest, alike, moved, right))
        differ = differ and shapes_equal and right and furthest > TABLES_DIFFER
    grid_right = encoder.grid == bench.grid and rows * columns == 128
    loaded_right = missing == ["pos_embed"] and unexpected == []
    silent = _loads_in_silence(bench)
    evidence: tuple[Evidence, ...] = (
        Figure(
            "speech.g1.grid", f"{encoder.grid[0]} x {encoder.grid[1]}", "", f"{rows} x {columns}"
        ),
        Figure("speech.g1.missing", ", ".join(missing) or "-", "", "pos_embed"),
        Figure("speech.g1.unexpected", ", ".join(unexpected) or "-", "", "-"),
        *_counts(bench),
        Table(
            "speech.g1.tables",
            (
                "speech.column.table",
                "speech.column.furthest",
                "speech.column.cosine",
                "speech.column.rows_moved",
                "speech.column.as_formula",
            ),
            tuple(tables),
        ),
        Figure("speech.g1.silent", silent, "", True),
    )
    if not (grid_right and differ and loaded_right):
        hint = Notice("speech.g1.hint")
        return Judgement(Colour.RED, Notice("speech.g1.red"), evidence, hint)
    if not silent:  # then something else has changed: the trap cannot be shown as it was
        return Judgement(Colour.AMBER, Notice("speech.g1.loud"), evidence)
    return Judgement(Colour.GREEN, Notice("speech.g1.green"), evidence)


def _counts(bench: SpeechBench) -> tuple[Figure, ...]:
    """How many tensors each part has, beside what its depth gives."""
    encoder, predictor = 5 + 12 * bench.depth, 8 + 12 * bench.narrow_depth
    return tuple(
        Figure(f"speech.g1.count.{name}", bench.weights.count(prefix), "", expected)
        for name, prefix, expected in (
            ("student", STUDENT, encoder),
            ("teacher", TEACHER, encoder),
            ("predictor", PREDICTOR, predictor),
        )
    )


def _loads_in_silence(bench: SpeechBench) -> bool:
    """Whether a strict load takes the old table without a word: its shape is the same."""
    encoder = bench.encoder(STUDENT)
    state = encoder.state_dict()
    state["pos_embed"] = bench.weights.tensors[f"{STUDENT}pos_embed"]
    try:
        outcome = encoder.load_state_dict(state, strict=True)
    except RuntimeError:
        return False
    return not outcome.missing_keys and not outcome.unexpected_keys


def learning_rate(bench: SpeechBench) -> Judging:
    """G2: what the schedules really write into the optimiser."""
    chosen, default = bench.plan, (DEFAULT_REF, DEFAULT_WARM_UP)
    steps = max(RUN_STEPS, min(2 * chosen.warm_up, chosen.total))
    ours, decay = _ran(chosen.ref_lr, chosen.warm_up, chosen.total, steps)
    yield from ()
    theirs, _ = _ran(*default, chosen.total, steps)
    peak, default_peak = max(ours), max(theirs)
    peak_right = abs(peak - chosen.ref_lr) / chosen.ref_lr < LR_TOLERANCE
    decay_right = all(abs(value - WEIGHT_DECAY) < WD_TOLERANCE for value in decay)
    above = sum(
        schedules.learning_rate(
            step,
            ref=DEFAULT_REF,
            start=START_LR,
            final=FINAL_LR,
            warm_up=DEFAULT_WARM_UP,
            total=budget.STEPS,
        )
        > DECLARED_LR
        for step in range(0, budget.STEPS, 10)
    ) / len(range(0, budget.STEPS, 10))
    stride = max(1, steps // 200)
    evidence: tuple[Evidence, ...] = (
        Figure("speech.g2.peak", peak, "", chosen.ref_lr),
        Figure("speech.g2.default_peak", default_peak, "", DECLARED_LR),
        Figure("speech.g2.decay", max(decay), "", WEIGHT_DECAY),
        Figure("speech.g2.above", 100 * above, "percent"),
        Table(
            "speech.g2.steps",
            ("speech.column.step", "speech.column.default_lr", "speech.column.chosen_lr"),
            tuple((step, theirs[step], ours[step]) for step in LOOKED_AT if step < steps),
        ),
        Curve(
            "speech.g2.curve",
            "speech.axis.step",
            "speech.axis.lr",
            tuple(map(float, range(0, steps, stride))),
            {
                "speech.line.chosen": tuple(ours[::stride]),
                "speech.line.default": tuple(theirs[::stride]),
            },
        ),
    )
    if not (peak_right and decay_right and default_peak > DECLARED_LR):
        return Judgement(
            Colour.RED,
            Notice("speech.g2.red", {"peak": f"{peak:.3g}", "wanted": f"{chosen.ref_lr:.3g}"}),
            evidence,
            Notice("speech.g2.hint"),
        )
    return Judgement(Colour.GREEN, Notice("speech.g2.green", {"peak": f"{peak:.3g}"}), evidence)


def _ran(ref: float, warm_up: int, total: int, steps: int) -> tuple[list[float], list[float]]:
    """The rate and the first weight decays that an optimiser really holds, step by step."""
    optimiser = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=DECLARED_LR, weight_decay=0.05)
    schedule = Schedule(
        optimiser,
        ref=ref,
        start=START_LR,
        final=FINAL_LR,
        warm_up=warm_up,
        total=total,
        weight_decay=WEIGHT_DECAY,
    )
    group = optimiser.param_groups[0]
    rates, decays = [], []
    for step in range(steps):
        rates.append(float(group["lr"]))
        if step < WD_STEPS:
            decays.append(float(group["weight_decay"]))
        schedule.advance()
    return rates, decays


def detection_branch(bench: SpeechBench) -> Judging:
    """G7: the detection branch's encoder, put together a second way, is the same to the bit."""
    rows: list[tuple[Cell, ...]] = []
    equal = True
    for prefix in (STUDENT, TEACHER):
        by_rule = bench.encoder(prefix).state_dict()
        yield from ()
        by_hand = assembled(bench.weights.tensors, prefix, patch=bench.patch, grid=bench.grid)
        same = sum(_same(by_rule.get(name), tensor) for name, tensor in by_hand.items())
        whole = same == len(by_hand) == len(by_rule)
        equal = equal and whole and list(by_rule) == list(by_hand)
        print_ = fingerprint({name: tensor.cpu() for name, tensor in by_rule.items()})
        rows.append((prefix.rstrip("."), same, len(by_hand), print_[:16]))
    evidence: tuple[Evidence, ...] = (
        Table(
            "speech.g7.tensors",
            (
                "speech.column.part",
                "speech.column.equal",
                "speech.column.of",
                "speech.column.fingerprint",
            ),
            tuple(rows),
        ),
        # The resized patch depends on PyTorch's interpolation: the print holds for one version.
        Figure("speech.g7.torch", str(torch.__version__)),
    )
    if not equal:
        return Judgement(Colour.RED, Notice("speech.g7.red"), evidence, Notice("speech.g7.hint"))
    return Judgement(Colour.GREEN, Notice("speech.g7.green"), evidence)


def _same(one: Tensor | None, other: Tensor) -> bool:
    return one is not None and one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())
