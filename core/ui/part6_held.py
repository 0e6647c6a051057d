"""Part 6, what is held: the workers of the lab as a table with bars, and before against after."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.engine.holdings import Fate, Holdings, Use, WorkerHolding
from core.telemetry.readings import Gpu
from core.texts import Texts

MIB = 2**20

Part = tuple[str, float]  # of a bar: its name, as the words and the colours know it, and MiB


def settled(before: Holdings, now: Holdings) -> bool:
    """Whether what was given back is back: workers that end are gone, the others have let go."""
    there = {worker.worker: worker for worker in now.workers}
    for worker in before.workers:
        left = there.get(worker.worker)
        if left is None:
            continue
        if worker.fate is Fate.ENDS:
            return False
        untouched = left.fate is Fate.EMPTY  # else somebody has used it since
        if worker.fate is Fate.DROPS and untouched and (left.held is None or left.held.models):
            return False
    return True


def left_of(before: Holdings, now: Holdings) -> Holdings:
    """What is held now, less the workers that have come since."""
    names = {worker.worker for worker in before.workers}
    return replace(now, workers=tuple(w for w in now.workers if w.worker in names))


# The workers


def workers_html(
    workers: Sequence[WorkerHolding], cards: Sequence[Gpu], idle_limit: float, say: Texts
) -> str:
    """A table, one worker a row; a sentence where there is none."""
    if not workers:
        return f"<p class='p6-none'>{html.escape(say('part6.no_workers'))}</p>"
    columns = ("worker", "now", "holds", "memory", "fate")
    head = "".join(
        f"<th scope='col'>{html.escape(say(f'part6.column.{name}'))}</th>" for name in columns
    )
    scale = max((sum(mib for _, mib in bar) for w in workers for bar in bars_of(w)), default=1.0)
    body = "".join(_row_html(worker, cards, idle_limit, scale, say) for worker in workers)
    return (
        f"<div class='lab-table p6-workers'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{_legend_html(workers, say)}"
    )


def _row_html(
    worker: WorkerHolding, cards: Sequence[Gpu], idle_limit: float, scale: float, say: Texts
) -> str:
    process = say("part6.process", pid=str(worker.pid)) if worker.pid is not None else ""
    cells = (
        _lines(device_name(worker.device, cards, say), process),
        _lines(say(f"part6.use.{worker.use}"), _idle_text(worker, idle_limit, say)),
        _lines(_models_text(worker, say), _tensors_text(worker, say)),
        "".join(_bar_html(bar, scale, say) for bar in bars_of(worker)),
        f"<span class='fate {worker.fate}'>{html.escape(_fate_text(worker, say))}</span>",
    )
    name = html.escape(say(f"part6.lane.{worker.lane}"))
    first, *others = cells
    return (
        f"<tr><th scope='row'><b>{name}</b>{first}</th>"
        + "".join(f"<td>{cell}</td>" for cell in others)
        + "</tr>"
    )


def _lines(*texts: str) -> str:
    return "".join(f"<div>{html.escape(text)}</div>" for text in texts if text)


def device_name(device: str, cards: Sequence[Gpu], say: Texts) -> str:
    """The card's name, or that it is the CPU; with its number where there are several alike."""
    uuids = [card.uuid for card in cards]
    if device not in uuids:
        return say("part6.cpu")
    name = cards[uuids.index(device)].name
    alike = [card.uuid for card in cards if card.name == name]
    return name if len(alike) == 1 else f"{name} #{alike.index(device) + 1}"


def _idle_text(worker: WorkerHolding, idle_limit: float, say: Texts) -> str:
    if worker.idle_seconds is None:
        return ""
    left = max(1, round(idle_limit - worker.idle_seconds))
    return say("part6.idle_left", left=_whole(left, say))


def _whole(seconds: int, say: Texts) -> str:
    """Whole seconds: a count-down with decimals would only flicker."""
    return say("unit.seconds", value=seconds) if seconds < 60 else say.seconds(seconds)


def _models_text(worker: WorkerHolding, say: Texts) -> str:
    return ", ".join(worker.models) or say("part6.no_model")


def _tensors_text(worker: WorkerHolding, say: Texts) -> str:
    if worker.held is None:
        return "" if worker.use is Use.STARTING else say("part6.not_counted")
    return say.count("part6.tensors", worker.held.tensors, size=say.mib(worker.held.tensors_mib))


def _fate_text(worker: WorkerHolding, say: Texts) -> str:
    if worker.fate is Fate.BUSY:
        return say(f"part6.busy.{worker.use}")
    return say(f"part6.fate.{worker.fate}")


# Bars


def bars_of(worker: WorkerHolding) -> list[list[Part]]:
    """The memory of a worker: of the computer, and of the card where it works on one."""
    held = worker.held
    bars: list[list[Part]] = []
    if worker.ram_mib is not None:
        tensors = held.tensors_mib if held is not None and worker.device == "cpu" else 0.0
        bars.append([("tensors", tensors), ("ram", max(0.0, worker.ram_mib - tensors))])
    if worker.device == "cpu" or worker.vram_mib is None:
        return bars
    if held is None:
        return [*bars, [("vram", worker.vram_mib)]]
    allocated, reserved = held.allocated_mib or 0.0, held.reserved_mib or 0.0
    parts: list[Part] = [("tensors", allocated), ("cache", max(0.0, reserved - allocated))]
    if worker.context_mib is not None:
        parts.append(("context", worker.context_mib))
    return [*bars, parts]


