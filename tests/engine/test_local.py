"""The engine with real worker processes: what a class can do to it, and what it must survive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from core.activities import Lane
from core.activities.make_images import (
    MAKE_IMAGES,
    MINI_TURBO,
    MODEL_MIB,
    SD_TURBO,
    MakeImagesSettings,
)
from core.context import Wish
from core.engine import local
from core.engine.dispatcher import Caps
from core.engine.holdings import Fate, Use, WorkerHolding
from core.engine.local import LocalEngine, submission
from core.engine.processes import ROOT
from core.engine.view import JobState, JobView
from core.problems import Problem
from core.settings import LabSettings
from tests.engine.activities import (
    ACTIVITIES,
    FORGOTTEN,
    HOLDINGS_MIB,
    POISON,
    STEP_SECONDS,
    CountSettings,
    WordSettings,
)

AN, BINH = "token-of-an", "token-of-binh"
FOREVER = CountSettings(steps=100_000)


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition, at most so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.02)


def pids_of(view: JobView) -> tuple[int, int]:
    """The worker that runs a job of `with_child`, and the child."""
    worker, child = view.stage.split()
    return int(worker), int(child)


def gone(pid: int) -> bool:
    """Whether this process has ended; one that only waits to be reaped has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> LabSettings:
    return LabSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), devices="cpu", offline=True, sample_seconds=0.1
    )


@pytest.fixture(scope="module")
def over() -> list[JobView]:
    return []


@pytest.fixture(scope="module")
def shared_engine(settings: LabSettings, over: list[JobView]) -> Iterator[LocalEngine]:
    caps = Caps(shared_seconds=0.5)
    engine = LocalEngine(settings, activities=ACTIVITIES, on_over=over.append, caps=caps)
    yield engine
    engine.close()


@pytest.fixture
def engine(shared_engine: LocalEngine) -> Iterator[LocalEngine]:
    """One engine for the module, since a worker needs seconds to start; empty before each test."""
    yield shared_engine
    for view in shared_engine.class_jobs():
        shared_engine.cancel_any(view.id)
    until(lambda: not shared_engine.class_jobs())


def seen(engine: LocalEngine, job: str) -> JobView:
    view = engine.view(job, student=AN)
    assert view is not None
    return view


def outcome(engine: LocalEngine, job: str, student: str = AN) -> JobView:
    def view() -> JobView:
        found = engine.view(job, student=student)
        assert found is not None
        return found

    until(lambda: view().state.over)
    return view()


def running(engine: LocalEngine, job: str, student: str = AN) -> JobView:
    """The job's view once its first event has come."""

    def begun() -> JobView | None:
        view = engine.view(job, student=student)
        assert view is not None
        assert not view.state.over, view.problem
        return view if view.state is JobState.RUNNING and (view.done or view.total) else None

    until(begun)
    view = begun()
    assert view is not None
    return view


def test_a_job_runs_in_another_process_and_its_result_comes_back(engine: LocalEngine):
    view = outcome(engine, engine.submit(AN, "count", CountSettings(steps=3)))
    assert view.state is JobState.DONE
    assert view.result is not None
    assert view.result["steps"] == 3
    assert view.result["pid"] != os.getpid()
    assert view.done == view.total == 3


def test_a_finished_job_is_handed_to_the_records(engine: LocalEngine, over: list[JobView]):
    job = engine.submit(AN, "count", CountSettings(steps=1))
    until(lambda: any(view.id == job for view in over))
    assert next(view for view in over if view.id == job).state is JobState.DONE


def test_a_job_too_small_for_the_records_is_not_handed_to_them(
    engine: LocalEngine, over: list[JobView]
):
    small = outcome(engine, engine.submit(AN, "quick", CountSettings(steps=1)))
    later = engine.submit(AN, "count", CountSettings(steps=1))
    until(lambda: any(view.id == later for view in over))
    assert all(view.id != small.id for view in over)


def test_the_worker_is_used_again_for_the_next_job(engine: LocalEngine):
    pids = {
        (outcome(engine, engine.submit(AN, "count", CountSettings(steps=1))).result or {})["pid"]
        for _ in range(2)
    }
    assert len(pids) == 1


