"""The records: nothing measured is lost but by bad luck, and bad luck is told, not thrown."""

import datetime
import logging
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from core.engine.view import JobState, JobView
from core.problems import Notice, Problem
from core.records import store
from core.records.store import DAY, FILE_NAME, MEMORY, DecisionCount, Records
from core.records.tables import Table
from core.safety.prompts import Verdict
from core.settings import LabSettings
from core.telemetry.readings import Reading, Recording, SummaryRow

ROOT = Path(__file__).parents[2]
AN, BINH = "token-of-an-3f9c", "token-of-binh-77d1"  # two students

VIEW = JobView(
    id="job-1",
    student=AN,
    activity="cpu-vs-gpu",
    settings={"steps": 100},
    state=JobState.DONE,
    device="cpu",
    submitted_at=1_700_000_000.0,
    pictures={"digits": b"\x89PNG"},
    readings=(Reading(0.2, cpu_percent=187.5),),
    recordings=(Recording("cpu", 37.5, (Reading(0.2),)),),
    rows=(SummaryRow("cpu", 37.5, samples=187),),
    result={"speedup": {"whole": 9.9}, "sections": ["cpu", "gpu"]},
)


REFUSED = Verdict("refuse", kind="person", rule="politicians", matched="obama", step="leet")
ALLOWED = Verdict("allow")


def job(number, student=AN, state=JobState.DONE, activity="cpu-vs-gpu"):
    return replace(VIEW, id=f"job-{number}", student=student, state=state, activity=activity)


@pytest.fixture(params=["file", "memory", "postgresql"])
def records(request, tmp_path):
    if request.param == "postgresql":
        url = request.getfixturevalue("shared_postgresql")
        store = Records(url)
        empty(url)
    else:
        store = Records(tmp_path / "sub" / FILE_NAME if request.param == "file" else MEMORY)
    yield store
    store.close()


