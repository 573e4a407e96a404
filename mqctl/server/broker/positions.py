"""Where a queue begins and ends, what lies at a time, and how far groups have read."""

from __future__ import annotations

from mqctl.errors import RequestFailed
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import (
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    TopicQueueHeader,
    UpdateConsumerOffsetHeader,
)
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.loop import HandlerTable
from mqctl.store.fetch import search_by_time, stored_at
from mqctl.store.store import MessageStore


class Positions:
    def __init__(self, offsets: ConsumerOffsets, store: MessageStore, in_memory_bytes: int) -> None:
        self._offsets = offsets
        self._store = store
        self._in_memory_bytes = in_memory_bytes

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_MAX_OFFSET: (TopicQueueHeader, self.on_max_offset),
            RequestCode.GET_MIN_OFFSET: (TopicQueueHeader, self.on_min_offset),
            RequestCode.GET_EARLIEST_MSG_STORETIME: (TopicQueueHeader, self.on_earliest),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (SearchOffsetHeader, self.on_search),
            RequestCode.QUERY_CONSUMER_OFFSET: (QueryConsumerOffsetHeader, self.on_query_offset),
            RequestCode.UPDATE_CONSUMER_OFFSET: (UpdateConsumerOffsetHeader, self.on_update_offset),
            RequestCode.GET_ALL_CONSUMER_OFFSET: (None, self.on_all_offsets),
        }

    # An unknown queue has offset 0, as in Apache's broker: consumers ask before the first message is there.

    def on_max_offset(self, connection: Connection, request: Command, header: TopicQueueHeader) -> Command:
        queue = self._store.queues.get((header.topic, header.queue_id))
        return request.reply(ext={"offset": str(queue.max_offset if queue else 0)})

    def on_min_offset(self, connection: Connection, request: Command, header: TopicQueueHeader) -> Command:
        queue = self._store.queues.get((header.topic, header.queue_id))
        return request.reply(ext={"offset": str(queue.min_offset if queue else 0)})

    def on_earliest(self, connection: Connection, request: Command, header: TopicQueueHeader) -> Command:
        queue = self._store.queues.get((header.topic, header.queue_id))
        timestamp = stored_at(self._store, queue, queue.min_offset) if queue else None
        return request.reply(ext={"timestamp": str(-1 if timestamp is None else timestamp)})

    def on_search(self, connection: Connection, request: Command, header: SearchOffsetHeader) -> Command:
        queue = self._store.queues.get((header.topic, header.queue_id))
        queue_offset = search_by_time(self._store, queue, header.timestamp) if queue else 0
        return request.reply(ext={"offset": str(queue_offset)})

    def on_query_offset(self, connection: Connection, request: Command, header: QueryConsumerOffsetHeader) -> Command:
        """A group without a stored offset starts at 0 while the whole queue is young (nothing was deleted,
        and its beginning is near enough to be in memory); otherwise the client decides where to start."""
        stored = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if stored is None and header.set_zero_if_not_found is not False and self._is_young(header):
            stored = 0
        if stored is None:
            raise RequestFailed(
                ResponseCode.QUERY_NOT_FOUND,
                f"group {header.consumer_group!r} has no offset for queue {header.queue_id} of {header.topic!r}",
            )
        return request.reply(ext={"offset": str(stored)})

    def _is_young(self, header: QueryConsumerOffsetHeader) -> bool:
        queue = self._store.queues.get((header.topic, header.queue_id))
        if queue is None or queue.max_offset == 0:
            return True
        first = queue.entry(0) if queue.min_offset <= 0 else None
        return first is not None and self._store.log.end - first[0] <= self._in_memory_bytes

    def on_update_offset(self, connection: Connection, request: Command, header: UpdateConsumerOffsetHeader) -> Command:
        if header.queue_id < 0 or header.commit_offset < 0:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, "a queue id and an offset cannot be negative")
        self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return request.reply(ext={})

    def on_all_offsets(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=self._offsets.encode_table())
