"""The lab's own diagrams, as SVG text to be put into a page's markdown.

Lines and words take the page's text colour (`currentColor`), so one drawing serves both themes;
show it with `st.markdown(svg, unsafe_allow_html=True)`, because an `<img>` would not see the theme.
Colours come from the Okabe-Ito set, which the colour-blind can tell apart.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from math import sqrt

from core.texts import Texts, Value

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


def sd_turbo_blocks(say: Texts, model: str, millions: Mapping[str, float]) -> str:
    """From a sentence to a picture through the blocks of `model`, drawn to scale.

    The areas of the text encoder, the U-Net and the VAE are to each other as their parameters are
    (`millions`, by the names of the blocks). Tokenizer and scheduler have none: only an outline.
    """
    biggest = max(millions.get("unet", 0.0), 1e-9)
    sides = {
        name: max(26, round(_UNET_SIDE * sqrt(millions.get(name, 0.0) / biggest)))
        for name in ("text_encoder", "unet", "vae")
    }
    middle = 205  # of the row of blocks, in the drawing's units
    colours = {"text_encoder": BLUE, "unet": ORANGE, "vae": GREEN}
    centres = {"text_encoder": 375, "unet": 600, "vae": 855}
    parts = [
        _box(5, middle - 46, 120, 92, say("diagram.blocks.prompt")),
        _arrow([(125, middle), (157, middle)]),
        _outline(161, middle - 46, 110, 92, say("diagram.blocks.tokenizer")),
        _arrow([(271, middle), (centres["text_encoder"] - sides["text_encoder"] // 2 - 4, middle)]),
    ]
    for name, centre in centres.items():
        side = sides[name]
        parts.append(_square(centre, middle, side, colours[name]))
        told = say(f"diagram.blocks.{name}", millions=say.number(round(millions.get(name, 0.0), 2)))
        # The words go where there is room for them: in the U-Net's box, under the others.
        if name == "unet":
            parts.append(_text(centre, middle - 14, told, bold_lines=1))
        else:
            parts.append(_text(centre, middle + side // 2 + 28, told, bold_lines=1))
    text_end = centres["text_encoder"] + sides["text_encoder"] // 2
    unet_start, unet_end = 600 - sides["unet"] // 2, 600 + sides["unet"] // 2
    vae_start, vae_end = 855 - sides["vae"] // 2, 855 + sides["vae"] // 2
    parts += [
        _arrow([(text_end, middle), (unet_start - 4, middle)]),
        _arrow([(unet_end, middle), (vae_start - 4, middle)]),
        _text((unet_end + vae_start) // 2, middle - 38, say("diagram.blocks.latent"), size=15),
        _arrow([(vae_end, middle), (931, middle)]),
        _box(935, middle - 46, 110, 92, say(f"diagram.blocks.picture.{model}")),
        # What the U-Net is given besides the words.
        _box(405, 5, 150, 56, say("diagram.blocks.noise")),
        _arrow([(480, 61), (480, 78), (560, 78), (560, middle - sides["unet"] // 2 - 4)]),
        _outline(645, 5, 150, 56, say("diagram.blocks.scheduler")),
        _arrow([(720, 61), (720, 78), (640, 78), (640, middle - sides["unet"] // 2 - 4)]),
        _note(5, 375, say(f"diagram.blocks.note.{model}")),
    ]
    title = say("diagram.blocks.title", model=model)
    description = say("diagram.blocks.describes", **_told_millions(say, millions))
    return _svg(1050, 412, title, description, parts)


_UNET_SIDE = 200  # of the largest block, in the drawing's units


def _told_millions(say: Texts, millions: Mapping[str, float]) -> dict[str, str]:
    names = ("text_encoder", "unet", "vae")
    return {name: say.number(round(millions.get(name, 0.0), 2)) for name in names}


def _square(x: int, y: int, side: int, colour: str) -> str:
    """A block with weights, its middle at (x, y)."""
    return (
        f'<rect x="{x - side // 2}" y="{y - side // 2}" width="{side}" height="{side}" rx="8" '
        f'fill="{colour}" fill-opacity="0.2" stroke="{colour}" stroke-width="3"/>'
    )


def _outline(x: int, y: int, width: int, height: int, label: str) -> str:
    """A block without weights: nothing in it was learnt, so nothing is filled."""
    first_line = y + 6 + (height - (label.count("|") * _LINE)) // 2
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" stroke="currentColor" '
        'stroke-opacity="0.6" stroke-width="2" stroke-dasharray="5 4"/>'
    ) + _text(x + width // 2, first_line, label, size=15)


def adversarial(
    say: Texts,
    pictures: Mapping[str, bytes],
    *,
    source: str,
    target: str,
    epsilon: float,
    steps: int,
    network: str,
) -> str:
    """Picture + noise = a picture that looks the same, and the loop that finds the noise.

    `pictures` are PNG files of "original", "noise" and "attacked"; what is missing is drawn as a
    cat or as dots. `source` and `target` say what the network sees, `epsilon` is in /255.
    """
    facts: dict[str, Value] = {"epsilon": epsilon, "steps": steps, "network": network}
    side, top, middle = 170, 6, 91
    cat, dots = _cat, _dots
    parts = []
    for name, x, drawn in (("original", 40, cat), ("noise", 330, dots), ("attacked", 620, cat)):
        png = pictures.get(name)
        parts.append(_picture(png, x, top, side) if png else drawn(x, top, side))
        seen = {"original": source, "noise": "", "attacked": target}[name]
        told = say(f"diagram.adversarial.{name}", seen=seen, **facts)
        parts.append(_text(x + side // 2, top + side + 24, told, bold_lines=1))
    parts += [
        _sign(270, middle, "+"),
        _sign(560, middle, "="),
        # Round and round: what the network says, which way is up, a small step, not too far.
        _arrow([(794, middle), (850, middle), (850, 301)], colour=ORANGE),
        _box(745, 305, 210, 84, say("diagram.adversarial.network", **facts), colour=ORANGE),
        _arrow([(745, 347), (729, 347)], colour=ORANGE),
        _box(520, 305, 205, 84, say("diagram.adversarial.gradient", **facts)),
        _arrow([(520, 347), (504, 347)], colour=ORANGE),
        _box(290, 305, 210, 84, say("diagram.adversarial.sign", **facts)),
        _arrow([(290, 347), (274, 347)], colour=ORANGE),
        _box(60, 305, 210, 84, say("diagram.adversarial.clamp", **facts)),
        _arrow([(165, 305), (165, 266), (415, 266), (415, 242)], colour=ORANGE),
        _text(290, 292, say("diagram.adversarial.loop", **facts), size=15),
        _note(875, 60, say("diagram.adversarial.eye"), bold_lines=1),
        _note(875, 164, say("diagram.adversarial.machine"), bold_lines=1),
    ]
    title = say("diagram.adversarial.title")
    described = say("diagram.adversarial.describes", source=source, target=target, **facts)
    return _svg(1050, 396, title, described, parts)


def _picture(png: bytes, x: int, y: int, side: int) -> str:
    url = f"data:image/png;base64,{b64encode(png).decode()}"
    return f'<image href="{url}" x="{x}" y="{y}" width="{side}" height="{side}"/>' + _rim(
        x, y, side
    )


def _rim(x: int, y: int, side: int) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{side}" height="{side}" stroke="currentColor" '
        'stroke-opacity="0.5" stroke-width="2"/>'
    )


def _sign(x: int, y: int, sign: str) -> str:
    return (
        f'<text x="{x}" y="{y + 16}" font-size="46" text-anchor="middle" '
        f'fill="currentColor">{sign}</text>'
    )


def _cat(x: int, y: int, side: int) -> str:
    """A cat's head in a square of 170."""
    fur = f'fill="{ORANGE}" stroke="currentColor" stroke-width="3"'
    shapes = (
        f'<path d="M38 84 L42 26 L78 52 Z" {fur}/><path d="M132 84 L128 26 L92 52 Z" {fur}/>'
        f'<ellipse cx="85" cy="98" rx="56" ry="50" {fur}/>'
        '<ellipse cx="63" cy="88" rx="8" ry="11" fill="#0b1020"/>'
        '<ellipse cx="107" cy="88" rx="8" ry="11" fill="#0b1020"/>'
        f'<path d="M78 108 h14 l-7 8 Z" fill="{PINK}"/>'
        '<path d="M85 116 q-9 13 -20 5 M85 116 q9 13 20 5 M48 110 l-34 -7 M48 117 l-34 5 '
        'M122 110 l34 -7 M122 117 l34 5" stroke="currentColor" stroke-width="2.5"/>'
    )
    return f'<g transform="translate({x} {y}) scale({side / 170})">{shapes}</g>' + _rim(x, y, side)


def _dots(x: int, y: int, side: int) -> str:
    """Noise: a square of coloured squares, always the same ones."""
    count = 10
    size = side / count
    inks = (BLUE, ORANGE, GREEN, PINK, "#8a94a6")
    squares = "".join(
        f'<rect x="{x + column * size:.0f}" y="{y + row * size:.0f}" width="{size:.0f}" '
        f'height="{size:.0f}" fill="{inks[(row * row * 7 + column * 13 + row * column) % 5]}" '
        f'fill-opacity="{0.35 + (row * 31 + column * 17) % 7 / 12:.2f}"/>'
        for row in range(count)
        for column in range(count)
    )
    return squares + _rim(x, y, side)


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
