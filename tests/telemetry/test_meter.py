"""Sections of work: exact times, only their own readings, and figures from all of them."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from core.telemetry.meter import MAX_RECORDED, Meter, open_meter
from core.telemetry.readings import Absences, Reading
from core.telemetry.summary import summarise


class Clock:
    """A monotonic clock that goes on only when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class ScriptedProbe:
    """Gives `next` as every reading; reading takes `cost` seconds of the test's clock."""

    def __init__(self, clock: Clock, *, cost: float = 0.0) -> None:
        self.absences = Absences({"power_watts": "absent.not_supported"})
        self.next = Reading(0, gpu_percent=50, card_used_mib=100, cpu_percent=80)
        self.closed = False
        self._clock, self._cost = clock, cost

    def read(self, seconds: float, *, afresh: bool = False) -> Reading:
        self._clock.now += self._cost
        return replace(self.next, seconds=seconds)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def bench():
    """A meter whose thread never comes to read by itself: time stands still."""
    clock = Clock()
    probe = ScriptedProbe(clock, cost=0.125)
    meter = Meter(probe, period_seconds=3600, clock=clock)
    yield SimpleNamespace(clock=clock, probe=probe, meter=meter)
    meter.close()


def test_the_time_of_a_section_is_that_of_the_work_without_the_readings_around_it(bench):
    with bench.meter.section("work") as section:
        bench.clock.now += 3.0
    assert section.recording.seconds == 3.0
    assert section.row.seconds == 3.0


def test_the_first_reading_is_at_zero_and_the_last_at_the_end(bench):
    with bench.meter.section("work") as section:
        bench.clock.now += 0.01
    first, last = section.recording.readings
    assert first.seconds == 0
    assert last.seconds == section.recording.seconds == pytest.approx(0.01)


def test_a_section_shorter_than_a_period_still_has_figures(bench):
    with bench.meter.section("short") as section:
        bench.clock.now += 0.05
    assert section.row.samples == 2
    assert section.row.card_used_mib_max == 100
    assert section.row.cpu_percent_mean == 80


def test_the_first_reading_has_no_rate_since_a_rate_looks_back(bench):
    with bench.meter.section("work") as section:
        bench.probe.next = replace(bench.probe.next, gpu_percent=10, cpu_percent=160)
        bench.clock.now += 2.0
    first = section.recording.readings[0]
    assert (first.gpu_percent, first.cpu_percent, first.card_used_mib) == (None, None, 100)
    assert section.row.gpu_percent_mean == 10  # what was before the section does not count
    assert section.row.cpu_percent_mean == 160


def test_readings_outside_of_a_section_are_not_in_it(bench):
    with bench.meter.section("one") as one:
        bench.clock.now += 1
    bench.clock.now += 500
    bench.probe.next = replace(bench.probe.next, card_used_mib=900)
    with bench.meter.section("two") as two:
        bench.clock.now += 1
    assert one.row.card_used_mib_max == 100
    assert two.row.card_used_mib_max == 900
    assert len(two.recording.readings) == 2


def test_the_running_section_has_a_name_and_sections_do_not_nest(bench):
    assert bench.meter.current_section is None
    with bench.meter.section("outer"):
        assert bench.meter.current_section == "outer"
        with pytest.raises(RuntimeError, match="inner"), bench.meter.section("inner"):
            pass
    assert bench.meter.current_section is None


def test_work_that_fails_leaves_a_recording_and_a_meter_that_can_go_on(bench):
    sections = []

    def work() -> None:
        with bench.meter.section("failing") as section:
            sections.append(section)
            bench.clock.now += 2
            raise MemoryError

    with pytest.raises(MemoryError):
        work()
    assert sections[0].recording.seconds == 2
    with bench.meter.section("next"):
        pass


def test_waiting_for_data_adds_up_to_a_share_of_the_section(bench):
    with bench.meter.section("starved") as section:
        for _ in range(3):
            with section.waiting_for_data():
                bench.clock.now += 2
            bench.clock.now += 1
    assert section.recording.data_wait_seconds == 6
    assert section.row.data_wait_share == pytest.approx(6 / 9)


