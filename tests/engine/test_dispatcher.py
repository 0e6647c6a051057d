"""Every decision of the engine: stimulus in, decisions out, with a clock of our own."""

from __future__ import annotations

import pytest

from core.activities import Lane
from core.engine.dispatcher import (
    CPU,
    FAILED_STARTS,
    SILENCE_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    Caps,
    Dispatcher,
)
from core.engine.stimuli import (
    AskToStop,
    CancelAsked,
    Decision,
    JobEnded,
    KillWorker,
    MemorySeen,
    RetireWorker,
    RunJob,
    Settle,
    StartWorker,
    Stimulus,
    StudentSeen,
    Submitted,
    Ticked,
    WorkerHeard,
    WorkerLost,
    WorkerReady,
)
from core.engine.view import JobState
from core.problems import Problem


class Story:
    """A dispatcher and a clock that only moves when told to."""

    def __init__(self, *devices: str, **caps: float) -> None:
        self.dispatcher = Dispatcher(devices or (CPU,), Caps(**caps))  # type: ignore[arg-type]
        self.now = 1_000.0

    def tell(self, stimulus: Stimulus) -> list[Decision]:
        return self.dispatcher.handle(stimulus, self.now)

    def submit(self, job: str, student: str = "an", **more: object) -> list[Decision]:
        asked: dict[str, object] = {"activity": "a", "lane": Lane.TRAIN} | more
        return self.tell(Submitted(job, student, **asked))  # type: ignore[arg-type]

    def running(self, job: str, student: str = "an", **more: object) -> str:
        """Submit a job and bring it to run; gives its worker."""
        decisions = self.submit(job, student, **more)
        for start in [d for d in decisions if isinstance(d, StartWorker)]:
            decisions += self.tell(WorkerReady(start.worker))
        (run,) = [d for d in decisions if isinstance(d, RunJob)]
        return run.worker

    def pass_seconds(
        self, seconds: float, *, watching: str = "", heard: str = ""
    ) -> list[Decision]:
        """Tick four times a second, while a student's browser looks and a worker speaks."""
        decisions: list[Decision] = []
        end = self.now + seconds
        while self.now < end:
            self.now += 0.25
            if watching:
                decisions += self.tell(StudentSeen(watching))
            if heard:
                decisions += self.tell(WorkerHeard(heard))
            decisions += self.tell(Ticked())
        return decisions


def settled(decisions: list[Decision]) -> list[tuple[str, JobState, str | None]]:
    return [
        (d.job, d.state, d.problem.key if d.problem else None)
        for d in decisions
        if isinstance(d, Settle)
    ]


# --- workers start when there is work, and not before ---


def test_the_first_job_starts_a_worker_and_runs_once_it_is_ready():
    story = Story()
    assert story.submit("j1") == [StartWorker("train-1", CPU, Lane.TRAIN)]
    assert story.tell(WorkerReady("train-1")) == [RunJob("train-1", "j1", CPU)]
    assert story.dispatcher.state("j1") is JobState.RUNNING


def test_twenty_jobs_at_once_start_one_worker():
    story = Story()
    decisions = [d for n in range(20) for d in story.submit(f"j{n}", f"student {n}")]
    assert decisions == [StartWorker("train-1", CPU, Lane.TRAIN)]


def test_slots_let_two_jobs_train_side_by_side():
    story = Story(train_slots=2)
    starts = story.submit("j1", "an") + story.submit("j2", "binh") + story.submit("j3", "chi")
    assert [type(d) for d in starts] == [StartWorker, StartWorker]


def test_a_short_job_does_not_wait_behind_a_long_one():
    story = Story()
    story.running("long")
    worker = story.running("short", "binh", lane=Lane.INFER)
    assert worker.startswith("infer")


def test_the_next_job_runs_on_the_worker_that_is_there():
    story = Story()
    worker = story.running("j1")
    story.submit("j2", "binh")
    assert story.tell(JobEnded(worker, "j1", finished=True)) == [RunJob(worker, "j2", CPU)]


