"""The big figures: what the meter reads right now, one gauge a panel."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from core.telemetry.readings import Absences, Gpu, Reading
from core.texts import Texts
from core.ui.panels import COLOURS, SIGNALS, Axes, Panel

WINDOW_SECONDS = 1.0  # a big figure is the mean of this long: single CPU readings jump about


@dataclass(frozen=True, slots=True)
class GaugeLine:
    """One small line under the big figure, with the colour of its curve."""

    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Gauge:
    """A big figure. `share` (0 to 1) fills its bar; None: nothing to fill."""

    name: str
    value: str
    share: float | None
    lines: tuple[GaugeLine, ...]
    absent: bool = False


def now(readings: Sequence[Reading], field: str) -> float | None:
    """The mean of a signal over the last second of readings, or None if it has no value there."""
    if not readings:
        return None
    since = readings[-1].seconds - WINDOW_SECONDS
    values = []
    for reading in reversed(readings):
        if reading.seconds < since:
            break
        value = getattr(reading, field)
        if value is not None:
            values.append(value)
    return sum(values) / len(values) if values else None


def gauge(
    panel: Panel,
    readings: Sequence[Reading],
    absences: Absences,
    *,
    card: Gpu | None,
    axes: Axes,
    say: Texts,
) -> Gauge:
    """What a panel's gauge says at this moment."""
    name = say(f"gauge.{panel}.name")
    first = SIGNALS[panel][0]
    value = now(readings, first)
    lines = tuple(
        GaugeLine(_line_text(field, readings, absences, card, say), COLOURS[i])
        for i, field in enumerate(SIGNALS[panel])
    )
    if value is None and not readings:
        return Gauge(name, "…", None, lines)
    if value is None:
        return Gauge(name, say("absent.value"), None, lines, absent=True)
    return Gauge(name, _value_text(first, value, say), min(1.0, value / _full(panel, axes)), lines)


def _full(panel: Panel, axes: Axes) -> float:
    """The reading that fills a gauge's bar, in the unit of `Reading`."""
    match panel:
        case Panel.VRAM:
            return 1024 * axes.vram_gib
        case Panel.CPU:
            return axes.cpu_ceiling or axes.cpu_percent
        case _:
            return axes.limit(panel)


def _line_text(
    field: str, readings: Sequence[Reading], absences: Absences, card: Gpu | None, say: Texts
) -> str:
    label = say(f"gauge.{field}")
    value = now(readings, field)
    if field == "card_used_mib" and card is not None and card.total_mib:
        label = say("gauge.card_of", total=say.mib(card.total_mib))
    if field in ("own_vram_mib", "children_cpu_percent") and value is not None:
        return f"{label}: {_value_text(field, value, say)}"
    if value is None and readings:
        reason = absences.reasons.get(field)
        return f"{label}: {say(reason) if reason else say('absent.value')}"
    return label


def _value_text(field: str, value: float, say: Texts) -> str:
    if field.endswith("_mib"):
        return say.mib(value)
    if field.endswith("_watts"):
        return say.watts(round(value))
    return say.percent(value)


def gauge_html(gauge: Gauge) -> str:
    """A gauge as HTML; the style has to be on the page."""
    filled = "" if gauge.share is None else f"<i style='width:{gauge.share:.0%}'></i>"
    lines = "".join(
        f"<div><b style='color:{line.colour}'>&#9679;</b> {html.escape(line.text)}</div>"
        for line in gauge.lines
    )
    name = html.escape(gauge.name, quote=True)
    return (
        f"<div class='lab-gauge' role='group' aria-label='{name}'><div class='name'>{name}</div>"
        f"<div class='value{' absent' if gauge.absent else ''}'>{html.escape(gauge.value)}</div>"
        f"<div class='bar'>{filled}</div><div class='lines'>{lines}</div></div>"
    )


def quiet_card_html(say: Texts, absences: Absences) -> str:
    """What stands where the three GPU gauges would, on a machine without a GPU."""
    name, title, text = (
        html.escape(say(f"gauge.quiet.{part}")) for part in ("name", "title", "text")
    )
    reason = next((absences.reasons[f] for f in SIGNALS[Panel.GPU] if f in absences.reasons), None)
    why = f"<div class='why'>{html.escape(say(reason))}</div>" if reason else ""
    return (
        f"<div class='lab-gauge quiet'><div class='name'>{name}</div>"
        f"<div class='value absent'>{title}</div><div class='lines'>{text}</div>{why}</div>"
    )
