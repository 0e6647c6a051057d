"""The lab's own diagrams, as SVG text to be put into a page's markdown.

Lines and words take the page's text colour (`currentColor`), so one drawing serves both themes;
show it with `st.markdown(svg, unsafe_allow_html=True)`, because an `<img>` would not see the theme.
Colours come from the Okabe-Ito set, which the colour-blind can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from core.texts import Texts

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"

_LINE = 22  # from one line of text to the next, in the drawing's units


def gan_loop(say: Texts) -> str:
    """How a GAN learns: noise and digits in, a score out, and the two losses on their way back.

    Drawn for a page about 1000 pixels wide, where one unit is one pixel.
    """
    parts = [
        # What goes forward, left to right.
        _box(5, 128, 130, 104, say("diagram.gan.noise")),
        _arrow([(135, 180), (171, 180)]),
        _box(175, 108, 200, 144, say("diagram.gan.generator"), colour=BLUE),
        _arrow([(375, 180), (411, 180)]),
        _box(415, 128, 150, 104, say("diagram.gan.fakes"), colour=BLUE),
        _box(415, 282, 150, 104, say("diagram.gan.real")),
        _arrow([(565, 180), (686, 180)]),
        _arrow([(565, 334), (686, 334)]),
        _box(690, 128, 200, 258, say("diagram.gan.discriminator"), colour=ORANGE),
        _arrow([(890, 257), (926, 257)]),
        _box(930, 205, 115, 104, say("diagram.gan.score")),
        # Turn 1: the loss of D changes D alone; where it would reach G, the way is cut.
        _arrow([(987, 309), (987, 430), (790, 430), (790, 390)], colour=PINK),
        _number(987, 370, 1, PINK),
        _text(888, 456, say("diagram.gan.loss_d"), bold_lines=2),
        f'<path d="M608 164 l12 32 m6 -32 l12 32" stroke="{PINK}" stroke-width="4"/>',
        _text(626, 220, say("diagram.gan.cut"), size=15),
        # Turn 2: the loss of G goes back through D, which stays as it is, and changes G.
        _line([(987, 205), (987, 78), (850, 78), (850, 128)], colour=GREEN),
        _line([(850, 128), (850, 160), (730, 160), (730, 128)], colour=GREEN, dashed=True),
        _arrow([(730, 128), (730, 78), (275, 78), (275, 104)], colour=GREEN),
        _number(987, 130, 2, GREEN),
        _text(502, 32, say("diagram.gan.loss_g"), bold_lines=2),
        # In words, in the corner that is left.
        _note(5, 304, say("diagram.gan.order")),
    ]
    return _svg(1050, 475, say("diagram.gan.title"), say("diagram.gan.describes"), parts)


def gpu_starved(say: Texts) -> str:
    """Where the time goes in three ways of feeding one card: a CPU lane over a GPU lane each.

    Drawn after the course's reference machine, where a step takes 29, 15 and 22 ms, of which the
    card computes 24, 41 and 94 %; one scale for all, about 120 ms from end to end.
    """
    parts = [
        *_lanes(say, 8, "loader", _LOADER, every=29, times=4),
        *_lanes(say, 116, "resident", _RESIDENT, every=15, times=7, after=10),
        *_lanes(say, 224, "large", _LARGE, every=22, times=5, after=10),
        _arrow([(_LANES_FROM, 320), (1040, 320)]),
        _text(_LANES_FROM + 410, 346, say("diagram.starved.time"), size=15),
    ]
    x = 5
    for kind in _KINDS:
        label = say(f"diagram.starved.{kind}")
        parts.append(_block(x, 366, 22, kind))
        parts.append(_note(x + 30, 385, label))
        x += 54 + round(8.6 * len(label))
    title, description = say("diagram.starved.title"), say("diagram.starved.describes")
    return _svg(1050, 400, title, description, parts)


_KINDS = {"load": ORANGE, "launch": BLUE, "wait": "", "compute": GREEN, "upload": PINK}
_LANES_FROM = 235  # where time begins, in the drawing's units
_PER_MS = 6.7  # units
_LANE = 26  # height

# (lane, kind, from, to) of one step, in milliseconds.
_LOADER = ((0, "load", 0, 21), (0, "launch", 21, 27), (0, "wait", 27, 29), (1, "compute", 22, 29))
_RESIDENT = (
    (0, "launch", 0, 11),
    (0, "wait", 11, 15),
    (1, "compute", 2.5, 4.5),
    (1, "compute", 6.5, 8.5),
    (1, "compute", 12.8, 15),
)
_LARGE = ((0, "launch", 0, 7), (0, "wait", 7, 22), (1, "compute", 1, 21.7))


def _lanes(
    say: Texts,
    y: int,
    way: str,
    blocks: Sequence[tuple[int, str, float, float]],
    *,
    every: float,
    times: int,
    after: float = 0.0,
) -> list[str]:
    """A way's name, its two lanes, and the same step drawn `times` times; `after` ms of upload."""
    parts = [_note(5, y + 14, say(f"diagram.starved.{way}"), bold_lines=1)]
    for lane, name in enumerate(("CPU", "GPU")):
        top = y + lane * (_LANE + 6)
        parts.append(
            f'<rect x="{_LANES_FROM}" y="{top}" width="805" height="{_LANE}" rx="4" '
            'fill="currentColor" fill-opacity="0.05"/>'
        )
        parts.append(_text(_LANES_FROM - 24, top + 19, name, size=15))
        if after:
            parts.append(_block(_LANES_FROM, top, after * _PER_MS - 2, "upload"))
    for number in range(times):
        for lane, kind, start, end in blocks:
            x = _LANES_FROM + (after + number * every + start) * _PER_MS
            parts.append(_block(x, y + lane * (_LANE + 6), (end - start) * _PER_MS - 2, kind))
    return parts


