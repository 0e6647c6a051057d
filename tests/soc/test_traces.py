"""Which trace a student gets, and what is never taken for one."""

from __future__ import annotations

from msgspec.structs import replace

from core.activities.soc import SteadyLoadResult, SteadyLoadSettings
from core.engine.view import JobState, JobView
from core.recordings import Replay
from core.soc.traces import NAMES, Origin, levels_of, traces_of
from core.telemetry.readings import Reading, Recording, SummaryRow
from tests.ui.stand_ins import PC


def steady_run(*, percent: int = 100, gpu: bool = True, levels: tuple[float, ...] = ()) -> JobView:
    """A finished run of the steady load; `levels` are the figures of the meter, one a second."""
    readings = tuple(
        Reading(
            float(second),
            gpu_percent=level if gpu else None,
            power_watts=300.0 if gpu else None,
            cpu_percent=100.0 if gpu else 1.9 * level,
        )
        for second, level in enumerate(levels or (percent - 2, percent, percent - 1, percent))
    )
    run = Recording("steady", 4.0, readings)
    values = SteadyLoadResult(900, 4096, percent, float(percent), "Test Card 12G")
    settings = SteadyLoadSettings(seconds=4, percent=percent)
    return JobView(
        id=f"steady-{percent}",
        student="somebody",
        activity="steady-load",
        settings={"seconds": settings.seconds, "percent": settings.percent},
        state=JobState.DONE,
        recordings=(run,),
        rows=(SummaryRow("steady", 4.0, cpu_percent_mean=170, energy_wh=0.02),),
        result={name: getattr(values, name) for name in values.__struct_fields__},
    )


def replay_of(job: JobView) -> Replay:
    return Replay(
        activity=job.activity,
        settings=job.settings,
        machine=PC,
        device_name="Another Card",
        made_at="2026-11-30",
        recordings=job.recordings,
        rows=job.rows,
        values=job.result or {},
    )


def test_without_any_run_every_trace_is_there_and_says_that_it_is_made_up():
    traces = traces_of([], [])
    assert set(NAMES) <= set(traces)
    assert {trace.origin for trace in traces.values()} == {Origin.SIMULATED}
    assert traces == traces_of([], [])


def test_the_own_run_goes_before_a_recording_and_both_before_a_made_up_one():
    own, other = steady_run(), replay_of(steady_run(percent=50))
    traces = traces_of([own], [replay_of(own), other])
    assert traces["steady"].origin is Origin.OWN
    assert traces["throttled"].origin is Origin.RECORDED
    assert traces["throttled"].made_at == "2026-11-30"
    assert traces["idle"].origin is Origin.SIMULATED


def test_a_run_without_a_card_gives_way_to_a_recording_of_one():
    on_cpu = steady_run(gpu=False)
    assert traces_of([on_cpu], [replay_of(steady_run())])["steady"].origin is Origin.RECORDED
    alone = traces_of([on_cpu], [])["steady"]
    assert alone.origin is Origin.OWN
    assert not alone.on_card
    assert min(levels_of(alone)) > 90, "the week needs a card's figures, and takes made-up ones"


def test_an_unfinished_run_is_no_trace():
    stopped = replace(steady_run(), state=JobState.STOPPED)
    assert traces_of([stopped], [])["steady"].origin is Origin.SIMULATED


def test_a_load_that_others_crowd_out_is_not_shown_as_steady():
    crowded = steady_run(gpu=False, levels=(20, 90, 45, 70))
    assert traces_of([crowded], [])["steady"].origin is Origin.SIMULATED
    beside_a_neighbour = steady_run(percent=50, levels=(95, 97, 96, 98))
    assert traces_of([beside_a_neighbour], [])["throttled"].origin is Origin.SIMULATED
