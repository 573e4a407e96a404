"""Messages with a delivery time of their own, as RocketMQ 5 clients set it.

They wait in one queue of the topic rmq_sys_wheel_timer, in the order of arrival; the queue's entries hold their times.
In memory there is a heap of (time, queue offset), some 40 bytes for each message, which a start rebuilds from the
queue. config/timerProgress.json says what of the queue is done with: of the messages before some offset, those up to
some time. It is written now and then and at the end; what was delivered since is delivered again after a kill.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from mqctl.errors import RequestFailed
from mqctl.names import TIMER_TOPIC
from mqctl.remoting.codes import ResponseCode
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.configfile import ConfigFile
from mqctl.server.broker.delay.delivery import SLICE_BYTES, SLICE_MESSAGES, Delivery, Waiting, may_wait, sent_to_wait
from mqctl.server.broker.delay.recalled import Recalled
from mqctl.server.broker.topics import Topics
from mqctl.server.clock import Clock
from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, ConsumeQueue
from mqctl.store.properties import TIMER_DEL_UNIQKEY, TIMER_OUT_MS, get_property
from mqctl.store.schedule import asked_time, is_time, timer_code, waiting_code
from mqctl.store.store import MessageStore, NewMessage

log = logging.getLogger(__name__)

# Time and queue offset share one int: half the memory of a pair.
OFFSET_BITS: Final = 40
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

# How many entries of the queue are read at a time.
PIECE: Final = 4096


class Progress(msgspec.Struct, rename="camel"):
    """Of the messages before `queue_offset`, all whose time is up to `delivered_until` are done with."""

    queue_offset: int = 0
    delivered_until: int = 0

    def covers(self, queue_offset: int, due_ms: int) -> bool:
        return queue_offset < self.queue_offset and due_ms <= self.delivered_until


# What Apache's 5.x broker leaves in config/timercheck: how far in time it has delivered, how far its own log of timers
# is flushed, how far it has read the queue.
APACHE_CHECKPOINT: Final = Struct(">qqq")


def apache_progress(path: Path) -> Progress:
    """What Apache's broker did with the store, if it was its turn."""
    data = path.read_bytes() if path.exists() else b""
    if len(data) < APACHE_CHECKPOINT.size:
        return Progress()
    delivered_until, _, queue_offset = APACHE_CHECKPOINT.unpack_from(data)
    return Progress(queue_offset, delivered_until)