def test_workers_spread_over_the_cards():
    story = Story("GPU-a", "GPU-b")
    starts = story.submit("j1", "an") + story.submit("j2", "binh")
    assert {d.device for d in starts if isinstance(d, StartWorker)} == {"GPU-a", "GPU-b"}


def test_an_idle_worker_gives_its_memory_back_after_the_set_time():
    story = Story(idle_seconds=60)
    worker = story.running("j1")
    story.tell(JobEnded(worker, "j1", finished=True))
    assert story.pass_seconds(59) == []
    assert story.pass_seconds(2) == [RetireWorker(worker)]
    assert KillWorker(worker) in story.pass_seconds(STOP_SECONDS + 1), "it did not obey"
    story.tell(WorkerLost(worker))
    assert story.submit("j2") == [StartWorker("train-2", CPU, Lane.TRAIN)]


# --- turns, places and waits ---


def test_who_asked_for_two_lets_the_others_go_first():
    story = Story(student_limit=3)
    worker = story.running("an-1", "an")
    story.submit("an-2", "an")
    story.submit("an-3", "an")
    story.submit("binh-1", "binh")
    order = []
    job = "an-1"
    for _ in range(3):
        (run,) = story.tell(JobEnded(worker, job, finished=True))
        assert isinstance(run, RunJob)
        job = run.job
        order.append(job)
    assert order == ["binh-1", "an-2", "an-3"]


def test_a_queued_job_knows_its_place():
    story = Story()
    story.running("j1", "an")
    story.submit("j2", "binh")
    story.submit("j3", "chi")
    outlooks = story.dispatcher.outlooks(story.now)
    assert (outlooks["j2"].place, outlooks["j3"].place) == (1, 2)


def test_the_wait_is_unknown_before_anything_was_measured():
    story = Story()
    story.running("j1", "an")
    story.submit("j2", "binh")
    assert story.dispatcher.outlooks(story.now)["j2"].wait_seconds is None


def test_the_wait_comes_from_measured_durations_scaled_by_the_work():
    story = Story()
    worker = story.running("measured", "an", size=100)
    story.now += 30
    story.tell(JobEnded(worker, "measured", finished=True))
    story.running("j1", "an", size=200)  # takes 60 s, by the measure
    story.now += 20
    story.submit("j2", "binh", size=50)  # takes 15 s
    story.submit("j3", "chi", size=50)
    outlooks = story.dispatcher.outlooks(story.now)
    assert outlooks["j2"].wait_seconds == pytest.approx(40)
    assert outlooks["j3"].wait_seconds == pytest.approx(55)


def test_a_running_job_that_says_how_long_it_needs_is_believed():
    story = Story()
    worker = story.running("j1", "an")
    story.submit("j2", "binh")
    story.tell(WorkerHeard(worker, seconds_left=12.0))
    assert story.dispatcher.outlooks(story.now)["j2"].wait_seconds == pytest.approx(12)


def test_a_job_that_was_stopped_teaches_nothing_about_durations():
    story = Story()
    worker = story.running("j1", "an")
    story.now += 1
    story.tell(JobEnded(worker, "j1", finished=False))
    story.running("j2", "an")
    story.submit("j3", "binh")
    assert story.dispatcher.outlooks(story.now)["j3"].wait_seconds is None


# --- caps ---


def test_a_student_may_have_only_so_many_unfinished_jobs():
    story = Story(student_limit=2)
    story.submit("j1")
    story.submit("j2")
    with pytest.raises(Problem) as refused:
        story.dispatcher.check_room("an")
    assert refused.value.notice.facts == {"limit": 2}
    story.dispatcher.check_room("binh")


