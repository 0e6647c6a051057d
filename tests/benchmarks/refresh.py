"""What one live refresh of the job panel costs the server: four gauges and four charts."""

from __future__ import annotations

import math

from streamlit.testing.v1 import AppTest

from core.engine.view import MAX_LIVE_READINGS, JobState, JobView
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
        stage="stage.warm_up",
        done=37,
        total=200,
        seconds_left=42.0,
        section="gpu",
        readings=tuple(reading(i / 5) for i in range(MAX_LIVE_READINGS)),
    )


def page(job, machine):
    """One refresh, and what it cost. AppTest runs this source apart from the file around it."""
    import time

    import streamlit as st

    from core.texts import texts
    from core.ui import job_panel

    job_panel.machine = lambda: machine  # one with a card, whatever this one has
    started = time.thread_time()
    job_panel.draw_job(job, texts("vi"), projector=False)
    st.session_state["cost"] = time.thread_time() - started


def main() -> int:
    report = Report()
    app = AppTest.from_function(
        page, default_timeout=60, kwargs={"job": running_job(), "machine": MACHINE}
    )
    app.run()  # makes the charts' specs and the table that all viewers share
    assert not app.exception, app.exception
    assert len(app.get("vega_lite_chart")) == 4
    costs = []
    for _ in range(REFRESHES):
        app.run()
        costs.append(1000 * app.session_state["cost"])
    report.median("one live refresh, four charts", costs, "ms CPU", at_most=6)
    return report.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
