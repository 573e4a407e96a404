"""Messages delayed by a level: each level is one queue of SCHEDULE_TOPIC_XXXX, in the order of delivery.

How far each queue is delivered stands in config/delayOffset.json, written now and then and at the end. After a kill
the messages delivered since the last time are delivered again, as Apache's broker does it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

import msgspec

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import SCHEDULE_TOPIC
from mqctl.remoting import bodies
from mqctl.remoting.bodies import DelayOffsetTable
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.configfile import ConfigFile
from mqctl.server.broker.delay.delivery import (
    SLICE_BYTES,
    SLICE_MESSAGES,
    SMALL_STEP_BACK_MS,
    Delivery,
    Waiting,
    may_wait,
    sent_to_wait,
)
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable
from mqctl.store.consumequeue import ENTRY, ConsumeQueue
from mqctl.store.properties import DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS
from mqctl.store.schedule import asked_level
from mqctl.store.store import MessageStore, NewMessage

log = logging.getLogger(__name__)

# Tags codes up to this are addresses in consumequeue_ext, which Apache's broker writes if enableConsumeQueueExt.
MAX_EXT_ADDRESS = -(1 << 31) - 1


class DelayLevels:
    """Loop only."""

    def __init__(self, config: BrokerConfig, store: MessageStore, delivery: Delivery, clock: Clock) -> None:
        self._store = store
        self._delivery = delivery
        self._levels_ms = store.config.delay_levels_ms
        self._levels = {
            level: Level(level, delay_ms, store, delivery, clock) for level, delay_ms in enumerate(self._levels_ms, 1)
        }
        # Offsets of levels that are not configured any more are kept: the level may come back.
        self._others: dict[int, int] = {}
        self._file = ConfigFile(config.root / "config" / "delayOffset.json", self._encode)
        self._saved: dict[int, int] = {}

    # -- on the way in ------------------------------------------------------------------------------

    def detour(self, message: NewMessage, properties: str) -> NewMessage:
        """For `Sending.detours`, and for whatever else stores messages that may carry DELAY, such as those that a
        consumer sends back. A level above the highest one counts as that, one of 0 or below as none."""
        try:
            level = min(asked_level(properties), len(self._levels_ms))
        except ValueError as error:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, f"the delay level is wrong: {error}") from None
        if level <= 0 or not may_wait(message):
            return message
        # With a level, times do not count: RocketMQ 5 removes them as well.
        times = (TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS)
        waiting = sent_to_wait(message, properties, SCHEDULE_TOPIC, level - 1, {DELAY: str(level)}, drop=times)
        waiting.delay_ms = self._levels_ms[level - 1]
        return waiting

    # -- on the way out -----------------------------------------------------------------------------

    def on_grown(self, level: int) -> None:
        if level in self._levels:
            self._levels[level].grown.set()

    def tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        for level in self._levels.values():
            yield self._delivery.rounds(level.step)

    # -- how far ------------------------------------------------------------------------------------

    def handlers(self) -> HandlerTable:
        return {RequestCode.GET_ALL_DELAY_OFFSET: (None, self.on_get_all_offsets)}

    def on_get_all_offsets(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=self._encode_table())

    def load(self) -> None:
        stored = self._file.load(lambda data: bodies.decode(DelayOffsetTable, data))
        for level, queue_offset in (stored.offset_table if stored is not None else {}).items():
            if level in self._levels:
                self._levels[level].start_at(queue_offset)
            else:
                self._others[level] = queue_offset
        self._saved = self.offsets()
        if stored is not None and self._saved != stored.offset_table:
            self._save_corrected()

    def _save_corrected(self) -> None:
        """Before messages take the places of lost ones: the next kill may be near, and a start must not take them
        for those that were delivered."""
        try:
            self._file.save_now()
        except StoreError as error:
            log.error("%s", error)  # on a full disk nothing takes those places either
            self._saved = {}

    def offsets(self) -> dict[int, int]:
        """Level to the offset of the next message; levels that never had any are left out, as in Java's table."""
        moved = {level.level: level.queue_offset for level in self._levels.values() if level.queue_offset > 0}
        return {**self._others, **moved}

    def progress(self) -> dict[str, str]:
        """For the runtime figures: level to "delivered,stored"."""
        table = {}
        for level, queue_offset in self.offsets().items():
            queue = self._store.queues.get((SCHEDULE_TOPIC, level - 1))
            table[f"scheduleMessageOffset_{level}"] = f"{queue_offset},{queue.max_offset if queue is not None else 0}"
        return table

    def save_soon(self) -> asyncio.Future[None] | None:
        if self.offsets() == self._saved:
            return None
        self._saved = self.offsets()
        saved = self._file.save_soon()
        saved.add_done_callback(self._check_saved)
        return saved

    def _check_saved(self, saved: asyncio.Future[None]) -> None:
        if saved.cancelled() or saved.exception() is not None:
            self._saved = {}

    async def save_last(self) -> None:
        await self._file.save_last()

    def _encode(self) -> bytes:
        return msgspec.json.format(self._encode_table(), indent=2)

    def _encode_table(self) -> bytes:
        return bodies.encode(DelayOffsetTable(offset_table=self.offsets()))


