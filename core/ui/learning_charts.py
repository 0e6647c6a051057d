"""How a GAN learns, as charts over epochs: both losses, D's hits, and the judge of the drawings.

Built as `core.ui.charts` are: one fixed spec a chart, and Arrow bytes made once a tick for all
viewers of a job, with a bounded number of points however long the training is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, cast

import altair as alt
import numpy as np
import pyarrow as pa
import streamlit as st

from core.events import Scored
from core.texts import Texts, texts
from core.ui.charts import GREY
from core.ui.panels import BLUE, ORANGE

MAX_POINTS = 240  # a line
MEAN_STEPS = 50  # of the running mean
UNDECIDED_D = 1.386  # 2 ln 2: D says "half and half" to the real pictures and to the fakes
UNDECIDED_G = 0.693  # ln 2
LOSS_STAIRS = (3.0, 6.0, 12.0, 24.0, 48.0)  # where the axis of the losses ends
HEIGHT, TALL = 215, 265  # pixels; tall: beside the picture of the digits


class Curve(StrEnum):
    """One of the three charts."""

    LOSSES = "losses"
    ACCURACY = "accuracy"
    QUALITY = "quality"


class Line(NamedTuple):
    """A column of the data and how it is drawn; its name is the label `learning.<column>`."""

    column: str
    colour: str
    raw: str = ""  # the column of its unsmoothed values, drawn faintly
    axis: str = ""  # "right": whole digits, 0 to 10
    dash: tuple[int, ...] = ()


LINES: dict[Curve, tuple[Line, ...]] = {
    Curve.LOSSES: (
        Line("loss_d", BLUE, raw="raw_d"),
        Line("loss_g", ORANGE, raw="raw_g", dash=(6, 2)),
    ),
    Curve.ACCURACY: (Line("real", BLUE), Line("fake", ORANGE, dash=(6, 2))),
    Curve.QUALITY: (Line("readable", BLUE), Line("digits", ORANGE, axis="right", dash=(6, 2))),
}


# Data


def running_mean(values: np.ndarray, window: int = MEAN_STEPS) -> np.ndarray:
    """The mean of each value and those before it, `window` at most; NaN from a NaN on."""
    sums = np.cumsum(values)
    counts = np.minimum(np.arange(1, len(values) + 1), window)
    before = np.concatenate([np.zeros(window), sums])[: len(values)]
    return cast(np.ndarray, (sums - before) / counts)


class LossData(NamedTuple):
    table: bytes
    limit: float  # where the axis ends


def loss_data(loss_d: Sequence[float], loss_g: Sequence[float], steps_per_epoch: int) -> LossData:
    """Both losses over epochs as an Arrow stream, raw and as running means."""
    count = min(len(loss_d), len(loss_g))
    picked = spread(count)
    columns = {"t": (picked + 1) / steps_per_epoch}
    highest = 0.0
    for line, losses in zip(LINES[Curve.LOSSES], (loss_d, loss_g), strict=True):
        raw = np.asarray(losses[:count], dtype=np.float64)
        mean = running_mean(raw)
        columns[line.raw], columns[line.column] = raw[picked], mean[picked]
        settled = mean[np.isfinite(mean)]
        highest = max(highest, float(settled.max()) if len(settled) else 0.0)
    limit = next((stair for stair in LOSS_STAIRS if highest <= stair), LOSS_STAIRS[-1])
    return LossData(arrow_bytes(columns), limit)


def score_bytes(scores: Sequence[Scored]) -> bytes:
    """D's hits and the share of readable digits in percent, the digits seen as they are."""
    picked = [scores[i] for i in spread(len(scores))]
    return arrow_bytes(
        {
            "t": np.array([score.epoch for score in picked], dtype=np.float64),
            "real": 100 * np.array([score.accuracy_real for score in picked], dtype=np.float64),
            "fake": 100 * np.array([score.accuracy_fake for score in picked], dtype=np.float64),
            "readable": 100 * np.array([score.readable for score in picked], dtype=np.float64),
            "digits": np.array([score.digits_seen for score in picked], dtype=np.float64),
        }
    )


def spread(count: int) -> np.ndarray:
    """At most `MAX_POINTS` of the indices below `count`, evenly; the first and last are there."""
    if count <= MAX_POINTS:
        return np.arange(count)
    return np.linspace(0, count - 1, MAX_POINTS).round().astype(np.int64)


