"""The models that this process holds in memory, and how to let go of them. Needs no torch."""

from __future__ import annotations

import functools
from collections.abc import Callable


class ModelsInMemory:
    """Whoever loads a model notes it here; a worker that is asked for its memory drops them all."""

    def __init__(self) -> None:
        self._drops: dict[str, Callable[[], None]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._drops)

    def note(self, name: str, drop: Callable[[], None]) -> None:
        """The model is loaded; `drop` lets go of it."""
        self._drops[name] = drop

    def gone(self, name: str) -> None:
        """Its holder has let go of the model. Harmless where it is not held."""
        self._drops.pop(name, None)

    def drop_all(self) -> None:
        drops, self._drops = self._drops, {}
        for drop in drops.values():
            drop()


@functools.cache
def models_in_memory() -> ModelsInMemory:
    """This process's own."""
    return ModelsInMemory()
