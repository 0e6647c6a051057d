"""What Part 2b says in tables and tiles: figures of each way, drawn digits, causes, the class."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.activities.feed_gpu import Diagnosis, FeedGpuResult, WayResult
from core.engine.view import JobView
from core.telemetry.readings import Recording, SummaryRow
from core.telemetry.summary import summarise
from core.texts import Texts
from core.ui.feed_charts import WAYS, colour_of

LOADER_BATCH = 128  # of every way but the large one
HELD = 1.1  # a repair that is not at least this many times faster has repaired nothing
# A repair takes more away than the waiting it is named after: a copy, a busy helper process. Far
# more than that means that the machine itself was quieter.
TOO_MUCH = 1.4
ANSWERS = ("data", "launch", "wait", "compute", "neighbours")  # what may hold a GPU back
DASH = "–"

# While it runs


def so_far_html(job: JobView, say: Texts) -> str:
    """A tile for each way that is switched on: its figures, that it runs now, or that it waits."""
    on = [way for way in WAYS if job.settings.get(way, 1)]
    measured = {recording.name: recording for recording in job.recordings}
    return f"<div class='lab-ways'>{''.join(_tile(job, way, measured, say) for way in on)}</div>"


def _tile(job: JobView, way: str, measured: Mapping[str, Recording], say: Texts) -> str:
    kind, value, lines = "later", say("part2b.way_waits"), []
    if way in measured:
        kind, recording = "done", measured[way]
        value = say.seconds(recording.seconds)
        row = summarise(recording)
        if row.gpu_percent_mean is not None:
            lines.append(say("part2b.tile.gpu", gpu=say.percent(row.gpu_percent_mean)))
        if row.data_wait_share is not None:
            lines.append(say("part2b.tile.wait", wait=say.percent(100 * row.data_wait_share)))
    elif job.section == way or job.stage == f"stage.feed_{way}":
        kind, value = "now", say("part2b.way_runs")
    text = "".join(f"<div class='line'>{html.escape(line)}</div>" for line in lines)
    return (
        f"<div class='{kind}' style='--way:{colour_of(way)}'>"
        f"<div class='name'>{_name(way, say)}</div>"
        f"<div class='value'>{html.escape(value)}</div>{text}</div>"
    )


def _name(way: str, say: Texts) -> str:
    return html.escape(say(f"section.{way}"))


# Results


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, and a smaller line under it."""

    text: str
    small: str = ""


Column = Callable[[WayResult, SummaryRow, Texts], Cell | None]


def _share(value: float | None, say: Texts) -> Cell | None:
    return None if value is None else Cell(say.percent(100 * value))


def _time(way: WayResult, _: SummaryRow, say: Texts) -> Cell:
    if way.repeats < 2:
        return Cell(say.seconds(way.seconds))
    low, high = (say.number(value, digits=2) for value in (way.seconds_low, way.seconds_high))
    return Cell(say.seconds(way.seconds), f"{low}–{high}")


COLUMNS: dict[str, Column] = {
    "time": _time,
    "speed": lambda way, _, say: Cell(say.number(round(way.images_per_second))),
    "gpu": lambda _, row, say: (
        None if row.gpu_percent_mean is None else Cell(say.percent(row.gpu_percent_mean))
    ),
    "own": lambda _, row, say: (
        None if row.own_vram_mib_max is None else Cell(say.mib(row.own_vram_mib_max))
    ),
    "power": lambda _, row, say: (
        None if row.power_watts_max is None else Cell(say.watts(round(row.power_watts_max)))
    ),
    "energy": lambda _, row, say: (
        None if row.energy_wh is None else Cell(say.number(row.energy_wh, digits=3))
    ),
    "cpu": lambda _, row, say: (
        None if row.cpu_percent_mean is None else Cell(say.percent(row.cpu_percent_mean))
    ),
    "loader": lambda _, row, say: (
        None
        if row.children_cpu_percent_mean is None
        else Cell(say.percent(row.children_cpu_percent_mean))
    ),
    "data_wait": lambda way, _, say: _share(way.data_wait_share, say),
    "gpu_wait": lambda way, _, say: _share(way.gpu_wait_share, say),
    "steps": lambda way, _, say: Cell(say.number(way.steps)),
    "upload": lambda way, _, say: (
        None if way.upload_seconds is None else Cell(say.seconds(way.upload_seconds))
    ),
}