def _block(x: float, y: int, width: float, kind: str) -> str:
    """A stretch of work. Waiting is only an outline: nothing is done there."""
    colour = _KINDS[kind]
    look = (
        f'fill="{colour}" fill-opacity="0.85"'
        if colour
        else 'stroke="currentColor" stroke-opacity="0.6" stroke-width="1.5" stroke-dasharray="4 3"'
    )
    return f'<rect x="{x:.1f}" y="{y + 1}" width="{width:.1f}" height="{_LANE - 2}" rx="3" {look}/>'


def _svg(width: int, height: int, title: str, description: str, parts: list[str]) -> str:
    """The drawing in a figure of one line: without the figure, markdown would set it in a
    paragraph, which is narrow, and a blank line would end its HTML."""
    return (
        '<figure style="margin:0">'
        f'<svg viewBox="0 0 {width} {height}" width="100%" role="img" fill="none" '
        f'aria-label="{escape(title)}. {escape(description)}" '
        'style="font-family:inherit;max-width:1400px;display:block;margin:0 auto">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(parts)}</svg>"
        "</figure>"
    )


def _box(x: int, y: int, width: int, height: int, label: str, *, colour: str = "") -> str:
    """A rounded box with its label in the middle. A coloured one is a player: its name is bold."""
    ink = colour or "currentColor"
    frame = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="14" fill="{ink}" '
        f'fill-opacity="{0.16 if colour else 0.05}" stroke="{ink}" '
        f'stroke-width="{3 if colour else 2}"/>'
    )
    first_line = y + 6 + (height - (label.count("|") * _LINE)) // 2
    return frame + _text(x + width // 2, first_line, label, bold_lines=1 if colour else 0)


def _text(x: int, y: int, label: str, *, size: int = 17, bold_lines: int = 0) -> str:
    """Centred lines of text; `|` in a label begins a new line."""
    spans = "".join(
        f'<tspan x="{x}" y="{y + number * _LINE}" '
        f'font-weight="{700 if number < bold_lines else 400}">{escape(line)}</tspan>'
        for number, line in enumerate(label.split("|"))
    )
    return f'<text font-size="{size}" text-anchor="middle" fill="currentColor">{spans}</text>'


def _note(x: int, y: int, label: str, *, bold_lines: int = 0) -> str:
    """Lines of text that begin at `x`."""
    spans = "".join(
        f'<tspan x="{x}" y="{y + number * 26}" '
        f'font-weight="{700 if number < bold_lines else 400}">{escape(line)}</tspan>'
        for number, line in enumerate(label.split("|"))
    )
    return f'<text font-size="16" fill="currentColor">{spans}</text>'


def _number(x: int, y: int, number: int, colour: str) -> str:
    """A numbered disc on a line."""
    return (
        f'<circle cx="{x}" cy="{y}" r="17" fill="{colour}"/>'
        f'<text x="{x}" y="{y + 7}" font-size="19" font-weight="700" text-anchor="middle" '
        f'fill="#0b1020">{number}</text>'
    )


def _line(points: list[tuple[int, int]], *, colour: str = "", dashed: bool = False) -> str:
    way = " ".join(f"{x},{y}" for x, y in points)
    dash = ' stroke-dasharray="7 6"' if dashed else ""
    return (
        f'<polyline points="{way}" stroke="{colour or "currentColor"}" '
        f'stroke-width="{4 if colour else 2.5}" stroke-linejoin="round"{dash}/>'
    )


def _arrow(points: list[tuple[int, int]], *, colour: str = "") -> str:
    """A line whose last point is the tip of an arrow; its last stretch is level or upright."""
    (from_x, from_y), (x, y) = points[-2:]
    ahead_x, ahead_y = (x > from_x) - (x < from_x), (y > from_y) - (y < from_y)
    back_x, back_y = x - 13 * ahead_x, y - 13 * ahead_y
    side_x, side_y = -7 * ahead_y, 7 * ahead_x
    head = f"{x},{y} {back_x + side_x},{back_y + side_y} {back_x - side_x},{back_y - side_y}"
    return (
        _line([*points[:-1], (back_x, back_y)], colour=colour)
        + f'<polygon points="{head}" fill="{colour or "currentColor"}"/>'
    )
