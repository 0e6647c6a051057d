"""Tables of Part 5b, as the other parts draw theirs."""

from __future__ import annotations

import html
from collections.abc import Sequence


def table_html(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain text in rows; the first cell of each names it."""
    head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr><th scope='row'>{html.escape(first)}</th>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f"<div class='lab-table soc-table'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
