"""The tables beside messages: queues, index, and what the config files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqctl.errors import StoreError
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.queuefiles import Queue, QueueSlice, read_slice, together
from mqctl.store.scan.schema import TABLES, narrowed

# Small enough for one batch; a task takes many.
SLICE_ENTRIES: Final = 300_000
PART_ENTRIES: Final = 4_000_000

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class QueuesPart:
    store: StoreFolder
    slices: tuple[QueueSlice, ...]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        log_files = self.store.log_files()
        log_begin = log_files[0].start if log_files else 0
        for part in self.slices:
            offsets, entries = read_slice(self.store, part, log_begin)
            if len(offsets):
                yield _batch("queues", columns, len(offsets), {
                    "store": self.store.name,
                    "topic": part.topic,
                    "queue_id": part.queue_id,
                    "queue_offset": offsets,
                    **{name: entries[name] for name in ("phys_offset", "size", "tags_code")},
                })  # fmt: skip


def queue_parts(store: StoreFolder, topics: frozenset[str], queue_id: int | None) -> list[QueuesPart]:
    slices = [part for queue in store.queues(topics, queue_id) for part in Queue(store, queue).slices(SLICE_ENTRIES)]
    return [QueuesPart(store, each) for each in together(slices, PART_ENTRIES)]


@dataclass(frozen=True, slots=True)
class ConfigPart:
    """A table that is a file of config/."""

    store: StoreFolder
    table: str

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = TABLES[self.table]
        file, rows = _CONFIG[self.table]
        try:
            found = list(rows(self.store.config(file)))
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreError(f"{self.store.root}/config/{file} is not what it should be: {error}") from error
        if found:
            values = dict(zip(schema.names[1:], zip(*found, strict=True), strict=True))
            yield _batch(self.table, columns, len(found), {"store": self.store.name, **values})


def _batch(table: str, columns: Sequence[str], count: int, values: Mapping[str, Any]) -> pa.RecordBatch:
    """A text or a number stands for a column of it."""
    schema = narrowed(TABLES[table], columns)
    return pa.RecordBatch.from_arrays(
        [_array(values[field.name], field.type, count) for field in schema], schema=schema
    )


def _array(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, np.ndarray):
        return pa.array(value.astype(value.dtype.newbyteorder("="))).cast(kind)
    return pa.array(value, kind) if isinstance(value, tuple) else pa.repeat(pa.scalar(value, kind), count)


# -- config files: the rows of each, without the store -----------------------------------------------------------


def _offsets(content: Mapping[str, Any]) -> Iterator[Row]:
    for place, offsets in content.get("offsetTable", {}).items():
        topic, _, group = place.partition("@")
        for queue_id, consumer_offset in offsets.items():
            yield group, topic, int(queue_id), int(consumer_offset)


def _topics(content: Mapping[str, Any]) -> Iterator[Row]:
    for name, topic in content.get("topicConfigTable", {}).items():
        numbers = (topic.get(key, value) for key, value in _TOPIC_DEFAULTS.items())
        yield name, *numbers, bool(topic.get("order", False))


def _groups(content: Mapping[str, Any]) -> Iterator[Row]:
    for name, group in content.get("subscriptionGroupTable", {}).items():
        yield name, *(group.get(key, value) for key, value in _GROUP_DEFAULTS.items())


def _delay_offsets(content: Mapping[str, Any]) -> Iterator[Row]:
    for level, queue_offset in content.get("offsetTable", {}).items():
        yield int(level), int(queue_offset)


# What Java's TopicConfig and SubscriptionGroupConfig hold before a file is read into them.
_TOPIC_DEFAULTS: Final = {"readQueueNums": 16, "writeQueueNums": 16, "perm": 6, "topicSysFlag": 0}
_GROUP_DEFAULTS: Final = {
    "consumeEnable": True,
    "consumeBroadcastEnable": True,
    "retryQueueNums": 1,
    "retryMaxTimes": 16,
}

_CONFIG: Final[dict[str, tuple[str, Callable[[Mapping[str, Any]], Iterator[Row]]]]] = {
    "offsets": ("consumerOffset.json", _offsets),
    "topics": ("topics.json", _topics),
    "groups": ("subscriptionGroup.json", _groups),
    "delay_offsets": ("delayOffset.json", _delay_offsets),
}
