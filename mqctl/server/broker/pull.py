"""Handing messages out: PULL_MESSAGE, and LITE_PULL_MESSAGE of 5.x clients, which is the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import OFFSET_MOVED_EVENT
from mqctl.remoting import bodies
from mqctl.remoting.bodies import MessageQueue, OffsetMovedEvent, SubscriptionGroupConfig
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import PullMessageHeader
from mqctl.remoting.topicbits import PERM_READ
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.clients import Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.groups import Groups
from mqctl.server.broker.longpoll import LongPolls, ParkedPull
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.stats import BrokerStats
from mqctl.server.broker.subscribing import Subscribing
from mqctl.server.broker.topics import Topics
from mqctl.server.loop import HandlerTable, Spawn, failure
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.fetch import Fetched, FetchStatus, Limits, Wanted, fetch, places, read_ahead
from mqctl.store.javahash import java_hash
from mqctl.store.properties import KEYS, TAGS, format_properties
from mqctl.store.store import MessageStore, NewMessage

FLAG_COMMIT_OFFSET: Final = 1
FLAG_SUSPEND: Final = 2

_CODES: Final = {
    FetchStatus.FOUND: ResponseCode.SUCCESS,
    FetchStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    FetchStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    FetchStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    FetchStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    FetchStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    FetchStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def response_code(fetched: Fetched, asked_offset: int) -> ResponseCode:
    """An empty queue has nothing at offset 0, and no other offset at all."""
    if fetched.status in (FetchStatus.NO_MESSAGE_IN_QUEUE, FetchStatus.NO_MATCHED_LOGIC_QUEUE):
        return ResponseCode.PULL_NOT_FOUND if asked_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return _CODES[fetched.status]


class Pulling:
    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        clients: Clients,
        store: MessageStore,
        acks: Acks,
        stats: BrokerStats,
        in_memory_bytes: int,
        spawn: Spawn,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._subscribing = Subscribing(config, clients)
        self._store = store
        self._acks = acks
        self._stats = stats
        self._in_memory_bytes = in_memory_bytes
        self._spawn = spawn
        self.long_polls = LongPolls(self._retry)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.PULL_MESSAGE: (PullMessageHeader, self.on_pull),
            RequestCode.LITE_PULL_MESSAGE: (PullMessageHeader, self.on_pull),
        }

    def on_grown(self, queues: Iterable[ConsumeQueue]) -> None:
        for queue in queues:
            self.long_polls.wake(queue.topic, queue.queue_id)

    def on_pull(self, connection: Connection, request: Command, header: PullMessageHeader) -> Command | None:
        group = self._groups.find(header.consumer_group)
        self._check(header, group)
        wanted = self._subscribing.wanted(header, group)
        if self._is_cold(header):
            self._spawn(self._pull_cold(connection, request, header, wanted))
            return None
        return self._pull(connection, request, header, wanted)

    async def _pull_cold(
        self, connection: Connection, request: Command, header: PullMessageHeader, wanted: Wanted
    ) -> None:
        """What lies far back is on disk only. A thread waits for the disk, and nobody else does."""
        limits = self._limits(header, cold=True)
        ahead = places(self._store, header.topic, header.queue_id, header.queue_offset, limits, wanted)
        await asyncio.to_thread(read_ahead, ahead)
        try:
            answer = self._pull(connection, request, header, wanted)
        except Exception as error:
            answer = failure(connection, request, error)
        if answer is not None and not request.is_oneway:
            connection.send(answer)

    def _pull(
        self, connection: Connection, request: Command, header: PullMessageHeader, wanted: Wanted
    ) -> Command | None:
        fetched = self._fetch(header, header.queue_offset, wanted)
        if header.sys_flag & FLAG_COMMIT_OFFSET and header.commit_offset >= 0:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        code = response_code(fetched, header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & FLAG_SUSPEND and not request.is_oneway:
            self._park(connection, request, header, wanted, fetched)
            return None
        return self._answer(request, header, code, fetched)

    # -- checks -------------------------------------------------------------------------------------

    def _check(self, header: PullMessageHeader, group: SubscriptionGroupConfig) -> None:
        if not self._config.broker_permission & PERM_READ:
            raise RequestFailed(ResponseCode.NO_PERMISSION, "pulling from this broker is forbidden")
        if not group.consume_enable:
            raise RequestFailed(ResponseCode.NO_PERMISSION, f"the consumer group {group.group_name!r} may not consume")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestFailed(ResponseCode.TOPIC_NOT_EXIST, f"the topic {header.topic!r} does not exist")
        if not topic.perm & PERM_READ:
            raise RequestFailed(ResponseCode.NO_PERMISSION, f"pulling from topic {header.topic!r} is forbidden")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR,
                f"queue {header.queue_id} of topic {header.topic!r} does not exist: it has "
                f"{topic.read_queue_nums} read queues",
            )

    # -- reading ------------------------------------------------------------------------------------

    def _fetch(self, header: PullMessageHeader, queue_offset: int, wanted: Wanted) -> Fetched:
        began = time.monotonic()
        limits = self._limits(header, cold=self._is_cold(header))
        fetched = fetch(self._store, header.topic, header.queue_id, queue_offset, limits, wanted)
        self._stats.slowest_fetch_s = max(self._stats.slowest_fetch_s, time.monotonic() - began)
        return fetched

    def _is_cold(self, header: PullMessageHeader) -> bool:
        """Whether the message asked for is too far behind the end of the log to be still in memory."""
        if self._store.log.end - self._store.log.begin <= self._in_memory_bytes:
            return False
        queue = self._store.queues.get((header.topic, header.queue_id))
        entry = queue.entry(header.queue_offset) if queue is not None else None
        return entry is not None and self._store.log.end - entry[0] > self._in_memory_bytes

    def _limits(self, header: PullMessageHeader, *, cold: bool) -> Limits:
        """Less from the disk than from memory, so that a consumer far behind does not evict what others
        are reading."""
        config = self._config
        if cold:
            count = config.max_transfer_count_on_message_in_disk
            size = config.max_transfer_bytes_on_message_in_disk
        else:
            count = config.max_transfer_count_on_message_in_memory
            size = config.max_transfer_bytes_on_message_in_memory
        if header.max_msg_bytes is not None and header.max_msg_bytes > 0:
            size = min(size, header.max_msg_bytes)
        return Limits(max(1, min(count, header.max_msg_nums)), size)

    # -- answering ----------------------------------------------------------------------------------

    def _park(
        self,
        connection: Connection,
        request: Command,
        header: PullMessageHeader,
        wanted: Wanted,
        fetched: Fetched,
    ) -> None:
        config = self._config
        hold = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        self.long_polls.park(ParkedPull(connection, request, header, wanted, fetched.next_offset), hold)

    def _retry(self, pull: ParkedPull, last: bool) -> bool:
        try:
            fetched = self._fetch(pull.header, pull.queue_offset, pull.wanted)
        except StoreError as error:
            pull.connection.send(failure(pull.connection, pull.request, error))
            return True
        code = response_code(fetched, pull.queue_offset)
        pull.queue_offset = fetched.next_offset
        nothing_for_it = code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
        if nothing_for_it and not last and fetched.next_offset >= fetched.max_offset:
            return False
        if code == ResponseCode.PULL_NOT_FOUND and pull.queue_offset != pull.header.queue_offset:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # the client must go on behind what was passed over
        pull.connection.send(self._answer(pull.request, pull.header, code, fetched))
        return True

    def _answer(self, request: Command, header: PullMessageHeader, code: ResponseCode, fetched: Fetched) -> Command:
        if code == ResponseCode.PULL_OFFSET_MOVED:
            self._record_moved_offset(header, fetched)
        if fetched.found:
            self._stats.pulls_found += 1
            self._stats.messages_pulled += fetched.found
            self._offsets.note_pull(header.consumer_group, header.topic, header.queue_id, fetched.next_offset)
            self._stats.traffic.pulled(
                header.topic, header.consumer_group, header.queue_id, fetched.found, len(fetched.records)
            )
        else:
            self._stats.pulls_missed += 1
        return request.reply(
            code,
            ext={
                "suggestWhichBrokerId": "0",
                "nextBeginOffset": str(fetched.next_offset),
                "minOffset": str(fetched.min_offset),
                "maxOffset": str(fetched.max_offset),
            },
            body=fetched.records,
            remark=fetched.status.name,
        )

    def _record_moved_offset(self, header: PullMessageHeader, fetched: Fetched) -> None:
        """Apache's broker leaves a message about every offset it had to correct; monitors read them. A full disk
        has no room for such notes."""
        if self._store.refusing:
            return
        group = header.consumer_group
        queue = MessageQueue(topic=header.topic, broker_name=self._config.broker_name, queue_id=header.queue_id)
        event = OffsetMovedEvent(
            consumer_group=group,
            message_queue=queue,
            offset_request=header.queue_offset,
            offset_new=fetched.next_offset,
        )
        properties = format_properties({KEYS: group, TAGS: group, "DELAY": "0"}).encode()
        now = self._store.now_ms()
        self._store.put(
            NewMessage(
                OFFSET_MOVED_EVENT,
                0,
                bodies.encode(event),
                properties,
                java_hash(group),
                0,
                0,
                now,
                self._store.store_host,
            )
        )
        self._acks.schedule()
