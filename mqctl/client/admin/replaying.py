"""Sending what was stored once more, in the same order, at the pace it came in or another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from mqctl.client.admin.copying import Copier, copy_of, derived_id
from mqctl.client.results import SendResult
from mqctl.errors import MqError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.record import Record

T = TypeVar("T")

# Messages that wait for their turn in one queue of the target.
LANE_ROOM: Final = 64
# Records read from a folder at a time, in a thread.
CHUNK: Final = 256

OnSent = Callable[[ReceivedMessage, SendResult], None]


class Pace:
    """When the next message may leave: as long after the first as it was stored after it, divided by `speed`; and not
    more than `rate` a second."""

    def __init__(
        self,
        speed: float | None,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._speed = speed
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._first: tuple[int, float] | None = None
        self._free_at = clock()

    async def wait(self, store_timestamp: int) -> None:
        await self._sleep(self.wait_s(store_timestamp))

    def wait_s(self, store_timestamp: int) -> float:
        """How long from now; counts the message as sent then."""
        now = self._clock()
        if self._first is None:
            self._first = (store_timestamp, now)
        begun_ms, begun = self._first
        due = now
        if self._speed is not None:
            due = begun + (store_timestamp - begun_ms) / 1000 / self._speed
        if self._rate is not None:
            due = max(due, self._free_at)
            self._free_at = max(due, now) + 1 / self._rate
        return max(0.0, due - now)


@dataclass(frozen=True, slots=True)
class Aim:
    """Where copies go. Their ids are made from `purpose`; `lanes` says which queue of the target each one of the source
    goes to, and `on_lane` hears of a new one before anything is sent there."""

    topic: str
    purpose: str
    lanes: dict[str, int]
    on_lane: Callable[[], None]

    def id_of(self, message: ReceivedMessage) -> str:
        return derived_id(message, self.purpose)

    def lane_of(self, message: ReceivedMessage) -> int:
        queue = queue_name(message)
        if queue not in self.lanes:
            self.lanes[queue] = len(self.lanes)
            self.on_lane()
        return self.lanes[queue]


def queue_name(message: ReceivedMessage) -> str:
    """The queue of the source that it is from."""
    return f"{message.broker_name}:{message.queue_id}"


async def replay(messages: AsyncIterator[ReceivedMessage], copier: Copier, aim: Aim, pace: Pace, sent: OnSent) -> None:
    """Sends a copy of each. Messages of one queue go to one queue, in order; different queues go at once.

    Raises the first error: what had been handed over before is sent or has failed by then.
    """
    lanes = [_Lane(copier, aim, queue, sent) for queue in sorted(await copier.queues(aim.topic))]
    tasks = [asyncio.create_task(lane.run()) for lane in lanes]
    feeding = asyncio.create_task(_feed(messages, lanes, aim, pace))
    try:
        done, _ = await asyncio.wait([feeding, *tasks], return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in (feeding, *tasks):
            task.cancel()
        await asyncio.gather(feeding, *tasks, return_exceptions=True)


async def unsent(
    messages: AsyncIterator[ReceivedMessage],
    positions: Mapping[str, int],
    was_sent: Callable[[ReceivedMessage], Awaitable[bool]],
) -> AsyncIterator[ReceivedMessage]:
    """What a replay that was interrupted has left. Of a queue all up to its position were sent, and perhaps some more:
    they are asked for one by one until the first that was not, as they are sent in order."""
    certain: set[str] = set()
    async for message in messages:
        queue = queue_name(message)
        if message.phys_offset <= positions.get(queue, -1):
            continue
        if queue not in certain:
            if await was_sent(message):
                continue
            certain.add(queue)
        yield message


async def _feed(messages: AsyncIterator[ReceivedMessage], lanes: Sequence[_Lane], aim: Aim, pace: Pace) -> None:
    async for message in messages:
        await pace.wait(message.store_timestamp)
        await lanes[aim.lane_of(message) % len(lanes)].waiting.put(message)
    for lane in lanes:
        await lane.waiting.put(None)


class _Lane:
    """One queue of the target. None ends it."""

    def __init__(self, copier: Copier, aim: Aim, queue: MessageQueue, sent: OnSent) -> None:
        self._copier = copier
        self._aim = aim
        self._queue = queue
        self._sent = sent
        self.waiting: asyncio.Queue[ReceivedMessage | None] = asyncio.Queue(LANE_ROOM)

    async def run(self) -> None:
        while (message := await self.waiting.get()) is not None:
            copy = copy_of(message, self._aim.topic, self._aim.id_of(message))
            self._sent(message, await self._copier.send(copy, self._queue))


async def from_records(records: Iterator[Record]) -> AsyncIterator[ReceivedMessage]:
    """Reading files blocks, so a thread does it."""
    while chunk := await asyncio.to_thread(_take, records):
        for record in chunk:
            yield ReceivedMessage.from_record(record)


def _take(records: Iterator[T]) -> list[T]:
    return list(islice(records, CHUNK))


def check_target(name: str) -> None:
    """Raises MqError for a topic that only brokers may write to."""
    if name.startswith(("%RETRY%", "%DLQ%", "SCHEDULE_TOPIC_", "RMQ_SYS_")):
        raise MqError(f"{name} belongs to the brokers; choose another topic to send to")