class Timers:
    """Loop only."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        store: MessageStore,
        delivery: Delivery,
        recalled: Recalled,
        clock: Clock,
    ) -> None:
        self._config = config
        self._topics = topics
        self._store = store
        self._delivery = delivery
        self._recalled = recalled
        self._clock = clock
        self._heap: list[int] = []
        self._under_way: list[int] = []
        self._taken = 0  # the queue offset up to which entries are in the heap
        self._earlier = asyncio.Event()  # there is a new first one
        self._file = ConfigFile(config.root / "config" / "timerProgress.json", self._encode)

    @property
    def pending(self) -> int:
        return len(self._heap) + len(self._under_way)

    @property
    def _queue(self) -> ConsumeQueue | None:
        return self._store.queues.get((TIMER_TOPIC, 0))

    # -- on the way in ------------------------------------------------------------------------------

    def detour(self, message: NewMessage, properties: str) -> NewMessage:
        """A time that is over is no reason to wait. TIMER_OUT_MS stands in messages that have waited already."""
        if not may_wait(message) or get_property(properties, TIMER_OUT_MS) is not None:
            return message
        now_ms = self._clock.now_ms()
        try:
            due_ms = asked_time(properties, now_ms)
        except ValueError as error:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, f"the delivery time is wrong: {error}") from None
        if due_ms is None:
            return message
        if due_ms <= now_ms:
            if get_property(properties, TIMER_DEL_UNIQKEY) is not None:
                raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, "the message to take back has been delivered")
            return message
        self._check_delay(due_ms - now_ms)
        self._topics.ensure(TIMER_TOPIC, 1)
        waiting = sent_to_wait(message, properties, TIMER_TOPIC, 0, {TIMER_OUT_MS: str(due_ms)})
        waiting.tags_code = timer_code(due_ms, properties)
        return waiting

    def _check_delay(self, delay_ms: int) -> None:
        """A message must not be deleted with its file of the log before it is due."""
        config = self._config
        longest, key = min(
            (config.timer_max_delay_sec, "timerMaxDelaySec"), (config.file_reserved_time * 3600, "fileReservedTime")
        )
        if delay_ms > longest * 1000:
            raise RequestFailed(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a delay of {delay_ms} ms is more than this broker allows, {longest * 1000} ms by its {key}",
            )

    # -- what waits ---------------------------------------------------------------------------------

    def load(self) -> None:
        if self._queue is None:
            return
        self._topics.ensure(TIMER_TOPIC, 1)
        ours = self._file.load(lambda data: msgspec.json.decode(data, type=Progress)) or Progress()
        self._take_entries((ours, apache_progress(self._config.root / "config" / "timercheck")))
        if self._heap:
            log.info("%d messages wait for their time", len(self._heap))

    def on_grown(self) -> None:
        self._take_entries(())

    def _take_entries(self, done: Sequence[Progress]) -> None:
        """Brings the heap up to the end of the queue, leaving out what is done with."""
        queue = self._queue
        if queue is None:
            return
        first = self._heap[0] if self._heap else None
        self._taken = max(self._taken, queue.min_offset)
        while self._taken < queue.max_offset:
            entries = queue.read(self._taken, PIECE)
            for number, (phys_offset, size, code) in enumerate(ENTRY.iter_unpack(entries), self._taken):
                due_ms = code if is_time(code) else self._time_in_record(phys_offset, size)
                if due_ms < 0:
                    self._take_back(phys_offset, size, -due_ms)
                elif not any(progress.covers(number, due_ms) for progress in done):
                    heapq.heappush(self._heap, due_ms << OFFSET_BITS | number)
            missing = queue.next_file_offset(self._taken) - self._taken
            self._taken = min(self._taken + (len(entries) // ENTRY_SIZE or missing), queue.max_offset)
        if self._heap and self._heap[0] != first:
            self._earlier.set()

    def _record(self, phys_offset: int, size: int) -> record.Record | None:
        data = self._store.log.read(phys_offset, size)
        try:
            return record.parse(data, 0) if data is not None else None
        except record.RecordError:
            return None

    def _time_in_record(self, phys_offset: int, size: int) -> int:
        """For entries that Apache's broker wrote. One that cannot be read is due now: its delivery says what is
        wrong with it."""
        found = self._record(phys_offset, size)
        if found is None:
            return 0
        return waiting_code(TIMER_TOPIC, found.properties, found.store_timestamp, ()) or 0

    def _take_back(self, phys_offset: int, size: int, until_ms: int) -> None:
        found = self._record(phys_offset, size) if until_ms > self._clock.now_ms() else None
        key = get_property(found.properties, TIMER_DEL_UNIQKEY) if found is not None else None
        if key is not None:
            self._recalled.add(key, until_ms)

    # -- on the way out -----------------------------------------------------------------------------

    async def step(self) -> None:
        """Waits for the first message to be due, or delivers what is due."""
        self._put_back()  # what the last step could not deliver
        self._earlier.clear()
        due_ms = self._heap[0] >> OFFSET_BITS if self._heap else None
        if due_ms is None or due_ms > self._clock.now_ms():
            await self._clock.until(due_ms, self._earlier)
            return
        await self._delivery.deliver(self._pop_due(), self._under_way.clear)

    def _put_back(self) -> None:
        for key in self._under_way:
            heapq.heappush(self._heap, key)
        self._under_way.clear()

    def _pop_due(self) -> list[Waiting]:
        queue = self._queue
        after_now = self._clock.now_ms() + 1 << OFFSET_BITS
        due: list[Waiting] = []
        size_bytes = 0
        while self._heap and self._heap[0] < after_now and len(due) < SLICE_MESSAGES and size_bytes < SLICE_BYTES:
            key = heapq.heappop(self._heap)
            self._under_way.append(key)
            entry = queue.entry(key & OFFSET_MASK) if queue is not None else None
            if entry is None:
                log.error("timer %d: deleted with the log before it was due", key & OFFSET_MASK)
                continue
            due.append(Waiting(key & OFFSET_MASK, entry[0], entry[1]))
            size_bytes += entry[1]
        return due

    # -- how far ------------------------------------------------------------------------------------

    def save_soon(self) -> None:
        self._recalled.forget_before(self._clock.now_ms())
        if self._queue is not None:
            self._file.save_soon()

    async def save_last(self) -> None:
        if self._queue is not None:
            await self._file.save_last()

    def _encode(self) -> bytes:
        waiting = [*self._heap[:1], *self._under_way]
        # Not ahead of now, however long nothing is due: if a loss of power takes the end of the queue, later messages
        # get its places, and what stands here must not be about them.
        delivered_until = min([self._clock.now_ms(), *((key >> OFFSET_BITS) - 1 for key in waiting)])
        return msgspec.json.encode(Progress(queue_offset=self._taken, delivered_until=delivered_until))
