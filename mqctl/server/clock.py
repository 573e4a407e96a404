"""What time it is, and waiting until it is later.

Everything in the broker that decides by the time (is this message due, is this transaction too old) asks a
`Clock`, and so a test can hand in a `MovableClock` and let an hour pass in no time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

# The system's clock may be set while somebody waits for a moment of it: they look again at least this often.
LONGEST_WAIT_S: Final = 30.0


class Clock:
    """The system's clock.

    `time` and `now_ms` may be called from any thread, waiting is for coroutines of one event loop. Moments are
    milliseconds since 1970, as in messages; they follow the system's clock wherever it is set. Durations do not
    mind: `sleep` waits for as long as it says.
    """

    def __init__(self) -> None:
        # Seconds since 1970. The function itself and not a method that calls it: every message asks once.
        self.time: Callable[[], float] = time.time

    def now_ms(self) -> int:
        return int(self.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, moment_ms: int | None, wake: asyncio.Event | None = None) -> None:
        """Returns when the moment has come, never before it; None is a moment that never comes.

        With a `wake` it returns earlier when that is set, and once in a while for no reason: the system's clock may
        have been set. The caller clears it and looks again what there is to wait for.
        """
        if wake is not None:
            left_s = LONGEST_WAIT_S if moment_ms is None else (moment_ms - self.now_ms()) / 1000
            if left_s > 0:
                await _wait(wake, min(left_s, LONGEST_WAIT_S))
            return
        while moment_ms is None or moment_ms > self.now_ms():
            await self.until(moment_ms, asyncio.Event())


class MovableClock(Clock):
    """The system's clock, and as far ahead of it as somebody has moved it. Whoever waits for a moment that is
    passed then, or sleeps for less than the move, wakes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.time = lambda: time.time() + self._ahead
        self._ahead = 0.0
        self._waiting: set[asyncio.Event] = set()

    def advance(self, seconds: float) -> None:
        """On the thread of the loop: from another one by `loop.call_soon_threadsafe(clock.advance, seconds)`."""
        self._ahead += seconds
        for wake in self._waiting:
            wake.set()

    async def sleep(self, seconds: float) -> None:
        end = time.monotonic() + self._ahead + seconds
        while (left := end - time.monotonic() - self._ahead) > 0:
            moved = asyncio.Event()
            with self._woken_by_moves(moved):
                await _wait(moved, left)

    async def until(self, moment_ms: int | None, wake: asyncio.Event | None = None) -> None:
        if wake is None:
            await super().until(moment_ms)
            return
        with self._woken_by_moves(wake):
            await super().until(moment_ms, wake)

    @contextlib.contextmanager
    def _woken_by_moves(self, wake: asyncio.Event) -> Iterator[None]:
        self._waiting.add(wake)
        try:
            yield
        finally:
            self._waiting.discard(wake)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
