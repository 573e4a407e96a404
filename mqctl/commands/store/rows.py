"""A message of a store as a row: all that programs get, and the line for people."""

from __future__ import annotations

import base64
from typing import Any, Final

from mqctl.figures import size_text
from mqctl.output import Column, Row, cell_text
from mqctl.store.properties import KEY_SEPARATOR, KEYS, TAGS, UNIQ_KEY, parse_properties
from mqctl.store.record import Record, encode_msg_id, pack_host
from mqctl.times import time_text

MESSAGE: Final = [
    Column("topic"),
    Column("queueId"),
    Column("queueOffset"),
    Column("commitLogOffset"),
    Column("storeSize", show=size_text),
    Column("storeTimestamp", show=time_text),
    Column("bornTimestamp", show=time_text),
    Column("offsetMsgId"),
    Column("msgId"),
    Column("tags"),
    Column("keys"),
    Column("body"),
    Column("bodyBase64"),
    Column("properties"),
]
RECORD: Final = [
    *MESSAGE,
    *(Column(name) for name in ("bodyCRC", "flag", "sysFlag", "bornHost", "storeHost", "reconsumeTimes")),
    Column("preparedTransactionOffset"),
]


def body_of(found: Record) -> bytes:
    """As its producer had it; as it is stored where it does not expand."""
    from mqctl.remoting.compression import CompressionError, decompress

    try:
        return decompress(found.body, found.sys_flag)
    except CompressionError:
        return found.body


def message_row(found: Record) -> dict[str, Any]:
    """`body` where it is UTF-8 text, else `bodyBase64`; the other one is null."""
    body = body_of(found)
    try:
        text: str | None = body.decode()
    except UnicodeDecodeError:
        text = None
    properties = parse_properties(found.properties)
    offset_msg_id = encode_msg_id(pack_host(*found.store_host), found.phys_offset)
    return {
        "topic": found.topic,
        "queueId": found.queue_id,
        "queueOffset": found.queue_offset,
        "commitLogOffset": found.phys_offset,
        "storeSize": found.size,
        "storeTimestamp": found.store_timestamp,
        "bornTimestamp": found.born_timestamp,
        "offsetMsgId": offset_msg_id,
        "msgId": properties.get(UNIQ_KEY, offset_msg_id),
        "tags": properties.get(TAGS),
        "keys": [key for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key],
        "body": text,
        "bodyBase64": None if text is not None else base64.b64encode(body).decode(),
        "properties": properties,
    }


def message_line(row: Row) -> str:
    body = row["body"] if row["body"] is not None else f"base64:{row['bodyBase64']}"
    labels = "".join(f" {name}={cell_text(row[name])}" for name in ("tags", "keys") if row[name])
    return f"{time_text(row['storeTimestamp'])} {row['topic']}/{row['queueId']}@{row['queueOffset']}{labels} {body}"


def record_row(found: Record) -> dict[str, Any]:
    return {
        **message_row(found),
        "bodyCRC": found.body_crc,
        "flag": found.flag,
        "sysFlag": found.sys_flag,
        "bornHost": _host_text(found.born_host),
        "storeHost": _host_text(found.store_host),
        "reconsumeTimes": found.reconsume_times,
        "preparedTransactionOffset": found.prepared_offset,
    }


def _host_text(host: tuple[str, int]) -> str:
    return f"[{host[0]}]:{host[1]}" if ":" in host[0] else f"{host[0]}:{host[1]}"
