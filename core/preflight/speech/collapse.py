"""Has the representation collapsed? Five figures, none of which sees every case.

std_token   spread of single tokens: 1/sqrt(width) when even, 0 when all point one way
rank_eff    exp of the entropy of the singular values, mean taken away: blind to full collapse
rank_raw    the same on normalised tokens, mean kept
cos_cross   mean cosine between tokens of different clips
std_utt     spread of whole clips
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

PAIRS = 4_096
FRACTION, SPREAD_FRACTION = 0.5, 0.25  # of the baseline, below which a run is to be stopped
COS_LIMIT, COS_RISE = 0.9, 0.3
IN_A_ROW = 2
CASES = ("healthy", "collapse", "rank 8", "same utterance")


@dataclass(frozen=True, slots=True)
class Metrics:
    """Of one fixed batch."""

    std_token: float
    rank_eff: float
    rank_raw: float
    cos_cross: float
    std_utt: float


def metrics(tokens: Tensor) -> Metrics:
    """Of (clips, tokens, width) in float32, with two clips and two tokens at least."""
    if tokens.ndim != 3 or tokens.shape[0] < 2 or tokens.shape[1] < 2:
        raise ValueError(f"expected (clips >= 2, tokens >= 2, width), got {tuple(tokens.shape)}")
    clips, count, width = tokens.shape
    flat = tokens.float().reshape(-1, width)
    unit = nn.functional.normalize(flat, dim=-1)
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(0, clips, (PAIRS,), generator=generator)
    offset = torch.randint(1, clips, (PAIRS,), generator=generator)
    second = (first + offset) % clips
    one = torch.randint(0, count, (PAIRS,), generator=generator)
    other = torch.randint(0, count, (PAIRS,), generator=generator)
    by_clip = unit.reshape(clips, count, width)
    cosine = (by_clip[first, one] * by_clip[second, other]).sum(-1).mean()
    whole = nn.functional.normalize(tokens.float().mean(dim=1), dim=-1)
    return Metrics(
        std_token=float(unit.std(dim=0).mean()),
        rank_eff=_rank(flat.double() - flat.double().mean(dim=0)),
        rank_raw=_rank(unit.double()),
        cos_cross=float(cosine),
        std_utt=float(whole.std(dim=0).mean()),
    )


def _rank(matrix: Tensor) -> float:
    """exp of the entropy of the singular values' shares; NaN where a number of it is not finite.

    The values are the roots of the eigenvalues of the small square matrix: in float64 half the
    work of decomposing the tall one, and the same rank to 1e-6 of itself.
    """
    if not bool(matrix.isfinite().all()):
        return math.nan
    values = torch.linalg.eigvalsh(matrix.T @ matrix).clamp(min=0.0).sqrt()
    shares = values / values.sum().clamp(min=torch.finfo(torch.float64).tiny)
    shares = shares[shares > 0]
    return float(torch.exp(-(shares * shares.log()).sum()))


def limits(base: Metrics) -> Metrics:
    """Where a run is to be stopped: the highest cos_cross, and the lowest of all the others."""
    return Metrics(
        std_token=SPREAD_FRACTION * base.std_token,
        rank_eff=FRACTION * base.rank_eff,
        rank_raw=FRACTION * base.rank_raw,
        cos_cross=min(COS_LIMIT, base.cos_cross + COS_RISE),
        std_utt=SPREAD_FRACTION * base.std_utt,
    )


def stop_reasons(now: Metrics, base: Metrics) -> tuple[str, ...]:
    """The figures by which `now` has left the baseline; see `Watch` for when to act.

    Asked the other way round, so that a figure that is no number any more is a reason too.
    """
    edge = limits(base)
    kept = {
        "rank_eff": now.rank_eff >= edge.rank_eff,
        "rank_raw": now.rank_raw >= edge.rank_raw,
        "cos_cross": now.cos_cross <= edge.cos_cross,
        "std_token": now.std_token >= edge.std_token,
        "std_utt": now.std_utt >= edge.std_utt,
    }
    return tuple(name for name, holds in kept.items() if not holds)


@dataclass(slots=True)
class Watch:
    """Follows a run against its baseline."""

    base: Metrics
    _before: tuple[str, ...] = field(default=(), init=False)

    def stop(self, now: Metrics) -> tuple[str, ...]:
        """The reasons to stop: those that held now and the last time."""
        reasons = stop_reasons(now, self.base)
        both = tuple(name for name in reasons if name in self._before)
        self._before = reasons
        return both


def synthetic_cases(clips: int = 64, tokens: int = 128, width: int = 768) -> dict[str, Tensor]:
    """`CASES`, each (clips, tokens, width), drawn one after the other from seed 0."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    one_way, one_speaker = normal(1, 1, width), normal(1, 1, width)
    healthy = normal(clips, tokens, width)
    collapse = one_way + 0.001 * normal(clips, tokens, width)
    rank_8 = normal(clips, tokens, 8) @ normal(8, width)
    within = 0.9 * normal(1, tokens, width)
    same_utterance = one_speaker + within + 0.02 * normal(clips, tokens, width)
    return dict(zip(CASES, (healthy, collapse, rank_8, same_utterance), strict=True))