def test_the_meter_runs_inside_the_worker_and_its_readings_reach_the_view(engine: LocalEngine):
    job = engine.submit(AN, "measure", CountSettings(steps=60))
    view = outcome(engine, job)
    assert view.result is not None
    assert view.result["samples"] >= 5
    assert len(view.readings) >= 3
    assert view.section == "counting"
    assert view.readings[0].seconds < 1.0, "seconds count from the start of the job"


def test_a_second_click_gives_the_same_job(engine: LocalEngine):
    first = engine.submit(AN, "count", FOREVER)
    assert engine.submit(AN, "count", CountSettings(steps=5)) == first
    assert len(engine.class_jobs()) == 1


def test_twenty_submissions_at_once_share_one_worker(engine: LocalEngine):
    students = [f"student {n}" for n in range(20)]
    threads = [
        threading.Thread(target=engine.submit, args=(student, "count", CountSettings(steps=1)))
        for student in students
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: not engine.class_jobs())
    views = [engine.latest(student, "count") for student in students]
    assert len({view.result["pid"] for view in views if view and view.result}) == 1


def test_a_queued_job_shows_its_place_and_the_running_ones_estimate(engine: LocalEngine):
    running(engine, engine.submit(AN, "count", CountSettings(steps=2_000)))
    job = engine.submit(BINH, "count", CountSettings(steps=1))
    view = engine.view(job, student=BINH)
    assert view is not None
    assert (view.state, view.place) == (JobState.QUEUED, 1)
    assert view.wait_seconds is not None
    assert 20 < view.wait_seconds < 60, "2,000 steps of 0.02 s"


def test_a_cancel_is_honoured_between_steps_and_keeps_the_worker(engine: LocalEngine):
    job = engine.submit(AN, "count", FOREVER)
    running(engine, job)
    before = engine.worker_pids()
    engine.cancel(job, student=AN)
    assert outcome(engine, job).state is JobState.STOPPED
    assert engine.worker_pids() == before


def test_a_paused_job_stands_still_until_it_is_resumed(engine: LocalEngine):
    job = engine.submit(AN, "count", FOREVER)
    running(engine, job)
    engine.steer(job, Wish.PAUSE, student="somebody else")
    engine.steer(job, Wish.PAUSE, student=AN)
    until(lambda: seen(engine, job).paused)
    stood = seen(engine, job).done
    time.sleep(10 * STEP_SECONDS)  # ten steps' time
    assert seen(engine, job).done == stood
    engine.steer(job, Wish.RESUME, student=AN)
    until(lambda: seen(engine, job).done > stood)
    assert not seen(engine, job).paused


@pytest.mark.parametrize("wish", [Wish.FINISH, Wish.STOP])
def test_a_paused_job_can_be_ended_without_resuming(engine: LocalEngine, wish: Wish):
    job = engine.submit(AN, "count", FOREVER)
    running(engine, job)
    engine.steer(job, Wish.PAUSE, student=AN)
    until(lambda: seen(engine, job).paused)
    engine.steer(job, wish, student=AN)
    view = outcome(engine, job)
    assert view.state is (JobState.DONE if wish is Wish.FINISH else JobState.STOPPED)


def test_finishing_keeps_the_result_so_far(engine: LocalEngine):
    job = engine.submit(AN, "count", FOREVER)
    running(engine, job)
    engine.steer(job, Wish.FINISH, student=AN)
    view = outcome(engine, job)
    assert view.result is not None
    assert 0 < view.result["steps"] < FOREVER.steps


def test_a_worker_that_does_not_obey_is_ended_and_replaced(engine: LocalEngine):
    job = engine.submit(AN, "stubborn", CountSettings(steps=300))
    running(engine, job)
    before = engine.worker_pids()
    engine.cancel(job, student=AN)
    assert outcome(engine, job).state is JobState.STOPPED
    view = outcome(engine, engine.submit(AN, "count", CountSettings(steps=1)))
    assert view.state is JobState.DONE
    assert engine.worker_pids() != before


