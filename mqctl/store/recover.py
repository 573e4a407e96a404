"""Opening a store: find the end of the log and bring the consume queues up to it.

After a clean stop every record is in its queue, so the walk starts where the furthest queue entry ends and
finds nothing new. After an unclean one some queues lack entries that others have, so the whole log is
walked; a record that its queue already has is passed over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mqctl.store import record
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.javahash import java_hash
from mqctl.store.properties import TAGS, parse_properties

if TYPE_CHECKING:
    from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# How much of the log is read at a time. A record larger than this is read on its own.
CHUNK: Final = 4 * 1024 * 1024


def recover(store: MessageStore, *, was_clean: bool) -> None:
    commitlog = store.log
    start = commitlog.begin
    if was_clean:
        start = max([start, *(queue.end_of_log() for queue in store.queues.values())])
    end, dispatched = _walk(store, start)
    commitlog.open_at(end)
    for queue in store.queues.values():
        _cut_queue(queue, end)
    if dispatched or not was_clean:
        log.info("store %s: %d records added to consume queues, log ends at %d", store.config.root, dispatched, end)
    store.flush_queues()


def _walk(store: MessageStore, start: int) -> tuple[int, int]:
    """Dispatches every sound record from `start` on; (end of the last one, how many were new)."""
    segments = store.log.segments
    offset, dispatched = start, 0
    buffer, buffer_start = b"", start
    while True:
        position = offset - buffer_start
        if len(buffer) - position < record.MIN_RECORD or len(buffer) - position < record.size_of(
            buffer[position : position + 8]
        ):
            buffer, buffer_start, position = segments.read(offset, CHUNK), offset, 0
            if len(buffer) >= record.BLANK.size and record.size_of(buffer) > CHUNK:
                buffer = segments.read(offset, record.size_of(buffer))
        if len(buffer) - position < record.BLANK.size:
            return offset, dispatched
        size, magic = record.SIZE_AND_MAGIC.unpack_from(buffer, position)
        if magic == record.MAGIC_BLANK:
            following = segments.start_of(offset) + segments.file_size
            if not segments.has(following):
                return offset, dispatched
            offset = following
            continue
        try:
            found = record.parse(buffer, position, check_crc=True)
        except record.RecordError:
            return offset, dispatched
        if found.phys_offset != offset:
            return offset, dispatched
        dispatched += _dispatch(store, found)
        offset += size


def _dispatch(store: MessageStore, found: record.Record) -> bool:
    if found.sys_flag & record.SYS_TRANSACTION_MASK in (
        record.SYS_TRANSACTION_PREPARED,
        record.SYS_TRANSACTION_ROLLBACK,
    ):
        return False
    queue = store.queue(found.topic, found.queue_id)
    if found.queue_offset < queue.max_offset:
        return False
    if found.queue_offset > queue.max_offset and queue.max_offset == 0:
        queue.start_at(found.queue_offset)
    tags = parse_properties(found.properties).get(TAGS)
    queue.append(found.phys_offset, found.size, java_hash(tags) if tags else 0)
    queue.next_offset = queue.max_offset
    store.mark_dirty(queue)
    return True


def _cut_queue(queue: ConsumeQueue, log_end: int) -> None:
    """Entries that point past the end of the log have lost their records."""
    keep = queue.max_offset
    while keep > queue.min_offset:
        entry = queue.entry(keep - 1)
        if entry is not None and entry[0] + entry[1] <= log_end:
            break
        keep -= 1
    if keep < queue.max_offset:
        log.warning(
            "consume queue %s-%d: %d entries past the log's end cut",
            queue.topic,
            queue.queue_id,
            queue.max_offset - keep,
        )
        queue.truncate(keep)
