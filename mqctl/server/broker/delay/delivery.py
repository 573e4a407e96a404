"""Messages that wait in a topic of the broker's own until their time: how they get there, and how they leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC
from mqctl.remoting.codes import ResponseCode
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.delay.recalled import Recalled
from mqctl.server.broker.topics import check_topic_name
from mqctl.server.clock import Clock
from mqctl.store import record
from mqctl.store.fetch import Place, read_ahead
from mqctl.store.javahash import java_hash
from mqctl.store.properties import REAL_QID, REAL_TOPIC, TAGS, UNIQ_KEY, drop_property, get_property, join_properties
from mqctl.store.store import MessageStore, NewMessage

log = logging.getLogger(__name__)

# How much is delivered before other work gets its turn. One message comes whatever its size.
SLICE_MESSAGES: Final = 200
SLICE_BYTES: Final = 1024 * 1024

# What was written longer ago than this many bytes is read in a thread first: it may be on disk only.
RECENT_BYTES: Final = 64 * 1024 * 1024

# A disk that refuses is asked again after this; after an accident of our own Java waits as long, too.
RETRY_SECONDS: Final = 1.0
ACCIDENT_SECONDS: Final = 10.0

# A time that lies further ahead than any delay can have put it: the system's clock was set back. Java then delivers
# at once. Here a small step back does not make a message early, it is waited out.
SMALL_STEP_BACK_MS: Final = 5000

MAX_QUEUE_ID: Final = (1 << 31) - 1


def may_wait(message: NewMessage) -> bool:
    """Half messages do not: if their transaction is committed, the message that follows may. Nor do those that wait
    already."""
    undecided = message.sys_flag & record.SYS_TRANSACTION_MASK in (
        record.SYS_TRANSACTION_PREPARED,
        record.SYS_TRANSACTION_ROLLBACK,
    )
    return not undecided and message.topic not in (TRANS_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC)


def sent_to_wait(
    message: NewMessage, properties: str, topic: str, queue_id: int, changes: dict[str, str], drop: Sequence[str] = ()
) -> NewMessage:
    """The message aimed at a topic of the broker's own. Where it was meant to go stands in its properties, as Java
    writes it. Raises RequestFailed if these become too long for a record."""
    changes = {**changes, REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)}
    for name in (*changes, *drop):
        properties = drop_property(properties, name)
    rest = [properties.removesuffix("\x02")] if properties else []
    text = "\x02".join([*rest, join_properties(changes)]).encode()
    if len(text) > record.MAX_PROPERTIES:
        raise RequestFailed(
            ResponseCode.MESSAGE_ILLEGAL,
            f"with what a delay adds to them the message properties have {len(text)} bytes, "
            f"at most {record.MAX_PROPERTIES} fit",
        )
    return msgspec.structs.replace(message, topic=topic, queue_id=queue_id, properties=text)


class Waiting(NamedTuple):
    """Where a message lies that waits."""

    queue_offset: int
    phys_offset: int
    size: int


class Delivery:
    """Brings waiting messages into the topics they were sent to. Loop only."""

    def __init__(self, store: MessageStore, acks: Acks, recalled: Recalled, clock: Clock) -> None:
        self._store = store
        self._acks = acks
        self._recalled = recalled
        self._clock = clock

    async def rounds(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeats what waits for the next message to be due and delivers it. Nothing ends this but the broker's
        end: what could not be delivered is tried again."""
        last_trouble = ""
        while True:
            try:
                await step()
                last_trouble = ""
            except StoreError as error:
                if error.message != last_trouble:
                    log.error("delayed messages cannot be delivered: %s", last_trouble := error.message)
                await self._clock.sleep(RETRY_SECONDS)
            except Exception:
                log.exception("the delivery of delayed messages failed")
                await self._clock.sleep(ACCIDENT_SECONDS)

    async def deliver(self, due: Sequence[Waiting], on_stored: Callable[[], object]) -> None:
        """Stores a copy of each message where it was meant to go; `on_stored` is called when consumers can read
        them, also if nobody waits for this coroutine any more. Raises StoreError if none of them is stored."""
        if self._store.refusing:
            raise StoreError(self._store.refusing)
        await self._warm(due)
        # All are read before any is put: a disk that does not let us read now is asked again, for all of them.
        for message in [copy for waiting in due if (copy := self._copy(waiting)) is not None]:
            self._put(message)
        stored = self._acks.stored()
        stored.add_done_callback(lambda stored: stored.cancelled() or stored.exception() or on_stored())
        await asyncio.shield(stored)

    async def _warm(self, due: Sequence[Waiting]) -> None:
        """A thread waits for the disk, and nobody else does."""
        segments = self._store.log.segments
        old = self._store.log.end - RECENT_BYTES
        cold = [
            Place(segments.path(start), waiting.phys_offset - start, waiting.size)
            for waiting in due
            if waiting.phys_offset < old and segments.has(start := segments.start_of(waiting.phys_offset))
        ]
        if cold:
            await asyncio.to_thread(read_ahead, cold)

    def _copy(self, waiting: Waiting) -> NewMessage | None:
        """None for one that was taken back, and for one that cannot be delivered: it must not hold up those behind."""
        data = self._store.log.read(waiting.phys_offset, waiting.size)
        try:
            if data is None:
                raise ValueError("its record is gone, deleted with its file of the log")
            found = record.parse(data, 0)
            if found.queue_offset > waiting.queue_offset:
                raise ValueError(f"it is lost, and the next message stands in its place, {waiting.queue_offset}")
            message = delivered_copy(found)
        except ValueError as error:
            log.error("the delayed message at log offset %d is not delivered: %s", waiting.phys_offset, error)
            return None
        recalled = self._recalled.covers(message.topic, get_property(message.properties.decode(), UNIQ_KEY))
        return None if recalled else message

    def _put(self, message: NewMessage) -> None:
        try:
            self._store.put(message)
        except StoreError as error:  # no file can hold it: its real topic has the longer name
            log.error("a delayed message for topic %s is not delivered: %s", message.topic, error)


def delivered_copy(found: record.Record) -> NewMessage:
    """What goes into the real topic: the same message, properties and all, as Java's ScheduleMessageService leaves
    them. Raises ValueError if it does not say where it goes."""
    topic, queue_id = get_property(found.properties, REAL_TOPIC), get_property(found.properties, REAL_QID)
    if topic is None or queue_id is None:
        raise ValueError("it does not say where it was meant to go (REAL_TOPIC and REAL_QID)")
    if topic in (TRANS_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC):
        raise ValueError(f"it was meant for {topic}, where no delayed message can go")
    if not queue_id.isdecimal() or int(queue_id) > MAX_QUEUE_ID:
        raise ValueError(f"it was meant for queue {queue_id[:20]!r}")
    try:
        check_topic_name(topic)
    except RequestFailed as error:
        raise ValueError(error.message) from None
    tags = get_property(found.properties, TAGS)
    return NewMessage(
        topic=topic,
        queue_id=int(queue_id),
        body=found.body,
        properties=found.properties.encode(),
        tags_code=java_hash(tags) if tags else 0,
        flag=found.flag,
        sys_flag=found.sys_flag,
        born_timestamp=found.born_timestamp,
        born_host=record.pack_host(*found.born_host),
        reconsume_times=found.reconsume_times,
    )
