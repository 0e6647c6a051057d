"""What went wrong, as data: a sentence of the catalogues and the values that fill it.

Code that meets bad input or a bad day raises a `Problem`. It names a sentence by its catalogue id
and carries the facts. The sentence itself is written once for each language, by `core.texts`.
"""

from __future__ import annotations

import msgspec

Fact = str | int | float


class Notice(msgspec.Struct, frozen=True):
    """One plain sentence to be: its id in the catalogues, and the facts that fill its gaps."""

    key: str
    facts: dict[str, Fact] = {}


class Problem(Exception):
    """Raised where the reader has to be told something; never shown as a traceback."""

    def __init__(self, key: str, **facts: Fact) -> None:
        self.notice = Notice(key, facts)
        super().__init__(f"{key} {facts}")
