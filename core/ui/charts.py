"""The meters as charts over time, drawn live or over each other when a run has ended.

A panel is one Vega-Lite spec, written in Altair and built once for each language, limit and type
size. The data travels apart from it, as Arrow bytes that are made once a tick for all viewers of
the same job: a refresh then costs the server milliseconds, and the browser moves the line without
drawing the chart anew. Hence fixed axes: a limit taken from the data would change the spec.
"""

from __future__ import annotations

import functools
import html
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import altair as alt
import pyarrow as pa
import streamlit as st

from core.telemetry.readings import Absences, Reading, Recording
from core.texts import Texts, texts
from core.ui.gauges import gauge, gauge_html, quiet_card_html
from core.ui.panels import (
    COLOURS,
    DASHES,
    GPU_PANELS,
    SIGNALS,
    Axes,
    Host,
    Panel,
    axes_for,
    measured,
)

STYLE = Path(__file__).with_name("charts.css")
MAX_POINTS = 240  # a line; more would not be seen at the width of a panel
GREY = "#8a8f98"
HEIGHT, TALL = 180, 240  # pixels of a chart among four, and of one alone
MIN_COLUMN = 200  # pixels; below that the four go two by two

P = ParamSpec("P")
T = TypeVar("T")


# Data


def spread(readings: Sequence[Reading], limit: int = MAX_POINTS) -> Sequence[Reading]:
    """At most `limit` readings, evenly picked; the first and the last are among them."""
    if len(readings) <= limit:
        return readings
    step = (len(readings) - 1) / (limit - 1)
    return [readings[round(i * step)] for i in range(limit)]


def panel_bytes(panel: Panel, readings: Sequence[Reading]) -> bytes:
    """The lines of a panel as an Arrow stream: `t` in seconds, one column a signal.

    Memory is in GiB, the rest in the unit of `Reading`; absent values are null, so the line breaks.
    """
    scale = 1 / 1024 if panel is Panel.VRAM else 1.0
    columns: dict[str, pa.Array] = {"t": _floats([r.seconds for r in readings])}
    for field in SIGNALS[panel]:
        values = [getattr(r, field) for r in readings]
        columns[field] = _floats([None if v is None else v * scale for v in values])
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return cast(bytes, sink.getvalue().to_pybytes())


def _floats(values: list[float | None] | list[float]) -> pa.Array:
    return pa.array(values, pa.float32())  # half the bytes of a double; a chart shows three digits


class LiveData(NamedTuple):
    """What all viewers of a running job share for one second."""

    axes: Axes
    tables: dict[Panel, bytes]
    measured: frozenset[Panel]


@st.cache_resource(max_entries=128, show_spinner=False)
def live_data(
    job: str, count: int, newest: float, _readings: Sequence[Reading], _host: Host
) -> LiveData:
    """Made once for everybody who looks at this job at this moment.

    The moment is known by the number of readings and the time of the newest.
    """
    readings = spread(_readings)
    return LiveData(
        axes=axes_for(readings, _host),
        tables={panel: panel_bytes(panel, readings) for panel in Panel},
        measured=frozenset(panel for panel in Panel if measured(panel, (readings,))),
    )


# Specs


def _one_at_a_time(function: Callable[P, T]) -> Callable[P, T]:
    """One thread builds what fifty ask for at the same moment; a cache alone lets all fifty."""
    lock = threading.Lock()

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return function(*args, **kwargs)

    return locked


