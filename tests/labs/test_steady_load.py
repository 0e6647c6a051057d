import msgspec

from core.activities.soc import SteadyLoadResult, SteadyLoadSettings
from core.context import Context
from core.events import Measured, Progressed, Result, Stopped
from core.labs.steady_load import run
from core.telemetry.meter import open_meter
from core.telemetry.readings import Machine


def ran(settings, *, stop_after=None):
    """All events; `stop_after`: asked to stop once so many of them have come."""
    events = []
    with open_meter(gpu_uuid=None, period_seconds=0.1) as meter:
        context = Context(
            device="cpu",
            cpu_threads=1,
            machine=Machine(cpu="a processor", cores=1, ram_mib=1_000.0),
            meter=meter,
            stopped=lambda: stop_after is not None and len(events) >= stop_after,
            digits=lambda: None,
        )
        for event in run(settings, context):
            events.append(event)
    return events


def test_the_load_is_steady_measured_and_as_throttled_as_was_asked():
    shares = {}
    for percent in (100, 50):
        *events, result = ran(SteadyLoadSettings(seconds=1, percent=percent))
        assert isinstance(result, Result)
        values = msgspec.convert(result.values, SteadyLoadResult)
        (measured,) = [event for event in events if isinstance(event, Measured)]
        assert measured.recording.name == result.rows[0].name == "steady"
        assert measured.recording.seconds >= 1
        assert values.products > 0
        assert values.device_name == "a processor"
        shares[percent] = values.busy_percent
    assert shares[50] < shares[100] - 20


def test_it_stops_at_once_and_keeps_nothing():
    events = ran(SteadyLoadSettings(seconds=30), stop_after=2)
    assert isinstance(events[-1], Stopped)
    assert not any(isinstance(event, Measured | Result) for event in events)
    assert sum(isinstance(event, Progressed) for event in events) == 1
