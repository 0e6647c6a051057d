"""A student's report out of the records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.report.cost import Prices
from core.report.html import Report

if TYPE_CHECKING:
    from core.records.store import Records
    from core.telemetry.readings import Machine


def report_of(student: str, records: Records, machine: Machine, prices: Prices) -> Report:
    """What the records hold of this student, and of nobody else."""
    return Report(
        name=records.name(student),
        made_at=time.time(),
        machine=machine,
        jobs=records.of_student(student),
        answers=records.guesses_of(student),
        prices=prices,
    )
