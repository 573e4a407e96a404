"""The body of REGISTER_BROKER: plain JSON, or the compressed form that brokers with many topics use.

The compressed form is a zlib stream of

    int32, bytes     data version as JSON
    int32            number of topics
    int32, bytes     each topic: name, readQueueNums, writeQueueNums, perm, filter type, separated by blanks
    int32, bytes     filter servers as a JSON array of text

where each int32 is the length of the bytes behind it. A topic's sysFlag, order flag and attributes do not
survive it. 5.x puts a sixth item (attributes) behind each topic and topic mappings behind the whole; neither
is looked at.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

import msgspec

from mqctl.remoting import bodies, compression
from mqctl.remoting.bodies import BodyError, DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from mqctl.store.record import SYS_COMPRESSED

# A frame could inflate to a thousand times its size. This is what could have come without compression; a
# topic takes some 60 bytes here, so a quarter of a million of them fit.
MAX_INFLATED: Final = 16 * 1024 * 1024

_INT: Final = Struct(">i")


def decode(data: bytes, *, compressed: bool = False) -> RegisterBrokerBody:
    """Read either form. Raises BodyError, whatever the bytes are."""
    if not compressed:
        return bodies.decode(RegisterBrokerBody, data)
    try:
        return _parse(_Parts(compression.decompress(data, SYS_COMPRESSED, MAX_INFLATED)))
    except (compression.CompressionError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BodyError(f"RegisterBrokerBody: {error}") from None


def encode(body: RegisterBrokerBody, *, compressed: bool = False) -> bytes:
    """Write either form."""
    if not compressed:
        return bodies.encode(body)
    topics = body.topic_config_serialize_wrapper
    parts = [
        _part(bodies.encode(topics.data_version)),
        _INT.pack(len(topics.topic_config_table)),
        *(_part(_topic_text(topic).encode()) for topic in topics.topic_config_table.values()),
        _part(msgspec.json.encode(body.filter_server_list)),
    ]
    return zlib.compress(b"".join(parts), zlib.Z_BEST_COMPRESSION)


def _part(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _topic_text(topic: TopicConfig) -> str:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type}"


def _parse(parts: _Parts) -> RegisterBrokerBody:
    version = bodies.decode(DataVersion, parts.part())
    topics = (_parse_topic(parts.part().decode()) for _ in range(parts.number()))
    table = {topic.topic_name: topic for topic in topics}
    try:
        servers = msgspec.json.decode(parts.part(), type=list[str] | None)
    except msgspec.DecodeError as error:
        raise BodyError(f"RegisterBrokerBody: filter servers: {error}") from None
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(data_version=version, topic_config_table=table),
        filter_server_list=servers or [],
    )


def _parse_topic(text: str) -> TopicConfig:
    items = text.split(" ")
    if len(items) < 5:
        raise BodyError(f"RegisterBrokerBody: topic of {len(items)} items where 5 belong")
    name, read_queue_nums, write_queue_nums, perm, filter_type = items[:5]
    fields = {
        "topicName": name,
        "readQueueNums": read_queue_nums,
        "writeQueueNums": write_queue_nums,
        "perm": perm,
        "topicFilterType": filter_type,
    }
    return msgspec.convert(fields, TopicConfig, strict=False)


class _Parts:
    """Takes the inflated bytes apart from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        return int(_INT.unpack(self._take(_INT.size))[0])

    def part(self) -> bytes:
        return self._take(self.number())

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise BodyError(f"RegisterBrokerBody: {size} bytes wanted at {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken
