"""What is counted where it is read, against the rows themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mqctl.store.scan.counts import CountedPart, columns_to_count
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import message_parts
from mqctl.store.scan.schema import MESSAGES, narrowed
from mqctl.store.scan.tables import queue_parts
from tests.unit.store.scan.reading import PART_BYTES, folder, read
from tests.unit.store.stores import Clock, message, opened, put_all


@pytest.fixture
def store(tmp_path: Path) -> Path:
    clock = Clock(1_700_000_000_000)
    with opened(tmp_path / "store", clock) as store:
        for number in range(60):
            tags = "red" if number % 5 else ""
            put_all(store, [message(bytes(number % 4), topic=f"t{number % 2}", queue_id=number % 3, tags=tags)])
            clock.now_ms += 700
    return tmp_path / "store"


def counted(parts: Sequence[Any], by: tuple[str, ...], asked: Any, every_s: int | None = None) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for part in parts:
        for batch in CountedPart(part, by, every_s).batches(asked):
            for row in batch.to_pylist():
                kind = found.setdefault(tuple(row[name] for name in by), [0, 0])
                kind[0] += row["messages"]
                kind[1] += row["bytes"]
    return found


def expected(root: Path, kind: Callable[[dict[str, Any]], Any]) -> dict[Any, list[int]]:
    messages: Counter[Any] = Counter()
    sizes: Counter[Any] = Counter()
    for row in read(root):
        messages[kind(row)] += 1
        sizes[kind(row)] += row["size"]
    return {each: [messages[each], sizes[each]] for each in messages}


@pytest.mark.parametrize("by", [("topic",), ("queue_id", "tags"), ("size",), ("tags", "size", "topic")])
def test_messages_by_columns(store: Path, by: tuple[str, ...]) -> None:
    wanted = Wanted(columns=columns_to_count(by))
    found = counted(message_parts(folder(store), wanted, PART_BYTES), by, wanted)
    assert found == expected(store, lambda row: tuple(row[name] for name in by))


def test_times_in_steps(store: Path) -> None:
    by = ("store_time", "topic")
    wanted = Wanted(columns=columns_to_count(by))
    found = counted(message_parts(folder(store), wanted), by, wanted, every_s=15)
    times = {(time.timestamp(), topic): counts for (time, topic), counts in found.items()}
    assert times == expected(store, lambda row: (row["store_time"].timestamp() // 15 * 15, row["topic"]))
    assert len(times) > 2


def test_entries_of_queues(store: Path) -> None:
    by = ("topic", "queue_id")
    found = counted(queue_parts(folder(store), frozenset(), None), by, columns_to_count(by))
    assert found == expected(store, lambda row: (row["topic"], row["queue_id"]))


def test_batches_have_the_columns_that_were_named_and_the_counts(store: Path) -> None:
    wanted = Wanted(columns=columns_to_count(("tags",)))
    (part,) = [CountedPart(part, ("tags",)) for part in message_parts(folder(store), wanted)][:1]
    schema = next(part.batches(wanted)).schema
    counts = [pa.field("messages", pa.int64()), pa.field("bytes", pa.int64())]
    assert schema == pa.schema([*narrowed(MESSAGES, ["tags"]), *counts])
