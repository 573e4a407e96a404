"""The broker put together: what it consists of, how it starts, what it does by the clock, how it stops."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

import psutil

from mqctl.errors import StoreError
from mqctl.remoting.connection import Connection
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.admin.acl import AclAdmin
from mqctl.server.broker.admin.clients import ClientAdmin
from mqctl.server.broker.admin.config import ConfigAdmin
from mqctl.server.broker.admin.groups import GroupAdmin
from mqctl.server.broker.admin.offsets import OffsetAdmin
from mqctl.server.broker.admin.progress import ProgressAdmin
from mqctl.server.broker.admin.queues import QueueAdmin
from mqctl.server.broker.admin.runtime import RuntimeAdmin
from mqctl.server.broker.admin.topics import TopicAdmin
from mqctl.server.broker.checkpoints import Checkpoints
from mqctl.server.broker.cleaning import Cleaning
from mqctl.server.broker.config import SYNC_FLUSH, BrokerConfig
from mqctl.server.broker.delay.delays import Delays
from mqctl.server.broker.filterdata import FilterTable
from mqctl.server.broker.groups import Groups
from mqctl.server.broker.locks import QueueLocks
from mqctl.server.broker.membership import Membership
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.positions import Positions
from mqctl.server.broker.pressure import Pressure
from mqctl.server.broker.pull import Pulling
from mqctl.server.broker.query import Querying
from mqctl.server.broker.register import Registration
from mqctl.server.broker.reply import Replying
from mqctl.server.broker.retry import Returning
from mqctl.server.broker.send import Sending
from mqctl.server.broker.slowconsumers import ROUND_SECONDS, SlowConsumers
from mqctl.server.broker.stats import SAMPLE_SECONDS, BrokerStats
from mqctl.server.broker.topics import Topics
from mqctl.server.broker.transactions.checks import TransactionChecks
from mqctl.server.broker.transactions.transactions import Transactions
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable, RemotingServer
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# Clients with the "VIP channel" on, and Java slaves, use this port instead of the main one.
VIP_PORT_DISTANCE: Final = 2

CLIENT_SCAN_SECONDS: Final = 10.0
FILTER_SAVE_SECONDS: Final = 10.0
CHECKPOINT_SECONDS: Final = 1.0
NEXT_FILE_SECONDS: Final = 1.0
# Keys wait this long before they are filed in the index; a lookup finds them all the same.
INDEX_SECONDS: Final = 0.2
# How many keys are filed before other work gets its turn: half a millisecond or so.
INDEX_SLICE: Final = 200


class Broker:
    """Loop only. Whatever depends on the time asks `clock`; settings that are changed over the network go to
    `config_file` as well."""

    def __init__(self, config: BrokerConfig, clock: Clock | None = None, config_file: Path | None = None) -> None:
        self.config = config
        self.clock = clock or Clock()
        self.topics = Topics(config, self.clock.time)
        self.groups = Groups(config, self.clock.time)
        self.offsets = ConsumerOffsets(config)
        self.store = MessageStore(config.store_config(), config.store_host(), self.clock.time)
        self.acks = Acks(
            self.store,
            sync_flush=config.flush_disk_type == SYNC_FLUSH,
            sync_timeout_s=config.sync_flush_timeout / 1000,
            pressure=Pressure(
                config.wait_time_mills_in_send_queue / 1000 if config.broker_fast_failure_enable else float("inf"),
                config.os_page_cache_busy_time_out_mills / 1000,
            ),
        )
        self.checkpoints = Checkpoints(self.store, self.acks.flushing)
        self.stats = BrokerStats(self.store, config.broker_cluster_name, wall_clock=self.clock.time)
        self.acks.on_written = self.stats.write_times.add
        self.registration = Registration(config, self.topics)
        self.filters = FilterTable(config)
        self.membership = Membership(config, self.topics, self.groups, self.filters, self.registration)
        in_memory = psutil.virtual_memory().total * config.access_message_in_memory_max_ratio // 100
        self.pulling = Pulling(
            config,
            self.topics,
            self.groups,
            self.offsets,
            self.membership.clients,
            self.store,
            self.acks,
            self.stats,
            in_memory,
            self._spawn,
        )
        self.sending = Sending(config, self.topics, self.store, self.acks, self._spawn)
        self.locks = QueueLocks(config.rebalance_lock_max_live_time / 1000)
        returning = Returning(config, self.topics, self.groups, self.store, self.acks, self.sending)
        self.sending.returned = returning.aim
        returning.on_sent_back = self.stats.traffic.sent_back
        replying = Replying(config, self.topics, self.membership.clients, self.store, self.acks, self.sending)
        self.transactions = Transactions(config, self.store, self.acks, self.offsets)
        self.transaction_checks = TransactionChecks(
            config, self.topics, self.store, self.acks, self.membership.clients, self.transactions, self.clock
        )
        self.sending.detours.append(self.transactions.detour)
        self.delays = Delays(config, self.topics, self.store, self.acks, self.clock)
        self.sending.detours.append(self.delays.detour)
        self.slow_consumers = SlowConsumers(config, self.groups, self.membership.clients, self.offsets, self.store)
        self.cleaning = Cleaning(config, self.topics, self.store, clock=self.clock.time)
        if self.store.index is not None:
            self.cleaning.on_log_begin = self.store.index.remove_before
        self.server = RemotingServer(
            {
                **self.sending.handlers(),
                **returning.handlers(),
                **replying.handlers(),
                **self.locks.handlers(),
                **self.transactions.handlers(),
                **self.delays.handlers(),
                **self.pulling.handlers(),
                **self.membership.handlers(),
                **Querying(config, self.store).handlers(),
                **Positions(self.offsets, self.store, in_memory).handlers(),
                **self.cleaning.handlers(),
                **self.stats.traffic.handlers(),
                **self._admin_handlers(config_file),
            },
            on_close=self._client_gone,
        )

    def _admin_handlers(self, config_file: Path | None) -> HandlerTable:
        config, topics, clients, store = self.config, self.topics, self.membership.clients, self.store
        traffic = self.stats.traffic
        return {
            **TopicAdmin(config, topics, store, self.registration, traffic).handlers(),
            **GroupAdmin(self.groups, self.offsets).handlers(),
            **ProgressAdmin(config, topics, self.groups, self.offsets, clients, store, traffic).handlers(),
            **OffsetAdmin(config, topics, self.offsets, clients, store).handlers(),
            **ClientAdmin(config, clients, store).handlers(),
            **QueueAdmin(clients, store).handlers(),
            **ConfigAdmin(config, topics, self.clock, config_file).handlers(),
            **RuntimeAdmin(config, store, self.acks, self.stats, self.delays, self.clock).handlers(),
            **AclAdmin(config, self.clock, config_file).handlers(),
        }

    # -- start --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises ConfigError or StoreError when the broker cannot run as configured; then nothing is left open."""
        self.store.open()
        try:
            await self._start()
        except BaseException:
            await self.server.stop()
            await self.registration.close()
            self.store.close()
            raise

    async def _start(self) -> None:
        for table in (self.topics, self.groups, self.offsets, self.filters):
            table.load()
        if self.store.was_rebuilt and self.topics.was_stored:
            # The log brought back the queues of topics that were deleted.
            for topic in {topic for topic, _ in self.store.queues if not self.topics.is_known(topic)}:
                self.store.drop_topic(topic)
        if self.store.was_rebuilt:
            self.offsets.correct(self._queue_end)
        try:
            self.topics.save()
        except StoreError as error:
            # On a full disk the broker can still be read from. A topic that is made is saved before anybody is told.
            log.error("%s", error)
        self.topics.on_change = self.registration.topics_changed
        self.delays.load()
        self.transactions.load()
        self.acks.on_grown = self._on_grown
        config = self.config
        await self.server.listen(config.bind_address, config.listen_port)
        await self.server.listen(config.bind_address, config.listen_port - VIP_PORT_DISTANCE)
        await self.registration.register_all()
        self._start_clockwork()

    def _queue_end(self, topic: str, queue_id: int) -> int:
        queue = self.store.queues.get((topic, queue_id))
        return queue.max_offset if queue is not None else 0

    def _start_clockwork(self) -> None:
        self.server.spawn(self.registration.run())
        for work in self.delays.tasks():
            self.server.spawn(work)
        self._every(self.config.flush_delay_offset_interval / 1000, self.delays.save_soon)
        self._every(self.config.flush_consumer_offset_interval / 1000, self.offsets.save_soon)
        self._every(self.config.flush_interval_commit_log / 1000, self._flush_log)
        self._every(CLIENT_SCAN_SECONDS, self.membership.clients.expire)
        self._every(FILTER_SAVE_SECONDS, self.filters.save_if_changed)
        self._every(CLIENT_SCAN_SECONDS, self.locks.forget_expired)
        self._every(ROUND_SECONDS, self.slow_consumers.round)
        self._every(SAMPLE_SECONDS, self.stats.sample)
        self._every(CHECKPOINT_SECONDS, self.checkpoints.round)
        self._every(INDEX_SECONDS, self._file_keys)
        self._every(NEXT_FILE_SECONDS, self.store.log.prepare_next_file)
        self._every(self.config.transaction_check_interval / 1000, self.transaction_checks.round)
        self._every(self.config.clean_resource_interval / 1000, self.cleaning.round)

    def _every(self, seconds: float, action: Callable[[], Awaitable[None] | None]) -> None:
        """An accident in one round is logged and does not end the rounds."""

        async def repeat() -> None:
            while True:
                await self.clock.sleep(seconds)
                try:
                    work = action()
                    if work is not None:
                        await work
                except StoreError as error:
                    log.error("%s", error)
                except Exception:
                    log.exception("a periodic task failed")

        self.server.spawn(repeat())

    def _flush_log(self) -> None:
        config = self.config
        self.acks.flushing.request_if_worth(
            config.flush_commit_log_least_pages, config.flush_commit_log_thorough_interval / 1000
        )

    async def _file_keys(self) -> None:
        index = self.store.index
        if index is None or not index.backlog:
            return
        # The first time this brings numpy along: a tenth of a second that no send should wait for.
        await asyncio.to_thread(importlib.import_module, "mqctl.store.indextail")
        while index.drain(INDEX_SLICE):
            await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.server.spawn(work)

    def _on_grown(self, queues: Iterable[ConsumeQueue]) -> None:
        self.pulling.on_grown(queues)
        self.delays.on_grown(queues)
        self.stats.traffic.grown(queues)

    def _client_gone(self, connection: Connection) -> None:
        self.membership.clients.drop(connection)

    # -- stop ---------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Clients are sent away first; then everything goes to disk."""
        await self.registration.unregister()
        self.pulling.long_polls.release_all()
        await self.server.stop()
        await self.registration.close()
        await self.cleaning.finish()
        await self.checkpoints.finish()
        if self.store.has_pending:
            self.acks.commit()
        self.transactions.halves.save_progress()
        tables = (self.topics, self.groups, self.offsets, self.filters, self.delays)
        for save in (self.acks.flushing.finish, *(table.save_last for table in tables)):
            try:
                await save()
            except (OSError, StoreError) as error:
                log.error("not saved: %s", error)
        self.store.close()
