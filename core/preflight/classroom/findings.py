"""What a gate finds, one thing after another; the gravest of it becomes its judgement."""

from __future__ import annotations

from core.preflight.gate import Cell, Colour, Evidence, Figure, Judgement, Picture, Table
from core.problems import Fact, Notice


class Findings:
    """Evidence, and what is wrong. Texts are ids of the catalogues."""

    def __init__(self) -> None:
        self._evidence: list[Evidence] = []
        self._troubles: dict[Colour, list[tuple[Notice, Notice]]] = {}

    def figure(self, label: str, value: Cell, unit: str = "", expected: Cell = None) -> None:
        self._evidence.append(Figure(label, value, unit, expected))

    def table(self, title: str, columns: tuple[str, ...], rows: list[tuple[Cell, ...]]) -> None:
        """Nothing where there are no rows."""
        if rows:
            self._evidence.append(Table(title, columns, tuple(rows)))

    def picture(self, title: str, png: bytes) -> None:
        self._evidence.append(Picture(title, png))

    def red(self, message: str, hint: str, **facts: Fact) -> None:
        self._found(Colour.RED, message, hint, facts)

    def amber(self, message: str, hint: str, **facts: Fact) -> None:
        self._found(Colour.AMBER, message, hint, facts)

    def not_judged(self, message: str, hint: str, **facts: Fact) -> None:
        self._found(Colour.NOT_JUDGED, message, hint, facts)

    def judgement(self, message: str, **facts: Fact) -> Judgement:
        """Of troubles, the first of the gravest colour tells; without any: green, and `message`."""
        for colour in (Colour.RED, Colour.AMBER, Colour.NOT_JUDGED):
            for said, hint in self._troubles.get(colour, ()):
                return Judgement(colour, said, tuple(self._evidence), hint)
        return Judgement(Colour.GREEN, Notice(message, facts), tuple(self._evidence))

    def _found(self, colour: Colour, message: str, hint: str, facts: dict[str, Fact]) -> None:
        pair = Notice(message, facts), Notice(hint, facts)
        self._troubles.setdefault(colour, []).append(pair)