class Level:
    """One level's queue. It is in the order of delivery, so only its head has to be watched."""

    def __init__(self, level: int, delay_ms: int, store: MessageStore, delivery: Delivery, clock: Clock) -> None:
        self.level = level
        self._delay_ms = delay_ms
        self._store = store
        self._delivery = delivery
        self._clock = clock
        self.queue_offset = 0
        self.grown = asyncio.Event()

    @property
    def _queue(self) -> ConsumeQueue | None:
        return self._store.queues.get((SCHEDULE_TOPIC, self.level - 1))

    def start_at(self, queue_offset: int) -> None:
        """An offset outside the queue is brought into it: the queue may have lost its end in a crash, or all there
        was of it, and what comes next takes the lost places."""
        queue = self._queue
        self.queue_offset = max(0, min(queue_offset, queue.max_offset if queue is not None else 0))
        if self.queue_offset != queue_offset:
            log.warning("delay level %d: offset %d corrected to %d", self.level, queue_offset, self.queue_offset)

    async def step(self) -> None:
        """Waits for the head to be due, or delivers what is due."""
        self.grown.clear()
        queue = self._queue
        head = self._head(queue) if queue is not None else None
        if queue is None or head is None:
            await self._clock.until(None, self.grown)
        elif (due_ms := self._due(head)) > self._clock.now_ms():
            await self._clock.until(due_ms, asyncio.Event())  # later messages are no reason to look again
        else:
            due = self._due_now(queue)
            reached = self.queue_offset + len(due)
            await self._delivery.deliver(due, functools.partial(self._reach, reached))

    def _reach(self, queue_offset: int) -> None:
        self.queue_offset = queue_offset

    def _head(self, queue: ConsumeQueue) -> tuple[int, int, int] | None:
        if self.queue_offset < queue.min_offset:
            log.error(
                "delay level %d: messages %d to %d were deleted with the log before they were due",
                self.level, self.queue_offset, queue.min_offset - 1,
            )  # fmt: skip
            self.queue_offset = queue.min_offset
        head = queue.entry(self.queue_offset)
        if head is None and self.queue_offset < queue.max_offset:
            following = min(queue.next_file_offset(self.queue_offset), queue.max_offset)
            log.error("delay level %d: entries %d to %d are missing", self.level, self.queue_offset, following - 1)
            self.queue_offset = following
            return self._head(queue)
        return head

    def _due_now(self, queue: ConsumeQueue) -> list[Waiting]:
        """The messages at the head that are due, one at least."""
        now_ms = self._clock.now_ms()
        due: list[Waiting] = []
        size_bytes = 0
        for entry in ENTRY.iter_unpack(queue.read(self.queue_offset, SLICE_MESSAGES)):
            size_bytes += entry[1]
            if due and (self._due(entry) > now_ms or size_bytes > SLICE_BYTES):
                break
            due.append(Waiting(self.queue_offset + len(due), entry[0], entry[1]))
        return due

    def _due(self, entry: tuple[int, int, int]) -> int:
        phys_offset, _, due_ms = entry
        if due_ms <= MAX_EXT_ADDRESS:
            due_ms = (self._store.log.store_timestamp(phys_offset) or 0) + self._delay_ms
        latest_ms = self._clock.now_ms() + self._delay_ms + SMALL_STEP_BACK_MS
        return due_ms if due_ms <= latest_ms else 0
