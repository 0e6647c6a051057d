"""The doors: the class code before everything, and the teacher's code for the teacher's view."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable

FREE_TRIES = 5
FIRST_WAIT_SECONDS = 10.0  # doubled with each further wrong try
LONGEST_WAIT_SECONDS = 600.0
REMEMBERED = 1_000  # tokens with wrong tries; the oldest is forgotten


class Attempts:
    """Wrong tries at codes, by token. Nobody is kept waiting in a thread: the answer is a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: dict[str, tuple[int, float]] = {}  # token -> wrong tries, closed until

    def wait_seconds(self, token: str) -> float:
        """How long this token has to wait before its next try counts; 0 if not at all."""
        with self._lock:
            return max(0.0, self._wrong.get(token, (0, 0.0))[1] - self._clock())

    def counts(self, token: str, right: Callable[[], bool]) -> bool:
        """Whether this try is right. `right` is not even asked while the token has to wait."""
        if self.wait_seconds(token) > 0:
            return False
        if right():
            with self._lock:
                self._wrong.pop(token, None)
            return True
        with self._lock:
            self._remember(token, self._wrong.pop(token, (0, 0.0))[0] + 1, self._clock())
        return False

    def _remember(self, token: str, wrong: int, now: float) -> None:
        over = wrong - FREE_TRIES
        wait = min(FIRST_WAIT_SECONDS * 2**over, LONGEST_WAIT_SECONDS) if over >= 0 else 0.0
        self._wrong[token] = (wrong, now + wait)
        if len(self._wrong) > REMEMBERED:
            del self._wrong[next(iter(self._wrong))]


def same_code(typed: str, expected: str) -> bool:
    """Whether the typed code is the expected one; an empty expected code fits nothing.

    Takes as long for a near miss as for a far one.
    """
    return bool(expected) and hmac.compare_digest(typed.strip().encode(), expected.strip().encode())