def test_the_queue_of_the_class_has_an_end():
    story = Story(queue_limit=2)
    for number in range(3):
        story.running("j0", "s0") if number == 0 else story.submit(f"j{number}", f"s{number}")
    with pytest.raises(Problem) as refused:
        story.dispatcher.check_room("somebody else")
    assert refused.value.notice.key == "problem.queue_full"


def test_a_job_over_the_time_cap_is_stopped_and_says_why():
    story = Story(job_seconds=120)
    worker = story.running("j1")
    assert AskToStop(worker, "j1") in story.pass_seconds(121, watching="an")
    why = story.dispatcher.why_stopped("j1")
    assert why is not None
    assert (why.key, why.facts) == ("problem.job_too_long", {"minutes": 2})


# --- cancel ---


def test_a_queued_job_is_stopped_at_once():
    story = Story()
    story.submit("j1")
    assert settled(story.tell(CancelAsked("j1"))) == [("j1", JobState.STOPPED, None)]
    assert story.dispatcher.unfinished() == []


def test_a_running_job_is_asked_then_ended_with_its_worker():
    story = Story()
    worker = story.running("j1")
    assert story.tell(CancelAsked("j1")) == [AskToStop(worker, "j1")]
    assert story.tell(CancelAsked("j1")) == [], "a second click changes nothing"
    assert story.pass_seconds(STOP_SECONDS - 0.5, watching="an") == []
    assert KillWorker(worker) in story.pass_seconds(1, watching="an")
    assert settled(story.tell(WorkerLost(worker, killed=True))) == [("j1", JobState.STOPPED, None)]


def test_cancelling_what_is_over_or_unknown_changes_nothing():
    story = Story()
    worker = story.running("j1")
    story.tell(JobEnded(worker, "j1", finished=True))
    assert story.tell(CancelAsked("j1")) == []
    assert story.tell(CancelAsked("never was")) == []


# --- lost workers ---


@pytest.mark.parametrize(
    ("killed", "sentence"), [(True, "problem.worker_killed"), (False, "problem.worker_died")]
)
def test_a_lost_worker_fails_only_its_own_job_and_is_replaced(killed: bool, sentence: str):
    story = Story()
    worker = story.running("j1", "an")
    story.submit("j2", "binh")
    decisions = story.tell(WorkerLost(worker, killed=killed))
    assert settled(decisions) == [("j1", JobState.FAILED, sentence)]
    assert StartWorker("train-2", CPU, Lane.TRAIN) in decisions
    assert story.tell(WorkerReady("train-2")) == [RunJob("train-2", "j2", CPU)]


def test_an_unhealthy_worker_gets_no_other_job():
    story = Story()
    worker = story.running("j1", "an")
    story.submit("j2", "binh")
    decisions = story.tell(JobEnded(worker, "j1", finished=False, healthy=False))
    assert decisions == [RetireWorker(worker)]
    assert story.tell(WorkerLost(worker)) == [StartWorker("train-2", CPU, Lane.TRAIN)]


def test_a_worker_that_falls_silent_is_ended_and_the_student_is_told():
    story = Story()
    worker = story.running("j1")
    assert KillWorker(worker) in story.pass_seconds(SILENCE_SECONDS + 1, watching="an")
    ended = story.tell(WorkerLost(worker, killed=True))
    assert settled(ended) == [("j1", JobState.FAILED, "problem.worker_silent")]


def test_a_worker_that_never_gets_ready_is_ended():
    story = Story()
    story.submit("j1")
    assert KillWorker("train-1") in story.pass_seconds(START_SECONDS + 1, watching="an")


def test_workers_that_cannot_start_are_given_up_until_the_next_wish():
    story = Story()
    decisions = story.submit("j1")
    for _ in range(FAILED_STARTS):
        (start,) = [d for d in decisions if isinstance(d, StartWorker)]
        decisions = story.tell(WorkerLost(start.worker))
    assert settled(decisions) == [("j1", JobState.FAILED, "problem.worker_cannot_start")]
    assert [type(d) for d in story.submit("j2")] == [StartWorker]


