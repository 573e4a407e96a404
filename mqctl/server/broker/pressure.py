"""Whether this broker has more to do than it can: then senders hear SYSTEM_BUSY at once instead of waiting.

Apache's broker lets requests queue for threads and sends away those that queued for too long. Here there are no such
queues: what waits are requests that came in one turn of the event loop, of which the last is served when all others
are. A turn that was busy with very many of them for longer than waitTimeMillsInSendQueue refuses the rest of its
sends. And when the disk took longer than osPageCacheBusyTimeOutMills to take a write, so that everybody had to wait,
those who came meanwhile are refused too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mqctl.errors import RequestFailed
from mqctl.remoting.codes import ResponseCode

# The clock is looked at once in so many messages of a turn. Fewer in so long a time are no rush: then this process
# had to wait for a processor, and to refuse them would make it worse.
LOOK_EVERY: Final = 256

# What piled up behind a slow write is read from the sockets within a turn or two.
AFTER_SLOW_WRITE_SECONDS: Final = 0.05


class Pressure:
    """Loop only. `refusing` says why sends are refused for now; empty when they are not."""

    def __init__(
        self,
        wait_limit_s: float = float("inf"),
        write_limit_s: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wait_limit_s = wait_limit_s
        self._write_limit_s = write_limit_s
        self._clock = clock
        self._turn_began = 0.0
        self._write_began = 0.0
        self._until = 0.0
        self.refusing = ""

    def check(self) -> None:
        """For a send that came while `refusing`. Raises RequestFailed unless that is over by now."""
        if self._clock() < self._until:
            raise RequestFailed(ResponseCode.SYSTEM_BUSY, self.refusing)
        self.refusing = ""

    def turn_begins(self) -> None:
        """The first message of a turn was put."""
        self._turn_began = self._clock()

    def look(self, taken: int) -> None:
        """So many messages were put in this turn. Those still unread wait for all of them."""
        waited_s = self._clock() - self._turn_began
        if waited_s > self._wait_limit_s:
            self._refuse("TIMEOUT_CLEAN_QUEUE", waited_s, taken)
            self._until = float("inf")  # until the turn ends

    def write_begins(self) -> None:
        """The turn is over and what it took will be written."""
        self.refusing = ""
        self._write_began = self._clock()

    def write_ends(self) -> float:
        """How long it took."""
        now = self._clock()
        took_s = now - self._write_began
        if took_s > self._write_limit_s:
            self._refuse("PCBUSY_CLEAN_QUEUE", took_s, 0)
            self._until = now + AFTER_SLOW_WRITE_SECONDS
        return took_s

    def _refuse(self, mark: str, waited_s: float, taken: int) -> None:
        """The text is Apache's, which operators search their logs for."""
        self.refusing = (
            f"[{mark}]broker busy, start flow control for a while, "
            f"period in queue: {waited_s * 1000:.0f}ms, size of queue: {taken}"
        )