def test_nobody_can_see_or_cancel_anothers_job(engine: LocalEngine):
    job = engine.submit(AN, "count", FOREVER)
    running(engine, job)
    engine.cancel(job, student="somebody else")
    assert engine.view(job, student="somebody else") is None
    assert engine.latest("somebody else", "count") is None
    view = engine.view(job, student=AN)
    assert view is not None
    assert view.state is JobState.RUNNING


def test_a_worker_killed_in_mid_job_fails_only_that_job(engine: LocalEngine):
    first = engine.submit(AN, "with_child", FOREVER)
    worker, child = pids_of(running(engine, first))
    second = engine.submit(BINH, "count", CountSettings(steps=1))
    os.kill(worker, signal.SIGKILL)
    view = outcome(engine, first)
    assert view.state is JobState.FAILED
    assert view.problem is not None
    assert view.problem.key == "problem.worker_killed"
    assert outcome(engine, second, BINH).state is JobState.DONE
    until(lambda: gone(child))


def test_a_bug_in_a_lab_becomes_one_sentence_and_a_fresh_worker(engine: LocalEngine):
    view = outcome(engine, engine.submit(AN, "broken", CountSettings(steps=1)))
    assert view.problem is not None
    assert view.problem.key == "problem.activity_broke"
    assert outcome(engine, engine.submit(AN, "count", CountSettings())).state is JobState.DONE


def test_a_problem_of_the_lab_arrives_with_its_facts(engine: LocalEngine):
    view = outcome(engine, engine.submit(AN, "refusing", CountSettings(steps=7)))
    assert view.problem is not None
    assert (view.problem.key, view.problem.facts) == ("problem.queue_full", {"limit": 7})


def test_a_lab_that_ends_without_an_outcome_is_a_failure(engine: LocalEngine):
    view = outcome(engine, engine.submit(AN, "endless_silence", CountSettings(steps=1)))
    assert view.state is JobState.FAILED


def test_printing_in_a_lab_does_not_tear_the_pipe(engine: LocalEngine):
    view = outcome(engine, engine.submit(AN, "chatty", CountSettings(steps=1)))
    assert view.state is JobState.DONE


def test_forged_settings_are_refused_where_they_are_built():
    with pytest.raises(Problem):
        CountSettings(steps=10**9)


def test_a_short_job_runs_beside_a_long_one(engine: LocalEngine):
    running(engine, engine.submit(AN, "count", FOREVER))
    assert (
        outcome(engine, engine.submit(BINH, "quick", CountSettings()), BINH).state is JobState.DONE
    )


def test_the_dispatcher_is_told_from_the_settings_whom_a_job_may_share_a_run_with():
    asked = MakeImagesSettings(count=4, steps=2, model=SD_TURBO)
    told = submission("j1", AN, MAKE_IMAGES, asked)
    assert told.batch is not None
    assert told.batch.weight == 4
    assert (told.model, told.model_mib) == (SD_TURBO, MODEL_MIB[SD_TURBO])

    def key(settings: MakeImagesSettings) -> tuple[object, ...]:
        batch = submission("j2", BINH, MAKE_IMAGES, settings).batch
        assert batch is not None
        return batch.key

    other_words = MakeImagesSettings(prompt="a blue dress", seed=7, steps=2, model=SD_TURBO)
    assert key(other_words) == told.batch.key
    assert key(MakeImagesSettings(steps=1, model=SD_TURBO)) != told.batch.key
    assert key(MakeImagesSettings(steps=2, model=MINI_TURBO)) != told.batch.key


def in_one_run(engine: LocalEngine, words: list[str], *, steps: int) -> dict[str, str]:
    """Jobs of students named like their words, that begin in one run: word -> job."""
    first = engine.submit("in front", "quick", FOREVER)
    running(engine, first, "in front")
    jobs = {word: engine.submit(word, "words", WordSettings(word, steps)) for word in words}
    engine.cancel(first, student="in front")
    return jobs


