"""The bar charts of Part 5: one fixed spec a chart, and the bars as data apart from it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import altair as alt

from core.report.measured import Kind, Row, newest
from core.report.table import energy_text
from core.texts import Texts, texts

# Told apart by every kind of colour vision, and read on both themes.
KINDS = {Kind.TRAINING: "#2e86de", Kind.INFERENCE: "#d9760a", Kind.LOADING: "#8a6fd1"}
GREY = "#828a96"
SHORTEST = 0.01  # seconds, where a logarithmic axis begins
ROOM = 1.22  # of the longest bar: for its number
PADDING = {"left": 0, "top": 6, "right": 26, "bottom": 4}  # no accent or last letter is cut
MOST_BARS = 40


@dataclass(frozen=True, slots=True)
class Measure:
    """What one chart shows; its title is the label `part5.chart.<id>`."""

    id: str
    value: Callable[[Row], float | None]  # as the axis counts it
    text: Callable[[Texts, Row], str]  # at the end of a bar


MEASURES = (
    Measure(
        "time", lambda row: row.figures.seconds, lambda say, row: say.seconds(row.figures.seconds)
    ),
    Measure(
        "gpu",
        lambda row: row.figures.gpu_percent_mean,
        lambda say, row: say.percent(row.figures.gpu_percent_mean),
    ),
    Measure(
        "vram",
        lambda row: (
            None if row.figures.own_vram_mib_max is None else row.figures.own_vram_mib_max / 1024
        ),
        lambda say, row: say.mib(row.figures.own_vram_mib_max),
    ),
    Measure(
        "energy",
        lambda row: row.figures.energy_wh,
        lambda say, row: say("part5.wh", value=energy_text(row.figures.energy_wh or 0, say)),
    ),
)


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart, ready to be drawn: `spec` is shared and not to be changed."""

    spec: dict[str, Any]
    bars: list[dict[str, Any]]
    title: str
    told: str  # the same in words


def chart(
    measure: Measure,
    rows: Sequence[Row],
    say: Texts,
    *,
    logarithmic: bool = False,
    large: bool = False,
    legend: bool = True,
) -> Chart:
    """The newest run of each section as a bar, in the order of the table.

    Without a `legend` there is one beside the chart: in a narrow one it would be cut off.
    """
    bars = [_bar(place, row, measure, say) for place, row in enumerate(newest(rows)[-MOST_BARS:])]
    if logarithmic:
        for bar in bars:
            bar["value"] = max(SHORTEST, bar["value"])
    title = say(f"part5.chart.{measure.id}")
    spec = bar_spec(
        measure.id,
        _end(measure.id, [bar["value"] for bar in bars], logarithmic=logarithmic),
        language=say.language,
        logarithmic=logarithmic,
        large=large,
        legend=legend,
    )
    told = "; ".join(f"{bar['name']}: {bar['label']}" for bar in bars)
    return Chart(spec, bars, title, f"{title}. {told}.")


def whole_spec(drawn: Chart) -> dict[str, Any]:
    """Spec and data in one, for a file."""
    return {**drawn.spec, "datasets": {"rows": drawn.bars}}


def _bar(place: int, row: Row, measure: Measure, say: Texts) -> dict[str, Any]:
    value = measure.value(row)
    return {
        "place": place,
        "name": f"{row.part} · {row.label(say)}",
        "value": value or 0.0,
        "label": say("absent.value") if value is None else measure.text(say, row),
        "kind": say(f"part5.kind.{row.kind}"),
        "recorded": row.recorded,
    }


def _end(measure: str, values: Sequence[float], *, logarithmic: bool) -> float:
    """Where the axis ends: few different places, so that few specs are built."""
    if measure == "gpu":
        return 100.0
    most = max((*values, SHORTEST))
    if logarithmic:
        return 10.0 ** math.ceil(math.log10(most * 1.5))
    stair = 10.0 ** math.floor(math.log10(most))
    return next(times * stair for times in (1, 2, 4, 6, 8, 10) if times * stair >= most)


@functools.lru_cache(maxsize=128)
def bar_spec(
    measure: str, end: float, *, language: str, logarithmic: bool, large: bool, legend: bool
) -> dict[str, Any]:
    """The Vega-Lite spec for the dataset `rows`; not to be changed."""
    say = texts(language)
    small, normal = (17, 19) if large else (12, 13)
    step = 36 if large else 25
    if logarithmic:
        scale = alt.Scale(type="log", domain=[SHORTEST, end * 4], nice=False)
        axis = alt.Axis(
            values=[10.0**power for power in range(-2, 7) if 10.0**power <= end],
            labelExpr=number_label(language),
        )
    else:
        scale = alt.Scale(domain=[0, end * ROOM], nice=False)
        axis = alt.Axis(
            values=[end * share for share in (0, 0.25, 0.5, 0.75, 1)],
            labelExpr=number_label(language),
        )
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y(
            "name:N",
            title=None,
            sort=alt.EncodingSortField("place", op="min"),
            axis=alt.Axis(labelLimit=260, labelPadding=8, ticks=False, domain=False),
            scale=alt.Scale(paddingInner=0.3, paddingOuter=0.1),
        )
    )
    x = alt.X("value:Q", title=say(f"part5.chart.{measure}.axis"), scale=scale, axis=axis)
    names = [say(f"part5.kind.{kind}") for kind in KINDS]
    bars = base.mark_bar(cornerRadiusEnd=3).encode(
        x=x,
        x2=alt.X2Datum(SHORTEST if logarithmic else 0),
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=names, range=list(KINDS.values())),
            legend=alt.Legend(orient="top", title=None, labelFontSize=small) if legend else None,
        ),
        opacity=alt.condition("datum.recorded", alt.value(0.5), alt.value(1)),
    )
    ends = base.mark_text(align="left", dx=5, fontSize=small, fontWeight=600, color=GREY).encode(
        x=x, text="label:N"
    )
    made = (
        alt.layer(bars, ends)
        .properties(
            height=alt.Step(step),
            padding=PADDING,
            title=alt.TitleParams(
                say(f"part5.chart.{measure}"),
                anchor="start",
                fontSize=normal,
                fontWeight=600,
                offset=8,
            ),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], made.to_dict(validate=False))


def number_label(language: str) -> str:
    """Numbers of an axis as the reader writes them: 0,5 or 0.5."""
    number = "format(datum.value, '~r')"
    return f"replace({number}, '.', ',')" if language == "vi" else number
