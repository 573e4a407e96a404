"""The messages a transaction consists of in the log, as Apache's broker writes them.

    half       RMQ_SYS_TRANS_HALF_TOPIC       what the producer sent, with its topic and queue as properties
    copy       the same topic                 the half again, once per question to the producer, counting them
    committed  its own topic                  what consumers see
    op         RMQ_SYS_TRANS_OP_HALF_TOPIC    the queue offset of a half or copy that needs no answer any more
    given up   TRANS_CHECK_MAX_TIME_TOPIC     a half whose producers never said how it ended

Either broker can take over a store at any step, since each of these says the same to both.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqctl.names import TRANS_CHECK_MAX_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_TOPIC
from mqctl.store import record
from mqctl.store.javahash import java_hash
from mqctl.store.properties import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    WAIT,
    drop_property,
    get_property,
    join_properties,
    join_texts,
    parse_properties,
)
from mqctl.store.record import Record
from mqctl.store.store import Appended, NewMessage

# Transactions use this queue of each of their topics, and no other.
QUEUE_ID: Final = 0

OP_TAG: Final = "d"
OP_TAG_CODE: Final = java_hash(OP_TAG)
OP_PROPERTIES: Final = join_properties({WAIT: "true", TAGS: OP_TAG}).encode()

# Properties of a half that are the broker's to set: its own counters, which a consumer that passes a message on
# would bring back, and a delay. Java's producer removes the delay as well, and Java's broker throws a delayed
# half away.
NOT_FROM_PRODUCERS: Final = (TRANSACTION_CHECK_TIMES, TRAN_PREPARED_QUEUE_OFFSET, DELAY)
TIMER_PREFIX: Final = "TIMER_"

# Room for the counter in the copies: a half that can be stored can be asked about.
COPY_ROOM: Final = len(TRANSACTION_CHECK_TIMES) + 12


def half_message(message: NewMessage, properties: str) -> NewMessage:
    """The message as it waits for the end of its transaction."""
    for name in NOT_FROM_PRODUCERS:
        properties = drop_property(properties, name)
    if TIMER_PREFIX in properties:
        kept = parse_properties(properties).items()
        properties = join_properties({name: value for name, value in kept if not name.startswith(TIMER_PREFIX)})
    real = join_properties({REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)})
    return msgspec.structs.replace(
        message,
        topic=TRANS_HALF_TOPIC,
        queue_id=QUEUE_ID,
        properties=join_texts(properties.encode(), real.encode()),
        sys_flag=message.sys_flag & ~record.SYS_TRANSACTION_MASK,
    )


def half_copy(half: Record, checks: int) -> NewMessage:
    """The half to be stored anew before its producer is asked for the `checks`-th time."""
    counted = join_properties({TRANSACTION_CHECK_TIMES: str(checks)})
    properties = join_texts(drop_property(half.properties, TRANSACTION_CHECK_TIMES).encode(), counted.encode())
    return _again(half, TRANS_HALF_TOPIC, QUEUE_ID, properties)


def given_up_message(half: Record) -> NewMessage:
    return _again(half, TRANS_CHECK_MAX_TOPIC, QUEUE_ID, half.properties.encode())


def committed_message(half: Record, prepared_offset: int) -> NewMessage:
    """What consumers get. It keeps the properties REAL_TOPIC, REAL_QID and TRAN_MSG, as under Java. Raises
    ValueError for a half that does not say where it belongs."""
    topic, queue_id = real_place(half)
    message = _again(half, topic, queue_id, half.properties.encode())
    message.sys_flag |= record.SYS_TRANSACTION_COMMIT
    message.prepared_offset = prepared_offset
    return message


def op_message(half_offset: int, now_ms: int, broker_host: bytes) -> NewMessage:
    return NewMessage(
        TRANS_OP_TOPIC,
        QUEUE_ID,
        str(half_offset).encode(),
        OP_PROPERTIES,
        OP_TAG_CODE,
        flag=0,
        sys_flag=0,
        born_timestamp=now_ms,
        born_host=broker_host,
        keys=(),
    )


def op_target(op: Record) -> int | None:
    """The half that an op message is about; None for what is no op message."""
    text = op.body.decode(errors="replace")
    if get_property(op.properties, TAGS) != OP_TAG or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def real_place(half: Record) -> tuple[str, int]:
    """The topic and queue a half is meant for. Raises ValueError if it does not say."""
    topic, queue_id = get_property(half.properties, REAL_TOPIC), get_property(half.properties, REAL_QID)
    if not topic or len(topic.encode()) > record.MAX_TOPIC or not queue_id:
        raise ValueError(f"the half message at log offset {half.phys_offset} does not say which topic it is for")
    return topic, int(queue_id)


def question_body(message: NewMessage, real: tuple[str, int], place: Appended, store_host: bytes) -> bytes:
    """The half as its producer gets to see it: one record, under the topic it was sent to."""
    topic, queue_id = real
    topic_bytes = topic.encode()
    sys_flag = message.sys_flag | record.host_flags(message.born_host, store_host)
    return record.encode(
        record.encoded_size(sys_flag, len(topic_bytes), len(message.body), len(message.properties)),
        topic_bytes,
        queue_id,
        place.queue_offset,
        place.phys_offset,
        message.flag,
        sys_flag,
        message.born_timestamp,
        message.born_host,
        place.store_timestamp,
        store_host,
        message.reconsume_times,
        message.prepared_offset,
        message.body,
        message.properties,
    )


def _again(half: Record, topic: str, queue_id: int, properties: bytes) -> NewMessage:
    tags = get_property(half.properties, TAGS)
    return NewMessage(
        topic,
        queue_id,
        half.body,
        properties,
        java_hash(tags) if tags else 0,
        half.flag,
        half.sys_flag & ~(record.SYS_TRANSACTION_MASK | record.SYS_BORN_HOST_V6 | record.SYS_STORE_HOST_V6),
        half.born_timestamp,
        record.pack_host(*half.born_host),
        half.reconsume_times,
    )
