"""Part 4, pictures that are compared: side by side, one after another, and what they differ by."""

from __future__ import annotations

import html

from core.activities.attack import AttackResult, Seen
from core.texts import Texts
from core.ui.part4_subject import name_of
from core.ui.pixels import data_url

VIEWS = ("sum", "blink", "swap", "difference")  # labels are part4.view.<name>


def compared_html(view: str, values: AttackResult, pictures: dict[str, bytes], say: Texts) -> str:
    """Original and attacked picture in one of the `VIEWS`."""
    original, attacked = pictures.get("original"), pictures.get("attacked")
    if original is None or attacked is None:
        return (
            f"<div class='lab-canvas empty easel'>{html.escape(say('part4.pictures.gone'))}</div>"
        )
    match view:
        case "blink" | "swap":
            return _turns_html(view, values, original, attacked, say)
        case "difference":
            return _difference_html(values, pictures, say)
    return sum_html(values, pictures, say)


def sum_html(values: AttackResult, pictures: dict[str, bytes], say: Texts) -> str:
    """Original + noise = attacked."""
    parts = (
        figure_html(pictures.get("original"), *_told(values, "original", say)),
        "<b aria-hidden='true'>+</b>",
        figure_html(
            pictures.get("noise"),
            say("part4.noise"),
            say("part4.noise.line", linf=values.linf_255, gain=values.noise_gain),
        ),
        "<b aria-hidden='true'>=</b>",
        figure_html(pictures.get("attacked"), *_told(values, "attacked", say)),
    )
    return f"<div class='p4-sum'>{''.join(parts)}</div>"


def _told(values: AttackResult, which: str, say: Texts) -> tuple[str, str]:
    """Its title, and what the network says of it."""
    guess: int = values.source
    belief: float | None = values.before[0][1]
    if which == "attacked":
        guess, belief = values.png.guess_class, belief_of(values.png)
    name = name_of(guess, say)
    if belief is None:
        return say(f"part4.{which}"), name
    return say(f"part4.{which}"), say(
        "part4.sees", name=name, belief=say.percent(100 * belief, digits=1)
    )


def belief_of(seen: Seen) -> float | None:
    """How sure the network is of its first guess; a job tells that of the target alone."""
    return seen.confidence if seen.fooled else None


def figure_html(png: bytes | None, title: str, line: str, *, kind: str = "") -> str:
    if png is None:
        return ""
    return (
        f"<figure class='p4-figure {kind}'><img src='{data_url(png)}' "
        f"alt='{html.escape(f'{title}. {line}', quote=True)}'>"
        f"<figcaption><b>{html.escape(title)}</b>{html.escape(line)}</figcaption></figure>"
    )


def _turns_html(
    view: str, values: AttackResult, original: bytes, attacked: bytes, say: Texts
) -> str:
    """One above the other; the upper one comes and goes, by itself or under the hand."""
    before, after = (_told(values, which, say) for which in ("original", "attacked"))
    label = html.escape(say("part4.turns.alt", before=before[1], after=after[1]), quote=True)
    tags = "".join(
        f"<span class='{side}'><b>{html.escape(title)}</b>{html.escape(line)}</span>"
        for side, (title, line) in (("under", before), ("over", after))
    )
    return (
        f"<div class='p4-turns {view}' tabindex='0' role='img' aria-label='{label}'>"
        f"<div class='stage'><img class='under' src='{data_url(original)}' alt=''>"
        f"<img class='over' src='{data_url(attacked)}' alt=''></div>"
        f"<div class='tags'>{tags}<i>{html.escape(say(f'part4.turns.{view}'))}</i></div></div>"
    )


def _difference_html(values: AttackResult, pictures: dict[str, bytes], say: Texts) -> str:
    shown = figure_html(
        pictures.get("difference"),
        say("part4.difference", gain=values.difference_gain),
        say("part4.difference.line"),
    )
    noise = figure_html(
        pictures.get("noise"),
        say("part4.noise"),
        say("part4.noise.line", linf=values.linf_255, gain=values.noise_gain),
    )
    return f"<div class='p4-sum pair'>{shown}{noise}</div>"


# The verdict


def verdict_html(values: AttackResult, say: Texts) -> str:
    """Whether the network is fooled, for the last row: by the file that a student takes away."""
    verdict = "fooled" if values.fooled_png else "lost" if values.fooled else "held"
    checks = "".join(
        f"<li class='{'yes' if was else 'no'}'><span>{html.escape(say(f'part4.check.{name}'))}"
        f"</span><b>{'✓' if was else '✗'} {html.escape(say.percent(100 * belief, digits=1))}</b>"
        "</li>"
        for name, was, belief in (
            ("float", values.fooled, values.confidence),
            ("eight_bit", values.fooled_8bit, values.eight_bit.confidence),
            ("png", values.fooled_png, values.png.confidence),
        )
    )
    target = name_of(values.target, say)
    line = say(
        f"part4.verdict.{verdict}.line",
        target=target,
        source=name_of(values.png.guess_class, say),
        belief=say.percent(100 * values.png.confidence, digits=1),
        before=say.percent(100 * values.confidence, digits=1),
    )
    size = say(
        "part4.verdict.size",
        linf=values.png.linf_255,
        share=say.percent(100 * values.png.linf_255 / 255, digits=1),
    )
    return (
        f"<div class='p4-verdict {verdict}' role='status'><div class='told'>"
        f"<div class='word'>{html.escape(say(f'part4.verdict.{verdict}'))}</div>"
        f"<p>{html.escape(line)}</p><p class='size'>{html.escape(size)}</p></div>"
        f"<ul>{checks}</ul></div>"
    )


def already_html(target: int, say: Texts, *, downloaded: bool, png: bytes | None) -> str:
    """The network sees the target before any attack: perhaps since this is an attacked picture."""
    kind = "downloaded" if downloaded else "already"
    name = name_of(target, say)
    shown = f"<img src='{data_url(png)}' alt=''>" if png else ""
    return (
        f"<div class='p4-verdict {'fooled' if downloaded else ''}' role='status'>{shown}"
        f"<div class='told'><div class='word'>{html.escape(say(f'part4.{kind}'))}</div>"
        f"<p>{html.escape(say(f'part4.{kind}.line', target=name))}</p></div></div>"
    )


def versions_html(values: AttackResult, say: Texts) -> str:
    """What the network says before rounding, after it, of the file, and of random noise."""
    left = Seen(
        fooled=values.fooled,
        confidence=values.confidence,
        guess=values.after[0][0],
        guess_class=values.after_classes[0],
        linf_255=values.linf_255,
    )
    rows = (
        ("float", left),
        ("eight_bit", values.eight_bit),
        ("png", values.png),
        ("control", values.control),
    )
    columns = ("version", "sees", "belief", "size", "fooled")
    head = "".join(
        f"<th scope='col'>{html.escape(say(f'part4.column.{name}'))}</th>" for name in columns
    )
    body = ""
    for name, seen in rows:
        cells = (
            name_of(seen.guess_class, say),
            say.percent(100 * seen.confidence, digits=1),
            f"{say.number(seen.linf_255)}/255",
            say("part4.yes" if seen.fooled else "part4.no"),
        )
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        title = html.escape(say(f"part4.version.{name}"))
        body += f"<tr class='{name}'><th scope='row'>{title}</th>{row}</tr>"
    return (
        f"<div class='lab-table p4-versions'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
