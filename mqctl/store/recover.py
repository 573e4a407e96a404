"""Opening a store: find the end of the log and bring consume queues and index up to it.

After a clean stop every record is in its queue, so the walk starts where the furthest queue entry ends and
finds nothing new. After an unclean one the queues may lack entries, or hold some that never reached the disk
whole. The checkpoint says up to where they can be trusted; what they say about later records is forgotten, and
the walk from there on has the last word. Without a checkpoint the whole log is walked.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqctl.store import record
from mqctl.store.checkpoint import Checkpoint
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.progress import Progress
from mqctl.store.rebuild import NOT_FOR_CONSUMERS, Rebuilding
from mqctl.store.saving import Mark
from mqctl.store.walk import LogWalk

if TYPE_CHECKING:
    from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# How many records are looked at between two looks at the clock.
RECORDS_PER_REPORT: Final = 4096


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the walk begins, and from where on queues may lack entries. With `replace` they may also have wrong
    ones from there on, and the log alone says what is in them."""

    start: int
    queues_from: int
    replace: bool = True


def recover(store: MessageStore, checkpoint: Checkpoint, *, was_clean: bool, has_index: bool) -> None:
    if not store.log.segments.starts:
        store.drop_queues()  # they point to nothing; a message that comes now gets the first offset
    promised = _promised(store, checkpoint)
    plan = _clean_plan(store, has_index) if was_clean else None
    if plan is None:
        plan = _unclean_plan(store, checkpoint, promised, has_index)
    before = {queue: queue.max_offset for queue in store.queues.values()}
    vouched = max(promised, checkpoint.safe_offset or 0)
    walk, rebuilding = _walk(store, plan, vouched)
    if plan.queues_from > store.log.begin and (rebuilding.has_gaps or (walk.damage and walk.end == plan.start)):
        # Entries are missing that should be there, or not even one record is where some should begin. A crash may
        # do the latter, and both are what the copy of a folder in use looks like.
        log.warning("store %s: the whole log is walked, since it is not as the checkpoint says", store.config.root)
        plan = _Plan(store.log.begin, store.log.begin)
        walk, rebuilding = _walk(store, plan, vouched)
    _cut_all(store, walk, before)
    if rebuilding.added or not was_clean:
        log.info("store %s: %d entries rebuilt from %d on, the log ends at %d", store.config.root, rebuilding.added,
                 plan.start, walk.end)  # fmt: skip
    store.flush_queues()
    store.was_rebuilt = plan.replace or rebuilding.added > 0
    last = rebuilding.last
    if last is not None:
        store.published = Mark(walk.end, last.store_timestamp, last.phys_offset)
    else:
        store.published = Mark(walk.end, checkpoint.physic_timestamp, _last_record(checkpoint, walk.end))


def _walk(store: MessageStore, plan: _Plan, vouched: int) -> tuple[LogWalk, Rebuilding]:
    if plan.queues_from < vouched:
        # Queues are not what the checkpoint vouches for. Should this walk be cut short, the next start must not
        # take what it has made for complete.
        store.saver.distrust()
    if plan.replace:
        for queue in store.queues.values():
            queue.keep_before(plan.queues_from)
    walk = LogWalk(store.log.segments, plan.start)
    rebuilding = Rebuilding(store, plan.queues_from, replace=plan.replace)
    progress = Progress(f"store {store.config.root}", plan.start, store.log.segments.end)
    for number, found in enumerate(walk):
        rebuilding.add(found)
        if number % RECORDS_PER_REPORT == 0:
            progress.at(found.phys_offset)
    return walk, rebuilding


# -- where to begin -------------------------------------------------------------------------------------


def _clean_plan(store: MessageStore, has_index: bool) -> _Plan | None:
    """Behind all that is known to be in its queue; None if that is no place in the log."""
    known = max((queue.end_of_log() for queue in store.queues.values()), default=0)
    if not store.log.begin <= known <= store.log.segments.end:
        return None
    return _Plan(known if has_index else store.log.begin, known, replace=False)


def _unclean_plan(store: MessageStore, checkpoint: Checkpoint, promised: int, has_index: bool) -> _Plan:
    # Somebody may have deleted the queues in order to have them made anew.
    queues_from = promised if store.queues else store.log.begin
    if store.index is None:
        return _Plan(queues_from, queues_from)
    keys_from = store.index.complete_until(checkpoint.index_position) if has_index else store.log.begin
    start = min(keys_from, queues_from)
    is_record = start == queues_from or store.log.store_timestamp(start) is not None
    return _Plan(start if store.log.begin <= start and is_record else store.log.begin, queues_from)


def _promised(store: MessageStore, checkpoint: Checkpoint) -> int:
    """Up to where the checkpoint vouches for log and queues; the begin of the log if it does not."""
    begin, end = store.log.begin, store.log.segments.end
    if checkpoint.safe_offset is not None:
        is_so = begin <= checkpoint.safe_offset <= end and _is_confirmed(store, checkpoint)
        return checkpoint.safe_offset if is_so else begin
    # The newest file whose first record is old enough, as in Java's isMappedFileMatchedRecover.
    for start in reversed(store.log.segments.starts):
        timestamp = store.log.store_timestamp(start)
        if timestamp is not None and 0 < timestamp <= checkpoint.safe_timestamp:
            return start
    return begin


def _is_confirmed(store: MessageStore, checkpoint: Checkpoint) -> bool:
    """Whether the last record before the safe offset is where the checkpoint says, and in its queue. Where a folder
    was copied while in use, the log may be older than the checkpoint: behind its end would be a hole."""
    phys_offset = checkpoint.last_record
    if phys_offset < store.log.begin:
        return True  # not known, or deleted since
    size = (checkpoint.safe_offset or 0) - phys_offset
    try:
        found = record.parse(store.log.segments.read(phys_offset, size), 0)
    except record.RecordError:
        return False
    queue = store.queues.get((found.topic, found.queue_id))
    if queue is None or found.sys_flag & record.SYS_TRANSACTION_MASK in NOT_FOR_CONSUMERS:
        return True
    entry = queue.entry(found.queue_offset)
    return entry is not None and entry[0] == phys_offset


def _last_record(checkpoint: Checkpoint, log_end: int) -> int:
    return checkpoint.last_record if checkpoint.safe_offset == log_end else -1


# -- the end of the log ---------------------------------------------------------------------------------


def _cut_all(store: MessageStore, walk: LogWalk, before: dict[ConsumeQueue, int]) -> None:
    if walk.damage is not None:
        log.warning("store %s: the log ends at %d, where there is %s", store.config.root, walk.end, walk.damage)
    store.log.cut(walk.end, store.config.root / "damaged")
    if store.index is not None and store.index.last_indexed_offset >= walk.end:
        store.index.truncate_after(walk.end)
    for queue in store.queues.values():
        _cut(queue, walk.end)
        lost = before.get(queue, 0) - queue.max_offset
        if lost > 0:
            log.warning("consume queue %s-%d: %d entries past the log's end cut", queue.topic, queue.queue_id, lost)


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
