"""Cleaning by the clock and on request: old files go, and sends are refused while the disk is too full."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from mqctl.errors import StoreError
from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_TOPIC
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.topics import Topics
from mqctl.server.loop import HandlerTable
from mqctl.store.clean import MAX_FILES_PER_ROUND, Cleaner, Rules, is_outlived, used_ratio
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# How many queues are looked at before other work gets its turn; each may take a dozen reads.
QUEUE_SLICE: Final = 16

# Queues under such names belong to clients of the light protocols and never have a topic of their own.
LMQ_PREFIX: Final = "%LMQ%"

# How far the broker itself has got in these is kept elsewhere, so they must not begin at 0 again.
KEEP_OFFSETS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_TOPIC})

# Java brings any other value into this range as well: below it a disk would always, above it never be full.
LEAST_MAX_USED, MOST_MAX_USED = 10, 95


def rules_of(config: BrokerConfig) -> Rules:
    return Rules(
        reserved_seconds=config.file_reserved_time * 3600,
        hours=frozenset(int(hour) for hour in config.delete_when.split(";") if hour),
        max_used=min(max(config.disk_max_used_space_ratio, LEAST_MAX_USED), MOST_MAX_USED) / 100,
        forcible_used=config.disk_space_clean_forcibly_ratio,
        may_force=config.clean_file_forcibly_enable,
        warning_used=config.disk_space_warning_level_ratio,
    )


def unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


class Cleaning:
    """Loop only; `delete` is called in a thread. One round at a time.

    `on_log_begin` hears where the log begins whenever that may have changed, after the queues followed it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        store: MessageStore,
        *,
        clock: Callable[[], float] = time.time,
        disk_usage: Callable[[Path], float] = used_ratio,
        delete: Callable[[Path], None] = unlink,
    ) -> None:
        self._config = config
        self._topics = topics
        self._store = store
        self._cleaner = Cleaner(store, lambda: rules_of(config), clock, disk_usage)
        self._delete = delete
        self._doomed: Path | None = None
        self._deleting: asyncio.Task[None] | None = None
        self._followed = -1
        # The key index goes here: KeyIndex.remove_before.
        self.on_log_begin: Callable[[int], object] = lambda log_begin: None

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.DELETE_EXPIRED_COMMITLOG: (None, self.on_delete_expired_log),
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: (None, self.on_clean_expired_queues),
            RequestCode.CLEAN_UNUSED_TOPIC: (None, self.on_clean_unused_topics),
        }

    # -- by the clock -------------------------------------------------------------------------------

    async def round(self) -> None:
        """Raises StoreError when the disk cannot even be asked how full it is."""
        await self._clean_log()
        if self._store.log.begin != self._followed:
            await self._follow_log()
        self._cleaner.check_disk()

    async def finish(self) -> None:
        """For shutdown, after the rounds were cancelled: a deletion under way ends before the store is let go."""
        if self._deleting is not None:
            await asyncio.wait((self._deleting,))

    async def _clean_log(self) -> None:
        manual = self._cleaner.begin_round()
        for number in range(MAX_FILES_PER_ROUND):
            if self._doomed is None:
                self._doomed = self._cleaner.forget_next(manual=manual)
            if self._doomed is None:
                return
            if number:
                # Freeing many gigabytes in one go keeps some file systems from doing anything else.
                await asyncio.sleep(self._config.delete_commit_log_files_interval / 1000)
            if not await self._delete_doomed(self._doomed):
                return

    async def _delete_doomed(self, path: Path) -> bool:
        """A file that cannot be deleted is tried again in the next round, before any younger one: a start must
        not find a log with a gap."""
        self._deleting = asyncio.create_task(asyncio.to_thread(self._delete, path))
        try:
            await asyncio.shield(self._deleting)
        except OSError as error:
            log.error("cannot delete %s: %s", path, error.strerror)
            return False
        self._doomed = self._deleting = None
        return True

    async def _follow_log(self) -> None:
        log_begin = self._store.log.begin
        async for queue in self._queues():
            try:
                queue.follow_log_begin(log_begin)
            except StoreError as error:
                log.error("consume queue %s-%d: %s", queue.topic, queue.queue_id, error)
        self.on_log_begin(log_begin)
        self._followed = log_begin

    async def _queues(self) -> AsyncIterator[ConsumeQueue]:
        """All queues, except those that are dropped while others have their turn."""
        for number, queue in enumerate(list(self._store.queues.values()), 1):
            if not queue.dropped:
                yield queue
            if number % QUEUE_SLICE == 0:
                await asyncio.sleep(0)

    # -- on request ---------------------------------------------------------------------------------

    def on_delete_expired_log(self, connection: Connection, request: Command, _: None) -> Command:
        """The next rounds do it; nobody waits for gigabytes to be freed."""
        log.info("%s asks for expired commit log files to be deleted", connection.peer_text)
        self._cleaner.ask_for_rounds()
        return request.reply()

    async def on_clean_expired_queues(self, connection: Connection, request: Command, _: None) -> Command:
        """Queues of which nothing is left. The next message in such a queue gets offset 0, as under Java."""
        await self._follow_log()
        async for queue in self._queues():
            if queue.topic not in KEEP_OFFSETS and is_outlived(queue):
                log.info("consume queue %s-%d: dropped, its messages expired", queue.topic, queue.queue_id)
                self._store.drop_queue(queue)
        return request.reply()

    async def on_clean_unused_topics(self, connection: Connection, request: Command, _: None) -> Command:
        async for queue in self._queues():
            if self._is_unused(queue.topic):
                log.info("consume queue %s-%d: dropped, there is no such topic", queue.topic, queue.queue_id)
                self._store.drop_queue(queue)
        return request.reply()

    def _is_unused(self, topic: str) -> bool:
        """Java spares the schedule topic and that of finished transactions; losing any other of the broker's
        own would be no better."""
        return not (self._topics.get(topic) or self._topics.is_system(topic) or topic.startswith(LMQ_PREFIX))
