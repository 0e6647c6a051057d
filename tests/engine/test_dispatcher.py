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
from core.engine.memory import SHOWN_SECONDS
from core.engine.stimuli import (
    AskToStop,
    Batch,
    CancelAsked,
    Decision,
    JobEnded,
    KillWorker,
    MemorySeen,
    Requeue,
    RetireWorker,
    RunJobs,
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
        (run,) = [d for d in decisions if isinstance(d, RunJobs)]
        return run.worker

    def end(self, worker: str, job: str, *, finished: bool = True) -> list[Decision]:
        return self.tell(JobEnded(worker, job, finished=finished))

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


def together(weight: int = 1, *, kind: str = "turbo", most: int = 8) -> dict[str, object]:
    """What makes a job one that shares runs with its like."""
    return {"lane": Lane.INFER, "batch": Batch((kind,), weight, most)}


def ran(decisions: list[Decision]) -> list[tuple[str, ...]]:
    """The jobs of each run that begins."""
    return [d.jobs for d in decisions if isinstance(d, RunJobs)]


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
    assert story.tell(WorkerReady("train-1")) == [RunJobs("train-1", ("j1",), CPU)]
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
    assert story.tell(JobEnded(worker, "j1", finished=True)) == [RunJobs(worker, ("j2",), CPU)]


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
        assert isinstance(run, RunJobs)
        (job,) = run.jobs
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
    story.tell(WorkerHeard(worker, "j1", seconds_left=12.0))
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
    assert story.tell(WorkerReady("train-2")) == [RunJobs("train-2", ("j2",), CPU)]


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


# --- jobs that share a run ---


def busy_with(story: Story, *jobs: str, **more: object) -> str:
    """One run that serves these jobs of different students; gives its worker."""
    (start,) = [d for job in jobs for d in story.submit(job, f"of {job}", **(together() | more))]
    assert isinstance(start, StartWorker)
    assert ran(story.tell(WorkerReady(start.worker))) == [jobs]
    return start.worker


def test_jobs_of_one_kind_that_wait_at_the_same_moment_share_one_run():
    story = Story()
    for job in ("j1", "j2", "j3"):
        story.submit(job, f"of {job}", **together())
    story.submit("mine too", "of j1", **together())
    assert ran(story.tell(WorkerReady("infer-1"))) == [("j1", "j2", "j3", "mine too")]


def test_jobs_that_are_not_alike_run_one_after_another():
    story = Story()
    worker = busy_with(story, "j1")
    story.submit("j2", "binh", **together(kind="one"))
    story.submit("j3", "chi", **together(kind="other"))
    assert ran(story.end(worker, "j1")) == [("j2",)]
    assert ran(story.end(worker, "j2")) == [("j3",)]


def test_a_full_run_takes_nobody_more_and_of_one_kind_nobody_overtakes():
    story = Story()
    worker = busy_with(story, "j0")
    for job, weight in (("j1", 4), ("j2", 3), ("j3", 2), ("j4", 1)):
        story.submit(job, f"of {job}", **together(weight, most=8))
    assert ran(story.end(worker, "j0")) == [("j1", "j2")], "j4 would fit, but j3 was first"
    story.end(worker, "j1")
    assert ran(story.end(worker, "j2")) == [("j3", "j4")]


def test_a_job_heavier_than_a_full_run_still_runs():
    story = Story()
    story.submit("j1", **together(9, most=8))
    assert ran(story.tell(WorkerReady("infer-1"))) == [("j1",)]


def test_a_job_of_another_kind_waits_for_one_run_of_many_and_not_for_a_second():
    story = Story()
    worker = busy_with(story, "j0")
    story.submit("j1", "of j1", **together())
    story.submit("other", "of other", lane=Lane.INFER)
    story.submit("j2", "of j2", **together())
    assert ran(story.end(worker, "j0")) == [("j1", "j2")]
    story.submit("j3", "of j3", **together())
    story.end(worker, "j1")
    assert ran(story.end(worker, "j2")) == [("other",)]


def test_a_worker_is_idle_when_the_last_job_of_its_run_has_ended():
    story = Story()
    worker = busy_with(story, "j1", "j2")
    story.submit("j3", "of j3", **together())
    assert story.end(worker, "j2") == []
    assert ran(story.end(worker, "j1")) == [("j3",)]


def test_cancelling_one_job_of_a_run_asks_that_one_alone():
    story = Story()
    worker = busy_with(story, "j1", "j2")
    assert story.tell(CancelAsked("j1")) == [AskToStop(worker, "j1")]
    assert story.dispatcher.state("j2") is JobState.RUNNING
    story.end(worker, "j1", finished=False)
    assert story.pass_seconds(STOP_SECONDS + 1, heard=worker) == [], "it obeyed"
    story.end(worker, "j2")
    assert story.dispatcher.unfinished() == []


def test_a_run_that_does_not_obey_one_student_is_ended_and_the_others_are_served_again():
    story = Story()
    worker = busy_with(story, "j1", "j2")
    story.tell(CancelAsked("j1"))
    assert KillWorker(worker) in story.pass_seconds(STOP_SECONDS + 1, heard=worker)
    decisions = story.tell(WorkerLost(worker, killed=True))
    assert settled(decisions) == [("j1", JobState.STOPPED, None)]
    assert Requeue("j2") in decisions
    assert ran(story.tell(WorkerReady("infer-2"))) == [("j2",)]


def test_jobs_that_lose_their_worker_together_are_tried_once_more_each_alone():
    story = Story()
    worker = busy_with(story, "j1", "j2", "poison")
    story.end(worker, "j1")
    decisions = story.tell(WorkerLost(worker, killed=True))
    assert decisions == [
        Requeue("j2"),
        Requeue("poison"),
        StartWorker("infer-2", CPU, Lane.INFER),
    ], "j1 has its result already"
    assert story.dispatcher.state("j2") is JobState.QUEUED
    story.submit("j4", "of j4", **together())
    assert ran(story.tell(WorkerReady("infer-2"))) == [("j2",)], "nobody rides along"
    assert ran(story.end("infer-2", "j2")) == [("poison",)]
    decisions = story.tell(WorkerLost("infer-2"))
    assert settled(decisions) == [("poison", JobState.FAILED, "problem.worker_died")]
    assert ran(story.tell(WorkerReady("infer-3"))) == [("j4",)]


def test_a_job_that_was_alone_in_its_run_fails_at_once():
    story = Story()
    worker = busy_with(story, "j1")
    decisions = story.tell(WorkerLost(worker, killed=True))
    assert settled(decisions) == [("j1", JobState.FAILED, "problem.worker_killed")]


def test_a_silent_run_of_several_fails_nobody_yet():
    story = Story()
    worker = busy_with(story, "j1", "j2")
    for student in ("of j1", "of j2"):
        story.tell(StudentSeen(student))
    assert KillWorker(worker) in story.pass_seconds(SILENCE_SECONDS + 1)
    decisions = story.tell(WorkerLost(worker, killed=True))
    assert [d for d in decisions if isinstance(d, Requeue)] == [Requeue("j1"), Requeue("j2")]
    assert settled(decisions) == []


def test_a_job_that_waits_for_its_second_try_can_be_cancelled():
    story = Story()
    worker = busy_with(story, "j1", "j2")
    story.tell(WorkerLost(worker))
    assert settled(story.tell(CancelAsked("j2"))) == [("j2", JobState.STOPPED, None)]


def test_jobs_that_will_share_a_run_share_its_place_and_its_time():
    story = Story()
    worker = busy_with(story, "j1", size=2)
    story.now += 4
    story.end(worker, "j1")  # 2 s a unit
    busy_with_more = [story.submit(f"k{n}", f"s{n}", **together(), size=1) for n in range(6)]
    assert ran(busy_with_more[0]) == [("k0",)]
    story.submit("other", "of other", lane=Lane.INFER)
    outlooks = story.dispatcher.outlooks(story.now)
    assert {outlooks[f"k{n}"].place for n in range(1, 6)} == {1}
    assert {outlooks[f"k{n}"].wait_seconds for n in range(1, 6)} == {2.0}, "until k0 has ended"
    assert outlooks["other"].place == 2
    assert outlooks["other"].wait_seconds == pytest.approx(2.0 + 5 * 2.0), "one run of five"


def test_a_run_of_several_teaches_the_time_of_a_unit_of_all_its_work():
    story = Story()
    worker = busy_with(story, "j1", "j2", size=5)
    story.now += 1
    story.end(worker, "j1")
    story.now += 1
    story.end(worker, "j2")  # 10 units in 2 s
    story.submit("j3", "of j3", **together(), size=20)
    story.submit("j4", "of j4", **together())
    assert story.dispatcher.outlooks(story.now)["j4"].wait_seconds == pytest.approx(4)


def test_a_run_ends_when_the_slowest_of_its_jobs_expects_to():
    story = Story()
    worker = busy_with(story, "j1", "j2")
    story.tell(WorkerHeard(worker, "j1", seconds_left=9.0))
    story.tell(WorkerHeard(worker, "j2", seconds_left=3.0))
    story.submit("j3", "of j3", **together())
    assert story.dispatcher.outlooks(story.now)["j3"].wait_seconds == pytest.approx(9)
    story.end(worker, "j1")
    assert story.dispatcher.outlooks(story.now)["j3"].wait_seconds == pytest.approx(3)


# --- models that stay in memory ---

RUN_MIB, BIG_MIB = 1_000, 3_000
BIG = {"lane": Lane.INFER, "need_mib": RUN_MIB, "model": "big", "model_mib": BIG_MIB}
SMALL = {"lane": Lane.INFER, "need_mib": RUN_MIB, "model": "small", "model_mib": 200}


def card(
    story: Story, free_mib: float, *, name: str = "GPU-a", total_mib: float = 6_000
) -> list[Decision]:
    return story.tell(MemorySeen(name, free_mib, total_mib))


def idle_with(story: Story, model: dict[str, object], *, left_mib: float) -> str:
    """A worker that has served a job of this model; so much of its card is free afterwards."""
    worker = story.running("first", "dung", **model)
    story.end(worker, "first")
    card(story, left_mib)
    return worker


def test_a_job_needs_room_for_its_model_until_a_worker_holds_it():
    story = Story("GPU-a")
    card(story, RUN_MIB + BIG_MIB - 1)
    assert story.submit("j1", **BIG) == []
    assert card(story, RUN_MIB + BIG_MIB) == [StartWorker("infer-1", "GPU-a", Lane.INFER)]
    story.tell(WorkerReady("infer-1"))
    story.submit("again", **BIG)
    card(story, RUN_MIB)  # the model is loaded now
    assert ran(story.end("infer-1", "j1")) == [("again",)]


def test_a_model_is_promised_its_memory_before_it_is_loaded_and_a_run_is_promised_it_once():
    story = Story("GPU-a")
    card(story, 3 * RUN_MIB + BIG_MIB)
    busy_with(story, "j1", "j2", "j3", **BIG)
    assert story.submit("j4", "chi", need_mib=2 * RUN_MIB + 1) == []
    assert story.submit("j5", "dung", need_mib=2 * RUN_MIB) == [], "nobody overtakes"
    assert story.tell(CancelAsked("j4"))[1:] == [StartWorker("train-2", "GPU-a", Lane.TRAIN)]


def test_a_job_goes_to_the_idle_worker_that_holds_its_model():
    story = Story("GPU-a", "GPU-b")
    for name in story.dispatcher.devices:
        card(story, 6_000, name=name)
    workers = [story.running("j1", "an", **BIG), story.running("j2", "binh", **SMALL)]
    for worker, job in zip(workers, ("j1", "j2"), strict=True):
        story.end(worker, job)
    card(story, 1_500, name="GPU-a")
    card(story, 5_500, name="GPU-b")
    assert story.running("j3", "chi", **BIG) == workers[0], "though the other card has more room"


def test_a_job_whose_model_fits_on_no_card_fails_with_the_sum():
    story = Story("GPU-a")
    card(story, 3_900, total_mib=3_900)
    decisions = story.submit("j1", **BIG)
    assert settled(decisions) == [("j1", JobState.FAILED, "problem.card_too_small")]
    (settle,) = decisions
    assert isinstance(settle, Settle)
    assert settle.problem is not None
    assert settle.problem.facts == {"need_mib": RUN_MIB + BIG_MIB}


def test_an_idle_worker_makes_room_for_another_model():
    story = Story("GPU-a")
    card(story, 6_000)
    worker = idle_with(story, BIG, left_mib=1_100)
    assert story.submit("j1", **SMALL) == [], "the card's figure may be a second old"
    assert story.dispatcher.outlooks(story.now)["j1"].needs_memory
    assert story.pass_seconds(SHOWN_SECONDS + 1, watching="an") == [RetireWorker(worker)]
    assert story.tell(WorkerLost(worker)) == []
    assert card(story, 6_000) == [StartWorker("infer-2", "GPU-a", Lane.INFER)]
    assert ran(story.tell(WorkerReady("infer-2"))) == [("j1",)]


def test_a_worker_with_room_for_both_models_stays():
    story = Story("GPU-a")
    card(story, 6_000)
    worker = idle_with(story, BIG, left_mib=2_000)
    assert story.running("j1", **SMALL) == worker


def test_a_fresh_worker_is_not_retired_for_want_of_memory():
    story = Story("GPU-a")
    card(story, 4_000)
    story.submit("j1", **BIG)
    card(story, 3_500)  # somebody else's program took it in the meantime
    story.tell(WorkerReady("infer-1"))
    assert story.pass_seconds(60, watching="an") == [], "a second one would get no more"
    card(story, 4_000)
    assert story.dispatcher.state("j1") is JobState.RUNNING


def test_an_idle_model_makes_room_for_training_where_that_helps():
    story = Story("GPU-a")
    card(story, 6_000)
    worker = idle_with(story, BIG, left_mib=1_100)
    story.submit("j1", need_mib=5_000)
    assert story.pass_seconds(SHOWN_SECONDS + 1, watching="an") == [], "it would not be enough"
    story.tell(CancelAsked("j1"))
    assert story.submit("j2", need_mib=4_000) == [RetireWorker(worker)]


def test_a_model_counts_as_held_only_once_a_job_with_it_brought_a_result():
    story = Story("GPU-a")
    card(story, 6_000)
    worker = story.running("j1", "an", **BIG)
    story.end(worker, "j1", finished=False)  # before or after it was loaded, nobody knows
    card(story, RUN_MIB + BIG_MIB - 1)
    assert story.submit("j2", **BIG) == []
