"""Stores with what brokers write beside plain messages: delayed, returned, half and given up ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mqctl.store import record
from mqctl.store.indexfile import Geometry
from mqctl.store.properties import join_properties
from mqctl.store.store import Appended, MessageStore, StoreConfig
from tests.unit.store.stores import HOST, Clock, message

NOW_MS: Final = 1_760_000_400_000

# Small files of every kind, so that there are several.
LOG_FILE: Final = 64 * 1024
QUEUE_FILE: Final = 20 * 50
INDEX: Final = Geometry(101, 300)


@dataclass
class Keeper:
    """Puts records into one store, a second apart."""

    root: Path
    store: MessageStore
    clock: Clock

    def put(
        self,
        topic: str,
        queue_id: int = 0,
        body: bytes = b"hello",
        *,
        code: int | None = None,
        times: int = 0,
        prepared: int = 0,
        **properties: str,
    ) -> Appended:
        """`code` is what the queue entry holds instead of the hash of the tag."""
        self.clock.now_ms += 1000
        each = message(
            body,
            topic,
            queue_id,
            properties.get("TAGS", ""),
            born_timestamp=self.clock.now_ms,
            reconsume_times=times,
            prepared_offset=prepared,
        )
        each.properties = join_properties(properties).encode()
        if code is not None:
            each.tags_code = code
        appended = self.store.put(each)
        self.store.commit()
        return appended

    def delay(self, level: int, due_ms: int, topic: str, times: int = 0, **properties: str) -> Appended:
        names = {"REAL_TOPIC": topic, "REAL_QID": "0", "DELAY": str(level), **properties}
        return self.put("SCHEDULE_TOPIC_XXXX", level - 1, code=due_ms, times=times, **names)

    def write_config(self, name: str, **content: Any) -> None:
        (self.root / "config").mkdir(exist_ok=True)
        (self.root / "config" / name).write_text(json.dumps(content))

    def write_topics(self, *topics: str) -> None:
        table = {name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in topics}
        self.write_config("topics.json", topicConfigTable=table)


def offset_id(place: Appended) -> str:
    return record.encode_msg_id(record.pack_host(*HOST), place.phys_offset)


@contextmanager
def keeping(root: Path) -> Iterator[Keeper]:
    """The store is closed, so whole on disk, at the end."""
    clock = Clock(NOW_MS)
    config = StoreConfig(
        root=root,
        commitlog_dir=root / "commitlog",
        commitlog_file_size=LOG_FILE,
        queue_file_size=QUEUE_FILE,
        index=INDEX,
    )
    store = MessageStore(config, HOST, clock)
    store.open()
    try:
        yield Keeper(root, store, clock)
    finally:
        store.close()
