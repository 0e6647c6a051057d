"""The lab report: one HTML file that asks nothing of any network, to read, to keep and to print.

Whatever a student has typed is escaped. Pictures that a student has brought stay out.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from core.activities import ACTIVITIES
from core.activities.attack import ClassLimit
from core.data.image_classes import label
from core.data.photos import is_upload
from core.engine.view import JobView
from core.problems import Problem
from core.report import table
from core.report.answers import answers_in_words
from core.report.charts import MEASURES, Chart, chart, whole_spec
from core.report.cost import Prices
from core.report.measured import Kind, Row, not_run, own_rows
from core.report.sides import side_lines
from core.report.svg import drawings
from core.telemetry.readings import Machine
from core.texts import Texts

STYLE = Path(__file__).with_name("report.css")
MOST_PICTURES = 8  # of one run
MOST_PICTURE_BYTES = 8_000_000  # of the whole report

RUN_COLUMNS = (
    table.LABEL,
    table.SECONDS,
    table.GPU,
    table.OWN,
    table.CARD,
    table.POWER,
    table.ENERGY,
    table.CPU,
    table.CHILDREN,
)
ALL_COLUMNS = (
    table.PART,
    table.LABEL,
    table.KIND,
    table.SECONDS,
    table.GPU,
    table.OWN,
    table.ENERGY,
    table.CPU,
    table.DEVICE,
)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a report tells, of one student."""

    name: str  # as typed; empty if none
    made_at: float  # Unix seconds
    machine: Machine
    jobs: Sequence[JobView]  # the newest first, as the records give them
    answers: Mapping[str, str]
    prices: Prices

    @property
    def rows(self) -> tuple[Row, ...]:
        return own_rows(self.jobs, self.machine)