def check_own(view: JobView) -> None:
    """All that came to this student is the student's own, and of one run."""
    assert view.state is JobState.DONE, view.problem
    assert view.result is not None
    assert view.result["word"] == view.student
    assert list(view.pictures.values()) == [view.student.encode()]
    assert list(view.pictures) == [f"{view.student} of {view.stage}"]
    assert view.done == view.total


def test_twenty_students_at_once_are_served_in_few_runs_each_with_their_own(engine: LocalEngine):
    words = [f"word {n}" for n in range(20)]
    jobs = in_one_run(engine, words, steps=5)
    views = [outcome(engine, job, word) for word, job in jobs.items()]
    for view in views:
        check_own(view)
    assert len({view.result["run"] for view in views if view.result}) == 1
    assert {view.result["together"] for view in views if view.result} == {20}


def test_one_job_of_a_run_can_be_cancelled_and_the_others_go_on(engine: LocalEngine):
    jobs = in_one_run(engine, ["left", "middle", "right"], steps=100_000)
    views = {word: running(engine, job, word) for word, job in jobs.items()}
    pids = engine.worker_pids()
    engine.cancel(jobs["middle"], student="middle")
    assert outcome(engine, jobs["middle"], "middle").state is JobState.STOPPED

    def goes_on(word: str) -> bool:
        view = engine.view(jobs[word], student=word)
        assert view is not None
        assert view.state is JobState.RUNNING
        return view.done > views[word].done + 5 and len(view.readings) > 0

    until(lambda: goes_on("left") and goes_on("right"))
    assert engine.worker_pids() == pids


def test_a_job_that_its_run_gives_no_outcome_fails_and_the_others_do_not(engine: LocalEngine):
    jobs = in_one_run(engine, [FORGOTTEN, "remembered"], steps=2)
    check_own(outcome(engine, jobs["remembered"], "remembered"))
    view = outcome(engine, jobs[FORGOTTEN], FORGOTTEN)
    assert view.problem is not None
    assert view.problem.key == "problem.activity_broke"


def test_a_worker_killed_in_the_middle_of_a_run_of_several_costs_nobody_the_result(
    engine: LocalEngine,
):
    jobs = in_one_run(engine, ["left", "middle", "right"], steps=30)
    pids = {running(engine, job, word).stage for word, job in jobs.items()}
    (pid,) = pids
    os.kill(int(pid), signal.SIGKILL)
    for word, job in jobs.items():
        view = outcome(engine, job, word)
        check_own(view)
        assert view.stage != pid
        assert view.result is not None
        assert view.result["together"] == 1


def test_a_job_that_breaks_a_run_fails_by_itself(engine: LocalEngine):
    jobs = in_one_run(engine, ["left", "right", POISON], steps=2)
    view = outcome(engine, jobs.pop(POISON), POISON)
    assert view.problem is not None
    assert view.problem.key == "problem.activity_broke"
    for word, job in jobs.items():
        check_own(outcome(engine, job, word))


def test_memory_is_measured_and_given_back(engine: LocalEngine):
    def worker(lane: Lane) -> WorkerHolding | None:
        workers = engine.holdings(AN).workers
        return next((w for w in workers if w.lane is lane and w.use is not Use.LEAVING), None)

    def rests_with(models: tuple[str, ...]) -> bool:
        infer = worker(Lane.INFER)
        return infer is not None and infer.held is not None and infer.held.models == models

    outcome(engine, engine.submit(AN, "holding", CountSettings()))
    outcome(engine, engine.submit(AN, "count", CountSettings(steps=1)))
    classmates = engine.submit(BINH, "count", CountSettings(steps=1))
    outcome(engine, classmates, BINH)
    until(lambda: rests_with(("large",)))
    held = engine.holdings(AN)
    assert held.jobs >= 2
    assert held.picture_bytes >= 1_000
    assert held.at_rest
    train, infer = worker(Lane.TRAIN), worker(Lane.INFER)
    assert train is not None
    assert train.pid is not None
    assert train.ram_mib is not None
    assert train.ram_mib > 50, "PyTorch alone is larger"
    assert infer is not None
    assert infer.held is not None
    assert infer.held.tensors_mib >= HOLDINGS_MIB
    until(lambda: (fate := worker(Lane.INFER)) is not None and fate.fate is Fate.DROPS)

    before = engine.give_back(AN)
    assert before.jobs >= 2
    assert {w.fate for w in before.workers if w.pid == train.pid} == {Fate.ENDS}
    until(lambda: gone(train.pid or 0) and rests_with(()))
    after = engine.holdings(AN)
    assert (after.jobs, after.picture_bytes) == (0, 0)
    emptied = worker(Lane.INFER)
    assert emptied is not None
    assert emptied.held is not None
    assert emptied.held.tensors_mib < HOLDINGS_MIB
    assert emptied.pid == infer.pid
    assert engine.latest(AN, "count") is None
    assert engine.view(classmates, student=BINH) is not None

    again = engine.give_back(AN)
    assert Fate.ENDS not in {w.fate for w in again.workers}
    view = outcome(engine, engine.submit(AN, "count", CountSettings(steps=1)))
    assert view.result is not None
    assert view.result["pid"] != train.pid


