"""Which transactions are open.

Apache's broker finds out anew in each round, from the queues of half and op messages. Here both are read once,
at the start, and from then on the table keeps up: a round costs what is open, not what has ended.

Two positions in those queues are kept in consumerOffset.json under the names that Apache's broker uses: before
the first nothing is open, before the second no op message matters any more. A start, of either broker, reads
from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mqctl.names import TRANS_HALF_TOPIC, TRANS_OP_TOPIC
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.transactions.messages import QUEUE_ID, op_target
from mqctl.store import record
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    get_property,
)
from mqctl.store.record import Record
from mqctl.store.store import Appended, MessageStore

log = logging.getLogger(__name__)

PROGRESS_GROUP: Final = "CID_RMQ_SYS_TRANS"

# How the last transactions ended, for producers that ask again because they missed the answer.
REMEMBERED_OUTCOMES: Final = 10_000

# Ops are noted by the block: an old transaction that stays open must not make millions of them take memory.
OP_BLOCK: Final = 1024


@dataclass(slots=True, eq=False)
class Half:
    """An open transaction: the newest copy of its half message, and where the earlier ones are, by which a
    producer may end it just as well. Who changes it in the log holds its lock."""

    queue_offset: int
    phys_offset: int
    born_timestamp: int
    checks: int
    immunity_s: int | None
    earlier: list[int] = field(default_factory=list)
    is_open: bool = True
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def copies(self) -> list[int]:
        """The newest first: the op message for it ends the transaction, even if a crash cuts off the others."""
        return [self.queue_offset, *self.earlier]


class HalfTable:
    """Loop only."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        self._open: dict[int, Half] = {}  # by the queue offset of each copy
        # Of the halves before this offset all that are open are in the table; of those behind it all that ended
        # are in the set.
        self._known_to = 0
        self._ended_ahead: set[int] = set()
        self._loaded: dict[tuple[str, int], Half] = {}  # found at the start, when earlier copies may be out of sight
        self._outcomes: dict[int, int] = {}
        self._ops = _OpBlocks()

    # -- start --------------------------------------------------------------------------------------

    def load(self) -> None:
        """Before the first request, when store and offsets are loaded."""
        ended: set[int] = set()
        for op in self._unread(TRANS_OP_TOPIC):
            target = op_target(op)
            if target is not None:
                self._ops.add(op.queue_offset, target)
                ended.add(target)
        for found in self._unread(TRANS_HALF_TOPIC):
            self._load_one(found, ended)
        self._known_to = self._end_of(TRANS_HALF_TOPIC)
        if self._open:
            log.info("%d transactions are open", len(self.open_halves()))

    def _unread(self, topic: str) -> Iterator[Record]:
        """What is in the topic from the saved position on."""
        queue = self._store.queues.get((topic, QUEUE_ID))
        if queue is None:
            return
        saved = self._offsets.get(PROGRESS_GROUP, topic, QUEUE_ID) or 0
        for queue_offset in range(max(saved, queue.min_offset), queue.max_offset):
            found = self._read(queue, queue_offset)
            if found is not None:
                yield found

    def _end_of(self, topic: str) -> int:
        queue = self._store.queues.get((topic, QUEUE_ID))
        return queue.max_offset if queue is not None else 0

    def _load_one(self, found: Record, ended: set[int]) -> None:
        """A copy stands for the half and the copies before it. These may lack their op messages: Apache's broker
        writes none for them, and a crash can cut off ours."""
        original = _number(found, TRAN_PREPARED_QUEUE_OFFSET)
        is_copy = original is not None or _number(found, TRANSACTION_CHECK_TIMES) is not None
        previous = self._loaded.pop(_identity(found), None) if is_copy else None
        earlier = previous.copies if previous is not None else []
        for queue_offset in earlier:
            self._open.pop(queue_offset, None)
        if found.queue_offset in ended or original in ended:
            return
        half = self._learn(found)
        half.earlier = [*earlier, original] if original is not None and original not in earlier else earlier
        for queue_offset in half.earlier:
            self._open[queue_offset] = half
        self._loaded[_identity(found)] = half

    # -- asking -------------------------------------------------------------------------------------

    def find(self, found: Record) -> Half | None:
        """The transaction of a half message or a copy of it; None if it has ended."""
        half = self._open.get(found.queue_offset)
        if half is not None:
            return half
        if found.queue_offset < self._known_to or found.queue_offset in self._ended_ahead:
            return self._find_loaded(found)
        return self._learn(found)

    def _find_loaded(self, found: Record) -> Half | None:
        half = self._loaded.get(_identity(found))
        if half is None or not half.is_open:
            return None
        half.earlier.append(found.queue_offset)
        self._open[found.queue_offset] = half
        return half

    def outcome(self, queue_offset: int) -> int | None:
        """How a transaction ended, if that was not long ago."""
        return self._outcomes.get(queue_offset)

    def open_halves(self) -> list[Half]:
        """Oldest first. Call `catch_up` before."""
        return sorted(set(self._open.values()), key=lambda half: half.queue_offset)

    def catch_up(self, limit: int) -> bool:
        """Takes in halves that came since the last time; True if it is worth calling again."""
        queue = self._store.queues.get((TRANS_HALF_TOPIC, QUEUE_ID))
        if queue is None:
            return False
        self._known_to = max(self._known_to, queue.min_offset)
        for queue_offset in range(self._known_to, min(self._known_to + limit, queue.max_offset)):
            self._known_to = queue_offset + 1
            if queue_offset in self._ended_ahead:
                self._ended_ahead.discard(queue_offset)
            elif queue_offset not in self._open and (found := self._read(queue, queue_offset)) is not None:
                self._learn(found)
        return self._known_to < queue.max_offset

    def read(self, half: Half) -> Record | None:
        """The newest copy; None if it was deleted from the log."""
        return read_record(self._store, half.phys_offset)

    # -- changing, once it is in the log ------------------------------------------------------------

    def renew(self, half: Half, copy: Appended) -> None:
        half.earlier.append(half.queue_offset)
        half.queue_offset = copy.queue_offset
        half.phys_offset = copy.phys_offset
        half.checks += 1
        self._open[half.queue_offset] = half

    def end(self, half: Half, outcome: int) -> None:
        half.is_open = False
        for queue_offset in half.copies:
            self._open.pop(queue_offset, None)
            self._outcomes[queue_offset] = outcome
            if queue_offset >= self._known_to:
                self._ended_ahead.add(queue_offset)
        while self._known_to in self._ended_ahead:
            self._ended_ahead.discard(self._known_to)
            self._known_to += 1
        while len(self._outcomes) > REMEMBERED_OUTCOMES:
            del self._outcomes[next(iter(self._outcomes))]

    def note_op(self, op_offset: int, half_offset: int) -> None:
        """May be called before the op message is in the log."""
        self._ops.add(op_offset, half_offset)

    def save_progress(self) -> None:
        """Leaves the two positions in the table of consumer offsets."""
        half_begin = min((half.queue_offset for half in self._open.values()), default=self._known_to)
        half_begin = min(half_begin, self._known_to)
        op_begin = self._ops.first_needed(half_begin)
        if op_begin is None:
            op_begin = self._end_of(TRANS_OP_TOPIC)
        for topic, begin in ((TRANS_HALF_TOPIC, half_begin), (TRANS_OP_TOPIC, op_begin)):
            if begin != (self._offsets.get(PROGRESS_GROUP, topic, QUEUE_ID) or 0):
                self._offsets.commit(PROGRESS_GROUP, topic, QUEUE_ID, begin)

    # -- records ------------------------------------------------------------------------------------

    def _read(self, queue: ConsumeQueue, queue_offset: int) -> Record | None:
        entry = queue.entry(queue_offset)
        return read_record(self._store, entry[0]) if entry is not None else None

    def _learn(self, found: Record) -> Half:
        half = Half(
            found.queue_offset,
            found.phys_offset,
            found.born_timestamp,
            checks=_number(found, TRANSACTION_CHECK_TIMES) or 0,
            immunity_s=_number(found, CHECK_IMMUNITY_TIME_IN_SECONDS),
        )
        self._open[found.queue_offset] = half
        return half


