import pytest
from msgspec.structs import astuple

from core.telemetry.diagnosis import (
    DATA_WAIT,
    GPU_WAIT,
    GPU_WAIT_COMPUTE,
    NEIGHBOURS,
    Signals,
    diagnose,
)


def signals(way, *, data=0.0, wait=0.0, on_gpu=True, **more):
    return Signals(way, on_gpu=on_gpu, data_wait_share=data, gpu_wait_share=wait, **more)


# The figures of a machine as the class has it, or as an H200 showed them.
@pytest.mark.parametrize(
    ("measured", "bottleneck", "signal", "repair"),
    [
        (
            signals("loader", data=0.48, wait=0.05, gpu_share=0.24, reads_losses=True),
            *("data", "data_wait_share", "resident"),
        ),
        (
            signals("resident", wait=0.04, gpu_share=0.41, reads_losses=True),
            *("launch", "gpu_wait_share", "graph"),
        ),
        (
            signals("no_wait", wait=0.01, gpu_share=0.45),
            *("launch", "gpu_wait_share", "graph"),
        ),
        (
            signals("resident", wait=0.35, gpu_share=0.6, reads_losses=True),
            *("wait", "gpu_wait_share", "no_wait"),
        ),
        (
            signals("large", wait=0.75, gpu_share=0.94, reads_losses=True),
            *("compute", "gpu_wait_share", "lean"),
        ),
        (
            signals("graph", wait=0.97, gpu_share=1.0, captured=True),
            *("compute", "gpu_wait_share", "lean"),
        ),
        (
            signals("lean", wait=0.97, captured=True, lean=True),
            *("compute", "gpu_wait_share", None),
        ),
        (
            signals("large", wait=0.01, reads_losses=True, large=True),
            *("launch", "gpu_wait_share", "lean"),
        ),
        (
            signals("large", wait=0.05, gpu_share=0.97, power_share=0.9, large=True),
            *("compute", "power_share", "lean"),
        ),
        (
            signals("large", wait=0.8, gpu_share=1.0, neighbours_share=0.9, reads_losses=True),
            *("neighbours", "neighbours_share", None),
        ),
        (
            signals("resident", data=0.0, on_gpu=False),
            *("compute", "data_wait_share", None),
        ),
    ],
)
def test_each_known_cause_is_named_with_its_signal_and_repair(measured, bottleneck, signal, repair):
    found = diagnose(measured)
    assert (found.bottleneck, found.signal, found.repair) == (bottleneck, signal, repair)
    assert found.way == measured.way


def test_a_busy_neighbour_does_not_excuse_a_loader_that_is_too_slow():
    found = diagnose(signals("loader", data=0.6, wait=0.3, neighbours_share=0.9))
    assert found.bottleneck == "data"


def test_a_neighbour_does_not_matter_where_nothing_waits_for_the_card():
    found = diagnose(signals("resident", wait=0.05, neighbours_share=0.9, gpu_share=0.8))
    assert found.bottleneck == "launch"


@pytest.mark.parametrize(
    "measured",
    [
        signals("resident", wait=0.02, gpu_share=0.99),  # never idle, yet nobody waits for it
        signals("no_wait", wait=0.3),  # some waiting, and no reason for it
        signals("loader", data=0.2, on_gpu=False),  # neither much waiting nor little
        signals("graph", wait=0.05, captured=True),  # nothing left to launch, nothing to wait for
    ],
)
def test_figures_that_do_not_fit_together_are_called_unclear(measured):
    assert diagnose(measured).bottleneck == "unclear"
    assert diagnose(measured).repair is None


@pytest.mark.parametrize(
    ("measured", "bottleneck"),
    [
        (signals("loader", data=DATA_WAIT), "data"),
        (signals("resident", wait=GPU_WAIT, reads_losses=True), "wait"),
        (signals("resident", wait=GPU_WAIT_COMPUTE, reads_losses=True), "compute"),
        (signals("resident", wait=GPU_WAIT, neighbours_share=NEIGHBOURS), "neighbours"),
    ],
)
def test_the_threshold_itself_counts_and_is_told_beside_the_value(measured, bottleneck):
    found = diagnose(measured)
    assert found.bottleneck == bottleneck
    assert found.value == found.threshold
    assert all(part is not None for part in astuple(found)[:5])
