"""Who adds to a spool that empties waits a little, so that it does empty, however fast messages are sent."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

# Messages that leave for each one that is added.
LEAVE_PER_ADDED: Final = 2


class Pace:
    """Loop only."""

    def __init__(self) -> None:
        self._flows = False
        self._left = 0
        self._promised = 0  # how many will have left when the last of those who wait goes on
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def wait(self, seconds: float) -> None:
        """Returns when enough messages have left for the one that was added; at once while none leave; or after so
        long."""
        if not self._flows:
            return
        self._promised = max(self._promised, self._left) + LEAVE_PER_ADDED
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._promised, turn))
        await asyncio.wait((turn,), timeout=seconds)

    def one_left(self) -> None:
        self._flows = True
        self._left += 1
        while self._waiting and self._waiting[0][0] <= self._left:
            self._next_goes_on()

    def stop(self) -> None:
        """None leave any more: all are gone, or the cluster is again."""
        self._flows = False
        self._promised = self._left
        while self._waiting:
            self._next_goes_on()

    def _next_goes_on(self) -> None:
        _, turn = self._waiting.popleft()
        if not turn.done():
            turn.set_result(None)
