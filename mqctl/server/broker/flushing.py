"""Bringing the commit log to the disk: syncs run in a thread, one at a time, and serve everybody who waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from mqctl.store.commitlog import CommitLog, Unsynced

log = logging.getLogger(__name__)

PAGE: Final = 4096
RETRY_SECONDS: Final = 1.0


class Flushing:
    """Loop only. `on_flushed(end)` hears how far the log is on disk, `on_failed(error)` that a sync failed;
    a failed one is tried again as long as something is unsynced."""

    def __init__(
        self,
        commitlog: CommitLog,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = commitlog
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._running: asyncio.Task[None] | None = None
        self._wanted_again = False
        self._refused = False
        self._refusals = 0
        self._last = clock()

    def request(self) -> None:
        """What is written now will be on disk soon. While a sync runs, all requests share the next one."""
        if self._running is not None:
            self._wanted_again = True
        elif self._log.flushed < self._log.end:
            self._running = self._loop.create_task(self._sync())

    def request_if_worth(self, least_pages: int, thorough_seconds: float) -> None:
        """For asynchronous flushing: a few dirty pages may wait until it has been long enough."""
        dirty_pages = (self._log.end - self._log.flushed) // PAGE
        if dirty_pages >= least_pages or self._clock() - self._last >= thorough_seconds:
            self.request()

    async def _sync(self) -> None:
        self._wanted_again = False
        try:
            await self._sync_once()
        except OSError as error:
            log.error("commit log: not synced: %s", error.strerror)
            self._refused = True
            self._refusals += 1
            self._loop.call_later(RETRY_SECONDS, self.request)
            self._on_failed(error)
        finally:
            self._running = None
            if self._wanted_again:
                self.request()

    async def _sync_once(self) -> None:
        unsynced = self._log.unsynced()
        await asyncio.to_thread(unsynced.sync, rewrite=self._refused)
        self._refused = False
        self._done(unsynced)

    def _done(self, unsynced: Unsynced) -> None:
        self._log.synced(unsynced)
        self._last = self._clock()
        self._on_flushed(unsynced.end)

    async def reach(self, end: int) -> bool:
        """Waits until the log is on disk up to `end`; False if the disk refuses."""
        while self._log.flushed < end:
            self.request()
            refusals = self._refusals
            if self._running is not None:
                await asyncio.wait((self._running,))
            if self._refusals > refusals:
                return False
        return True

    async def finish(self) -> None:
        """Waits for a sync under way, then syncs the rest. Raises OSError when the disk refuses."""
        if self._running is not None:
            await asyncio.wait((self._running,))
        await self._sync_once()
