"""Groups so far behind that their reads come from the disk and slow everybody down may be stopped, if the operator
wishes: disableConsumeIfConsumerReadSlowly. They stay stopped until their consumeEnable is set again."""

from __future__ import annotations

import logging
from typing import Final

from mqctl.server.broker.clients import Clients, ConsumerGroup
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.groups import Groups
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 180.0


class SlowConsumers:
    """Loop only. Looks at groups that consume right now: one that rests reads nothing."""

    def __init__(
        self, config: BrokerConfig, groups: Groups, clients: Clients, offsets: ConsumerOffsets, store: MessageStore
    ) -> None:
        self._config = config
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._store = store

    def round(self) -> None:
        if not self._config.disable_consume_if_consumer_read_slowly:
            return
        for group in self._clients.consumers.values():
            behind = self._bytes_behind(group)
            if behind > self._config.consumer_fallbehind_threshold:
                log.warning("group %s: stopped, %d bytes behind the end of the log", group.name, behind)
                self._groups.stop(group.name)

    def _bytes_behind(self, group: ConsumerGroup) -> int:
        """How far back in the log the next message lies that the group will read."""
        furthest = 0
        for queue in self._store.queues.values():
            if queue.topic not in group.subscriptions:
                continue
            consumed = self._offsets.get(group.name, queue.topic, queue.queue_id)
            if consumed is None:
                continue
            entry = queue.entry(max(consumed, queue.min_offset))
            if entry is not None:
                furthest = max(furthest, self._store.log.end - entry[0])
        return furthest
