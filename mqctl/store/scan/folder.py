"""What a store folder holds: the files of its log, its queues, its index; its config."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mqctl.errors import StoreError
from mqctl.remoting.fastjson_reader import FastjsonError, read
from mqctl.store.scan.storage import Entry, Storage, join, storage

LOG_NAME_DIGITS: Final = 20
MAX_CONFIG: Final = 1 << 30

# One of these makes a folder a store.
MARKS: Final = frozenset({"commitlog", "consumequeue", "checkpoint", "abort", "lock"})


class DataFile(NamedTuple):
    """A file of the log or of a queue. Its name says where in their offsets it begins."""

    start: int
    size: int
    path: str

    @property
    def end(self) -> int:
        return self.start + self.size


class QueueFolder(NamedTuple):
    topic: str
    queue_id: int
    path: str


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """One store: how to call it, and its path or URI."""

    name: str
    root: str

    @property
    def storage(self) -> Storage:
        return storage(self.root)

    def log_files(self) -> list[DataFile]:
        return self.data_files(join(self.root, "commitlog"))

    def data_files(self, path: str) -> list[DataFile]:
        return [
            DataFile(int(each.name), each.size, each.path)
            for each in self.storage.entries(path)
            if not each.is_dir and each.name.isdecimal() and len(each.name) == LOG_NAME_DIGITS
        ]

    def queues(self, topics: frozenset[str] = frozenset(), queue_id: int | None = None) -> Iterator[QueueFolder]:
        """Of these topics, or of all."""
        for topic in self.storage.entries(join(self.root, "consumequeue")):
            if not topic.is_dir or (topics and topic.name not in topics):
                continue
            for queue in self.storage.entries(topic.path):
                if queue.is_dir and queue.name.isdecimal() and queue_id in (None, int(queue.name)):
                    yield QueueFolder(topic.name, int(queue.name), queue.path)

    def index_files(self) -> list[Entry]:
        return [each for each in self.storage.entries(join(self.root, "index")) if each.name.isdecimal() and each.size]

    @property
    def clean(self) -> bool:
        """False while a broker runs on it, and after one that did not end well."""
        return all(each.name != "abort" for each in self.storage.entries(self.root))

    def config(self, name: str) -> dict[str, Any]:
        """The content of a file of config/, or of its backup where it is missing, empty or cut off, as brokers take it;
        {} if there is neither. Raises StoreError where none can be used."""
        path = join(self.root, "config", name)
        problem = None
        for each in (path, f"{path}.bak"):
            data = self.storage.read(each, 0, MAX_CONFIG)
            if not data:
                continue
            try:
                content = _parse(data)
            except FastjsonError as error:
                problem = f"{each}: {error}"
                continue
            if isinstance(content, dict):
                return content
            problem = f"{each}: it holds no table"
        if problem is not None:
            raise StoreError(problem)
        return {}


def _parse(data: bytes) -> Any:
    """fastjson writes numbers that are keys without quotes."""
    try:
        return json.loads(data)
    except ValueError:
        return read(data, MAX_CONFIG)
