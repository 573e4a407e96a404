"""Stores made by hand: who sent what, when, and what it says in config/. Each message is kept to count it by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqctl.store import record
from mqctl.store.store import MessageStore
from tests.unit.store.stores import Clock, message, opened, put_all

START_MS = 1_760_000_400_000  # a full hour of October 2025


@dataclass(frozen=True)
class Sent:
    store: str
    topic: str
    queue_id: int
    body: bytes
    tags: str
    keys: str
    uniq_key: str
    born_host: str
    born_ms: int
    store_ms: int
    size: int


@dataclass
class Maker:
    """Puts messages into one store. `sent` may be shared by several."""

    name: str
    store: MessageStore
    clock: Clock
    sent: list[Sent] = field(default_factory=list)

    def send(
        self,
        topic: str,
        queue_id: int = 0,
        body: bytes = b"hello",
        *,
        tags: str = "",
        keys: str = "",
        uniq_key: str = "",
        host: tuple[str, int] = ("10.0.0.1", 40000),
        took_ms: int = 0,
        at_ms: int | None = None,
    ) -> Sent:
        """`took_ms` is how long ago the message was born."""
        self.clock.now_ms = self.clock.now_ms if at_ms is None else at_ms
        uniq_key = uniq_key or f"ID{len(self.sent):030d}"
        pairs = {"KEYS": keys, "UNIQ_KEY": uniq_key, "TAGS": tags}
        properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value).encode()
        born_ms = self.clock.now_ms - took_ms
        host_bytes = record.pack_host(*host)
        put_all(
            self.store,
            [message(body, topic, queue_id, tags, properties=properties, born_timestamp=born_ms, born_host=host_bytes)],
        )
        size = record.encoded_size(0, len(topic.encode()), len(body), len(properties))
        born_host = f"{host[0]}:{host[1]}"
        self.sent.append(
            Sent(self.name, topic, queue_id, body, tags, keys, uniq_key, born_host, born_ms, self.clock.now_ms, size)
        )
        return self.sent[-1]


@contextmanager
def making(root: Path, name: str, sent: list[Sent] | None = None, file_size: int = 1 << 20) -> Iterator[Maker]:
    """The store is closed, so whole on disk, at the end."""
    clock = Clock(START_MS)
    with opened(root, clock, file_size=file_size, queue_entries=1000) as store:
        yield Maker(name, store, clock, [] if sent is None else sent)


def write_config(
    root: Path,
    *,
    topics: Mapping[str, int] | None = None,
    groups: tuple[str, ...] = (),
    offsets: Mapping[str, Mapping[int, int]] | None = None,
) -> None:
    """Topics with their numbers of queues; offsets by "topic@group" and queue."""
    contents: dict[str, Any] = {
        "topics.json": {
            "topicConfigTable": {
                name: {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
                for name, queues in (topics or {}).items()
            }
        },
        "subscriptionGroup.json": {"subscriptionGroupTable": {name: {"groupName": name} for name in groups}},
        "consumerOffset.json": {"offsetTable": offsets or {}},
    }
    (root / "config").mkdir(exist_ok=True)
    for name, content in contents.items():
        (root / "config" / name).write_text(json.dumps(content))
