"""How a benchmark says what it found: figure, spread, target, PASS or MISS, which machine."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence

from core.telemetry.machine import describe_machine


class Report:
    """Prints each figure as it is added; `exit_code` is 1 once one has missed its target."""

    def __init__(self) -> None:
        self.exit_code = 0
        machine = describe_machine()
        cards = ", ".join(gpu.name for gpu in machine.gpus) or "no GPU"
        print(
            f"on {machine.cpu}, {machine.cores} cores, {machine.ram_mib / 1024:.0f} GiB, {cards}, "
            f"Python {platform.python_version()}",
            flush=True,
        )

    def median(
        self, what: str, values: Sequence[float], unit: str, *, at_most: float | None = None
    ) -> None:
        self._say(f"{what}: median", statistics.median(values), values, unit, at_most)

    def p95(
        self, what: str, values: Sequence[float], unit: str, *, at_most: float | None = None
    ) -> None:
        self._say(f"{what}: p95", percentile(values, 95), values, unit, at_most)

    def at_most(self, what: str, figure: float, limit: float) -> None:
        """One figure that is known exactly."""
        passed = figure <= limit
        self.exit_code = max(self.exit_code, int(not passed))
        print(f"{what}: {figure:.3g}; target {limit:g}: {'PASS' if passed else 'MISS'}", flush=True)

    def _say(
        self, what: str, figure: float, values: Sequence[float], unit: str, at_most: float | None
    ) -> None:
        verdict = ""
        if at_most is not None:
            verdict = f"; target {at_most:g} {unit}: {'PASS' if figure <= at_most else 'MISS'}"
            self.exit_code = max(self.exit_code, int(figure > at_most))
        spread = f"{min(values):.3g} to {max(values):.3g}, n={len(values)}"
        print(f"{what} {figure:.3g} {unit} ({spread}){verdict}", flush=True)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))  # rounded up
    return ordered[int(rank) - 1]
