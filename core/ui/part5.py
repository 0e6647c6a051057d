"""Part 5: every measured run in one table, training beside inference, and what it all cost."""

from __future__ import annotations

import functools
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import streamlit as st

from core.report import table
from core.report.charts import KINDS, MEASURES, chart
from core.report.cost import Prices
from core.report.measured import PARTS, Part, Row, not_run, own_rows, recorded_rows, together
from core.texts import Texts, texts
from core.ui import charts, resources
from core.ui.part5_cost import draw_cost, draw_sides, prices_of
from core.ui.part5_report import draw_report
from core.ui.visitor import Visitor, visitor

PART2_STYLE = Path(__file__).with_name("part2.css")
STYLE = Path(__file__).with_name("part5.css")
RECORDINGS, LOG = "part5-recordings", "part5-log"  # keys of widgets
DASH = "–"  # instead of a figure that is not measured
# Pixels, where the browser's own guess cuts words.
WIDTHS = {"label": 235, "kind": 100}
WIDTHS_PROJECTOR = {"label": 350, "kind": 150}
MOST_ROWS = 30  # more are scrolled


def draw() -> None:
    """The whole page."""
    me = visitor()
    say = texts(me.language)
    charts.draw_style()
    st.html(PART2_STYLE)  # big figures
    st.html(STYLE)
    st.title(say("part5.title"))
    st.badge(say("part5.badge"), icon=":material/pin_drop:", color="blue")
    if not me.projector:
        st.markdown(say.prose("part5/intro"))
    own = own_rows_of(me.token)
    recorded = recorded_rows(
        replay
        for part in PARTS
        for activity in part.activities
        for replay in resources.recordings(activity)
    )
    if not own:
        with st.container(border=True):
            st.subheader(say("part5.nothing"))
            st.markdown(say.prose("part5/empty"))
    rows = _draw_table(own, recorded, say)
    if rows:
        _draw_charts(rows, say)
    draw_sides(own, say)
    draw_cost(rows, say)
    st.markdown(say.prose("part5/takeaway"))
    draw_report(say)


def own_rows_of(student: str) -> tuple[Row, ...]:
    """All rows of this student. The jobs behind them are read again only when there are others:
    they hold pictures and readings."""
    return _rows(student, resources.records().size_of(student))


@st.cache_resource(max_entries=200, ttl=600.0, show_spinner=False)
def _rows(student: str, size: tuple[int, int]) -> tuple[Row, ...]:
    return own_rows(resources.records().of_student(student), resources.machine())


# The table


def _draw_table(own: tuple[Row, ...], recorded: tuple[Row, ...], say: Texts) -> tuple[Row, ...]:
    """All rows that are to be looked at, and the parts that have none. Returns those rows."""
    me = visitor()
    missing = not_run(own)
    st.header(say("part5.table"), divider="blue")
    rows = own
    if recorded:
        st.session_state[RECORDINGS] = _with_recordings(me, own)
        if st.toggle(say("part5.table.recordings"), key=RECORDINGS, on_change=_keep_recordings):
            rows = together(own, recorded)
    _draw_frame(rows, missing, say)
    st.caption(say("part5.table.sort", dash=DASH))
    _draw_missing(missing, say)
    st.download_button(
        say("part5.table.csv"),
        table.to_csv(rows, missing, prices_of(me), say),
        file_name="gpu-lab.csv",
        mime="text/csv",
        icon=":material/table:",
        on_click="ignore",
        key="part5-csv",
    )
    return rows


def _with_recordings(me: Visitor, own: Sequence[Row]) -> bool:
    """By itself only for whoever has not measured a GPU yet."""
    return not any(row.on_card for row in own) if me.with_recordings is None else me.with_recordings


def _keep_recordings() -> None:
    visitor().with_recordings = bool(st.session_state[RECORDINGS])


def _draw_frame(rows: Sequence[Row], missing: Sequence[Part], say: Texts) -> None:
    frame = frame_of(table.MEASURED, rows, missing, say)
    widths = WIDTHS_PROJECTOR if visitor().projector else WIDTHS
    heads = {
        column.id: st.column_config.Column(
            table.head(column, say),
            pinned=column.id in ("part", "label"),
            width=widths.get(column.id),
        )
        for column in table.MEASURED
    }
    st.dataframe(
        in_words(frame, table.MEASURED, say),
        hide_index=True,
        column_config=heads,
        placeholder=DASH,
        height="content" if len(frame) <= MOST_ROWS else "auto",
        key="part5-table",
    )


def frame_of(
    columns: Sequence[table.Column], rows: Sequence[Row], missing: Sequence[Part], say: Texts
) -> pd.DataFrame:
    """Bare values, by which the table is sorted; one row a measured section, then one for each
    part that has none."""
    values = table.cells(columns, rows, prices_of(visitor()), say)
    values += [table.empty_cells(columns, part, say) for part in missing]
    frame = pd.DataFrame(values, columns=[column.id for column in columns])
    numbers = [column.id for column in columns if column.id not in table.FACTS]
    return frame.astype(dict.fromkeys(numbers, float))


def in_words(frame: pd.DataFrame, columns: Sequence[table.Column], say: Texts) -> Any:
    """The frame with every number as the reader writes it; what is absent stays absent."""
    prices = prices_of(visitor())
    style = frame.style
    for column in columns:
        if column.id not in table.FACTS:
            style = style.format(
                functools.partial(_written, column, prices, say), subset=[column.id]
            )
    return style


def _written(column: table.Column, prices: Prices, say: Texts, value: float) -> str:
    return table.cell_text(column, None if pd.isna(value) else value, prices, say)


def _draw_missing(missing: Sequence[Part], say: Texts) -> None:
    if not missing:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{say('part5.missing')}:**")
        for part in missing:
            st.page_link(
                f"pages/{part.page}.py",
                label=say(f"shell.page.{part.page}"),
                icon=":material/arrow_forward:",
                width="content",
            )


# Charts


def _draw_charts(rows: Sequence[Row], say: Texts) -> None:
    me = visitor()
    st.header(say("part5.charts"), divider="blue")
    st.session_state[LOG] = me.time_logarithmic
    st.toggle(
        say("part5.charts.log"), key=LOG, help=say("part5.charts.log.help"), on_change=_keep_log
    )
    st.html(_legend_html(say))
    columns = st.columns(1 if me.projector else 2, gap="large")
    for place, measure in enumerate(MEASURES):
        drawn = chart(
            measure,
            rows,
            say,
            logarithmic=measure.id == "time" and me.time_logarithmic,
            large=me.projector,
            legend=False,
        )
        with columns[place % len(columns)]:
            st.vega_lite_chart({**drawn.spec, "datasets": {"rows": drawn.bars}}, alt=drawn.told)
    st.caption(say("part5.charts.newest"))


def _legend_html(say: Texts) -> str:
    kinds = "".join(
        f"<span><i style='background:{colour}'></i>{html.escape(say(f'part5.kind.{kind}'))}</span>"
        for kind, colour in KINDS.items()
    )
    return f"<div class='p5-legend'>{kinds}</div>"


def _keep_log() -> None:
    visitor().time_logarithmic = bool(st.session_state[LOG])