def test_pictures_that_may_not_be_kept_leave_the_memory_of_the_engine(
    settings: LabSettings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "PICTURES_SECONDS", 0.1)
    allowed = [True]
    engine = LocalEngine(settings, activities=ACTIVITIES, may_keep=lambda view: allowed[0])
    try:
        view = outcome(engine, engine.submit(AN, "holding", CountSettings()))
        assert view.pictures
        allowed[0] = False
        until(lambda: not seen(engine, view.id).pictures)
        assert engine.holdings(AN).picture_bytes == 0
        assert seen(engine, view.id).state is JobState.DONE
    finally:
        engine.close()


def test_an_idle_worker_ends_and_gives_its_memory_back(settings: LabSettings):
    engine = LocalEngine(settings, activities=ACTIVITIES, caps=Caps(idle_seconds=0.5))
    try:
        assert outcome(engine, engine.submit(AN, "count", CountSettings())).state is JobState.DONE
        (pid,) = engine.worker_pids()
        until(lambda: engine.worker_pids() == () and gone(pid))
    finally:
        engine.close()


def test_a_job_whose_browser_is_gone_ends_after_the_grace_time(settings: LabSettings):
    engine = LocalEngine(settings, activities=ACTIVITIES, caps=Caps(grace_seconds=6.0))
    try:
        job = engine.submit(AN, "count", FOREVER)
        running(engine, job)
        for _ in range(80):  # looked at for longer than the grace time: it goes on
            engine.seen(AN)
            time.sleep(0.1)
        running(engine, job)
        view = outcome(engine, job)
        assert view.problem is not None
        assert view.problem.key == "problem.browser_gone"
    finally:
        engine.close()


def test_close_leaves_no_process_behind(settings: LabSettings):
    engine = LocalEngine(settings, activities=ACTIVITIES)
    pids = pids_of(running(engine, engine.submit(AN, "with_child", FOREVER)))
    engine.close()
    until(lambda: all(gone(pid) for pid in pids), seconds=5)


SERVER = """
import sys, time
from pathlib import Path
from core.engine.local import LocalEngine
from core.settings import LabSettings
from tests.engine.activities import ACTIVITIES, CountSettings
engine = LocalEngine(
    LabSettings(cache_dir=Path(sys.argv[1]), devices="cpu", offline=True), activities=ACTIVITIES
)
job = engine.submit("an", "with_child", CountSettings(steps=100_000))
while not (view := engine.view(job, student="an")).done:
    time.sleep(0.05)
print(view.stage, flush=True)
time.sleep(600)
"""


def test_workers_notice_that_the_server_was_killed(tmp_path: Path):
    """A server ended by -9 cleans nothing up; its workers and their children go all the same."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    pids = [int(word) for word in server.stdout.readline().split()]
    assert len(pids) == 2
    server.kill()
    server.wait()
    server.stdout.close()
    until(lambda: all(gone(pid) for pid in pids), seconds=10)