def test_a_section_that_does_not_watch_its_data_has_no_share_rather_than_zero(bench):
    with bench.meter.section("compute") as section:
        bench.clock.now += 1
    assert section.recording.data_wait_seconds is None
    assert section.row.data_wait_share is None


def test_a_recording_says_why_signals_are_absent(bench):
    with bench.meter.section("work") as section:
        pass
    assert section.recording.absences.reasons == {"power_watts": "absent.not_supported"}


def test_closing_closes_the_probe(bench):
    bench.meter.close()
    assert bench.probe.closed


def test_a_jumping_wall_clock_changes_nothing(monkeypatch):
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        began = time.perf_counter()
        with meter.section("work") as section:
            monkeypatch.setattr(time, "time", lambda: 0.0)
            _wait_for_readings(meter, 3)
            monkeypatch.setattr(time, "time", lambda: 4e9)
            _wait_for_readings(meter, 3)
        elapsed = time.perf_counter() - began
    seconds = [reading.seconds for reading in section.recording.readings]
    assert seconds == sorted(seconds)
    assert 0.1 < section.recording.seconds <= elapsed


class Spike:
    """A steady 100 W, but for the 700th reading; memory peaks at the 701st."""

    absences = Absences()

    def __init__(self) -> None:
        self.count = 0

    def read(self, seconds: float, *, afresh: bool = False) -> Reading:
        self.count += 1
        return Reading(
            seconds,
            gpu_percent=self.count % 100,
            power_watts=400 if self.count == 700 else 100,
            card_used_mib=9_000 if self.count == 701 else 500,
        )

    def close(self) -> None:
        pass


def test_a_long_section_is_thinned_but_its_row_is_from_every_reading():
    probe = Spike()
    with Meter(probe, period_seconds=0.001) as meter, meter.section("long") as section:
        _wait_for_readings(meter, 1_400)
    assert len(section.recording.readings) <= MAX_RECORDED
    assert section.row.samples > 1_400
    assert section.row.power_watts_max == 400
    assert section.row.card_used_mib_max == 9_000
    loaded = summarise(section.recording)
    assert loaded.gpu_percent_mean == pytest.approx(section.row.gpu_percent_mean)
    assert loaded.card_used_mib_max == 9_000


def test_the_real_meter_measures_a_busy_stretch_and_a_child_apart():
    child_code = "import time\nwhile time.process_time() < 0.4: pass"
    with open_meter(gpu_uuid=None, period_seconds=0.05) as meter:
        own_before = time.process_time()
        with meter.section("busy") as section:
            subprocess.run([sys.executable, "-c", child_code], check=True)
            while time.process_time() - own_before < 0.3:
                pass
        own = time.process_time() - own_before
    row = section.row
    assert row.cpu_percent_mean * row.seconds / 100 == pytest.approx(own, abs=0.05)
    assert row.children_cpu_percent_mean * row.seconds / 100 >= 0.35
    assert row.gpu_percent_mean is None
    assert section.recording.absences.reasons["gpu_percent"] == "absent.no_gpu"


@pytest.mark.gpu
def test_the_real_card_is_read_by_the_uuid_that_pytorch_knows():
    import torch

    uuid = str(torch.cuda.get_device_properties(0).uuid)
    with open_meter(gpu_uuid=uuid, period_seconds=0.05) as meter:
        with meter.section("gpu") as section:
            data = torch.zeros(64 * 2**20, dtype=torch.uint8, device="cuda:0")
            _wait_for_readings(meter, 5)
        assert data.numel() == 64 * 2**20
    last = section.recording.readings[-1]
    assert last.allocated_mib >= 64
    assert last.own_vram_mib >= 64
    assert last.card_used_mib >= last.own_vram_mib


def _wait_for_readings(meter: Meter, more: int) -> None:
    goal = meter.history[-1].seconds
    deadline = time.monotonic() + 10
    while sum(reading.seconds > goal for reading in meter.history) < more:
        assert time.monotonic() < deadline, "the meter stands still"
        time.sleep(0.01)
