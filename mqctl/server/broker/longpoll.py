"""Long polling: pulls that found nothing wait here for the next message of their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import PullMessageHeader
from mqctl.store.fetch import Wanted

# Clients ask for 15 to 20 s and give up after 30. A longer wish only keeps memory busy.
MAX_HOLD_MS: Final = 60_000


@dataclass(slots=True, eq=False)
class ParkedPull:
    connection: Connection
    request: Command
    header: PullMessageHeader
    wanted: Wanted
    # Where to look next. Runs ahead of the request's offset when messages came that the filter passed over.
    queue_offset: int
    timer: asyncio.TimerHandle | None = None


class LongPolls:
    """Loop only. `retry(pull, last)` looks again and answers; it returns False to keep the pull parked,
    which it must not do when `last` is true (the time is up)."""

    def __init__(self, retry: Callable[[ParkedPull, bool], bool]) -> None:
        self._retry = retry
        self._parked: dict[tuple[str, int], list[ParkedPull]] = {}
        self._loop = asyncio.get_running_loop()

    def park(self, pull: ParkedPull, hold_ms: int) -> None:
        key = (pull.header.topic, pull.header.queue_id)
        self._parked.setdefault(key, []).append(pull)
        pull.timer = self._loop.call_later(max(0, min(hold_ms, MAX_HOLD_MS)) / 1000, self._expire, key, pull)

    def wake(self, topic: str, queue_id: int) -> None:
        key = (topic, queue_id)
        waiting = self._parked.pop(key, None)
        if waiting is None:
            return
        still_waiting = [pull for pull in waiting if not self._finish(pull)]
        if still_waiting:
            self._parked.setdefault(key, []).extend(still_waiting)

    def _finish(self, pull: ParkedPull) -> bool:
        if pull.connection.is_open and not self._retry(pull, False):
            return False
        if pull.timer is not None:
            pull.timer.cancel()
        return True

    def _expire(self, key: tuple[str, int], pull: ParkedPull) -> None:
        waiting = self._parked.get(key, [])
        if pull in waiting:
            waiting.remove(pull)
            if not waiting:
                self._parked.pop(key, None)
            if pull.connection.is_open:
                self._retry(pull, True)

    def release_all(self) -> None:
        """Answers every parked pull now: the broker is stopping."""
        for key in list(self._parked):
            for pull in self._parked.pop(key):
                if pull.timer is not None:
                    pull.timer.cancel()
                if pull.connection.is_open:
                    self._retry(pull, True)
