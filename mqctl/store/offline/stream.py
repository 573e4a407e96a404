"""Messages as a stream of bytes that outlives the store they came from: msgpack objects, one after the other.

    {"format": "mqctl-messages", "version": 1}
    {"topic": ..., "queueId": ..., ...}           one for each message, as in `Exported`
    {"end": N}                                    how many messages there were; missing in a stream that was cut off

Readers ignore members they do not know; a change that they could not live with gets another version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Final

import msgpack
import msgspec
from msgspec import Meta

from mqctl.errors import MqError
from mqctl.store.record import MAX_PROPERTIES, MAX_TOPIC

FORMAT: Final = "mqctl-messages"
VERSION: Final = 1

# No message is larger than RocketMQ's largest log file. Memory is taken for what was read, not for what a length says.
MAX_MESSAGE: Final = 1 << 31
READ_BYTES: Final = 1024 * 1024

Int32 = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class StreamError(MqError):
    """These bytes are not a whole stream of messages."""


class Exported(msgspec.Struct, rename="camel", kw_only=True):
    """A message with all that its record holds. `body` is as stored, so compressed where `sys_flag` says so;
    `properties` is RocketMQ's text: name 0x01 value 0x02 name ... . A host is [address, port].

    The last five tell of the store it comes from; another one gives the message a place and a time of its own."""

    topic: Annotated[str, Meta(min_length=1, max_length=MAX_TOPIC)]
    queue_id: Annotated[int, Meta(ge=0, lt=1 << 31)]
    body: bytes
    properties: Annotated[bytes, Meta(max_length=MAX_PROPERTIES)]
    flag: Int32
    sys_flag: Int32
    born_timestamp: Int64
    born_host: tuple[str, Annotated[int, Meta(ge=0, lt=1 << 31)]]
    reconsume_times: Int32
    queue_offset: int = 0
    commit_log_offset: int = 0
    store_timestamp: int = 0
    store_host: tuple[str, int] = ("", 0)
    prepared_transaction_offset: int = 0


class Writer:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pack = msgpack.Packer(use_bin_type=True).pack
        self.count = 0
        file.write(self._pack({"format": FORMAT, "version": VERSION}))

    def write(self, message: Exported) -> None:
        self._file.write(self._pack(msgspec.to_builtins(message, builtin_types=(bytes,))))
        self.count += 1

    def finish(self) -> None:
        self._file.write(self._pack({"end": self.count}))


def read(file: BinaryIO) -> Iterator[Exported]:
    """The messages of a stream. Raises StreamError: at once if it is none, or where it stops being one."""
    objects = _objects(file)
    header = next(objects, None)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise StreamError("this is no stream of messages: it does not begin with the format's name")
    if header.get("version") != VERSION:
        raise StreamError(f"the stream has version {header.get('version')!r}, this program reads {VERSION}")
    count = 0
    for found in objects:
        if isinstance(found, dict) and "end" in found:
            if found["end"] != count:
                raise StreamError(f"the stream says it has {found['end']} messages, it had {count}")
            return
        try:
            message = msgspec.convert(found, Exported)
        except msgspec.ValidationError as error:
            raise StreamError(f"object {count + 1} of the stream is no message: {error}") from None
        count += 1
        yield message
    raise StreamError(f"the stream was cut off after {count} messages")


def _objects(file: BinaryIO) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=MAX_MESSAGE, strict_map_key=True)
    number = 0
    while data := file.read(READ_BYTES):
        try:
            unpacker.feed(data)
            for found in unpacker:
                number += 1
                yield found
        except (ValueError, msgpack.UnpackException) as error:
            what = str(error) or type(error).__name__
            raise StreamError(f"object {number + 1} of the stream cannot be read: {what}") from None
