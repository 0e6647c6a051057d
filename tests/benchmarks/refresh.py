"""What one live refresh of the job panel costs the server, bare and with a training's curves."""

from __future__ import annotations

import math

from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.engine.view import MAX_LIVE_READINGS, JobState, JobView
from core.events import Scored
from core.telemetry.readings import Gpu, Machine, Reading
from tests.benchmarks.report import Report

REFRESHES = 100
CARD = Gpu(uuid="GPU-benchmark", name="A card", total_mib=12_288)
MACHINE = Machine(cpu="A processor", cores=2, ram_mib=16_384, gpus=(CARD,))


def running_job() -> JobView:
    """A job in the middle of its work, with as many readings of every signal as a view keeps."""

    def reading(second: float) -> Reading:
        wave = 50 + 40 * math.sin(second)
        return Reading(
            seconds=second,
            gpu_percent=wave,
            card_used_mib=4_000 + wave,
            own_vram_mib=600 + wave,
            power_watts=100 + wave,
            cpu_percent=wave,
            children_cpu_percent=wave / 3,
        )

    return JobView(
        id="job",
        student="student",
        activity="cpu-vs-gpu",
        settings={"steps": 100},
        state=JobState.RUNNING,
        device=CARD.uuid,
        stage="stage.whole_gpu",
        done=37,
        total=200,
        seconds_left=42.0,
        section="gpu",
        readings=tuple(reading(i / 5) for i in range(MAX_LIVE_READINGS)),
    )


def running_training() -> JobView:
    """The same in Part 2, near the end of the longest training."""
    steps = 4_600
    return replace(
        running_job(),
        id="training",
        activity="train-gan",
        settings={"epochs": 10, "images_per_epoch": 60_000, "seed": 0},
        losses_d=tuple(0.7 + 0.1 * math.sin(step) for step in range(steps)),
        losses_g=tuple(1.5 + 0.3 * math.cos(step) for step in range(steps)),
        scores=tuple(
            Scored(step, step / 468, 0.6, 9, 0.85, 0.9, 4_300.0) for step in range(0, steps, 10)
        ),
        pictures={"grid": bytes(16_000)},
    )


def page(job, machine):
    """One refresh, and what it cost. AppTest runs this source apart from the file around it."""
    import time

    import streamlit as st

    from core.texts import texts
    from core.ui import job_panel
    from core.ui.part2 import draw_learning

    job_panel.machine = lambda: machine  # one with a card, whatever this one has
    training = job.activity == "train-gan"
    extra = draw_learning if training else None
    started = time.thread_time()
    job_panel.draw_job(job, texts("vi"), projector=False, extra=extra, steerable=training)
    st.session_state["cost"] = time.thread_time() - started


def costs_of(job: JobView, *, charts: int) -> list[float]:
    """Milliseconds of CPU of each refresh."""
    app = AppTest.from_function(page, default_timeout=60, kwargs={"job": job, "machine": MACHINE})
    app.run()  # makes the charts' specs and the table that all viewers share
    assert not app.exception, app.exception
    assert len(app.get("vega_lite_chart")) == charts
    costs = []
    for _ in range(REFRESHES):
        app.run()
        costs.append(1000 * app.session_state["cost"])
    return costs


def main() -> int:
    report = Report()
    report.median(
        "one live refresh, four charts", costs_of(running_job(), charts=4), "ms CPU", at_most=6
    )
    report.median(
        "one live refresh of a training, seven charts",
        costs_of(running_training(), charts=7),
        "ms CPU",
        at_most=8,
    )
    return report.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
