"""Opening a store: find the end of the log and bring the consume queues up to it.

After a clean stop every record is in its queue, so the walk starts where the furthest queue entry ends and
finds nothing new. After an unclean one some queues lack entries that others have, so the whole log is
walked; a record that its queue already has is passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mqctl.store import record
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.files import Segments
from mqctl.store.javahash import java_hash
from mqctl.store.properties import TAGS, parse_properties

if TYPE_CHECKING:
    from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# How much of the log is read at a time.
CHUNK: Final = 4 * 1024 * 1024

NOT_FOR_CONSUMERS: Final = (record.SYS_TRANSACTION_PREPARED, record.SYS_TRANSACTION_ROLLBACK)


def recover(store: MessageStore, *, was_clean: bool) -> None:
    start = store.log.begin
    if was_clean:
        start = max([start, *(queue.end_of_log() for queue in store.queues.values())])
    walk = LogWalk(store.log.segments, start)
    added = sum(_dispatch(store, found) for found in walk)
    store.log.open_at(walk.end)
    for queue in store.queues.values():
        _cut(queue, walk.end)
    if added or not was_clean:
        log.info("store %s: %d entries rebuilt, the log ends at %d", store.config.root, added, walk.end)
    store.flush_queues()


class LogWalk:
    """The sound records of a log from some record's place on. `end` is the place behind the last one: there
    the log ends, or something that is not a record begins."""

    def __init__(self, segments: Segments, start: int) -> None:
        self._segments = segments
        self.end = start
        self._chunk = b""
        self._chunk_start = start

    def __iter__(self) -> Iterator[record.Record]:
        while self._skip_blank():
            try:
                found = record.parse(self._bytes(self._record_size()), 0, check_crc=True)
            except record.RecordError:
                return
            if found.phys_offset != self.end:
                return
            yield found
            self.end += found.size

    def _skip_blank(self) -> bool:
        """Steps over the blank at a file's end; False if there is no file behind it, or nothing at all."""
        head = self._bytes(record.BLANK.size)
        if len(head) < record.BLANK.size:
            return False
        if record.BLANK.unpack_from(head)[1] != record.MAGIC_BLANK:
            return True
        following = self._segments.start_of(self.end) + self._segments.file_size
        if not self._segments.has(following):
            return False
        self.end = following
        return True

    def _record_size(self) -> int:
        """What the record claims, within what a file can hold: it may be no record at all."""
        claimed = record.size_of(bytes(self._bytes(record.BLANK.size)))
        return max(record.MIN_RECORD, min(claimed, self._segments.file_size))

    def _bytes(self, size: int) -> memoryview:
        """Up to `size` bytes at `end`, read ahead in chunks."""
        position = self.end - self._chunk_start
        if position + size > len(self._chunk):
            self._chunk = self._segments.read(self.end, max(size, CHUNK))
            self._chunk_start, position = self.end, 0
        return memoryview(self._chunk)[position : position + size]


def _dispatch(store: MessageStore, found: record.Record) -> bool:
    """Adds the record to its queue; False if it is there already or does not belong into one."""
    if found.sys_flag & record.SYS_TRANSACTION_MASK in NOT_FOR_CONSUMERS:
        return False
    queue = store.queue(found.topic, found.queue_id)
    if found.queue_offset < queue.max_offset:
        return False
    if found.queue_offset > queue.max_offset == 0:
        queue.start_at(found.queue_offset)
    tags = parse_properties(found.properties).get(TAGS)
    queue.append(found.phys_offset, found.size, java_hash(tags) if tags else 0)
    queue.next_offset = queue.max_offset
    store.mark_dirty(queue)
    return True


def _cut(queue: ConsumeQueue, log_end: int) -> None:
    """Forgets entries that point past the end of the log: their records are lost."""
    keep = queue.max_offset
    while keep > queue.min_offset:
        entry = queue.entry(keep - 1)
        if entry is not None and entry[0] + entry[1] <= log_end:
            break
        keep -= 1
    if keep < queue.max_offset:
        lost = queue.max_offset - keep
        log.warning("consume queue %s-%d: %d entries past the log's end cut", queue.topic, queue.queue_id, lost)
        queue.truncate(keep)
