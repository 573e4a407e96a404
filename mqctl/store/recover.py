"""Opening a store: find the end of the log and bring the consume queues up to it.

After a clean stop every record is in its queue, so the walk starts where the furthest queue entry ends and
finds nothing new. After an unclean one the queues may lack entries, or hold some that never reached the disk
whole: the log is walked from its beginning and has the last word about every entry.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mqctl.store import record
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.index import indexed_keys
from mqctl.store.javahash import java_hash
from mqctl.store.properties import TAGS, get_property
from mqctl.store.schedule import waiting_code
from mqctl.store.walk import LogWalk

if TYPE_CHECKING:
    from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# How many keys are collected before they are filed; each takes some 200 bytes of memory.
INDEX_SLICE: Final = 20_000

# More messages than this cannot be missing between two others; the offset is damaged.
MAX_GAP: Final = 1_000_000

NOT_FOR_CONSUMERS: Final = (record.SYS_TRANSACTION_PREPARED, record.SYS_TRANSACTION_ROLLBACK)


def recover(store: MessageStore, *, was_clean: bool, has_index: bool) -> None:
    if not store.log.segments.starts:
        store.drop_queues()  # they point to nothing; a message that comes now gets the first offset
    start = _start(store, was_clean and has_index)
    before = {queue: queue.max_offset for queue in store.queues.values()}
    walk = LogWalk(store.log.segments, start)
    store.was_rebuilt = start == store.log.begin
    rebuilding = _Rebuilding(store, replace=store.was_rebuilt)
    for found in walk:
        rebuilding.add(found)
        store.note_stored(found.store_timestamp)
    if walk.damage is not None:
        log.warning("store %s: the log ends at %d, where there is %s", store.config.root, walk.end, walk.damage)
    store.log.cut(walk.end, store.config.root / "damaged")
    if store.index is not None:
        store.index.truncate_after(walk.end)
    for queue in store.queues.values():
        _cut(queue, walk.end)
        lost = before.get(queue, 0) - queue.max_offset
        if lost > 0:
            log.warning("consume queue %s-%d: %d entries past the log's end cut", queue.topic, queue.queue_id, lost)
    if rebuilding.added or not was_clean:
        log.info("store %s: %d entries rebuilt, the log ends at %d", store.config.root, rebuilding.added, walk.end)
    store.flush_queues()


def _start(store: MessageStore, was_clean: bool) -> int:
    """Where the walk begins: behind all that is known to be in its queue."""
    known = max((queue.end_of_log() for queue in store.queues.values()), default=0)
    if was_clean and store.log.begin <= known <= store.log.segments.end:
        return known
    return store.log.begin


class _Rebuilding:
    """Brings queues in line with the records of a walk.

    With `replace` the first record of a queue makes it forget everything from that offset on, and so does a
    record whose offset is taken: its topic was deleted and made again.
    """

    def __init__(self, store: MessageStore, *, replace: bool) -> None:
        self._store = store
        self._replace = replace
        self._seen: set[ConsumeQueue] = set()
        self.added = 0

    def add(self, found: record.Record) -> None:
        self._add_keys(found)
        self._add_entry(found)

    def _add_keys(self, found: record.Record) -> None:
        index = self._store.index
        if index is None or found.sys_flag & record.SYS_TRANSACTION_MASK == record.SYS_TRANSACTION_ROLLBACK:
            return
        index.add(found.phys_offset, found.store_timestamp, found.topic, indexed_keys(found.properties))
        if index.backlog >= INDEX_SLICE:
            index.drain()

    def _close_gap(self, queue: ConsumeQueue, found: record.Record) -> bool:
        """False for an offset that no sound record can have: the CRC does not cover it."""
        if queue.max_offset == queue.min_offset:
            queue.start_at(found.queue_offset)  # the log begins later than the queue did
            return True
        missing = found.queue_offset - queue.max_offset
        log.warning("consume queue %s-%d: %d messages missing before offset %d", found.topic, found.queue_id,
                    missing, found.queue_offset)  # fmt: skip
        if missing > MAX_GAP:
            return False
        queue.skip_to(found.queue_offset, found.phys_offset)
        return True

    def _add_entry(self, found: record.Record) -> None:
        if found.sys_flag & record.SYS_TRANSACTION_MASK in NOT_FOR_CONSUMERS:
            return
        queue = self._store.queue(found.topic, found.queue_id)
        if self._replace and (queue not in self._seen or found.queue_offset == 0):
            queue.truncate(min(found.queue_offset, queue.max_offset))
        self._seen.add(queue)
        if found.queue_offset < queue.max_offset:
            return
        if found.queue_offset > queue.max_offset and not self._close_gap(queue, found):
            return
        queue.append(found.phys_offset, found.size, self._tags_code(found))
        queue.next_offset = queue.max_offset
        self._store.mark_dirty(queue)
        self.added += 1

    def _tags_code(self, found: record.Record) -> int:
        """What the queue entry holds besides the record's place: a delivery time, or the hash of the tag."""
        levels_ms = self._store.config.delay_levels_ms
        due = waiting_code(found.topic, found.properties, found.store_timestamp, levels_ms)
        if due is not None:
            return due
        tags = get_property(found.properties, TAGS)
        return java_hash(tags) if tags else 0


def _cut(queue: ConsumeQueue, log_end: int) -> None:
    """Forgets entries that point past the end of the log: their records are lost."""
    keep = queue.max_offset
    while keep > queue.min_offset:
        entry = queue.entry(keep - 1)
        if entry is not None and entry[0] + entry[1] <= log_end:
            break
        keep -= 1
    if keep < queue.max_offset:
        queue.truncate(keep)