def arrow_bytes(columns: dict[str, np.ndarray]) -> bytes:
    """An Arrow stream of single floats; what is not finite becomes null, so the line breaks."""
    table = pa.table(
        {
            name: pa.array(values.astype(np.float32), mask=~np.isfinite(values))
            for name, values in columns.items()
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return cast(bytes, sink.getvalue().to_pybytes())


class LearningData(NamedTuple):
    """What all viewers of one training share at one moment."""

    losses: LossData
    scores: bytes


@st.cache_resource(max_entries=128, show_spinner=False)
def learning_data(
    job: str,
    losses: int,
    scores: int,
    steps_per_epoch: int,
    _loss_d: Sequence[float],
    _loss_g: Sequence[float],
    _scores: Sequence[Scored],
) -> LearningData:
    """Made once for everybody; the moment is known by how many losses and scores there are."""
    return LearningData(loss_data(_loss_d, _loss_g, steps_per_epoch), score_bytes(_scores))


# Specs


@functools.lru_cache(maxsize=128)
def curve_spec(
    curve: Curve, *, epochs: int, limit: float, height: int, language: str, projector: bool
) -> dict[str, Any]:
    """The Vega-Lite spec of a chart for the dataset `run`; not to be changed."""
    say = texts(language)
    small, normal = (17, 19) if projector else (12, 13)
    comma = "replace(datum.label, '.', ',')" if language == "vi" else alt.Undefined
    legend = alt.Legend(
        orient="top",
        title=None,
        labelFontSize=small,
        symbolType="stroke",
        symbolSize=260,
        symbolStrokeWidth=3,
        padding=0,
        offset=4,
        labelLimit=320,
    )
    names = [say(f"learning.{line.column}") for line in LINES[curve]]
    colours = [line.colour for line in LINES[curve]]
    x = alt.X(
        "t:Q",
        title=None,
        scale=alt.Scale(domain=[0, epochs], nice=False),
        axis=alt.Axis(
            values=list(range(epochs + 1)),  # with the format "d", Vega would leave some out
            grid=True,  # an epoch ends at each
            labelOverlap=False,
            gridColor=GREY,
            gridOpacity=0.25,
            labelExpr=f"datum.value == {epochs} ? '{say('learning.epoch')} ' + datum.value"
            " : datum.value == 0 ? '' : datum.value",
        ),
    )

    def y(line: Line) -> alt.Y:
        right = line.axis == "right"
        return alt.Y(
            f"{line.column}:Q",
            title=None,
            scale=alt.Scale(domain=[0, 10 if right else limit], nice=False),
            axis=alt.Axis(
                orient="right" if right else "left",
                grid=False,
                tickCount=5 if right else 4,
                format="d" if right else alt.Undefined,
                labelExpr=alt.Undefined if right else comma,
                labelColor=line.colour if curve is Curve.QUALITY else alt.Undefined,
                minExtent=2 * small,
            ),
        )

    layers: list[alt.Chart] = []
    for line, name in zip(LINES[curve], names, strict=True):
        base = alt.Chart(alt.NamedData("run")).encode(x=x, y=y(line))
        if line.raw:
            layers.append(
                base.encode(y=alt.Y(f"{line.raw}:Q", title=None)).mark_line(
                    color=line.colour, opacity=0.3, strokeWidth=1, clip=True
                )
            )
        colour = alt.ColorDatum(name, scale=alt.Scale(domain=names, range=colours), legend=legend)
        layers.append(
            base.encode(color=colour).mark_line(
                strokeWidth=4 if projector else 2.5,
                strokeDash=list(line.dash) or alt.Undefined,
                interpolate="step-after" if line.column == "digits" else "linear",
                clip=True,
            )
        )
    layers += _references(curve, say, small)
    chart = alt.layer(*layers)
    if any(line.axis for line in LINES[curve]):
        chart = chart.resolve_scale(y="independent")
    chart = (
        chart.properties(
            height=height * 4 // 3 if projector else height,
            padding={"left": 0, "top": 0, "right": 12, "bottom": 4},
            title=alt.TitleParams(
                say(f"learning.{curve}.title"),
                anchor="start",
                fontSize=normal,
                fontWeight=600,
                offset=4,
            ),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))


def _references(curve: Curve, say: Texts, size: int) -> list[alt.Chart]:
    """Dotted lines, named at the right end: what an undecided D would score."""
    match curve:
        case Curve.LOSSES:
            marks = [
                (value, colour, say.number(value, digits=3))
                for value, colour in ((UNDECIDED_D, BLUE), (UNDECIDED_G, ORANGE))
            ]
        case Curve.ACCURACY:
            marks = [(50.0, GREY, say("learning.guessing"))]
        case _:
            return []
    layers: list[alt.Chart] = []
    for value, colour, label in marks:
        # Named, or Altair would move the row to the datasets, which belong to the live data.
        row = alt.InlineData(values=[{"at": value}], name=f"at-{value}")
        base = alt.Chart(row).encode(y=alt.Y("at:Q"))
        layers.append(base.mark_rule(color=colour, strokeDash=[2, 3], strokeWidth=1.5))
        layers.append(
            base.encode(x=alt.value("width"), text=alt.value(label)).mark_text(
                align="left", baseline="middle", dx=5, color=colour, fontSize=size
            )
        )
    return layers


def draw_curve(
    curve: Curve,
    data: LearningData,
    say: Texts,
    *,
    epochs: int,
    projector: bool,
    height: int = HEIGHT,
) -> None:
    losses = curve is Curve.LOSSES
    spec = curve_spec(
        curve,
        epochs=epochs,
        limit=data.losses.limit if losses else 100.0,
        height=height,
        language=say.language,
        projector=projector,
    )
    table = data.losses.table if losses else data.scores
    st.vega_lite_chart(
        {**spec, "datasets": {"run": table}}, alt=say(f"learning.{curve}.alt", epochs=epochs)
    )
