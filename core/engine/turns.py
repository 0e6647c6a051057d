"""Whose turn it is, and who shares a run with whom."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping

from core.engine.state import Job


def fair_order(
    queued: Iterable[Job], running: Counter[str], last_turn: Mapping[str, float]
) -> list[Job]:
    """Queued jobs in the order of their turn: first whose student has least running, then who
    waited longest since the last turn, then who came first. As if each had begun in that order.
    """
    waiting: defaultdict[str, deque[Job]] = defaultdict(deque)
    for job in sorted(queued, key=lambda j: j.turn):
        waiting[job.student].append(job)
    # Of each student the next job alone; a turn changes the rank of nobody but who has it.
    ranks = [
        (running[student], last_turn.get(student, -1.0), jobs[0].turn, student)
        for student, jobs in waiting.items()
    ]
    heapq.heapify(ranks)
    latest = max(last_turn.values(), default=0.0)
    ordered: list[Job] = []
    while ranks:
        runs, _, _, student = ranks[0]
        jobs = waiting[student]
        ordered.append(jobs.popleft())
        latest += 1.0
        if jobs:
            heapq.heapreplace(ranks, (runs + 1, latest, jobs[0].turn, student))
        else:
            heapq.heappop(ranks)
    return ordered


def runs(ordered: Iterable[Job]) -> list[list[Job]]:
    """The runs that serve these jobs, the next one first.

    Who is next in turn gets the next run. Others of the same kind ride along from wherever they
    stand in the queue, until it is full: a job of another kind between them waits for that one run,
    as it would have anyway, and not for a second one. Among its own kind nobody overtakes: the
    first that finds no seat begins a run of its own, and the later ones ride in that.
    """
    found: list[list[Job]] = []
    open_: dict[tuple[object, ...], tuple[list[Job], int]] = {}  # kind -> its run, weight so far
    for job in ordered:
        if job.batch is None:
            found.append([job])
            continue
        run, weight = open_.get(job.batch.key, ([], 0))
        if not run or weight + job.batch.weight > job.batch.most:
            run, weight = [], 0
            found.append(run)
        run.append(job)
        open_[job.batch.key] = run, weight + job.batch.weight
    return found
