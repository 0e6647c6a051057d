"""Where the time of a training run goes: from a few measured shares to the bottleneck's name.

Each share says who stood still. Who never stands still is the bottleneck:

    the step waits for its data                       -> "data"
    the GPU has other people's work as well           -> "neighbours"
    the CPU waits for the GPU nearly all the time     -> "compute": the GPU is never idle
    ... some of the time, because it reads each loss  -> "wait": they take turns, neither runs ahead
    ... hardly ever                                   -> "launch": the GPU waits for Python

The thresholds come from the class machine's figures: with the loader 13.6 s an epoch, without it
7.0 s, so about half of the time was waiting for data; there GPU use was 24 % and 41 %, with a large
batch 94 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from core.activities.feed_gpu import Diagnosis

# A third of the time: well below the half that a starved run waits, well above what the start of
# the loader's process costs in an epoch of a few seconds.
DATA_WAIT = 0.3
# On a CPU alone, below this the data is no reason: the processor computes for the rest.
DATA_WAIT_ON_CPU = 0.1
# The card was that busy before this run had touched it; an idle card with a desktop shows 0 to 10.
NEIGHBOURS = 0.3
# Above it the CPU has so much time left that it could launch twice the work; the GPU cannot.
GPU_WAIT_COMPUTE = 0.6
# A loss that is ready costs 10 to 20 us to fetch, of a step of 5 ms and more: a few hundredths.
# Waiting that is worth repairing is well above.
GPU_WAIT = 0.15
# A card that is always busy is not short of launches, whatever the CPU's clock says. The share is
# taken from NVML, which counts a window as busy from one kernel on.
GPU_BUSY = 0.9
# A chip that computes flat out draws most of what it may; one that runs tiny kernels does not.
POWER_BUSY = 0.7


@dataclass(frozen=True, slots=True)
class Signals:
    """What was measured of one way. Shares are 0 to 1; None: not known."""

    way: str
    on_gpu: bool
    data_wait_share: float
    gpu_wait_share: float  # the CPU stood still until the GPU had finished
    reads_losses: bool = False  # at every step
    captured: bool = False  # the step is a CUDA graph
    lean: bool = False
    large: bool = False  # the batch
    gpu_share: float | None = None  # time in which the card was busy, for whomever
    power_share: float | None = None  # of the card's limit
    neighbours_share: float | None = None  # the card's use before this run had touched it


def diagnose(signals: Signals) -> Diagnosis:
    """The bottleneck, the figure that decided with its threshold, and the way that repairs it."""
    return next(_findings(signals))


def _findings(signals: Signals) -> Iterator[Diagnosis]:
    """What holds, the surest first; always ends with one."""

    def found(
        bottleneck: str, signal: str, value: float, threshold: float, repair: str | None
    ) -> Diagnosis:
        return Diagnosis(signals.way, bottleneck, signal, value, threshold, repair)

    repair: str | None
    data, wait = signals.data_wait_share, signals.gpu_wait_share
    if data >= DATA_WAIT:
        yield found("data", "data_wait_share", data, DATA_WAIT, "resident")
    if not signals.on_gpu:
        if data <= DATA_WAIT_ON_CPU:
            yield found("compute", "data_wait_share", data, DATA_WAIT_ON_CPU, None)
        yield found("unclear", "data_wait_share", data, DATA_WAIT, None)

    neighbours = signals.neighbours_share
    if neighbours is not None and neighbours >= NEIGHBOURS and wait >= GPU_WAIT:
        yield found("neighbours", "neighbours_share", neighbours, NEIGHBOURS, None)
    if wait >= GPU_WAIT_COMPUTE:
        # No way computes less than the lean one does.
        repair = None if signals.lean else "lean"
        yield found("compute", "gpu_wait_share", wait, GPU_WAIT_COMPUTE, repair)
    if signals.reads_losses and wait >= GPU_WAIT:
        yield found("wait", "gpu_wait_share", wait, GPU_WAIT, "no_wait")
    if signals.gpu_share is not None and signals.gpu_share >= GPU_BUSY:
        power = signals.power_share
        if power is not None and power >= POWER_BUSY:
            yield found("compute", "power_share", power, POWER_BUSY, "lean")
        # The CPU hardly waits and yet the card is never idle: the two do not fit together.
        yield found("unclear", "gpu_percent", signals.gpu_share, GPU_BUSY, None)
    if wait < GPU_WAIT and not signals.captured:
        # The graph way has the small batch: it would not be faster than the large one.
        repair = "lean" if signals.large else "graph"
        yield found("launch", "gpu_wait_share", wait, GPU_WAIT, repair)
    yield found("unclear", "gpu_wait_share", wait, GPU_WAIT, None)
