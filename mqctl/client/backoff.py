"""Leaving an address alone for a while after it could not be reached."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from mqctl.errors import ConnectionFailed

FIRST_SECONDS: Final = 0.05
# A broker that comes back is noticed within this time.
LIMIT_SECONDS: Final = 2.0


class _Rest(NamedTuple):
    seconds: float
    until: float
    message: str


class Backoff:
    """Each failure in a row doubles the pause, less a random part, so that clients do not come back in step."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()
        self._rests: dict[str, _Rest] = {}

    def check(self, address: str) -> None:
        """Raises the last ConnectionFailed again while the address rests."""
        rest = self._rests.get(address)
        if rest is not None and self._clock() < rest.until:
            raise ConnectionFailed(rest.message)

    def failed(self, address: str, error: ConnectionFailed) -> None:
        last = self._rests.get(address)
        seconds = FIRST_SECONDS if last is None else min(2 * last.seconds, LIMIT_SECONDS)
        until = self._clock() + seconds * self._rng.uniform(0.5, 1.0)
        self._rests[address] = _Rest(seconds, until, error.message)

    def succeeded(self, address: str) -> None:
        self._rests.pop(address, None)
