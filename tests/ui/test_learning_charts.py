from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from core.events import Scored
from core.texts import LANGUAGES
from core.ui.learning_charts import (
    MAX_POINTS,
    MEAN_STEPS,
    Curve,
    curve_spec,
    loss_data,
    running_mean,
    score_bytes,
)


def columns(stream: bytes) -> dict[str, list[float | None]]:
    return pa.ipc.open_stream(stream).read_all().to_pydict()


def score(step: int) -> Scored:
    return Scored(
        step=step,
        epoch=step / 50,
        readable=0.5,
        digits_seen=7,
        accuracy_real=0.9,
        accuracy_fake=0.8,
        images_per_second=1_000.0,
    )


def test_the_running_mean_is_that_of_the_last_steps():
    values = np.random.default_rng(0).random(200)
    mean = running_mean(values)
    assert mean[0] == values[0]
    assert mean[9] == pytest.approx(values[:10].mean())
    assert mean[199] == pytest.approx(values[200 - MEAN_STEPS :].mean())


def test_a_long_training_is_drawn_with_a_bounded_number_of_points_and_both_ends():
    losses = tuple(np.linspace(2.0, 1.0, 4_680))
    drawn = columns(loss_data(losses, losses, 468).table)
    assert len(drawn["t"]) == MAX_POINTS
    assert drawn["t"][0] == pytest.approx(1 / 468)
    assert drawn["t"][-1] == pytest.approx(10.0)
    assert drawn["raw_d"][-1] == pytest.approx(1.0)
    assert len(columns(score_bytes([score(i) for i in range(1_000)]))["t"]) == MAX_POINTS


def test_a_loss_that_is_no_number_breaks_the_line_and_not_the_page():
    drawn = columns(loss_data((1.0, math.nan, math.inf), (1.0, 2.0, 3.0), 10).table)
    assert drawn["raw_d"] == [1.0, None, None]
    assert drawn["raw_g"] == [1.0, 2.0, 3.0]


def test_nothing_yet_is_an_empty_chart():
    data = loss_data((), (), 50)
    assert columns(data.table)["t"] == []
    assert data.limit == 3.0


def test_the_loss_axis_does_not_move_for_a_single_spike():
    calm = [1.2] * 200
    spiky = [*calm[:100], 9.0, *calm[101:]]
    assert loss_data(spiky, calm, 50).limit == loss_data(calm, calm, 50).limit
    assert loss_data([7.0] * 200, calm, 50).limit == 12.0


def test_shares_are_drawn_in_percent_and_digits_as_a_count():
    drawn = columns(score_bytes([score(25)]))
    assert drawn["t"] == [0.5]
    assert drawn["real"] == pytest.approx([90.0])
    assert drawn["readable"] == pytest.approx([50.0])
    assert drawn["digits"] == [7.0]


@pytest.mark.parametrize("curve", Curve)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_chart_says_in_the_readers_language_what_its_lines_are(language, curve):
    spec = curve_spec(curve, epochs=5, limit=3.0, height=190, language=language, projector=False)
    assert spec["title"]["text"]
    assert "datasets" not in spec  # they belong to the live data
    domains = [
        layer["encoding"]["color"]["scale"]["domain"]
        for layer in spec["layer"]
        if "color" in layer["encoding"]
    ]
    assert len(domains) == 2


def test_the_losses_of_an_undecided_discriminator_are_marked():
    spec = curve_spec(Curve.LOSSES, epochs=5, limit=3.0, height=190, language="vi", projector=False)
    marked = {
        row["at"] for layer in spec["layer"] for row in layer.get("data", {}).get("values", [])
    }
    assert marked == {1.386, 0.693}
    assert "1,386" in str(spec)
