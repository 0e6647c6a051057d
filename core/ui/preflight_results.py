"""What the page knows of earlier runs, and who may start new ones."""

from __future__ import annotations

import datetime

from core.engine.view import JobState, JobView
from core.preflight.gate import PreflightResult
from core.problems import Problem
from core.ui import resources
from core.ui.pixels import shaped
from core.ui.visitor import visitor

KEPT = 6  # runs that are looked at for the newest word on each gate


def may_run() -> bool:
    """With a teacher's code the suites are the teacher's: they take the machine for minutes."""
    return visitor().teacher or not resources.lab_settings().teacher_code


def require_right() -> None:
    """Raises Problem for whoever may only look."""
    if not may_run():
        raise Problem("problem.preflight_teacher")


def own_results(activity: str, job: JobView | None, *, kept: int = KEPT) -> list[PreflightResult]:
    """This visitor's runs, the newest first; of one that was stopped, the gates it came to."""
    views = {job.id: job} if job is not None and job.state.over else {}
    for view in resources.records().of_student(visitor().token, activity=activity, limit=kept):
        views.setdefault(view.id, view)
    results = (_result_of(view) for view in views.values())
    return [result for result in results if result is not None and result.gates]


def class_results(activity: str) -> list[PreflightResult]:
    """Everybody's runs, for those who may only look: the teacher's are among them."""
    rows = resources.records().of_class(activity, asked_by=visitor().token)
    results = (shaped(row.values, PreflightResult) for row in rows[:KEPT])
    return [result for result in results if result is not None and result.gates]


def _result_of(view: JobView) -> PreflightResult | None:
    if view.state is JobState.DONE:
        return shaped(view.result, PreflightResult)
    began = datetime.datetime.fromtimestamp(view.submitted_at).astimezone()
    return PreflightResult(
        suite=view.activity.removeprefix("preflight-"),
        gates=view.gates,
        made_at=began.isoformat(timespec="seconds"),
        versions={},
    )