def _bar_html(bar: list[Part], scale: float, say: Texts) -> str:
    on_card = bar[-1][0] != "ram"
    total = sum(mib for _, mib in bar)
    label = say("part6.vram" if on_card else "part6.ram", size=say.mib(total))
    told = ", ".join(f"{say(f'part6.part.{name}')} {say.mib(mib)}" for name, mib in bar)
    filled = "".join(
        f"<i class='{name}' style='width:{mib / (scale or 1):.1%}'></i>" for name, mib in bar if mib
    )
    return (
        f"<div class='p6-bar' role='img' aria-label='{html.escape(f'{label}: {told}', quote=True)}'"
        f" title='{html.escape(told, quote=True)}'><span>{html.escape(label)}</span>"
        f"<div>{filled}</div></div>"
    )


def _legend_html(workers: Iterable[WorkerHolding], say: Texts) -> str:
    shown = dict.fromkeys(
        name for w in workers for bar in bars_of(w) for name, mib in bar if mib >= 0.5
    )
    keys = "".join(
        f"<span><i class='{name}'></i>{html.escape(say(f'part6.part.{name}'))}</span>"
        for name in shown
    )
    return f"<div class='p6-legend'>{keys}</div>"


# What is this student's own


def own_html(holdings: Holdings, results: tuple[int, int], say: Texts) -> str:
    """Four figures: jobs under way, pictures in memory, files, results in the records."""
    count, size = results
    figures = (
        (
            say("part6.own.jobs"),
            say.number(holdings.queued + holdings.running),
            say("part6.own.jobs.line", running=holdings.running, queued=holdings.queued),
        ),
        (
            say("part6.own.memory"),
            _mib(holdings.picture_bytes, say),
            say.count("part6.own.memory.line", holdings.jobs),
        ),
        (
            say("part6.own.files"),
            _mib(holdings.file_bytes, say),
            say.count("part6.own.files.line", holdings.files),
        ),
        (
            say("part6.own.results"),
            say.number(count),
            say("part6.own.results.line", size=_mib(size, say)),
        ),
    )
    tiles = "".join(
        f"<div class='lab-gauge'><div class='name'>{html.escape(name)}</div>"
        f"<div class='value'>{html.escape(value)}</div>"
        f"<div class='lines'><div>{html.escape(line)}</div></div></div>"
        for name, value, line in figures
    )
    return f"<div class='lab-tiles p6-own'>{tiles}</div>"


def _mib(size: int, say: Texts) -> str:
    """Below ten MiB with decimals: a student's pictures are that small."""
    mib = size / MIB
    return say("unit.mib", value=say.number(mib)) if mib < 10 else say.mib(mib)


# Before against after


def change_html(before: Holdings, after: Holdings | None, say: Texts) -> str:
    """Each quantity that there was, and as it is now; `after` None: not known yet."""
    body = "".join(
        _change_html(name, was, figure(name, after), say)
        for name in ("ram", "vram", "tensors", "pictures")
        if (was := figure(name, before)) or (name == "ram" and was is not None)
    )
    return f"<div class='p6-change'>{body}</div>"


def figure(name: str, holdings: Holdings | None) -> float | None:
    """A sum over all workers, or over this student's pictures; None where nothing tells it."""
    if holdings is None:
        return None
    workers = holdings.workers
    match name:
        case "ram":
            return sum(worker.ram_mib or 0.0 for worker in workers)
        case "vram":
            known = [w.vram_mib for w in workers if w.device != "cpu" and w.vram_mib is not None]
            return sum(known) if known or all(w.device != "cpu" for w in workers) else None
        case "tensors":
            return float(sum(worker.held.tensors for worker in workers if worker.held is not None))
        case _:
            return holdings.picture_bytes / MIB


def _change_html(name: str, was: float, now: float | None, say: Texts) -> str:
    def told(value: float | None) -> str:
        if value is None:
            return say("part6.measuring")
        return say.number(round(value)) if name == "tensors" else _mib(round(value * MIB), say)

    share = 1.0 if was <= 0 or now is None else min(1.0, now / was)
    label = say(f"part6.change.{name}")
    waiting = " waiting" if now is None else ""
    return (
        f"<div class='row{waiting}'><b>{html.escape(label)}</b>"
        f"<div class='bars'><i class='was' style='width:{'100%' if was > 0 else '0'}'></i>"
        f"<i class='now' style='width:{share if was > 0 else 0:.1%}'></i></div>"
        f"<span>{html.escape(told(was))} → <strong>{html.escape(told(now))}</strong></span></div>"
    )


def outcome_lines(before: Holdings, cards: Sequence[Gpu], say: Texts) -> list[str]:
    """What became of each worker, and why one stays."""
    return [
        say(
            f"part6.became.{worker.fate if worker.fate is not Fate.BUSY else worker.use}",
            worker=say(f"part6.lane.{worker.lane}"),
            device=device_name(worker.device, cards, say),
            models=", ".join(worker.models) or say("part6.no_model"),
        )
        for worker in before.workers
    ]
