"""Small stores for tests: files of a few records, a clock one can set, copies as a crash would leave them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mqctl.store import record
from mqctl.store.consumequeue import ENTRY_SIZE
from mqctl.store.fetch import Limits, fetch
from mqctl.store.javahash import java_hash
from mqctl.store.record import Record
from mqctl.store.store import MessageStore, NewMessage, StoreConfig

HOST: Final = ("127.0.0.1", 10911)
BORN: Final = record.pack_host("10.1.2.3", 40000)
FILE: Final = 1024
QUEUE_ENTRIES: Final = 10
# A record of this size leaves ten to a file, with the room a blank needs.
BODY: Final = bytes(8)
EVERYTHING: Final = Limits(1000, 1 << 30)


class Clock:
    """Milliseconds, which stand still unless told otherwise."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> float:
        return self.now_ms / 1000


def store_config(root: Path, file_size: int = FILE, queue_entries: int = QUEUE_ENTRIES) -> StoreConfig:
    return StoreConfig(
        root=root,
        commitlog_dir=root / "commitlog",
        commitlog_file_size=file_size,
        queue_file_size=queue_entries * ENTRY_SIZE,
    )


def message(body: bytes = BODY, topic: str = "t", queue_id: int = 0, tags: str = "", **fields: Any) -> NewMessage:
    return NewMessage(
        **{
            "topic": topic,
            "queue_id": queue_id,
            "body": body,
            "properties": f"TAGS\x01{tags}".encode() if tags else b"",
            "tags_code": java_hash(tags) if tags else 0,
            "flag": 0,
            "sys_flag": 0,
            "born_timestamp": 999,
            "born_host": BORN,
            **fields,
        }
    )


def numbered(count: int, start: int = 0, **fields: Any) -> list[NewMessage]:
    """Messages of one size whose bodies say which they are."""
    return [message(b"%08d" % number, **fields) for number in range(start, start + count)]


def put_all(store: MessageStore, messages: list[NewMessage]) -> None:
    for each in messages:
        store.put(each)
    store.commit()


def new_store(root: Path, clock: Clock | None = None, **sizes: int) -> MessageStore:
    store = MessageStore(store_config(root, **sizes), HOST, clock or Clock())
    store.open()
    return store


@contextmanager
def opened(root: Path, clock: Clock | None = None, **sizes: int) -> Iterator[MessageStore]:
    store = new_store(root, clock, **sizes)
    try:
        yield store
    finally:
        store.close()


def save(store: MessageStore) -> None:
    """What the broker does now and then."""
    mark = store.published
    store.flush_queues()
    if store.index is not None:
        store.index.settle()
    saving = store.saver.begin(mark, with_index=True)
    saving.sync()
    store.log.sync()
    saving.write()


def crash_copy(store: MessageStore, to: Path) -> Path:
    """The directory as it is at this moment: what a kill leaves behind."""
    shutil.copytree(store.config.root, to)
    return to


def drop_without_close(store: MessageStore) -> None:
    """Closes the descriptors, as the end of a process does, and nothing else."""
    store.log.release()
    store._handles.close()
    if store.index is not None:
        store.index.release()


def records(store: MessageStore, topic: str = "t", queue_id: int = 0, start: int | None = None) -> list[Record]:
    """All that a consumer can read of a queue, pull by pull."""
    queue = store.queues.get((topic, queue_id))
    if queue is None:
        return []
    found: list[Record] = []
    queue_offset = queue.min_offset if start is None else start
    while queue_offset < queue.max_offset:
        fetched = fetch(store, topic, queue_id, queue_offset, EVERYTHING)
        assert fetched.next_offset > queue_offset
        found += parse_all(fetched.records)
        queue_offset = fetched.next_offset
    return found


def parse_all(data: bytes) -> list[Record]:
    found, position = [], 0
    while position < len(data):
        found.append(record.parse(data, position, check_crc=True))
        position += found[-1].size
    return found


def bodies(store: MessageStore, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    found = records(store, topic, queue_id)
    first = store.queues[topic, queue_id].min_offset if found else 0
    assert [each.queue_offset for each in found] == list(range(first, first + len(found)))
    assert {(each.topic, each.queue_id) for each in found} <= {(topic, queue_id)}
    return [each.body for each in found]


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
