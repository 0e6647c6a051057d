"""A suite's outcome to carry away: as JSON for programs, as one HTML file to read and to print."""

from __future__ import annotations

import base64
import html
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from core.preflight.evidence import DATASET, figure_text, rows_of, spec_of, written
from core.preflight.gate import Colour, Curve, Figure, Outcome, Picture, PreflightResult, Table
from core.preflight.history import Change
from core.preflight.suites import SUITES
from core.texts import Texts

SCHEMA = Path(__file__).with_name("outcome.schema.json")  # of one gate's object
STYLE = Path(__file__).with_name("export.css")
GLYPHS = {Colour.GREEN: "✓", Colour.AMBER: "!", Colour.RED: "✕", Colour.NOT_JUDGED: "?"}
CURVE_WIDTH = 640  # pixels
SHORT = 16  # characters of a cell


# For programs


def gate_object(outcome: Outcome, say: Texts) -> dict[str, Any]:
    """One gate as `SCHEMA` has it: sentences in the reader's language, ids for programs."""
    return {
        "gate": outcome.gate,
        "title": say(f"gate.{outcome.gate}.title"),
        "colour": outcome.colour.value,
        "seconds": round(outcome.seconds, 3),
        "budget_seconds": outcome.budget_seconds,
        "message": say.notice(outcome.message),
        "message_id": outcome.message.key,
        "hint": None if outcome.hint is None else say.notice(outcome.hint),
        "evidence": [_finite(msgspec.to_builtins(piece)) for piece in outcome.evidence],
    }


def gate_line(outcome: Outcome, say: Texts) -> bytes:
    """One gate on one line."""
    return msgspec.json.encode(gate_object(outcome, say))