@_one_at_a_time
@functools.lru_cache(maxsize=512)
def panel_spec(
    panel: Panel,
    *,
    runs: int,
    limit: float,
    seconds: float,
    ceiling: float | None,
    height: int,
    language: str,
    projector: bool,
) -> dict[str, Any]:
    """The Vega-Lite spec of a panel for datasets `run0`, `run1`, ...; not to be changed.

    One run: each signal has its colour. Several: each run has its colour, and the second signal of
    a panel is dashed.
    """
    say = texts(language)
    small, normal = (17, 19) if projector else (12, 13)
    layers: list[alt.Chart] = []
    for run in range(runs):
        for signal, field in enumerate(SIGNALS[panel]):
            colour = COLOURS[signal if runs == 1 else run]
            base = alt.Chart(alt.NamedData(f"run{run}")).encode(
                x=alt.X(
                    "t:Q",
                    title=None,
                    scale=alt.Scale(domain=[0, seconds], nice=False),
                    axis=alt.Axis(
                        tickCount=3 if projector else 5, grid=False, labelExpr="datum.label + ' s'"
                    ),
                ),
                y=alt.Y(
                    f"{field}:Q",
                    title=None,
                    scale=alt.Scale(domain=[0, limit], nice=False),
                    axis=alt.Axis(
                        values=ticks(panel, limit),
                        labelExpr=number_label(language),
                        minExtent=3 * small,  # the four panels' left edges line up
                    ),
                ),
            )
            if signal == 0:
                layers.append(base.mark_area(color=colour, opacity=0.14, clip=True))
            layers.append(
                base.mark_line(
                    color=colour,
                    strokeWidth=3 if projector else 2,
                    strokeDash=DASHES[signal if runs > 1 else 0],
                    clip=True,
                )
            )
    if ceiling is not None:
        layers += _ceiling(say, ceiling, small)
    chart = (
        alt.layer(*layers)
        .properties(
            padding={"left": 0, "top": 0, "right": 12, "bottom": 0},  # room for the last label
            height=height * 4 // 3 if projector else height,
            title=alt.TitleParams(
                say(f"chart.{panel}.title"),
                anchor="start",
                fontSize=normal,
                fontWeight=600,
                offset=8,
            ),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small)
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))  # half the time


def _ceiling(say: Texts, ceiling: float, size: int) -> list[alt.Chart]:
    # Named, or Altair would move the row to the datasets, which belong to the live data.
    row = alt.InlineData(values=[{"ceiling": ceiling}], name="ceiling")
    base = alt.Chart(row).encode(y=alt.Y("ceiling:Q"))
    label = say("chart.ceiling", threads=round(ceiling / 100))
    return [
        base.mark_rule(color=GREY, strokeDash=[2, 3], strokeWidth=1.5),
        base.encode(x=alt.value("width"), text=alt.value(label)).mark_text(
            align="right", baseline="bottom", dy=-3, color=GREY, fontSize=size
        ),
    ]


def ticks(panel: Panel, limit: float) -> list[float]:
    """A few round marks from 0 to `limit`, `limit` among them; for the CPU each core if few."""
    if panel is Panel.CPU and limit <= 500:
        return [100.0 * core for core in range(int(limit / 100) + 1)]
    for parts in (4, 5, 3):
        step = limit / parts
        if step == round(step, 0 if limit >= 4 else 2):
            return [round(step * i, 2) for i in range(parts + 1)]
    return [0, round(limit / 2, 1), round(limit, 1)]


# Drawing


def draw_panel(
    panel: Panel,
    data: Sequence[bytes],
    axes: Axes,
    say: Texts,
    *,
    projector: bool,
    alt_text: str,
    height: int = HEIGHT,
) -> None:
    """One chart; `data` holds `panel_bytes` of each run."""
    spec = panel_spec(
        panel,
        runs=len(data),
        limit=axes.limit(panel),
        seconds=axes.seconds,
        ceiling=axes.cpu_ceiling if panel is Panel.CPU else None,
        height=height,
        language=say.language,
        projector=projector,
    )
    datasets = {f"run{i}": table for i, table in enumerate(data)}
    st.vega_lite_chart({**spec, "datasets": datasets}, alt=alt_text)


def draw_live(
    say: Texts,
    job: str,
    readings: Sequence[Reading],
    absences: Absences,
    host: Host,
    *,
    projector: bool,
) -> None:
    """The four gauges of a running job with their curves, or one quiet card where no GPU is."""
    newest = readings[-1].seconds if readings else 0.0
    data = live_data(job, len(readings), newest, readings, host)

    def figure(panel: Panel) -> None:
        now = gauge(panel, readings, absences, card=host.card, axes=data.axes, say=say)
        st.html(gauge_html(now))

    def chart(panel: Panel, height: int = HEIGHT) -> None:
        # A chart without a line would only look broken; the gauge has said why.
        if panel in data.measured or not readings:
            tables, alt_text = (data.tables[panel],), say(f"chart.{panel}.alt")
            draw_panel(
                panel,
                tables,
                data.axes,
                say,
                projector=projector,
                alt_text=alt_text,
                height=height,
            )

    if host.card is None and data.measured.isdisjoint(GPU_PANELS):
        busy, quiet = st.columns(2)
        with busy:
            figure(Panel.CPU)
        with quiet:
            st.html(quiet_card_html(say, absences))
        chart(Panel.CPU, TALL)
        return
    grid = st.grid(4, min_column_width=MIN_COLUMN)
    for panel in Panel:
        with grid.cell():
            figure(panel)
            chart(panel)