def report_html(report: Report, say: Texts) -> str:
    """The whole file. Takes some seconds: its charts are drawn by a process that ends again."""
    rows = report.rows
    parts = [
        _head(report, say),
        _measured(report, rows, say),
        _charts(rows, say),
        _sides(report, rows, say),
        _costs(report, rows, say),
        _runs(report, rows, say),
        _answers(report, say),
    ]
    title = escape(say("part5.report.title"))
    return (
        f"<!DOCTYPE html>\n<html lang='{say.language}'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{STYLE.read_text('utf-8')}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


# The head


def _head(report: Report, say: Texts) -> str:
    machine = report.machine
    cards = ", ".join(gpu.name for gpu in machine.gpus) or say(
        machine.gpu_absence or "absent.no_gpu"
    )
    facts = {
        "name": report.name or say("part5.report.nameless"),
        "date": say.date(report.made_at),
        "cpu": say("part5.report.cpu_of", cpu=machine.cpu, cores=machine.cores),
        "ram": say.mib(machine.ram_mib),
        "cards": cards,
    }
    lines = "".join(
        f"<dt>{escape(say(f'part5.report.{name}'))}</dt><dd>{escape(fact)}</dd>"
        for name, fact in facts.items()
    )
    return (
        f"<header><h1>{escape(say('part5.report.title'))}</h1>"
        f"<p class='lab'>{escape(say('app.title'))}</p><dl>{lines}</dl></header>"
    )


# Figures


def _measured(report: Report, rows: Sequence[Row], say: Texts) -> str:
    if rows:
        body = _table(ALL_COLUMNS, rows, report.prices, say)
        body += _note(say("part5.report.live"))
    else:
        body = f"<p>{escape(say('part5.report.nothing'))}</p>"
    missing = not_run(rows)
    if missing:
        names = ", ".join(say(f"shell.page.{part.page}") for part in missing)
        body += _note(say("part5.report.missing", parts=names))
    return _section("measured", body, say)


def _table(columns: Sequence[table.Column], rows: Sequence[Row], prices: Prices, say: Texts) -> str:
    heads = [table.head(column, say) for column in columns]
    numbers = [column.id not in table.FACTS for column in columns]
    body = [
        [
            table.cell_text(column, value, prices, say)
            for column, value in zip(columns, values, strict=True)
        ]
        for values in table.cells(columns, rows, prices, say)
    ]
    return _plain_table(heads, body, numbers)


def _plain_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[bool]
) -> str:
    classes = [" class='number'" if number else "" for number in numbers]
    top = "".join(
        f"<th scope='col'{kind}>{escape(one)}</th>"
        for kind, one in zip(classes, heads, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(one)}</td>" for kind, one in zip(classes, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _charts(rows: Sequence[Row], say: Texts) -> str:
    if not rows:
        return ""
    made = [chart(measure, rows, say) for measure in MEASURES]
    pictures = drawings([whole_spec(one) for one in made])
    if pictures is None:
        return _section("charts", _note(say("part5.report.no_charts")), say)
    figures = "".join(_figure(one, svg) for one, svg in zip(made, pictures, strict=True))
    return _section("charts", figures + _note(say("part5.charts.newest")), say)


def _figure(drawn: Chart, svg: str) -> str:
    return f"<figure role='img' aria-label='{escape(drawn.told, quote=True)}'>{svg}</figure>"


def _sides(report: Report, rows: Sequence[Row], say: Texts) -> str:
    if not rows:
        return ""
    heads = ["", *(say(f"part5.kind.{kind}") for kind in (Kind.TRAINING, Kind.INFERENCE))]
    lines = side_lines(rows, report.prices, say)
    body = _plain_table(heads, lines, [False, False, False])
    return _section("sides", body + f"<p>{escape(say('part5.report.lesson'))}</p>", say)


def _costs(report: Report, rows: Sequence[Row], say: Texts) -> str:
    if not rows:
        return ""
    prices = say(
        "part5.report.prices",
        kwh=say.number(report.prices.kwh),
        hour=say.number(report.prices.hour),
        currency=report.prices.currency.upper(),
    )
    body = _table(table.COST, rows, report.prices, say)
    return _section("costs", f"<p>{escape(prices)}</p>{body}" + _note(say("part5.cost.note")), say)


# Each run


def _runs(report: Report, rows: Sequence[Row], say: Texts) -> str:
    jobs = {job.id: job for job in report.jobs}
    pictures = _chosen_pictures(report.jobs)
    runs = "".join(
        _run(jobs[job], tuple(some), pictures.get(job, {}), report.prices, say)
        for job, some in groupby(rows, key=lambda row: row.run)
    )
    return _section("runs", runs, say) if runs else ""


def _run(
    job: JobView, rows: Sequence[Row], pictures: Mapping[str, bytes], prices: Prices, say: Texts
) -> str:
    first = rows[0]
    title = f"{say('part5.report.part', part=first.part)} · {say(f'part5.activity.{job.activity}')}"
    told = say("part5.report.run_at", when=first.when, device=rows[-1].device)
    if not first.complete:
        told += f" {say('part5.report.incomplete')}"
    return (
        f"<article><h3>{escape(title)}</h3><p>{escape(told)}</p>"
        f"{_settings(job, say)}{_table(RUN_COLUMNS, rows, prices, say)}"
        f"{_pictures(pictures, say)}</article>"
    )


def _settings(job: JobView, say: Texts) -> str:
    lines = "".join(
        f"<dt>{escape(_setting_name(job.activity, name, say))}</dt>"
        f"<dd>{escape(_setting_text(job.activity, name, value, say))}</dd>"
        for name, value in job.settings.items()
    )
    return f"<dl class='settings'>{lines}</dl>" if lines else ""


def _setting_name(activity: str, name: str, say: Texts) -> str:
    labels = (f"cli.setting.{activity}.{name}", f"cli.setting.{name}")
    return next((say(one) for one in labels if say.has(one)), name)


def _setting_text(activity: str, name: str, value: Any, say: Texts) -> str:
    if name == "picture" and is_upload(str(value)):
        return say("part5.report.own_picture")
    if isinstance(ACTIVITIES[activity].settings.rules().get(name), ClassLimit):
        try:
            return label(value, say.language)
        except (IndexError, TypeError, Problem):  # of an older version
            return str(value)
    return say.number(value) if isinstance(value, int | float) else str(value)


def _chosen_pictures(jobs: Sequence[JobView]) -> dict[str, dict[str, bytes]]:
    """Job -> some of its pictures: the newest runs first, until the report is full."""
    chosen: dict[str, dict[str, bytes]] = {}
    left = MOST_PICTURE_BYTES
    for job in jobs:
        if is_upload(str(job.settings.get("picture", ""))):
            continue
        for name, image in list(job.pictures.items())[:MOST_PICTURES]:
            if len(image) <= left:
                chosen.setdefault(job.id, {})[name] = image
                left -= len(image)
    return chosen


def _pictures(pictures: Mapping[str, bytes], say: Texts) -> str:
    figures = ""
    for place, (name, image) in enumerate(pictures.items(), start=1):
        told = escape(_caption(name, place, say), quote=True)
        figures += (
            f"<figure><img src='{_data_url(image)}' alt='{told}'>"
            f"<figcaption>{told}</figcaption></figure>"
        )
    return f"<div class='pictures'>{figures}</div>" if figures else ""


def _caption(name: str, place: int, say: Texts) -> str:
    known = f"part5.picture.{name}"
    return say(known) if say.has(known) else say("part5.picture", number=place)


def _data_url(image: bytes) -> str:
    kind = "gif" if image.startswith(b"GIF8") else "webp" if image[8:12] == b"WEBP" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def _answers(report: Report, say: Texts) -> str:
    told = answers_in_words(report.answers, say)
    lines = "".join(f"<dt>{escape(question)}</dt><dd>{escape(one)}</dd>" for question, one in told)
    return _section("answers", f"<dl class='answers'>{lines}</dl>", say) if told else ""


def _section(name: str, body: str, say: Texts) -> str:
    return f"<section class='{name}'><h2>{escape(say(f'part5.report.{name}'))}</h2>{body}</section>"


def _note(text: str) -> str:
    return f"<p class='note'>{escape(text)}</p>"