def to_json(result: PreflightResult, settings: dict[str, Any], say: Texts) -> bytes:
    """The whole run; each of its `gates` as `gate_object` gives it."""
    whole = {
        "suite": result.suite,
        "made_at": result.made_at,
        "cpu": result.cpu,
        "device": result.device_name,
        "versions": result.versions,
        "settings": settings,
        "gates": [gate_object(outcome, say) for outcome in result.gates],
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value


# In words


def counted(outcomes: Sequence[Outcome]) -> dict[Colour, int]:
    """How many gates have each colour, in the order of `Colour`."""
    found = Counter(outcome.colour for outcome in outcomes)
    return {colour: found[colour] for colour in Colour}


def verdict(outcomes: Sequence[Outcome], say: Texts, *, suite: str) -> str:
    """The whole in one sentence; a suite of which some gates have not run is not ready yet."""
    red = counted(outcomes)[Colour.RED]
    if not outcomes:
        return say("preflight.verdict.none")
    if red:
        return say.count("preflight.verdict.red", red)
    if len(outcomes) < len(SUITES[suite].gates):
        return say("preflight.verdict.partial")
    if all(outcome.colour is Colour.GREEN for outcome in outcomes):
        return say("preflight.verdict.green")
    return say("preflight.verdict.no_red")


def sums(outcomes: Sequence[Outcome], say: Texts) -> str:
    """`10 green · 2 amber · 1 not judged`, without those that there are none of."""
    return " · ".join(
        f"{number} {say(f'preflight.colour.{colour}').lower()}"
        for colour, number in counted(outcomes).items()
        if number
    )


def change_text(change: Change, say: Texts) -> str:
    """What is different of one gate, in one line."""
    facts: dict[str, str | float] = {
        "title": say(f"gate.{change.gate}.title"),
        "before": say(f"preflight.colour.{change.before}").lower(),
        "after": say(f"preflight.colour.{change.after}").lower(),
        "seconds_before": change.seconds_before,
        "seconds_after": change.seconds_after,
    }
    return say("preflight.change.colour" if change.recoloured else "preflight.change.time", **facts)


# To read and to print


def to_html(
    result: PreflightResult, changes: Sequence[Change], settings: dict[str, Any], say: Texts
) -> str:
    """One file that needs no other: no script, no address, black on white."""
    title = say(f"preflight.suite.{result.suite}")
    sentence = verdict(result.gates, say, suite=result.suite)
    about = [
        (say("preflight.about.when"), f"{say.date(result.made_at)}, {result.made_at[11:16]}"),
        (say("preflight.about.cpu"), result.cpu),
        (say("preflight.about.device"), result.device_name),
        (
            say("preflight.about.versions"),
            " · ".join(f"{package} {version}" for package, version in result.versions.items()),
        ),
        (
            say("preflight.about.settings"),
            " · ".join(f"{name} = {value}" for name, value in settings.items() if value != ""),
        ),
    ]
    told = "".join(
        f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>" for name, value in about if value
    )
    tiles = "".join(
        f"<li class='{outcome.colour}'><a href='#{_safe(outcome.gate)}'><i>{_glyph(outcome)}</i>"
        f"<b>{_safe(outcome.gate)}</b> {_safe(say(f'gate.{outcome.gate}.title'))}</a></li>"
        for outcome in result.gates
    )
    differences = "".join(f"<li>{_safe(change_text(change, say))}</li>" for change in changes)
    if differences:
        heading = _safe(say("preflight.changes"))
        differences = f"<section><h2>{heading}</h2><ul>{differences}</ul></section>"
    gates = "".join(_gate_html(outcome, say) for outcome in result.gates)
    return (
        f"<!doctype html><html lang='{say.language}'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{_safe(title)}</title><style>{STYLE.read_text('utf-8')}</style></head><body>"
        f"<h1>{_safe(title)}</h1><p class='verdict'>{_safe(sentence)}</p>"
        f"<p>{_safe(sums(result.gates, say))}</p><dl>{told}</dl><ul class='wall'>{tiles}</ul>"
        f"{differences}{gates}</body></html>"
    )


def _gate_html(outcome: Outcome, say: Texts) -> str:
    gate = outcome.gate
    colour = say(f"preflight.colour.{outcome.colour}")
    time = say("preflight.took", seconds=outcome.seconds, budget=outcome.budget_seconds)
    hint = "" if outcome.hint is None else f"<p class='hint'>{_safe(say.notice(outcome.hint))}</p>"
    return (
        f"<section id='{_safe(gate)}' class='gate {outcome.colour}'>"
        f"<h2><i>{_glyph(outcome)}</i> {_safe(gate)} · {_safe(say(f'gate.{gate}.title'))}"
        f"<small>{_safe(colour)} · {_safe(time)}</small></h2>"
        f"<p><b>{_safe(say.notice(outcome.message))}</b></p>{hint}"
        f"<p class='why'>{_safe(say(f'gate.{gate}.checks'))} {_safe(say(f'gate.{gate}.skipped'))}"
        f"</p>{evidence_html(outcome, say)}</section>"
    )


def evidence_html(outcome: Outcome, say: Texts) -> str:
    """All evidence of a gate: its figures as one table, then the rest in its order."""
    figures = [piece for piece in outcome.evidence if isinstance(piece, Figure)]
    parts = [figures_html(figures, say)] if figures else []
    for piece in outcome.evidence:
        match piece:
            case Table():
                parts.append(f"<h3>{_safe(say(piece.title))}</h3>{table_html(piece, say)}")
            case Curve():
                parts.append(f"<figure>{_svg(piece, say)}</figure>")
            case Picture():
                parts.append(picture_html(piece, say))
            case Figure():
                pass
    return "".join(parts)


def figures_html(figures: Sequence[Figure], say: Texts) -> str:
    """Measured beside expected."""
    rows = [figure_text(figure, say) for figure in figures]
    expects = any(expected for _, _, expected in rows)
    head = ["", say("preflight.measured"), *([say("preflight.expected")] if expects else ())]
    return _table(head, [row if expects else row[:2] for row in rows])


def picture_html(picture: Picture, say: Texts) -> str:
    title, data = _safe(say(picture.title)), base64.b64encode(picture.png).decode()
    return (
        f"<figure><img src='data:image/png;base64,{data}' alt='{title}'>"
        f"<figcaption>{title}</figcaption></figure>"
    )


def table_html(table: Table, say: Texts) -> str:
    head = [say(column) for column in table.columns]
    return _table(head, [[written(cell, "", say) for cell in row] for row in table.rows])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = "".join(f"<th scope='col'>{_safe(name)}</th>" for name in head)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_kept(cell)}>{_safe(cell)}</td>"
            if place
            else f"<th scope='row'>{_safe(cell)}</th>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class='lab-table'><table><thead><tr>{columns}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _kept(cell: str) -> str:
    """A figure stays on one line; a sentence need not."""
    return " class='short'" if len(cell) <= SHORT else ""


def _svg(curve: Curve, say: Texts) -> str:
    import vl_convert  # 0.9 s and 100 MB, for whoever carries a file away

    spec = {
        **spec_of(curve, say),
        "datasets": {DATASET: rows_of(curve, say)},
        "width": CURVE_WIDTH,
    }
    return str(vl_convert.vegalite_to_svg(spec))


def _glyph(outcome: Outcome) -> str:
    return GLYPHS[outcome.colour]


def _safe(text: str) -> str:
    return html.escape(text, quote=True)
