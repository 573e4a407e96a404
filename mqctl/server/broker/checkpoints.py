"""Checkpoints: now and then queues, index and log are brought to the disk, and a small file says up to where.

What a start after a kill or a loss of power has to look through is what came since the last one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from mqctl.server.broker.flushing import Flushing
from mqctl.store.saving import Mark
from mqctl.store.store import MessageStore

# Whichever comes first: a start walks 32 MiB of small messages in about a second. RocketMQ has a checkpoint every
# minute (flushConsumeQueueThoroughInterval).
INTERVAL_SECONDS: Final = 5.0
INTERVAL_BYTES: Final = 32 * 1024 * 1024

# The index is part of every so many seconds' one. A few thousand keys touch as many pages of it, so that syncing it
# as often as the queues would double what is written to the disk; and after a kill its files are found as they were.
INDEX_SECONDS: Final = 30.0

# How many queues are flushed, and how many keys filed, before other work gets its turn.
QUEUE_SLICE: Final = 64
KEY_SLICE: Final = 200


class Checkpoints:
    """Loop only; one round at a time."""

    def __init__(self, store: MessageStore, flushing: Flushing, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._flushing = flushing
        self._clock = clock
        self._last = clock()
        self._last_index = -INDEX_SECONDS
        self._working: asyncio.Task[None] | None = None

    async def round(self) -> None:
        """Makes a checkpoint if it is time for one. Raises StoreError when that fails: a file that cannot be
        written is tried again in the next round, one that cannot be synced ends the checkpoints."""
        new_bytes = self._store.published.log_offset - max(0, self._store.saver.safe_offset)
        if self._store.saver.has_failed or self._store.published.log_offset == self._store.saver.safe_offset:
            return
        if new_bytes < INTERVAL_BYTES and self._clock() - self._last < INTERVAL_SECONDS:
            return
        self._last = self._clock()
        with_index = self._last - self._last_index >= INDEX_SECONDS
        await self._make(with_index=with_index)
        if with_index:
            self._last_index = self._last

    async def _make(self, *, with_index: bool) -> None:
        mark = self._store.published
        if not await self._flush_queues():
            return  # the disk is full; what is not in the files is in memory
        if with_index:
            await self._file_keys(mark)
        saving = self._store.saver.begin(mark, with_index=with_index)
        await self._in_thread(saving.sync)
        if await self._flushing.reach(mark.log_offset):
            await self._in_thread(saving.write)

    async def _flush_queues(self) -> bool:
        """Whether all entries published up to now reached their files."""
        for number, queue in enumerate(self._store.dirty_queues, 1):
            if not queue.dropped and not self._store.flush_queue(queue):
                return False
            if number % QUEUE_SLICE == 0:
                await asyncio.sleep(0)
        return True

    async def _file_keys(self, mark: Mark) -> None:
        """Until all keys of the messages before the mark are in the index files."""
        index = self._store.index
        while index is not None and (unfiled := index.first_unfiled_offset) is not None and unfiled < mark.log_offset:
            index.settle(KEY_SLICE)
            await asyncio.sleep(0)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        """The work goes on when whoever waits for it is cancelled."""
        self._working = asyncio.create_task(asyncio.to_thread(work))
        await asyncio.shield(self._working)

    async def finish(self) -> None:
        """For shutdown, after the rounds were cancelled: what waits for the disk ends before the store is let go."""
        if self._working is not None:
            await asyncio.wait((self._working,))
