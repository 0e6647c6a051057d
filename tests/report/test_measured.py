"""From jobs and recordings to one table: what is in it, and in which order."""

from __future__ import annotations

from core.recordings import replays
from core.report.measured import PARTS, Kind, newest, not_run, own_rows, recorded_rows, together
from tests.report.students import CARD, PC, drawing_job, recorded_job, stopped_job


def test_rows_stand_in_the_order_of_the_parts_and_repeats_stay():
    jobs = [
        recorded_job("train-gan", student="an", number=3),  # the records give the newest first
        drawing_job(student="an"),
        recorded_job("feed-gpu", student="an"),
        recorded_job("cpu-vs-gpu", student="an"),
        recorded_job("train-gan", student="an", number=1),
    ]
    rows = own_rows(jobs, PC)
    ways = ["loader", "resident", "large", "no_wait", "graph", "lean"]
    assert [(row.part, row.section) for row in rows] == [
        ("1", "cpu"),
        ("1", "gpu"),
        ("2", "training"),
        ("2", "training"),
        *(("2b", way) for way in ways),
        ("3", "draw"),
    ]
    trainings = [row for row in rows if row.part == "2"]
    assert trainings[0].when < trainings[1].when
    assert [row.run for row in newest(rows) if row.part == "2"] == [trainings[1].run]
    assert [part.id for part in not_run(rows)] == ["4"]


def test_a_row_names_the_device_that_did_the_work_and_keeps_the_meters_figures():
    job = recorded_job("cpu-vs-gpu", student="an")
    on_cpu, on_card = own_rows([job], PC)
    assert (on_cpu.device, on_cpu.on_card) == (PC.cpu, False)
    assert (on_card.device, on_card.on_card) == (CARD.name, True)
    assert (on_cpu.figures, on_card.figures) == job.rows
    assert on_card.images == 100 * 128


def test_pictures_drawn_in_one_run_with_classmates_are_counted_together():
    (row,) = own_rows([drawing_job(student="an")], PC)
    assert row.images == 4  # as time and energy are those of the whole run
    assert row.kind is Kind.INFERENCE


def test_a_stopped_run_keeps_the_sections_that_it_ended():
    (row,) = own_rows([stopped_job(student="an")], PC)
    assert (row.section, row.complete, row.images) == ("cpu", False, None)
    assert row.figures.seconds > 0


def test_recordings_stand_beside_own_rows_and_count_as_nobodys_run():
    recorded = recorded_rows(
        replay for part in PARTS for a in part.activities for replay in replays(a)
    )
    assert {row.part for row in recorded} >= {"1", "2", "2b"}
    assert all(row.recorded and row.device for row in recorded)
    own = own_rows([recorded_job("train-gan", student="an")], PC)
    both = together(own, recorded)
    assert [row.recorded for row in both if row.part == "2"] == [False, True]
    assert len(not_run(both)) == len(PARTS) - 1