def draw_overlay(
    say: Texts,
    recordings: Sequence[Recording],
    host: Host,
    *,
    key: str,
    projector: bool,
    until: float | None = None,
) -> None:
    """Finished runs over each other, each from its own 0 s; a panel without any value is left out.

    `until` cuts the runs off at this second; the axes stay.
    """
    runs = [recording.readings for recording in recordings]
    longest = max((recording.seconds for recording in recordings), default=1.0)
    everything = [reading for readings in runs for reading in readings]
    axes = axes_for(everything, host, seconds=float(math.ceil(longest)))
    names = [say(f"section.{recording.name}") for recording in recordings]
    st.html(_legend_html(say, names))
    drawn = [panel for panel in Panel if measured(panel, runs)]
    grid = st.grid(min(len(drawn) or 1, 4), min_column_width=MIN_COLUMN)
    for panel in drawn:
        tables = [
            _cut_bytes(f"{key}/{recording.name}", panel, until, recording.readings)
            for recording in recordings
        ]
        alt_text = say(
            "chart.overlay.alt", chart=say(f"chart.{panel}.title"), runs=", ".join(names)
        )
        with grid.cell():
            draw_panel(
                panel,
                tables,
                axes,
                say,
                projector=projector,
                alt_text=alt_text,
                height=TALL if len(drawn) == 1 else HEIGHT,
            )


@st.cache_resource(max_entries=256, show_spinner=False)
def _cut_bytes(key: str, panel: Panel, until: float | None, _readings: Sequence[Reading]) -> bytes:
    shown = [r for r in _readings if until is None or r.seconds <= until]
    return panel_bytes(panel, spread(shown))


# Absent signals, in words


SAME_REASON = {"energy": "power_watts"}  # a summary that is absent where its signal is


def merged(absences: Iterable[Absences]) -> Absences:
    """The reasons of several recordings in one."""
    reasons: dict[str, str] = {}
    for some in absences:
        reasons |= some.reasons
    return Absences(reasons)


def absent_sentence(say: Texts, fields: Iterable[str], absences: Absences) -> str:
    """`Not measured here: GPU, power (no driver)`: each reason once, with what it takes away."""
    by_reason: dict[str, list[str]] = {}
    for field in fields:
        reason = absences.reasons.get(SAME_REASON.get(field, field), "")
        by_reason.setdefault(reason, []).append(say(f"chart.signal.{field}"))
    parts = [
        ", ".join(names) + (f" ({say(reason)})" if reason else "")
        for reason, names in by_reason.items()
    ]
    return say("chart.absent", signals="; ".join(parts))


def _legend_html(say: Texts, names: Sequence[str]) -> str:
    """What colours mean: of one run its signals, of several the runs, whose signals have dashes."""
    if len(names) == 1:
        samples = [
            (f"solid {COLOURS[0]}", "how", say("chart.legend.first")),
            (f"solid {COLOURS[1]}", "how", say("chart.legend.second")),
        ]
    else:
        samples = [(f"solid {COLOURS[i]}", "run", name) for i, name in enumerate(names)]
        samples += [
            ("solid currentColor", "how", say("chart.legend.solid")),
            ("dashed currentColor", "how", say("chart.legend.dashed")),
        ]
    spans = (
        f"<span class='{kind}'><i style='border-top:3px {line}'></i>{html.escape(text)}</span>"
        for line, kind, text in samples
    )
    return f"<div class='lab-legend'>{''.join(spans)}</div>"


def draw_style() -> None:
    """Once a page, before anything else of this module; takes no room."""
    st.html(STYLE)


def number_label(language: str) -> str:
    """Numbers of an axis as the reader writes them: 20.000 and 0,5, or 20,000 and 0.5."""
    if language == "vi":
        return "replace(replace(replace(datum.label, '.', '#'), ',', '.'), '#', ',')"
    return "datum.label"