# Columns that a machine may not be able to fill, and the signal of `Reading` behind each.
SIGNALS = {
    "gpu": "gpu_percent",
    "own": "own_vram_mib",
    "power": "power_watts",
    "energy": "energy",
    "cpu": "cpu_percent",
    "loader": "children_cpu_percent",
}


def results_html(
    ways: Sequence[WayResult], rows: Sequence[SummaryRow], say: Texts
) -> tuple[str, list[str]]:
    """The table, a line a way, and the signals that no way has a value of.

    Those get one sentence under the table instead of a column of dashes.
    """
    row_of = {row.name: row for row in rows}
    lines = [(way, row_of.get(way.way, SummaryRow(way.way, way.seconds))) for way in ways]
    cells = {
        name: [column(way, row, say) for way, row in lines] for name, column in COLUMNS.items()
    }
    shown = [name for name, column in cells.items() if any(column)]
    if not {"gpu", "own"} & {*shown}:  # nobody waits for a GPU that is not there
        shown.remove("gpu_wait")
    heads = ["part2b.column.way", *(f"part2b.column.{name}" for name in shown)]
    head = "".join(f"<th scope='col'>{html.escape(say(head))}</th>" for head in heads)
    body = "".join(
        f"<tr style='--way:{colour_of(way.way)}'>"
        f"<th scope='row'><i></i>{_name(way.way, say)}"
        f"<small>{html.escape(say('part2b.batch_of', batch=way.batch))}</small></th>"
        f"{''.join(_cell(cells[name][number], say) for name in shown)}</tr>"
        for number, (way, _) in enumerate(lines)
    )
    missing = [signal for name, signal in SIGNALS.items() if name not in shown]
    return _table(head, body), missing


def _cell(cell: Cell | None, say: Texts) -> str:
    if cell is None:
        return f"<td title='{html.escape(say('absent.value'), quote=True)}'>{DASH}</td>"
    small = f"<small>{html.escape(cell.small)}</small>" if cell.small else ""
    return f"<td>{html.escape(cell.text)}{small}</td>"


