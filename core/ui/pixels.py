"""Small building blocks of Part 2's page: pictures of few pixels, big figures, checked results."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


def picture_html(image: bytes, alt: str, caption: str, *, kind: str = "") -> str:
    """A picture whose pixels stay square however large it is drawn."""
    return (
        f"<figure class='lab-canvas {kind}'>"
        f"<img src='{data_url(image)}' alt='{html.escape(alt, quote=True)}'>"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def data_url(image: bytes) -> str:
    return f"data:{mime(image)};base64,{base64.b64encode(image).decode()}"


def mime(image: bytes) -> str:
    if image.startswith(b"GIF8"):
        return "image/gif"
    return "image/webp" if image[8:12] == b"WEBP" else "image/png"


def tiles_html(tiles: Sequence[tuple[str, str, float | None]]) -> str:
    """Name, big figure, and how far its bar is filled (0 to 1; None: no bar)."""
    drawn = "".join(
        f"<div class='lab-gauge' role='group' aria-label='{html.escape(name, quote=True)}'>"
        f"<div class='name'>{html.escape(name)}</div>"
        f"<div class='value'>{html.escape(value)}</div>{_bar(share)}</div>"
        for name, value, share in tiles
    )
    return f"<div class='lab-scores'>{drawn}</div>"


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    return f"<div class='bar'><i style='width:{min(1.0, max(0.0, share)):.0%}'></i></div>"


def shaped(values: object, shape: type[T]) -> T | None:
    """A result's values, or None where they have another shape, as from an older version."""
    try:
        return msgspec.convert(values, shape)
    except msgspec.ValidationError:
        return None