# --- the browser is gone, the laptop slept ---


def test_a_blink_of_the_browser_does_not_stop_a_job():
    story = Story(grace_seconds=300)
    worker = story.running("j1")
    assert story.pass_seconds(10, heard=worker) == []
    assert story.pass_seconds(400, watching="an", heard=worker) == [], "and looking keeps it going"


def test_a_job_nobody_watches_is_stopped_after_the_grace_time():
    story = Story(grace_seconds=50)
    worker = story.running("j1", "an")
    story.submit("j2", "an")
    decisions = story.pass_seconds(51)
    assert AskToStop(worker, "j1") in decisions
    assert ("j2", JobState.FAILED, "problem.browser_gone") in settled(decisions)


def test_a_server_that_slept_blames_nobody():
    story = Story(grace_seconds=50)
    story.running("j1")
    story.pass_seconds(1)
    story.now += 8 * 3_600  # the lid was closed; no tick came
    assert story.pass_seconds(40) == []
    assert story.dispatcher.state("j1") is JobState.RUNNING


# --- memory of the cards ---


def test_a_job_waits_until_a_card_has_room():
    story = Story("GPU-a")
    story.tell(MemorySeen("GPU-a", free_mib=500, total_mib=12_000))
    assert story.submit("j1", need_mib=1_000) == []
    assert story.dispatcher.outlooks(story.now)["j1"].needs_memory
    story.tell(MemorySeen("GPU-a", free_mib=5_000, total_mib=12_000))
    assert not story.dispatcher.outlooks(story.now)["j1"].needs_memory


def test_free_memory_starts_the_worker_that_waited_for_it():
    story = Story("GPU-a")
    story.tell(MemorySeen("GPU-a", free_mib=500, total_mib=12_000))
    story.submit("j1", need_mib=1_000)
    more = MemorySeen("GPU-a", free_mib=5_000, total_mib=12_000)
    assert story.tell(more) == [StartWorker("train-1", "GPU-a", Lane.TRAIN)]


def test_memory_promised_to_a_job_is_not_promised_twice():
    story = Story("GPU-a", train_slots=2)
    story.tell(MemorySeen("GPU-a", free_mib=1_500, total_mib=12_000))
    story.running("j1", "an", need_mib=1_000)
    decisions = story.submit("j2", "binh", need_mib=1_000)
    assert decisions == [], "the driver still reports 1,500 MiB, but 1,000 of them are taken"


def test_nobody_overtakes_a_job_that_waits_for_memory():
    story = Story("GPU-a", train_slots=2)
    worker = story.running("j0", "dung")
    story.tell(MemorySeen("GPU-a", free_mib=500, total_mib=12_000))
    story.submit("big", "an", need_mib=1_000)
    story.submit("small", "binh", need_mib=100)
    assert story.tell(JobEnded(worker, "j0", finished=True)) == []


def test_a_job_larger_than_every_card_fails_with_the_number():
    story = Story("GPU-a")
    story.tell(MemorySeen("GPU-a", free_mib=700, total_mib=800))
    decisions = story.submit("j1", need_mib=1_000)
    assert settled(decisions) == [("j1", JobState.FAILED, "problem.card_too_small")]


def test_a_card_whose_memory_cannot_be_read_is_used():
    story = Story("GPU-a")
    story.tell(MemorySeen("GPU-a", free_mib=None, total_mib=None))
    assert [type(d) for d in story.submit("j1", need_mib=1_000)] == [StartWorker]


def test_a_job_goes_to_the_card_with_most_free_memory():
    story = Story("GPU-a", "GPU-b")
    story.tell(MemorySeen("GPU-a", free_mib=2_000, total_mib=12_000))
    story.tell(MemorySeen("GPU-b", free_mib=9_000, total_mib=12_000))
    (start,) = story.submit("j1", need_mib=1_000)
    assert isinstance(start, StartWorker)
    assert start.device == "GPU-b"