class _OpBlocks:
    """Where in the op queue the first op message is that still matters, give or take a block."""

    def __init__(self) -> None:
        self._blocks: deque[list[int]] = deque()  # [first op offset, last half offset mentioned]

    def add(self, op_offset: int, half_offset: int) -> None:
        last = self._blocks[-1] if self._blocks else None
        if last is None or op_offset - last[0] >= OP_BLOCK:
            self._blocks.append([op_offset, half_offset])
            return
        # A write that failed gives its places back: an op may come before its block.
        last[0] = min(last[0], op_offset)
        last[1] = max(last[1], half_offset)

    def first_needed(self, half_begin: int) -> int | None:
        """None if no op matters for halves from `half_begin` on."""
        while self._blocks and self._blocks[0][1] < half_begin:
            self._blocks.popleft()
        return self._blocks[0][0] if self._blocks else None


def read_record(store: MessageStore, phys_offset: int) -> Record | None:
    """The record at this place; None where no sound one is."""
    data = store.log.read_record(phys_offset)
    if data is None:
        return None
    try:
        return record.parse(data, 0)
    except record.RecordError:
        return None


def _identity(found: Record) -> tuple[str, int]:
    """Common to all copies of a half. The unique key alone is not enough: a producer that sends the same message
    object in a second transaction keeps it."""
    return get_property(found.properties, UNIQ_KEY) or f"at {found.phys_offset}", found.born_timestamp


def _number(found: Record, name: str) -> int | None:
    """A property that should be a number; None if it is none. Users may set some of these."""
    text = get_property(found.properties, name) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
