"""The lab report without a browser: one student's file, out of the records."""

from __future__ import annotations

import os
from pathlib import Path

from core.headless import FINISHED
from core.problems import Problem
from core.records.store import FILE_NAME, Records
from core.report.collect import report_of
from core.report.cost import examples
from core.report.html import report_html
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.texts import Texts


def write_report(student: str, path: Path, settings: LabSettings, say: Texts) -> int:
    """Write the report of the student with this token; one of whom nothing is known gets an empty
    one. Raises Problem where the records cannot be opened or `path` cannot be written."""
    records = Records(settings.database_url or settings.cache / FILE_NAME)
    try:
        report = report_of(student, records, describe_machine(), examples(say.language))
    finally:
        records.close()
    _write(path, report_html(report, say))
    print(say("part5.report.written", path=str(path), runs=len({row.run for row in report.rows})))
    return FINISHED


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Problem("problem.path_unwritable", path=str(path), reason=reason) from None
