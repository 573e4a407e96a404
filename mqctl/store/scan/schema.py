"""The tables of a store and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

_STORE: Final = ("store", pa.string())
_QUEUE: Final = (_STORE, ("topic", pa.string()), ("queue_id", pa.int32()))

MESSAGES: Final = pa.schema(
    [
        *_QUEUE,
        ("queue_offset", pa.int64()),
        ("phys_offset", pa.int64()),
        ("file", pa.string()),  # of the log: its name
        ("size", pa.int32()),  # of the record
        ("version", pa.int32()),  # 2 where the topic's length takes two bytes, else 1
        ("tags", pa.string()),
        ("keys", pa.string()),  # as stored: with blanks between them
        ("uniq_key", pa.string()),
        ("msg_id", pa.string()),  # made of the broker's address and the log offset
        ("flag", pa.int32()),
        ("sys_flag", pa.int32()),
        ("born_time", TIMESTAMP),
        ("born_host", pa.string()),
        ("store_time", TIMESTAMP),
        ("store_host", pa.string()),
        ("reconsume_times", pa.int32()),
        ("prepared_offset", pa.int64()),
        ("body_crc", pa.int32()),
        ("body_size", pa.int32()),  # as stored, so before a compressed one is expanded
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)

TABLES: Final[dict[str, pa.Schema]] = {
    "messages": MESSAGES,
    "queues": pa.schema(
        [
            *_QUEUE,
            ("queue_offset", pa.int64()),
            ("phys_offset", pa.int64()),
            ("size", pa.int32()),
            ("tags_code", pa.int64()),
        ]
    ),
    "index": pa.schema(
        [
            _STORE,
            ("file", pa.string()),
            ("entry", pa.int32()),
            ("key_hash", pa.int32()),
            ("phys_offset", pa.int64()),
            ("store_time", TIMESTAMP),  # rounded down to the second
        ]
    ),
    "offsets": pa.schema(
        [
            _STORE,
            ("group", pa.string()),
            ("topic", pa.string()),
            ("queue_id", pa.int32()),
            ("consumer_offset", pa.int64()),
        ]
    ),
    "topics": pa.schema(
        [
            _STORE,
            ("topic", pa.string()),
            ("read_queues", pa.int32()),
            ("write_queues", pa.int32()),
            ("perm", pa.int32()),
            ("topic_sys_flag", pa.int32()),
            ("order", pa.bool_()),
        ]
    ),
    "groups": pa.schema(
        [
            _STORE,
            ("group", pa.string()),
            ("consume_enable", pa.bool_()),
            ("broadcast_enable", pa.bool_()),
            ("retry_queues", pa.int32()),
            ("retry_max_times", pa.int32()),
        ]
    ),
    "delay_offsets": pa.schema([_STORE, ("level", pa.int32()), ("queue_offset", pa.int64())]),
}


def narrowed(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """These columns of it, in this order. Raises KeyError for one it does not have."""
    return pa.schema([schema.field(name) for name in columns])
