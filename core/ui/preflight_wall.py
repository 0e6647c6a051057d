"""The wall of lights: one tile a gate, told apart by colour, by shape and by a word."""

from __future__ import annotations

import html
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from core.engine.view import JobState, JobView
from core.preflight.gate import Colour, Outcome, Suite
from core.texts import Texts

WIDE = 5  # tiles in a row of few gates; of many, as many as make two rows


class Light(StrEnum):
    """What a tile shows; its word is `preflight.colour.<value>`."""

    GREEN = Colour.GREEN.value
    AMBER = Colour.AMBER.value
    RED = Colour.RED.value
    NOT_JUDGED = Colour.NOT_JUDGED.value
    RUNNING = "running"
    WAITING = "waiting"
    DARK = "dark"  # not run yet


GLYPHS = {
    Light.GREEN: "✓",
    Light.AMBER: "!",
    Light.RED: "✕",
    Light.NOT_JUDGED: "?",
    Light.RUNNING: "",
    Light.WAITING: "",
    Light.DARK: "",
}


class Tile(NamedTuple):
    """One gate on the wall."""

    gate: str
    light: Light
    seconds: float | None = None


def tiles(suite: Suite, job: JobView | None, last: Sequence[Outcome]) -> list[Tile]:
    """Every gate as it stands: in the job that is under way, else as it ended last."""
    ended = {outcome.gate: outcome for outcome in last}
    light: dict[str, Light] = {}
    if job is not None and not job.state.over:
        chosen = [gate.id for gate in suite.chosen(str(job.settings.get("gates", "all")))]
        light = dict.fromkeys(chosen, Light.WAITING)
        if job.state is not JobState.QUEUED and len(job.gates) < len(chosen):
            light[chosen[len(job.gates)]] = Light.RUNNING
        for outcome in job.gates:
            ended[outcome.gate] = outcome
            light.pop(outcome.gate, None)
    return [_tile(gate.id, light.get(gate.id), ended.get(gate.id)) for gate in suite.gates]


def _tile(gate: str, now: Light | None, outcome: Outcome | None) -> Tile:
    if now is not None:
        return Tile(gate, now)
    if outcome is None:
        return Tile(gate, Light.DARK)
    return Tile(gate, Light(outcome.colour.value), outcome.seconds)


def wall_html(shown: Sequence[Tile], say: Texts) -> str:
    """The whole wall. Nine lights stand in two rows of five, thirteen in two of seven."""
    columns = WIDE if len(shown) <= 2 * WIDE else -(-len(shown) // 2)
    drawn = "".join(tile_html(tile, say) for tile in shown)
    return (
        f"<div class='pf-wall' role='list' style='--columns: {columns}'"
        f" aria-label='{html.escape(say('preflight.wall'), quote=True)}'>{drawn}</div>"
    )


def tile_html(tile: Tile, say: Texts) -> str:
    word = say(f"preflight.colour.{tile.light}")
    time = (
        "" if tile.seconds is None else f"<small>{html.escape(say.seconds(tile.seconds))}</small>"
    )
    title = html.escape(say(f"gate.{tile.gate}.title"))
    long = " long" if tile.gate.islower() else ""  # then the title says all that the id does
    name = "" if long else f"<b>{html.escape(tile.gate)}</b>"
    return (
        f"<div class='pf-tile {tile.light}{long}' role='listitem'>"
        f"<div class='head'>{lamp_html(tile.light)}{name}</div>"
        f"<div class='title'>{title}</div>"
        f"<div class='word'>{html.escape(word)}{time}</div></div>"
    )


def lamp_html(light: Light) -> str:
    """Disc, triangle, octagon or diamond with its sign; its word stands beside it."""
    return f"<i class='pf-lamp {light}' aria-hidden='true'><span>{GLYPHS[light]}</span></i>"
