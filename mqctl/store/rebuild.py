"""Bringing consume queues and index in line with the records that a walk through the log finds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.index import keys_among
from mqctl.store.javahash import java_hash
from mqctl.store.properties import TAGS, parse_properties
from mqctl.store.schedule import waiting_code

if TYPE_CHECKING:
    from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# How many keys are collected before they are filed; each takes some 200 bytes of memory.
INDEX_SLICE: Final = 20_000

# More messages than this cannot be missing between two others; the offset is damaged.
MAX_GAP: Final = 1_000_000

NOT_FOR_CONSUMERS: Final = (record.SYS_TRANSACTION_PREPARED, record.SYS_TRANSACTION_ROLLBACK)


class Rebuilding:
    """Records come in the order of the log. Those before `queues_from` are in their queues already.

    With `replace` the first record of a queue makes it forget everything from that offset on, and so does a
    record whose offset is taken: its topic was deleted and made again.
    """

    def __init__(self, store: MessageStore, queues_from: int, *, replace: bool) -> None:
        self._store = store
        self._queues_from = queues_from
        self._replace = replace
        self._seen: set[ConsumeQueue] = set()
        self._index_refused = False
        self.added = 0
        self.has_gaps = False  # messages seem to be missing between two others
        self.last: record.Summary | None = None

    def add(self, found: record.Summary) -> None:
        properties = parse_properties(found.properties)
        self._add_keys(found, properties)
        if found.phys_offset >= self._queues_from:
            self._add_entry(found, properties)
        self.last = found

    def _add_keys(self, found: record.Summary, properties: dict[str, str]) -> None:
        index = self._store.index
        if index is None or found.sys_flag & record.SYS_TRANSACTION_MASK == record.SYS_TRANSACTION_ROLLBACK:
            return
        index.add(found.phys_offset, found.store_timestamp, found.topic, keys_among(properties))
        if index.backlog >= INDEX_SLICE and not self._index_refused:
            try:
                index.drain()
            except StoreError as error:
                log.warning("index: %s; keys stay in memory until there is room", error)
                self._index_refused = True

    def _add_entry(self, found: record.Summary, properties: dict[str, str]) -> None:
        if found.sys_flag & record.SYS_TRANSACTION_MASK in NOT_FOR_CONSUMERS:
            return
        queue = self._store.queue(found.topic, found.queue_id)
        if self._replace and (queue not in self._seen or found.queue_offset == 0):
            queue.truncate(min(found.queue_offset, queue.max_offset))
        self._seen.add(queue)
        if found.queue_offset < queue.max_offset:
            return
        tags_code = self._tags_code(found, properties)
        if found.queue_offset > queue.max_offset and not self._close_gap(queue, found, tags_code):
            return
        queue.append(found.phys_offset, found.size, tags_code)
        queue.next_offset = queue.max_offset
        self._store.mark_dirty(queue)
        if queue.wants_flush:
            self._store.flush_queue(queue)
        self.added += 1

    def _close_gap(self, queue: ConsumeQueue, found: record.Summary, tags_code: int) -> bool:
        """False for an offset that no sound record can have: the CRC does not cover it."""
        if queue.max_offset == queue.min_offset:
            queue.start_at(found.queue_offset)  # the log begins later than the queue did
            return True
        self.has_gaps = True
        missing = found.queue_offset - queue.max_offset
        log.warning("consume queue %s-%d: %d messages missing before offset %d", found.topic, found.queue_id,
                    missing, found.queue_offset)  # fmt: skip
        if missing > MAX_GAP:
            return False
        queue.skip_to(found.queue_offset, found.phys_offset, found.size, tags_code)
        return True

    def _tags_code(self, found: record.Summary, properties: dict[str, str]) -> int:
        """What the queue entry holds besides the record's place: a delivery time, or the hash of the tag."""
        levels_ms = self._store.config.delay_levels_ms
        due = waiting_code(found.topic, found.properties, found.store_timestamp, levels_ms)
        if due is not None:
            return due
        tags = properties.get(TAGS)
        return java_hash(tags) if tags else 0
