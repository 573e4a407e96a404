"""The columns of messages: what was asked for of the records that were asked for, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mqctl.remoting.compression import MAX_BODY, CompressionError, decompress
from mqctl.store import properties, record
from mqctl.store.scan.logreader import Found
from mqctl.store.scan.records import Mask, Records
from mqctl.store.scan.schema import MESSAGES, TIMESTAMP, narrowed
from mqctl.store.scan.texts import PropertyTexts, as_text, by_value, slices

FULL_BODY: Final = MAX_BODY

# A client may claim to have sent its message at any time; Python's and SQL's calendars have the years 1 to 9999.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999

_HEX: Final = np.array([f"{byte:02X}".encode() for byte in range(256)], "S2").view(np.uint16)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages, and what of them. `until_ms` and `to_offset` are not included; times are the broker's."""

    columns: tuple[str, ...] = tuple(MESSAGES.names)
    topics: frozenset[str] = frozenset()  # what their queues lead to
    from_log: bool = False  # of these topics all that the log holds, listed in a queue or not
    queue_id: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    body_bytes: int = 0  # so much of each body; 0 = none at all

    def with_body(self, text: str) -> Wanted:
        """none, head:N or full. Raises ValueError for anything else."""
        kind, _, count = text.partition(":")
        if text in ("none", "full"):
            return replace(self, body_bytes=FULL_BODY if text == "full" else 0)
        if kind == "head" and count.isdecimal():
            return replace(self, body_bytes=int(count))
        raise ValueError(f"body is none, full or head:N, not {text!r}")


def batches(store: str, found: Iterator[Found], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    schema = narrowed(MESSAGES, wanted.columns)
    for file, records in found:
        columns = _Columns(store, file.path.rpartition("/")[2], _chosen(records, wanted), wanted.body_bytes)
        if len(columns.records):
            yield pa.RecordBatch.from_arrays([columns.make(name) for name in wanted.columns], schema=schema)


def _chosen(records: Records, wanted: Wanted) -> Records:
    if wanted.queue_id is not None:
        records = records.select(records.field("queue_id") == wanted.queue_id)
    records = _between(records, "store_time", wanted.since_ms, wanted.until_ms)
    records = _between(records, "phys_offset", wanted.from_offset, wanted.to_offset)
    if wanted.topics:
        topics = slices(records.data, records.topic_at, records.topic_size).dictionary_encode()
        known = np.array(
            [topic.decode(errors="replace") in wanted.topics for topic in topics.dictionary.to_pylist()], bool
        )
        records = records.select(known[topics.indices.to_numpy()])
    return records


def _between(records: Records, name: str, low: int | None, high: int | None) -> Records:
    if low is not None:
        records = records.select(records.field(name) >= low)
    if high is not None:
        records = records.select(records.field(name) < high)
    return records


class _Columns:
    """Makes the columns of one batch."""

    def __init__(self, store: str, file: str, records: Records, body_bytes: int) -> None:
        self.store = store
        self.file = file
        self.records = records
        self.body_bytes = body_bytes

    def make(self, name: str) -> pa.Array:
        special = _SPECIAL.get(name)
        return pa.array(self.records.field(name)) if special is None else special(self)

    @cached_property
    def properties(self) -> PropertyTexts:
        found = self.records
        return PropertyTexts(found.data, found.properties_at, found.properties_size)

    def repeated(self, text: str) -> pa.StringArray:
        return pa.repeat(pa.scalar(text, pa.string()), len(self.records))

    def time(self, name: str) -> pa.Array:
        ms = np.clip(self.records.field(name), _FIRST_MS, _LAST_MS)
        return pa.array(ms * 1000).view(TIMESTAMP)

    def version(self) -> pa.Array:
        return pa.array(self.records.version_2.astype(np.int32) + 1)

    def topic(self) -> pa.StringArray:
        found = self.records
        return as_text(slices(found.data, found.topic_at, found.topic_size))

    def host(self, name: str, flag: int) -> pa.StringArray:
        return self._by_width(flag, lambda wanted: by_value(_fixed(self.records.host(name, wanted)), _address))

    def msg_id(self) -> pa.StringArray:
        return self._by_width(record.SYS_STORE_HOST_V6, self._msg_ids)

    def _msg_ids(self, wanted: Mask) -> pa.StringArray:
        hosts = self.records.host("store_host", wanted)
        offsets = self.records.heads["phys_offset"][wanted]
        packed = np.empty(len(hosts), [("host", hosts.dtype), ("offset", offsets.dtype)])
        packed["host"], packed["offset"] = hosts, offsets
        return (
            _fixed(_HEX[packed.view(np.uint8)].view(f"V{2 * packed.dtype.itemsize}"))
            .cast(pa.binary())
            .cast(pa.string())
        )

    def _by_width(self, flag: int, make: Callable[[Mask], pa.StringArray]) -> pa.StringArray:
        """IPv4 and IPv6 addresses have different widths, so they are worked on apart, and put together again."""
        wide = self.records.hosts & (flag >> 4) != 0
        if not wide.any():
            return make(~wide)
        order = np.argsort(np.concatenate([np.flatnonzero(~wide), np.flatnonzero(wide)]))
        return pa.concat_arrays([make(~wide), make(wide)]).take(pa.array(order))

    def body(self) -> pa.BinaryArray:
        found = self.records
        if not self.body_bytes:
            return pa.nulls(len(found), pa.binary())
        flags = found.field("sys_flag")
        packed = flags & record.SYS_COMPRESSED != 0
        # Compressed ones are cut after they have been expanded.
        stored = slices(
            found.data, found.body_at, np.where(packed, found.body_size, np.minimum(found.body_size, self.body_bytes))
        )
        if not packed.any():
            return stored
        bodies = stored.to_pylist()
        for row in np.flatnonzero(packed).tolist():
            bodies[row] = _expanded(bodies[row], int(flags[row]))[: self.body_bytes]
        return pa.array(bodies, pa.binary())


_SPECIAL: Final[dict[str, Callable[[_Columns], pa.Array]]] = {
    "store": lambda columns: columns.repeated(columns.store),
    "topic": _Columns.topic,
    "file": lambda columns: columns.repeated(columns.file),
    "version": _Columns.version,
    "tags": lambda columns: columns.properties.value(properties.TAGS),
    "keys": lambda columns: columns.properties.value(properties.KEYS),
    "uniq_key": lambda columns: columns.properties.value(properties.UNIQ_KEY),
    "msg_id": _Columns.msg_id,
    "born_time": lambda columns: columns.time("born_time"),
    "born_host": lambda columns: columns.host("born_host", record.SYS_BORN_HOST_V6),
    "store_time": lambda columns: columns.time("store_time"),
    "store_host": lambda columns: columns.host("store_host", record.SYS_STORE_HOST_V6),
    "body": _Columns.body,
    "properties": lambda columns: columns.properties.maps(),
}


def _fixed(values: NDArray[Any]) -> pa.FixedSizeBinaryArray:
    kind = pa.binary(values.dtype.itemsize)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _address(packed: bytes) -> str:
    ip, port = record.unpack_host(packed)
    return f"{ip}:{port}" if len(packed) == 8 else f"[{ip}]:{port}"


def _expanded(body: bytes, sys_flag: int) -> bytes:
    """A body that cannot be expanded, or only by a library that is not installed here, stays as it is stored."""
    try:
        return decompress(body, sys_flag)
    except (CompressionError, ImportError):
        return body
