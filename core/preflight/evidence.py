"""How evidence is written and drawn, for the page, the terminal and the exported file alike."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, cast

from core.preflight.gate import Cell, Curve, Figure
from core.texts import Texts

# As in the other charts: told apart by every kind of colour vision, and each line has its dashes.
COLOURS = ("#2e86de", "#d9760a", "#1a9c74", "#c2659a", "#8a6fd1", "#7d8590")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4])
DATASET = "curve"
LEGEND_ROW = 44  # characters of all names together that fit side by side
FIGURES = 5  # significant ones, of a number without a unit
MINUS = "\u2212"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
UNITS = ("seconds", "ms", "mib", "percent", "watts")


def written(value: Cell, unit: str, say: Texts) -> str:
    """One cell as the reader writes it: `1,0002 × 10⁻⁶`, `758,75`, `21,3 s`, `yes`."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return say("preflight.yes" if value else "preflight.no")
    if isinstance(value, str):
        return say(value) if say.has(value) else value
    if unit in UNITS and math.isfinite(value):
        return str(getattr(say, unit)(value))
    named = unit if unit in UNITS or not say.has(unit) else say(unit)
    return f"{_number(value, say)} {named}".strip()


def figure_text(figure: Figure, say: Texts) -> tuple[str, str, str]:
    """Label, value, and what was expected ("" where nothing was)."""
    expected = "" if figure.expected is None else written(figure.expected, figure.unit, say)
    return say(figure.label), written(figure.value, figure.unit, say), expected


def _number(value: float, say: Texts) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    if isinstance(value, int) or value == 0:
        return say.number(int(value))
    power = math.floor(math.log10(abs(value)))
    if -4 < power < 7:
        rounded = float(f"{value:.{FIGURES}g}")
        return say.number(rounded, digits=_decimals(rounded))
    factor = float(f"{value / 10.0**power:.{FIGURES}g}")
    if abs(factor) >= 10:  # rounded up, as 9.99999 is
        factor, power = factor / 10, power + 1
    base = f"10{str(power).translate(SUPERSCRIPT)}"
    return base if factor == 1 else f"{say.number(factor, digits=_decimals(factor))} × {base}"


def _decimals(value: float) -> int:
    """How many decimals say all of a number of few figures."""
    text = f"{value:.12f}".rstrip("0")
    return len(text.partition(".")[2])


# Curves


def rows_of(curve: Curve, say: Texts) -> list[dict[str, Any]]:
    """The data of `curve_spec`: a row a point; what a logarithmic axis cannot show is left out."""
    return [
        {"at": at, "value": value, "line": say(line)}
        for line, values in curve.lines.items()
        for at, value in zip(curve.at, values, strict=False)
        if math.isfinite(value) and (value > 0 or not curve.logarithmic)
    ]


def spec_of(curve: Curve, say: Texts, *, projector: bool = False) -> dict[str, Any]:
    """The Vega-Lite spec of a curve, for the dataset `DATASET`; not to be changed."""
    return curve_spec(
        curve.title,
        curve.x,
        curve.y,
        tuple(curve.lines),
        logarithmic=curve.logarithmic,
        say=say,
        projector=projector,
    )


@functools.lru_cache(maxsize=256)
def curve_spec(
    title: str,
    x: str,
    y: str,
    lines: Sequence[str],
    *,
    logarithmic: bool,
    say: Texts,
    projector: bool,
) -> dict[str, Any]:
    """Built once for the same words and axes, however many readers look at it."""
    import altair as alt  # half a second, which the command line need not wait for

    small, normal = (17, 19) if projector else (12, 13)
    names = [say(line) for line in lines]
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    dashes = [DASHES[place % len(DASHES)] for place in range(len(names))]
    legend = (
        None
        if len(names) == 1
        else alt.Legend(
            orient="top", title=None, labelFontSize=small, labelLimit=420, columns=_columns(names)
        )
    )
    scale = alt.Scale(type="log", nice=False) if logarithmic else alt.Scale(zero=False)
    chart = (
        alt.Chart(alt.NamedData(DATASET))
        .mark_line(strokeWidth=3.5 if projector else 2.2)
        .encode(
            x=alt.X(
                "at:Q",
                title=say(x),
                scale=alt.Scale(nice=False),
                axis=alt.Axis(grid=False, tickCount=6, labelExpr=_label(say.language)),
            ),
            y=alt.Y(
                "value:Q",
                title=say(y),
                scale=scale,
                axis=alt.Axis(tickCount=5, format="~g", labelExpr=_label(say.language)),
            ),
            color=alt.Color("line:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "line:N", scale=alt.Scale(domain=names, range=dashes), legend=legend
            ),
        )
        .properties(
            width="container",
            height=380 if projector else 290,
            padding={"left": 0, "top": 4, "right": 16, "bottom": 2},
            title=alt.TitleParams(
                say(title), anchor="start", fontSize=normal, fontWeight=600, offset=8
            ),
        )
        .configure_axis(labelFontSize=small, titleFontSize=small, titleFontWeight="normal")
        .configure_view(stroke=None)
    )
    return cast(dict[str, Any], chart.to_dict(validate=False))


def _columns(names: Sequence[str]) -> int:
    """Of the legend: long names stand below one another, or the last would be cut off."""
    return 1 if sum(map(len, names)) > LEGEND_ROW else len(names)


def _label(language: str) -> str:
    """Numbers of an axis with the reader's own comma."""
    if language == "vi":
        return "replace(replace(replace(datum.label, '.', '#'), ',', '.'), '#', ',')"
    return "datum.label"
