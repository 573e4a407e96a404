"""From a message to the request that carries it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mqctl.client.naming import check_topic
from mqctl.errors import MqError
from mqctl.names import AUTO_CREATE_TOPIC
from mqctl.remoting import compression
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.compression import Compression
from mqctl.remoting.message import BatchError, Message, encode_batch
from mqctl.remoting.sendrequest import SendRequest, request_template
from mqctl.remoting.unique_id import UniqueIdGenerator
from mqctl.store.properties import RESERVED_NAMES, UNIQ_KEY, WAIT, format_properties
from mqctl.store.record import SYS_TRANSACTION_PREPARED

COMPRESS_OVER: Final = 4096
MAX_MESSAGE_SIZE: Final = 4 * 1024 * 1024  # that of producers and brokers alike

# How many queues a client asks for when its first message creates the topic, as Java clients do.
NEW_TOPIC_QUEUES: Final = 4

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)


# Queues that one process sends to; a header is formatted anew for those beyond.
KNOWN_QUEUES: Final = 1024


class Outgoing(Struct, frozen=True, gc=False):
    """What stays the same over all attempts to send a message or a batch, its id above all."""

    code: int
    topic: str
    msg_id: str  # of a batch: all of them, with commas between
    body: bytes
    flag: int
    sys_flag: int
    properties: str
    order_key: str | None = None


class Encoder:
    """Makes requests of one producer group. Any thread may call it."""

    def __init__(
        self,
        group: str,
        *,
        compress_over: int = COMPRESS_OVER,
        kind: Compression = Compression.ZLIB,
        max_message_size: int = MAX_MESSAGE_SIZE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._group = group
        self._compress_over = compress_over
        self._kind = kind
        self._max_message_size = max_message_size
        self._clock = clock
        self._new_id = UniqueIdGenerator()

    def single(
        self, message: Message, order_key: str | None = None, *, half: bool = False, own: Mapping[str, str] = NOTHING
    ) -> Outgoing:
        """`own`: properties that only RocketMQ itself may set. Raises MqError for what no broker would take."""
        self._check(message)
        msg_id = self._new_id()
        named = message.wire_properties()
        named.update(own)
        named[UNIQ_KEY] = msg_id
        try:
            properties = format_properties(named)
            if not properties.isascii():
                properties.encode()  # half of a surrogate pair has no UTF-8
        except ValueError as error:
            raise MqError(str(error)) from None
        body, sys_flag = message.body, SYS_TRANSACTION_PREPARED if half else 0
        if len(body) > self._compress_over:
            body, bits = compression.compress(body, self._kind)
            sys_flag |= bits
        return Outgoing(_SEND, message.topic, msg_id, body, message.flag, sys_flag, properties, order_key)

    def batch(self, messages: Sequence[Message], order_key: str | None = None) -> Outgoing:
        """All to one queue, side by side. Raises MqError where RocketMQ allows no batch of them."""
        if not messages:
            raise MqError("a batch needs a message")
        first = messages[0]
        for message in messages:
            self._check(message)
            if message.delay_level or message.delay_ms or message.deliver_at_ms:
                raise MqError("messages of a batch cannot be delayed")
            if (message.topic, message.wait_store_ok) != (first.topic, first.wait_store_ok):
                raise MqError("messages of a batch need the same topic and the same wait_store_ok")
        ids = [self._new_id() for _ in messages]
        named = [
            replace(message, properties={**message.properties, UNIQ_KEY: msg_id})
            for message, msg_id in zip(messages, ids, strict=True)
        ]
        try:
            body = encode_batch(named)
        except (BatchError, ValueError) as error:
            raise MqError(str(error)) from None
        self._check_size(len(body))
        # 5.x producers put a UNIQ_KEY of the batch here as well; 4.9.7 brokers would give it to every message.
        properties = format_properties({WAIT: "true" if first.wait_store_ok else "false"})
        return Outgoing(_SEND_BATCH, first.topic, ",".join(ids), body, 0, 0, properties, order_key)

    def reply(self, topic: str, body: bytes, properties: dict[str, str]) -> Outgoing:
        """The answer to a request that came as a message; brokers push it to the one who asked."""
        msg_id = self._new_id()
        self._check_size(len(body))
        return Outgoing(_REPLY, topic, msg_id, body, 0, 0, format_properties({**properties, UNIQ_KEY: msg_id}))

    def request(self, outgoing: Outgoing, queue: MessageQueue) -> SendRequest:
        return SendRequest(
            outgoing.code,
            _template(outgoing.code, self._group, outgoing.topic, queue.broker_name, queue.queue_id),
            outgoing.sys_flag,
            int(self._clock() * 1000),
            outgoing.flag,
            outgoing.properties,
            outgoing.body,
        )

    def _check(self, message: Message) -> None:
        check_topic(message.topic)
        if not isinstance(message.body, bytes):
            raise TypeError(f"the body of a message is bytes, not {type(message.body).__name__}: encode it first")
        self._check_size(len(message.body))
        if message.properties:
            self._check_properties(message)

    def _check_properties(self, message: Message) -> None:
        for name, value in message.properties.items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise TypeError(f"property {name!r}: {value!r}: names and values of properties are texts")
        if taken := RESERVED_NAMES.intersection(message.properties):
            raise MqError(f"{', '.join(sorted(taken))}: this property belongs to RocketMQ; choose another name")

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._max_message_size:
            raise MqError(f"a body of {size_bytes} bytes; {self._max_message_size} are allowed (max_message_size)")


@functools.lru_cache(maxsize=KNOWN_QUEUES)
def _template(code: int, group: str, topic: str, broker_name: str, queue_id: int) -> bytes:
    fixed = {
        "a": group,
        "b": topic,
        "c": AUTO_CREATE_TOPIC,
        "d": str(NEW_TOPIC_QUEUES),
        "e": str(queue_id),
        "j": "0",
        "k": "false",
        "m": "true" if code == _SEND_BATCH else "false",
        "n": broker_name,
    }
    return request_template(code, fixed)
