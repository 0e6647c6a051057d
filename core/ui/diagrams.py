"""The lab's own diagrams, as SVG text to be put into a page's markdown.

Lines and words take the page's text colour (`currentColor`), so one drawing serves both themes;
show it with `st.markdown(svg, unsafe_allow_html=True)`, because an `<img>` would not see the theme.
Colours come from the Okabe-Ito set, which the colour-blind can tell apart.
"""

from __future__ import annotations

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


def _note(x: int, y: int, label: str) -> str:
    """Lines of text that begin at `x`."""
    spans = "".join(
        f'<tspan x="{x}" y="{y + number * 26}">{escape(line)}</tspan>'
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
