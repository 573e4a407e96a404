"""Entries of a consume queue as they are, for whoever looks for a fault (queryCq)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import SubscriptionData
from mqctl.remoting.bodies_admin import ConsumeQueueEntries, ConsumeQueueEntry
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_admin import ConsumeQueueHeader
from mqctl.server.broker.clients import Clients
from mqctl.server.loop import HandlerTable
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, ConsumeQueue
from mqctl.store.store import MessageStore

# A megabyte of JSON; who wants more asks again.
MAX_ENTRIES: Final = 10_000


class QueueAdmin:
    """Loop only."""

    def __init__(self, clients: Clients, store: MessageStore) -> None:
        self._clients = clients
        self._store = store

    def handlers(self) -> HandlerTable:
        return {RequestCode.QUERY_CONSUME_QUEUE: (ConsumeQueueHeader, self.on_query)}

    def on_query(self, connection: Connection, request: Command, header: ConsumeQueueHeader) -> Command:
        """None for an index outside the queue, where Apache's broker leaves the body out and its own tool fails."""
        queue = self._store.queues.get((header.topic, header.queue_id))
        if queue is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        inside = queue.min_offset <= header.index < queue.max_offset
        entries = [
            ConsumeQueueEntry(physic_offset=phys_offset, physic_size=size, tags_code=tags_code)
            for phys_offset, size, tags_code in (_entries(queue, header.index, header.count) if inside else ())
        ]
        body = ConsumeQueueEntries(
            min_queue_index=queue.min_offset, max_queue_index=queue.max_offset, queue_data=entries
        )
        if header.consumer_group is not None:
            body.subscription_data = self._subscription(header.consumer_group, header.topic)
            if body.subscription_data is None:
                body.filter_data = f"{header.consumer_group}@{header.topic} is not online!"
        return request.reply(body=bodies.encode(body))

    def _subscription(self, group: str, topic: str) -> SubscriptionData | None:
        online = self._clients.consumers.get(group)
        return online.subscriptions.get(topic) if online is not None else None


def _entries(queue: ConsumeQueue, index: int, count: int) -> Iterator[tuple[int, int, int]]:
    """A read ends where a file ends, and where those in memory begin."""
    end = min(index + min(count, MAX_ENTRIES), queue.max_offset)
    while index < end:
        data = queue.read(index, end - index)
        whole = len(data) // ENTRY_SIZE
        if not whole:
            return
        yield from ENTRY.iter_unpack(data[: whole * ENTRY_SIZE])
        index += whole
