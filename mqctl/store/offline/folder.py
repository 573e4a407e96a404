"""A store folder: its log, its queues, its config files. Nothing here writes, creates or locks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from mqctl.errors import NotFound
from mqctl.store import record
from mqctl.store.consumequeue import LOST_SIZE
from mqctl.store.offline.datafiles import DataFiles, reading
from mqctl.store.offline.logscan import CHUNK, LogScan, OnDamage, RawRecord
from mqctl.store.offline.queuefiles import QueueFiles

# One of these makes a folder a store. All of them appear when a broker starts for the first time.
_MARKS: Final = ("commitlog", "consumequeue", "checkpoint", "abort", "lock")

CONFIG_SUFFIXES: Final = (".json", ".json.bak")


@dataclass(frozen=True, slots=True)
class Info:
    log_files: int
    log_file_size: int | None
    log_begin: int
    log_end: int
    size_bytes: int
    disk_bytes: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    clean: bool
    topics: int
    queues: int
    messages: int
    config_files: list[str]


class StoreFolder:
    """A store as it was when this was made."""

    def __init__(self, root: Path, commitlog: Path | None = None) -> None:
        """`commitlog` is the log's folder where it is not in the store's. Raises NotFound if there is no store."""
        self.root = root
        with reading(root):
            if not root.is_dir():
                raise NotFound(f"{root} is not a folder")
            if not any((root / mark).exists() for mark in _MARKS):
                raise NotFound(
                    f"{root} holds no store: it has none of {', '.join(_MARKS)}",
                    hint="give the folder that storePathRootDir names",
                )
            if commitlog is not None and not commitlog.is_dir():
                raise NotFound(f"{commitlog} is not a folder", hint="give the folder that storePathCommitLog names")
        self._commitlog = commitlog
        self.log = DataFiles(commitlog or root / "commitlog")

    def reopened(self) -> StoreFolder:
        """As it is now."""
        return StoreFolder(self.root, self._commitlog)

    def name(self, path: Path) -> str:
        """How to call a file when talking about this store."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    @property
    def clean(self) -> bool:
        """False while a broker runs on it, and after one that did not end well."""
        return not (self.root / "abort").exists()

    @cached_property
    def queues(self) -> list[QueueFiles]:
        """Sorted by topic and number."""
        return [
            QueueFiles(queue_dir, topic_dir.name, int(queue_dir.name), self.log.begin)
            for topic_dir in _folders(self.root / "consumequeue")
            for queue_dir in sorted(
                (each for each in _folders(topic_dir) if each.name.isdecimal()), key=lambda each: int(each.name)
            )
        ]

    def queues_of(self, topic: str | None, queue_id: int | None = None) -> list[QueueFiles]:
        """Raises NotFound if there are none."""
        found = [
            queue
            for queue in self.queues
            if (topic is None or queue.topic == topic) and (queue_id is None or queue.queue_id == queue_id)
        ]
        if not found and topic is not None:
            what = f"topic {topic}" if queue_id is None else f"queue {queue_id} of topic {topic}"
            raise NotFound(f"{self.root} has no {what}")
        return found

    def config_files(self) -> list[Path]:
        """With their backups."""
        config = self.root / "config"
        with reading(config):
            return sorted(path for path in config.rglob("*.json*") if path.name.endswith(CONFIG_SUFFIXES))

    def record_at(self, phys_offset: int, size: int | None = None) -> record.Record:
        """The record that begins here. `size` spares a read where it is known. Raises RecordError."""
        data = self.log.read(phys_offset, record.MIN_RECORD if size is None else max(size, record.MIN_RECORD))
        if not record.is_head_at(data, phys_offset):
            raise record.RecordError(f"no record at log offset {phys_offset}")
        if record.size_of(data) > len(data):
            data = self.log.read(phys_offset, record.size_of(data))
        return record.parse(data, 0)

    def messages(self, queue: QueueFiles, start: int, stop: int) -> Iterator[record.Record | str]:
        """What a queue's entries lead to; a text says what is there instead of a record."""
        start, stop = max(start, queue.min_offset), min(stop, queue.max_offset)
        for queue_offset, (phys_offset, size, _) in enumerate(queue.entries(start, stop), start):
            try:
                yield self._message(queue, queue_offset, phys_offset, size)
            except record.RecordError as error:
                yield f"{queue.topic}/{queue.queue_id}@{queue_offset}: {error}"

    def _message(self, queue: QueueFiles, queue_offset: int, phys_offset: int, size: int) -> record.Record:
        if size == LOST_SIZE:
            raise record.RecordError("the message is lost")
        # The size is not believed before the record confirms it: it may be anything after damage.
        found = self.record_at(phys_offset, size if 0 < size < CHUNK else None)
        if found.topic == queue.topic and found.queue_offset > queue_offset:
            raise record.RecordError(f"the message is lost, that of offset {found.queue_offset} stands for it")
        return found

    def scan(self, on_damage: OnDamage, start: int | None = None) -> LogScan:
        return LogScan(self.log, self.log.begin if start is None else start, on_damage)

    def file_from(self, timestamp_ms: int) -> int:
        """Where to start looking for records stored at this time or later: the last file that begins earlier."""
        found = self.log.begin
        for file in self.log.files:
            first = self._store_timestamp(file.start)
            if first is None or first >= timestamp_ms:
                break
            found = file.start
        return found

    def _store_timestamp(self, phys_offset: int) -> int | None:
        head = self.log.read(phys_offset, record.TIMESTAMP_HEAD)
        return record.store_timestamp_of(head) if record.is_head_at(head, phys_offset) else None

    def last_record(self) -> tuple[int, RawRecord | None]:
        """(the log's end, the last record), found from the furthest queue entry on."""
        last_file = next((f for f in reversed(self.log.files) if any(f.read(0, record.BLANK.size))), None)
        if last_file is None:
            return self.log.begin, None
        start = last_file.start
        for queue in self.queues:
            entry = queue.entry(queue.max_offset - 1) if queue.messages else None
            if entry is not None and start < entry[0] < last_file.end and self._store_timestamp(entry[0]) is not None:
                start = entry[0]
        scan = self.scan(lambda start, end, what: None, start)
        last = deque(scan, maxlen=1)
        return scan.end, last[0] if last else None

    def info(self) -> Info:
        end, last = self.last_record()
        files = self.log.files
        return Info(
            log_files=len(files),
            log_file_size=files[0].size if files else None,
            log_begin=self.log.begin,
            log_end=end,
            size_bytes=sum(file.size for file in files),
            disk_bytes=sum(file.on_disk for file in files),
            first_store_timestamp=self._store_timestamp(self.log.begin),
            last_store_timestamp=None if last is None else last.fields[10],
            clean=self.clean,
            topics=len({queue.topic for queue in self.queues}),
            queues=len(self.queues),
            messages=sum(queue.messages for queue in self.queues),
            config_files=[
                str(path.relative_to(self.root / "config")) for path in self.config_files() if path.suffix == ".json"
            ],
        )


def _folders(directory: Path) -> list[Path]:
    with reading(directory):
        if not directory.is_dir():
            return []
        return sorted(path for path in directory.iterdir() if path.is_dir())