def _table(head: str, body: str) -> str:
    return (
        f"<div class='lab-table lab-feed'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


# Faster is not better learnt


def drawn_html(ways: Sequence[WayResult], pictures: Mapping[str, bytes], say: Texts) -> str:
    """For each way the same eight noises after one epoch, and after as many steps as the others."""
    fewest = min(way.steps for way in ways)
    lines = [
        "<div></div>",
        f"<div class='head'>{html.escape(say('part2b.drawn.epochs'))}</div>",
        f"<div class='head'>{html.escape(say('part2b.drawn.steps'))}</div>",
    ]
    for way in ways:
        epochs = (f"epochs-{way.way}", way.readable_equal_epochs, way.steps)
        steps = (f"steps-{way.way}", way.readable_equal_steps, fewest)
        lines.append(f"<div class='name'>{_name(way.way, say)}</div>")
        lines += [
            _drawing(pictures.get(name), score, count, say)
            for name, score, count in (epochs, steps)
        ]
    return f"<div class='lab-drawn'>{''.join(lines)}</div>"


def _drawing(png: bytes | None, score: float | None, steps: int, say: Texts) -> str:
    picture = ""
    if png is not None:
        alt = html.escape(say("part2b.drawn.alt"), quote=True)
        data = base64.b64encode(png).decode()
        picture = f"<img alt='{alt}' src='data:image/png;base64,{data}'>"
    readable = DASH if score is None else say.percent(100 * score)
    count = html.escape(say.count("part2b.steps", steps))
    caption = f"<b>{html.escape(readable)}</b><small>{count}</small>"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def has_drawings(values: FeedGpuResult, pictures: Mapping[str, bytes]) -> bool:
    scored = any(
        score is not None
        for way in values.ways
        for score in (way.readable_equal_epochs, way.readable_equal_steps)
    )
    return scored or any(f"epochs-{way.way}" in pictures for way in values.ways)


def quality_sentence(ways: Sequence[WayResult], say: Texts) -> str | None:
    """How the large batch (without it the fastest way) draws beside the first way.

    Once after an epoch each, once after equally many steps.
    """
    scored = [
        way
        for way in ways
        if way.readable_equal_epochs is not None and way.readable_equal_steps is not None
    ]
    if len(scored) < 2:
        return None
    first, *others = scored
    fastest = max(others, key=lambda way: (way.way == "large", way.images_per_second))
    return say(
        "part2b.quality",
        first=say(f"section.{first.way}"),
        fastest=say(f"section.{fastest.way}"),
        times=say.number(fastest.images_per_second / first.images_per_second, digits=1),
        first_epoch=say.percent(100 * (first.readable_equal_epochs or 0)),
        fastest_epoch=say.percent(100 * (fastest.readable_equal_epochs or 0)),
        first_steps=say.percent(100 * (first.readable_equal_steps or 0)),
        fastest_steps=say.percent(100 * (fastest.readable_equal_steps or 0)),
    )


# Causes


def split_html(counts: Mapping[str, int], own: str, say: Texts) -> str:
    """How the class guessed, as bars of counts; nobody's name."""
    total = max(1, sum(counts.values()))
    lines = []
    for answer in ANSWERS:
        count = counts.get(answer, 0)
        kind = "mine" if answer == own else ""
        lines.append(
            f"<div class='{kind}'>{html.escape(say(f'part2b.guess.{answer}'))}</div>"
            f"<div class='bar'><i style='width:{count / total:.0%}'></i></div>"
            f"<div class='count'>{html.escape(say.count('part2b.students', count))}</div>"
        )
    return f"<div class='lab-split'>{''.join(lines)}</div>"


def causes_html(diagnoses: Sequence[Diagnosis], say: Texts) -> str:
    """For each way what holds it back, which figure decided, and where the border was drawn."""
    tiles = []
    for found in diagnoses:
        sign = say(
            "part2b.sign",
            signal=say(f"part2b.signal.{found.signal}"),
            value=signal_text(found.value, say),
            threshold=signal_text(found.threshold, say),
        )
        tiles.append(
            f"<div style='--way:{colour_of(found.way)}'>"
            f"<div class='name'>{_name(found.way, say)}</div>"
            f"<div class='value'>{html.escape(say(f'part2b.cause.{found.bottleneck}'))}</div>"
            f"<p>{html.escape(say(f'part2b.cause.{found.bottleneck}.line'))}</p>"
            f"<p class='sign'>{html.escape(sign)}</p></div>"
        )
    return f"<div class='lab-causes'>{''.join(tiles)}</div>"


def signal_text(value: float, say: Texts) -> str:
    """A share as percent: every deciding figure is one."""
    return say.percent(100 * value)


class Ending(StrEnum):
    """What a test says of a claim."""

    HELD = "held"
    FELL = "fell"
    OPEN = "open"  # the repeats differ too much to say
    ONCE = "once"  # there are no repeats
    OTHER = "other"  # more was gained than the claim can explain


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a repair did: how many times faster, between which limits, and what that proves."""

    times: float
    low: float
    high: float
    most: float | None  # times faster, if all the waiting that the claim is about were gone
    ending: Ending


def verdict(before: WayResult, after: WayResult, cause: str) -> Verdict:
    """Compare two ways by images a second; the limits pair the worst repeats with the best."""

    def speed(way: WayResult, seconds: float) -> float:
        return way.images / seconds if seconds > 0 else way.images_per_second

    low = speed(after, after.seconds_high) / speed(before, before.seconds_low)
    high = speed(after, after.seconds_low) / speed(before, before.seconds_high)
    times = after.images_per_second / before.images_per_second
    shares = {"data": before.data_wait_share, "wait": before.gpu_wait_share}
    most = 1 / (1 - min(0.99, shares[cause])) if cause in shares else None
    if min(before.repeats, after.repeats) < 2:
        ending = Ending.ONCE
    elif high < HELD:
        ending = Ending.FELL
    elif most is not None and low > TOO_MUCH * most:
        ending = Ending.OTHER
    else:
        ending = Ending.HELD if low >= HELD else Ending.OPEN
    return Verdict(times, low, high, most, ending)