def empty(url):
    with psycopg.connect(url) as connection:
        for table in Table.metadata.tables:
            connection.execute(f"DELETE FROM {table}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / FILE_NAME


# Measured runs


def test_a_saved_job_comes_back_whole(records):
    failed = replace(
        VIEW, id="job-2", state=JobState.FAILED, problem=Notice("problem.x", {"size": 3})
    )
    records.save(VIEW)
    records.save(failed)

    assert records.of_student(AN) == (failed, VIEW)


def test_records_outlive_the_server(path):
    before = Records(path)
    before.save(VIEW)
    before.rename(AN, "An")
    before.close()

    after = Records(path)

    assert after.latest(AN, "cpu-vs-gpu") == VIEW
    assert after.name(AN) == "An"
    after.close()


def test_the_latest_is_the_last_saved_whatever_the_clock_says(records, monkeypatch):
    records.save(job(1))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    records.save(job(2))

    assert records.latest(AN, "cpu-vs-gpu").id == "job-2"


def test_the_latest_can_be_asked_for_by_its_end(records):
    records.save(job(1))
    records.save(job(2, state=JobState.STOPPED))

    assert records.latest(AN, "cpu-vs-gpu").id == "job-2"
    assert records.latest(AN, "cpu-vs-gpu", state=JobState.DONE).id == "job-1"
    assert records.latest(AN, "cpu-vs-gpu", state=JobState.FAILED) is None


def test_students_and_activities_are_kept_apart(records):
    records.save(job(1))
    records.save(job(2, activity="train-gan"))
    records.save(job(3, student=BINH))

    assert records.latest(AN, "cpu-vs-gpu").id == "job-1"
    assert [view.id for view in records.of_student(BINH)] == ["job-3"]
    assert records.latest(BINH, "train-gan") is None
    assert records.latest("nobody", "cpu-vs-gpu") is None


def test_a_student_can_ask_for_the_last_few_jobs_of_one_activity(records):
    for number in range(4):
        records.save(job(number))
    records.save(job(9, activity="race"))

    found = records.of_student(AN, activity="cpu-vs-gpu", limit=2)
    assert [view.id for view in found] == ["job-3", "job-2"]


def test_saving_a_job_again_replaces_it(records):
    records.save(job(1))
    records.save(job(2))
    records.save(job(1, state=JobState.STOPPED))

    assert [(view.id, view.state) for view in records.of_student(AN)] == [
        ("job-1", JobState.STOPPED),
        ("job-2", JobState.DONE),
    ]


def test_a_job_that_still_runs_is_not_for_the_records(records):
    with pytest.raises(ValueError, match="job-1 is not over"):
        records.save(job(1, state=JobState.RUNNING))


def test_a_job_of_another_version_is_passed_over_with_a_log_line(path, caplog):
    records = Records(path)
    records.save(job(1))
    records.save(job(2))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE jobs SET view = x'81a26964c0' WHERE id = 'job-2'")
    connection.close()

    assert records.latest(AN, "cpu-vs-gpu").id == "job-1"
    assert [view.id for view in records.of_student(AN)] == ["job-1"]
    assert "job-2 was recorded by another version" in caplog.text
    records.close()


def test_many_threads_can_save_at_once(records):
    failures = []

    def work(worker):
        for number in range(10):
            records.save(job(f"{worker}-{number}"))
            records.rename(AN, f"An {worker}")
            if records.latest(AN, "cpu-vs-gpu") is None or records.notice is not None:
                failures.append((worker, number))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    assert len(records.of_student(AN)) == 80


SAVE_FOR_EVER = """
import sys
from tests.records.test_store import Path, Records, job, replace
records = Records(Path(sys.argv[1]))
for number in range(100_000):
    # Large, so that nearly all the time goes into writing.
    records.save(replace(job(number), pictures={"digits": bytes(500_000)}))
    print(number, flush=True)
"""


def test_a_crash_in_the_middle_of_a_write_loses_nothing_that_was_saved(path):
    writer = subprocess.Popen(
        [sys.executable, "-c", SAVE_FOR_EVER, str(path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    with writer:
        said = [int(writer.stdout.readline()) for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout]

    records = Records(path)
    kept = {view.id for view in records.of_student(AN)}

    assert kept >= {f"job-{number}" for number in said}
    assert len(kept) <= len(said) + 1  # at most the one that was saved but not yet said
    assert records.notice is None
    records.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


# Students


def test_a_student_without_a_name_has_an_empty_one(records):
    assert records.name(AN) == ""


def test_names_are_tidied(records):
    records.rename(AN, "  Nguyễn   Văn\tAn\0\n")  # PostgreSQL takes no NUL
    records.rename(BINH, "B" * 1_000)

    assert records.name(AN) == "Nguyễn Văn An"
    assert len(records.name(BINH)) == 80


def test_a_student_is_admitted_by_the_code_that_was_typed_and_no_other(records):
    records.rename(AN, "An")
    records.admit(AN, "sen-hồng")

    assert records.admitted(AN, "sen-hồng")
    assert not records.admitted(AN, "next term's code")
    assert not records.admitted(BINH, "sen-hồng")
    assert records.name(AN) == "An"


def test_a_student_may_be_deleted_while_their_jobs_are_being_saved(records):
    notices = []

    def work(worker):
        for number in range(15):
            records.save(job(f"{worker}-{number}"))
            records.answer(AN, "rule-1", str(number))
            records.of_class("cpu-vs-gpu", asked_by=AN)
            records.delete_student(AN) if worker % 2 else records.delete_results(AN)
            records.forget_old(180)
            notices.append(records.notice)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert notices == [None] * 60


def test_results_can_be_deleted_without_the_student(records):
    for student in (AN, BINH):
        records.save(job(student, student=student, activity="race"))
        records.answer(student, "rule-1", "yes")
        records.rename(student, "somebody")
    records.admit(AN, "code")

    records.delete_results(AN)

    assert (records.of_student(AN), records.guesses_of(AN)) == ((), {})
    assert (records.name(AN), records.admitted(AN, "code")) == ("somebody", True)
    assert [result.mine for result in records.of_class("race", asked_by=BINH)] == [True]
    assert records.guesses("rule-1") == {"yes": 1}


def test_a_deleted_student_leaves_nothing_and_the_others_stay(records):
    for student in (AN, BINH):
        records.save(job(student, student=student))
        records.rename(student, "somebody")
        records.admit(student, "code")

    records.delete_student(AN)

    assert (records.of_student(AN), records.name(AN)) == ((), "")
    assert not records.admitted(AN, "code")
    assert records.of_student(BINH)
    assert records.admitted(BINH, "code")


def test_neither_tokens_nor_the_class_code_are_in_the_database(path):
    records = Records(path)
    records.save(VIEW)
    records.rename(AN, "An")
    records.admit(AN, "sen-hong-2026")

    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    records.close()

    assert b"cpu-vs-gpu" in content
    assert AN.encode() not in content
    assert b"sen-hong-2026" not in content


# After the term


def later(monkeypatch, days):
    now = time.time() + days * DAY
    monkeypatch.setattr(time, "time", lambda: now)


def test_old_jobs_go_and_newer_ones_stay(records, monkeypatch):
    records.save(job(1))
    records.save(job(2, activity="race"))
    later(monkeypatch, days=100)
    records.save(job(3))
    later(monkeypatch, days=90)

    assert records.forget_old(180) == 2
    assert [view.id for view in records.of_student(AN)] == ["job-3"]
    assert records.of_class("race", asked_by=AN) == ()
    assert records.forget_old(180) == 0


def test_who_has_left_nothing_for_so_long_is_forgotten(records, monkeypatch):
    for student in (AN, BINH):
        records.admit(student, "code")
        records.guess(student, "loader", "data")
    records.count_decision(REFUSED, words="somebody's words")
    later(monkeypatch, days=100)
    records.guess(BINH, "loader", "data")  # as before: nothing new, but a sign of life
    later(monkeypatch, days=90)
    records.forget_old(180)

    assert not records.admitted(AN, "code")
    assert records.guesses_of(AN) == {}
    assert records.admitted(BINH, "code")
    assert records.guesses_of(BINH) == {"loader": "data"}
    assert records.refused_prompts() == ()
    assert [count.count for count in records.decisions()] == [1]  # it names nobody


def test_zero_days_keep_everything(records, monkeypatch):
    records.save(job(1))
    later(monkeypatch, days=10_000)
    records.forget_old(0)

    assert records.of_student(AN)


# Bad days


def spoil(path, how):
    if how == "a file where the folder should be":
        path.parent.rmdir()
        path.parent.write_text("")
    elif how == "not a database":
        path.write_bytes(b"hello, I am a text file\n" * 1_000)
    elif how == "a folder where the file should be":
        path.mkdir()


@pytest.mark.parametrize(
    "how",
    [
        "a file where the folder should be",
        "not a database",
        "a folder where the file should be",
    ],
)
def test_an_unusable_database_is_a_problem_and_the_lab_runs_on_without(tmp_path, how):
    path = tmp_path / "cache" / FILE_NAME
    path.parent.mkdir()
    spoil(path, how)

    with pytest.raises(Problem) as caught:
        Records(path)
    records = Records.open(LabSettings(cache_dir=path.parent))
    records.save(VIEW)

    assert caught.value.notice == Notice("problem.records_unusable", {"where": str(path)})
    assert records.notice == caught.value.notice
    assert records.latest(AN, "cpu-vs-gpu") == VIEW
    records.close()


def test_a_spoilt_database_is_left_as_it_is_for_somebody_to_mend(path):
    spoil(path, "not a database")
    before = path.read_bytes()

    Records.open(LabSettings(cache_dir=path.parent)).close()

    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("results.db", "problem.records_url"),
        ("oracle9://me:s3cret@host/lab", "problem.records_url"),
        ("postgresql://me:s3cret:x@host:s3cret/lab", "problem.records_url"),
        ("postgresql+psycopg2://me:s3cret@127.0.0.1:1/lab", "problem.records_unusable"),
        ("postgresql://me:s3cret@127.0.0.1:1/lab", "problem.records_unusable"),
    ],
)
def test_a_wrong_address_is_told_without_its_password(url, said, caplog):
    caplog.set_level(logging.DEBUG)

    records = Records.open(LabSettings(database_url=url))

    assert records.notice.key == said
    assert "s3cret" not in f"{records.notice} {caplog.text}"
    records.close()


def test_a_good_database_has_nothing_to_say(tmp_path):
    records = Records.open(LabSettings(cache_dir=tmp_path))

    assert records.notice is None
    assert (tmp_path / FILE_NAME).exists()
    records.close()


def test_a_database_may_be_named_by_url(tmp_path):
    records = Records.open(LabSettings(database_url=f"sqlite:///{tmp_path}/class.db"))

    assert records.notice is None
    assert (tmp_path / "class.db").exists()
    records.close()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_postgresql_address_may_be_written_in_each_usual_way(shared_postgresql, scheme):
    url = shared_postgresql.replace("postgresql", scheme, 1)
    records = Records.open(LabSettings(database_url=url))

    assert records.notice is None
    records.close()


def test_a_database_server_that_was_restarted_is_found_again(shared_postgresql):
    records = Records(shared_postgresql)
    empty(shared_postgresql)
    records.save(job(1))
    with psycopg.connect(shared_postgresql) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    records.save(job(2))

    assert records.notice is None
    assert [view.id for view in records.of_student(AN)] == ["job-2", "job-1"]
    records.close()


def test_a_full_disk_in_the_middle_of_a_lesson_is_told_until_it_is_over(path):
    records = Records(path)
    records.save(job(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))  # bytes of any one file
    try:
        records.save(replace(job(2), pictures={"large": bytes(1_000_000)}))
        assert records.notice == Notice("problem.records_unwritable")
        assert [view.id for view in records.of_student(AN)] == ["job-1"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    records.save(job(3))

    assert records.notice is None
    assert [view.id for view in records.of_student(AN)] == ["job-3", "job-1"]
    records.close()


def test_a_database_that_breaks_in_the_middle_throws_nothing_at_a_page(path):
    records = Records(path)
    records.save(VIEW)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE jobs")
        connection.execute("DROP TABLE students")
    connection.close()

    records.save(VIEW)
    records.rename(AN, "An")

    assert records.notice == Notice("problem.records_unwritable")
    assert records.latest(AN, "cpu-vs-gpu") is None
    assert records.of_student(AN) == ()
    assert records.name(AN) == ""
    assert not records.admitted(AN, "code")
    with pytest.raises(Problem):
        records.delete_student(AN)
    records.close()


# The class


def test_the_class_sees_every_result_of_an_activity_and_whose_it_is_by_name_only(records):
    records.rename(AN, "An")
    records.save(job(1, activity="race"))
    records.save(job(2, activity="race", student=BINH))
    records.save(job(3, activity="race", student=BINH))
    records.save(job(4, activity="race", state=JobState.STOPPED))  # no result, nothing to show
    records.save(job(5))  # another activity

    found = records.of_class("race", asked_by=BINH)

    assert [(r.name, r.mine) for r in found] == [("", True), ("", True), ("An", False)]
    assert found[0].who == found[1].who != found[2].who
    assert found[2].values == VIEW.result
    assert found[2].settings == VIEW.settings
    told = repr(found)
    assert AN not in told
    assert BINH not in told


def test_a_result_that_was_saved_again_is_shown_as_it_is_now(records):
    records.save(job(1, activity="race"))
    records.of_class("race", asked_by=AN)
    records.save(replace(job(1, activity="race"), result={"seconds": 2.0}))

    assert [r.values for r in records.of_class("race", asked_by=AN)] == [{"seconds": 2.0}]


def test_a_class_result_of_another_version_is_passed_over(path):
    records = Records(path)
    records.save(job(1, activity="race"))
    records.save(job(2, activity="race", student=BINH))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE jobs SET view = x'81a26964c0' WHERE id = 'job-2'")
    connection.close()

    assert [r.mine for r in records.of_class("race", asked_by=AN)] == [True]
    records.close()


def test_one_student_has_one_guess_and_the_first_one_stays(records):
    assert records.guess_of(AN, "loader") is None
    records.guess(AN, "loader", "data")
    records.guess(AN, "loader", "wait")
    records.guess(AN, "resident", "launch")

    assert records.guess_of(AN, "loader") == "data"
    assert records.guess_of(AN, "resident") == "launch"
    assert records.guesses("loader") == {"data": 1}


def test_an_answer_may_be_changed_and_the_student_sees_all_of_theirs(records):
    records.guess(AN, "loader", "data")
    records.answer(AN, "rule-1", "yes")
    records.answer(AN, "rule-1", "no")
    records.answer(BINH, "rule-1", "yes")

    assert records.guesses_of(AN) == {"loader": "data", "rule-1": "no"}
    assert records.guesses("rule-1") == {"no": 1, "yes": 1}


def test_an_answer_longer_than_the_column_is_refused_in_every_database(records):
    records.answer(AN, "rule-1", "x" * 32)
    with pytest.raises(ValueError, match="too long"):
        records.answer(AN, "rule-1", "x" * 33)
    assert records.guesses_of(AN) == {"rule-1": "x" * 32}


def test_the_class_is_told_how_many_thought_what(records):
    for number in range(3):
        records.guess(f"student-{number}", "loader", "data")
    records.guess(AN, "loader", "compute")

    assert records.guesses("loader") == {"data": 3, "compute": 1}
    assert records.guesses("resident") == {}


def test_a_forgotten_student_leaves_no_guess(records):
    records.guess(AN, "loader", "data")
    records.guess(BINH, "loader", "data")
    records.delete_student(AN)

    assert records.guess_of(AN, "loader") is None
    assert records.guesses("loader") == {"data": 1}


def test_the_file_names_no_token_beside_a_guess(path):
    records = Records(path)
    records.guess(AN, "loader", "data")
    records.close()

    assert AN.encode() not in path.read_bytes()


# The prompt check


def test_decisions_are_counted_by_day_and_rule(records, monkeypatch):
    for verdict in (ALLOWED, REFUSED, ALLOWED):
        records.count_decision(verdict)
    today = datetime.date.fromtimestamp(time.time()).isoformat()
    assert records.decisions() == (
        DecisionCount(today, "allow", "", "", 2),
        DecisionCount(today, "refuse", "person", "politicians", 1),
    )
    later = time.time() + 3 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    records.count_decision(REFUSED)
    assert [count.count for count in records.decisions()] == [1, 2, 1]


def test_the_words_of_a_sentence_are_kept_only_where_asked_and_only_of_refusals(records):
    records.count_decision(REFUSED)
    records.count_decision(ALLOWED, words="a red sneaker")
    assert records.refused_prompts() == ()
    records.count_decision(REFUSED, words="0bama \ud800\x00")
    (kept,) = records.refused_prompts()
    assert (kept.rule, kept.prompt) == ("politicians", "0bama ? ")


def test_only_the_newest_words_are_kept(records, monkeypatch):
    monkeypatch.setattr(store, "MOST_PROMPTS", 3)
    for number in range(5):
        records.count_decision(REFUSED, words=f"number {number}")
    assert [kept.prompt for kept in records.refused_prompts()] == [
        "number 4",
        "number 3",
        "number 2",
    ]


def test_decisions_of_many_threads_are_all_counted(path):
    records = Records(path)
    threads = [
        threading.Thread(target=lambda: [records.count_decision(REFUSED) for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [count.count for count in records.decisions()] == [40]
    records.close()
