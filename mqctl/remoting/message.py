"""Messages as a program sees them: what it sends, what it receives, and the body of a batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

import msgspec

from mqctl.remoting import compression
from mqctl.store import properties as names
from mqctl.store import record
from mqctl.store.properties import format_properties, parse_properties

# Logs and failing tests show messages, and bodies may have megabytes.
SHOWN_BYTES: Final = 64


def _shown(body: bytes) -> str:
    return repr(body) if len(body) <= SHOWN_BYTES else f"{body[:SHOWN_BYTES]!r}... {len(body)} bytes"


@dataclass(slots=True)
class Message:
    """What a producer hands over. `properties` are the user's own; the rest has fields of its own."""

    topic: str
    body: bytes = b""
    tags: str = ""
    keys: str | Iterable[str] = ""  # one text with blanks between the keys, or the keys
    flag: int = 0
    delay_level: int = 0
    wait_store_ok: bool = True  # False: answer without waiting for the disk or the slave
    delay_ms: int = 0  # delivered so much later; needs a broker with timers (5.x, ours)
    deliver_at_ms: int = 0  # or at this time, in ms since 1970
    properties: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The fields that say something, and only the beginning of a long body."""
        usual = Message(self.topic, self.body)
        told = [spec.name for spec in fields(self) if getattr(self, spec.name) != getattr(usual, spec.name)]
        rest = "".join(f", {name}={getattr(self, name)!r}" for name in told)
        return f"Message({self.topic!r}, {_shown(self.body)}{rest})"

    def wire_properties(self) -> dict[str, str]:
        """All properties as they go into the header: the fields above over the user's own."""
        found = dict(self.properties)
        if self.keys:
            found[names.KEYS] = self.keys if isinstance(self.keys, str) else names.KEY_SEPARATOR.join(self.keys)
        if self.tags:
            found[names.TAGS] = self.tags
        if self.delay_level:
            found[names.DELAY] = str(self.delay_level)
        if self.delay_ms:
            found[names.TIMER_DELAY_MS] = str(self.delay_ms)
        if self.deliver_at_ms:
            found[names.TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        found[names.WAIT] = "true" if self.wait_store_ok else "false"
        return found


class ReceivedMessage(msgspec.Struct, gc=False, eq=False):
    """A stored message. What most listeners never look at is read when they do."""

    topic: str
    stored_body: bytes  # as it lies in the log, perhaps compressed
    stored_properties: str  # as they lie there
    flag: int
    sys_flag: int
    queue_id: int
    queue_offset: int
    phys_offset: int
    size_bytes: int  # of the whole record
    body_crc: int
    born_timestamp: int
    born_host: tuple[str, int]
    store_timestamp: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_offset: int
    # Not part of the record: set by whoever knows which broker was asked, and when a listener got the message.
    broker_name: str = ""
    consume_started_ms: int = 0
    _body: bytes | None = None
    _properties: dict[str, str] | None = None

    def __eq__(self, other: object) -> bool:
        """Whether they are the same record of the same broker, with the same properties."""
        if not isinstance(other, ReceivedMessage):
            return NotImplemented
        return self._identity() == other._identity()

    __hash__ = None  # type: ignore[assignment]

    def _identity(self) -> tuple[object, ...]:
        return (*msgspec.structs.astuple(self)[:-3], self.properties)

    def __repr__(self) -> str:
        """What identifies it, and the beginning of the body as it is stored."""
        return (
            f"ReceivedMessage({self.topic!r}, {_shown(self.stored_body)}, tags={self.tags!r}, keys={self.keys!r}, "
            f"msg_id={self.msg_id!r}, broker_name={self.broker_name!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, reconsume_times={self.reconsume_times})"
        )

    @property
    def body(self) -> bytes:
        """The body as it was sent. Raises CompressionError if it does not expand.

        Expanded on first use, not while a pull is being decoded: one damaged message must not keep a consumer
        from the messages around it.
        """
        if not self.sys_flag & record.SYS_COMPRESSED:
            return self.stored_body
        if self._body is None:
            self._body = compression.decompress(self.stored_body, self.sys_flag)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All that it was stored with, RocketMQ's own included."""
        if self._properties is None:
            self._properties = parse_properties(self.stored_properties)
        return self._properties

    @property
    def tags(self) -> str:
        return self.properties.get(names.TAGS, "")

    @property
    def keys(self) -> list[str]:
        return self.properties.get(names.KEYS, "").split()

    @property
    def wants_reply(self) -> bool:
        """Whether it came from somebody's `request`."""
        return names.REPLY_TO_CLIENT in self.properties and self.properties.get(names.MSG_TYPE) != names.IS_REPLY

    @property
    def delay_level(self) -> int:
        """0 for none, and for a text that is not a number."""
        text = self.properties.get(names.DELAY, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

    @property
    def offset_msg_id(self) -> str:
        """The id that says where the record is."""
        return record.encode_msg_id(record.pack_host(*self.store_host), self.phys_offset)

    @property
    def msg_id(self) -> str:
        """The id its producer knows it by; messages without a unique key have only the offset id."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_msg_id

    @classmethod
    def from_record(cls, stored: record.Record, broker_name: str = "") -> ReceivedMessage:
        return cls(
            topic=stored.topic,
            stored_body=stored.body,
            stored_properties=stored.properties,
            flag=stored.flag,
            sys_flag=stored.sys_flag,
            queue_id=stored.queue_id,
            queue_offset=stored.queue_offset,
            phys_offset=stored.phys_offset,
            size_bytes=stored.size,
            body_crc=stored.body_crc,
            born_timestamp=stored.born_timestamp,
            born_host=stored.born_host,
            store_timestamp=stored.store_timestamp,
            store_host=stored.store_host,
            reconsume_times=stored.reconsume_times,
            prepared_offset=stored.prepared_offset,
            broker_name=broker_name,
        )


_USUAL_HEAD: Final = record.HEADS[0]
_UINT16: Final = Struct(">H")
_HOST_V6_BITS: Final = record.SYS_BORN_HOST_V6 | record.SYS_STORE_HOST_V6


def decode_records(
    data: bytes | memoryview, broker_name: str = "", *, check_crc: bool = False
) -> list[ReceivedMessage]:
    """The messages of a body made of records back to back (pull, query, view). Raises RecordError."""
    buffer = bytes(data)
    found: list[ReceivedMessage] = []
    at = 0
    while at < len(buffer):
        if not check_crc:
            at = _take_usual(buffer, at, broker_name, found)
        if at < len(buffer):
            message = ReceivedMessage.from_record(record.parse(buffer, at, check_crc=check_crc), broker_name)
            found.append(message)
            at += message.size_bytes
    return found


def _take_usual(buffer: bytes, at: int, broker_name: str, found: list[ReceivedMessage]) -> int:
    """Adds what `record.parse` would find there, in a fifth of the time. Returns where the first record begins that is
    unsound or unusual, and `parse` has to say which. Consumers look at millions of them."""
    unpack_host = record.unpack_host
    length = len(buffer)
    while at < length:
        try:
            (size, magic, crc, queue_id, flag, queue_offset, phys_offset, sys_flag, born, born_host, store, store_host,
             reconsume_times, prepared, body_length) = _USUAL_HEAD.unpack_from(buffer, at)  # fmt: skip
            body_at = at + _USUAL_HEAD.size
            body_end = body_at + body_length
            topic_end = body_end + 1 + buffer[body_end]
            properties_at = topic_end + _UINT16.size
            end = properties_at + _UINT16.unpack_from(buffer, topic_end)[0]
        except (StructError, IndexError):
            break
        if magic != record.MAGIC_V1 or sys_flag & _HOST_V6_BITS or body_length < 0 or end != at + size or end > length:
            break
        found.append(
            ReceivedMessage(
                buffer[body_end + 1 : topic_end].decode(errors="replace"),
                buffer[body_at:body_end],
                buffer[properties_at:end].decode(errors="replace"),
                flag,
                sys_flag,
                queue_id,
                queue_offset,
                phys_offset,
                size,
                crc,
                born,
                unpack_host(born_host),
                store,
                unpack_host(store_host),
                reconsume_times,
                prepared,
                broker_name,
            )
        )
        at = end
    return at


# -- the body of a batch ----------------------------------------------------------------------------
#
#   total size           int32   of this entry, itself included
#   magic                int32   0, not looked at
#   body CRC             int32   0, not looked at: the broker computes it
#   flag                 int32
#   body length, body    int32, bytes
#   properties           int16, bytes   text, see `properties`

_ENTRY_HEAD: Final = Struct(
    ">"
    "i"  # total size
    "i"  # magic
    "i"  # body CRC
    "i"  # flag
    "i"  # body length
)
_PROPERTIES_LENGTH: Final = Struct(">h")


class BatchError(ValueError):
    """The body of a batch is not a sequence of whole entries, or cannot be written as one."""


class BatchEntry(NamedTuple):
    """One message of a batch; `properties` as the bytes of their text, ready to be stored."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a batch. The topic is not in it: all messages go where the request's header says."""
    return b"".join(_encode_entry(message) for message in messages)


def _encode_entry(message: Message) -> bytes:
    text = format_properties(message.wire_properties()).encode()
    if len(text) > record.MAX_PROPERTIES:
        raise BatchError(f"{len(text)} bytes of properties; {record.MAX_PROPERTIES} are allowed")
    total = _ENTRY_HEAD.size + len(message.body) + _PROPERTIES_LENGTH.size + len(text)
    head = _ENTRY_HEAD.pack(total, 0, 0, message.flag, len(message.body))
    return b"".join((head, message.body, _PROPERTIES_LENGTH.pack(len(text)), text))


def decode_batch(data: bytes | memoryview) -> list[BatchEntry]:
    """The entries of a batch, none for an empty body. Raises BatchError where lengths do not add up."""
    data = bytes(data)
    found = []
    at, end_of_all = 0, len(data)
    while at < end_of_all:
        body_at = at + _ENTRY_HEAD.size
        if body_at > end_of_all:
            raise BatchError(f"batch entry at {at} is cut short")
        total, _magic, _crc, flag, body_length = _ENTRY_HEAD.unpack_from(data, at)
        end = at + total
        body_end = body_at + body_length
        properties_at = body_end + _PROPERTIES_LENGTH.size
        if body_length < 0 or end > end_of_all or properties_at > end:
            raise BatchError(f"batch entry at {at}: size {total} and body length {body_length} do not fit")
        (length,) = _PROPERTIES_LENGTH.unpack_from(data, body_end)
        if properties_at + length != end:  # also catches a negative length
            raise BatchError(f"batch entry at {at}: size {total} and properties length {length} do not fit")
        found.append(BatchEntry(flag, data[body_at:body_end], data[properties_at:end]))
        at = end
    return found
