"""Several runs of one suite beside each other: the newest word on each gate, and what changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from core.preflight.gate import Colour, Outcome, PreflightResult

NOTABLE_TIMES, NOTABLE_SECONDS = 1.5, 1.0  # a time that grew or shrank by both is worth a line


class Change(msgspec.Struct, frozen=True):
    """What is different of one gate."""

    gate: str
    before: Colour
    after: Colour
    seconds_before: float
    seconds_after: float

    @property
    def recoloured(self) -> bool:
        return self.before is not self.after

    @property
    def worse(self) -> bool:
        return self.recoloured and RANK[self.after] > RANK[self.before]


RANK = {Colour.GREEN: 0, Colour.NOT_JUDGED: 1, Colour.AMBER: 2, Colour.RED: 3}


def merged(results: Sequence[PreflightResult]) -> PreflightResult | None:
    """The newest outcome of each gate, of results whose newest stands first; None of none.

    One gate run alone thus replaces its own light and leaves the others.
    """
    if not results:
        return None
    newest: dict[str, Outcome] = {}
    for result in results:
        for outcome in result.gates:
            newest.setdefault(outcome.gate, outcome)
    return replace(results[0], gates=tuple(newest.values()))


def compare(latest: PreflightResult | None, before: PreflightResult | None) -> tuple[Change, ...]:
    """Gates of both whose colour changed or whose time did so much that it should be told."""
    if latest is None or before is None:
        return ()
    earlier = {outcome.gate: outcome for outcome in before.gates}
    changes = (
        Change(now.gate, then.colour, now.colour, then.seconds, now.seconds)
        for now in latest.gates
        if (then := earlier.get(now.gate)) is not None
    )
    return tuple(change for change in changes if change.recoloured or _notable(change))


def _notable(change: Change) -> bool:
    slow = max(change.seconds_before, change.seconds_after)
    fast = min(change.seconds_before, change.seconds_after)
    return slow - fast >= NOTABLE_SECONDS and slow >= NOTABLE_TIMES * fast
