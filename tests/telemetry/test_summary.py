"""Readings to one line, and to fewer readings: worked by hand."""

from __future__ import annotations

import msgspec
import pytest

from core.telemetry.readings import Reading, Recording
from core.telemetry.summary import merged, summarise


def recording(*readings: Reading, seconds: float | None = None, **more) -> Recording:
    return Recording("test", readings[-1].seconds if seconds is None else seconds, readings, **more)


def test_means_are_over_time_not_over_readings():
    row = summarise(
        recording(
            Reading(0),
            Reading(1, gpu_percent=100, cpu_percent=200),
            Reading(4, gpu_percent=20, cpu_percent=40),  # stands for three seconds
        )
    )
    assert row.gpu_percent_mean == (100 * 1 + 20 * 3) / 4
    assert row.cpu_percent_mean == (200 * 1 + 40 * 3) / 4


def test_gpu_mean_is_absent_where_the_section_is_shorter_than_nvmls_window():
    row = summarise(recording(Reading(0), Reading(0.9, gpu_percent=4, cpu_percent=90)))
    assert row.gpu_percent_mean is None
    assert row.cpu_percent_mean == 90


def test_what_was_never_read_is_none_in_the_row_and_zero_stays_zero():
    row = summarise(recording(Reading(0, own_vram_mib=0), Reading(2, own_vram_mib=0)))
    assert row.own_vram_mib_max == 0
    assert row.card_used_mib_max is None
    assert row.power_watts_max is None
    assert row.energy_wh is None
    assert row.children_cpu_percent_mean is None


def test_others_on_the_machine_are_what_is_left_of_its_cpu():
    row = summarise(
        recording(
            Reading(0),
            Reading(2, host_cpu_percent=190, cpu_percent=100, children_cpu_percent=10),
        )
    )
    assert row.others_cpu_percent_mean == 80


def test_others_are_unknown_where_the_machine_could_not_be_read():
    row = summarise(recording(Reading(0), Reading(2, cpu_percent=100)))
    assert row.others_cpu_percent_mean is None


def test_a_missing_reading_does_not_pull_the_mean_down():
    row = summarise(
        recording(Reading(0), Reading(1, gpu_percent=80), Reading(2), Reading(3, gpu_percent=80))
    )
    assert row.gpu_percent_mean == 80


def test_energy_is_the_area_under_the_power_curve():
    row = summarise(
        recording(
            Reading(0, power_watts=100), Reading(10, power_watts=300), Reading(40, power_watts=300)
        )
    )
    assert row.energy_wh == pytest.approx((200 * 10 + 300 * 30) / 3600)
    assert row.power_watts_max == 300


def test_energy_is_absent_where_the_card_was_lost_half_way():
    row = summarise(
        recording(Reading(0, power_watts=100), Reading(5, power_watts=100), Reading(10))
    )
    assert row.energy_wh is None
    assert row.power_watts_max == 100


def test_data_wait_is_a_share_of_the_section():
    waited = recording(Reading(0), Reading(10), data_wait_seconds=2.5)
    assert summarise(waited).data_wait_share == 0.25


def test_a_recording_without_readings_has_its_time_and_nothing_else():
    row = summarise(Recording("empty", 3.0, ()))
    assert (row.seconds, row.samples, row.cpu_percent_mean) == (3.0, 0, None)


def test_a_recording_that_was_saved_and_loaded_gives_the_same_row():
    saved = recording(Reading(0, power_watts=90), Reading(2, gpu_percent=50, power_watts=110))
    loaded = msgspec.json.decode(msgspec.json.encode(saved), type=Recording)
    assert summarise(loaded) == summarise(saved)


def many_readings(count: int) -> tuple[Reading, ...]:
    """At an uneven pace, with one peak of memory, and power that is unknown now and then."""
    readings, now = [], 0.0
    for n in range(count):
        readings.append(
            Reading(
                now,
                gpu_percent=None if n == 0 else n * 37 % 101,
                power_watts=None if n % 7 == 3 else 100 + n * 13 % 50,
                cpu_percent=None if n == 0 else n * 53 % 201,
                own_vram_mib=9_000 if n == count // 3 else 500,
            )
        )
        now += 0.1 + n % 3 * 0.1
    return tuple(readings)


def test_thinned_readings_give_the_same_means_peaks_and_almost_the_same_energy():
    readings = many_readings(4_001)
    full = summarise(recording(*readings))
    thin = summarise(recording(*merged(readings, 600)))
    assert 300 < thin.samples <= 600
    assert thin.gpu_percent_mean == pytest.approx(full.gpu_percent_mean)
    assert thin.cpu_percent_mean == pytest.approx(full.cpu_percent_mean)
    assert thin.own_vram_mib_max == 9_000
    assert thin.energy_wh == pytest.approx(full.energy_wh, rel=0.005)


def test_thinning_keeps_both_ends_and_leaves_few_readings_alone():
    readings = many_readings(1_000)
    thin = merged(readings, 600)
    assert (thin[0], thin[-1]) == (readings[0], readings[-1])
    assert merged(thin, 600) == thin


@pytest.mark.parametrize("count", [601, 602, 1_195, 1_197, 1_198, 1_199, 35_999])
def test_thinning_never_leaves_more_than_the_limit(count):
    assert len(merged(many_readings(count), 600)) <= 600
