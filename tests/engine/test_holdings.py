"""What a student holds and gives back: decisions with a clock of our own, and sums of memory."""

from __future__ import annotations

import pytest

from core.activities import Lane
from core.engine.dispatcher import CPU
from core.engine.holdings import Fate, Held, Use, WorkerHolding, own_vram_mib
from core.engine.stimuli import (
    CancelAsked,
    DropModels,
    GiveBackAsked,
    RetireWorker,
    RunJobs,
    StartWorker,
    WorkerLost,
    WorkerReady,
)
from tests.engine.test_dispatcher import Story, together

MODEL = {"lane": Lane.INFER, "model": "turbo", "model_mib": 2_600}


def seen_by(story: Story, student: str) -> dict[str, tuple[Use, Fate]]:
    workers = story.dispatcher.workers(student, story.now)
    return {worker.worker: (worker.use, worker.fate) for worker in workers}


def drawn(story: Story, job: str, student: str) -> str:
    """A job with a model that has brought its result; gives the worker, which holds the model."""
    worker = story.running(job, student, **MODEL)
    story.end(worker, job)
    return worker


def test_giving_back_when_nothing_was_run_changes_nothing():
    assert Story().tell(GiveBackAsked("an")) == []


def test_an_idle_worker_that_trained_ends_and_the_next_job_starts_a_fresh_one():
    story = Story()
    worker = story.running("j1")
    story.end(worker, "j1")
    assert seen_by(story, "an") == {worker: (Use.IDLE, Fate.ENDS)}
    assert story.tell(GiveBackAsked("an")) == [RetireWorker(worker)]
    assert story.tell(GiveBackAsked("an")) == [], "it leaves already"
    assert seen_by(story, "an") == {worker: (Use.LEAVING, Fate.BUSY)}
    assert story.submit("j2") == [], "the one place is taken until the old process is gone"
    assert story.tell(WorkerLost(worker)) == [StartWorker("train-2", CPU, Lane.TRAIN)]


@pytest.mark.parametrize(("student", "use"), [("an", Use.MINE), ("binh", Use.OTHERS)])
def test_a_running_job_is_never_touched_whosever_it_is(student, use):
    story = Story()
    worker = story.running("j1", "an")
    assert seen_by(story, student) == {worker: (use, Fate.BUSY)}
    assert story.tell(GiveBackAsked(student)) == []


def test_a_run_that_serves_a_student_and_others_says_so():
    story = Story()
    story.submit("j1", "an", **together())
    story.submit("j2", "binh", **together())
    (run,) = [d for d in story.tell(WorkerReady("infer-1")) if isinstance(d, RunJobs)]
    assert run.jobs == ("j1", "j2")
    assert seen_by(story, "an")["infer-1"] == (Use.TOGETHER, Fate.BUSY)
    assert seen_by(story, "chi")["infer-1"] == (Use.OTHERS, Fate.BUSY)


def test_a_model_that_only_this_student_used_is_dropped_and_its_worker_stays():
    story = Story()
    worker = drawn(story, "j1", "an")
    assert story.dispatcher.workers("an", story.now)[0].models == ("turbo",)
    assert story.tell(GiveBackAsked("an")) == [DropModels(worker)]
    assert story.dispatcher.workers("an", story.now)[0].models == ()
    assert seen_by(story, "an") == {worker: (Use.IDLE, Fate.EMPTY)}
    assert story.tell(GiveBackAsked("an")) == [], "nothing is left to drop"
    again = story.submit("j2", "an", **MODEL)
    assert again == [RunJobs(worker, ("j2",), CPU)]
    story.end(worker, "j2")
    assert seen_by(story, "an") == {worker: (Use.IDLE, Fate.DROPS)}


def test_a_model_that_a_classmate_used_within_the_last_minute_stays():
    story = Story()
    worker = drawn(story, "j1", "binh")
    drawn(story, "j2", "an")
    story.now += 59
    assert seen_by(story, "an") == {worker: (Use.IDLE, Fate.SHARED)}
    assert story.tell(GiveBackAsked("an")) == []
    story.now += 2
    assert story.tell(GiveBackAsked("an")) == [DropModels(worker)]


def test_a_worker_that_has_run_nothing_has_nothing_to_give_back():
    story = Story()
    story.submit("j1", "an", **MODEL)
    story.tell(CancelAsked("j1"))
    story.tell(WorkerReady("infer-1"))
    assert seen_by(story, "an") == {"infer-1": (Use.IDLE, Fate.EMPTY)}


def holding(own: float | None, held: Held | None) -> WorkerHolding:
    return WorkerHolding(
        "w", "GPU-1", Lane.INFER, Use.IDLE, Fate.DROPS, own_vram_mib=own, held=held
    )


def test_what_is_neither_tensor_nor_cache_is_the_context():
    assert holding(3_200.0, Held(reserved_mib=2_700.0)).context_mib == 500.0
    assert holding(500.0, Held()).context_mib == 500.0
    assert holding(None, Held(reserved_mib=2_700.0)).context_mib is None, "the driver is silent"
    assert holding(None, Held(reserved_mib=2_700.0)).vram_mib == 2_700.0
    assert holding(3_200.0, None).vram_mib == 3_200.0


def test_a_process_that_the_driver_does_not_list_holds_nothing_unless_it_cannot_be_listed():
    assert own_vram_mib({7: 512.0}, 7, ids_are_the_hosts=False) == 512.0
    assert own_vram_mib({7: 512.0}, 8, ids_are_the_hosts=True) == 0.0
    assert own_vram_mib({7: 512.0}, 8, ids_are_the_hosts=False) is None
    assert own_vram_mib({7: None}, 7, ids_are_the_hosts=True) is None
    assert own_vram_mib(None, 7, ids_are_the_hosts=True) is None
