"""Large logs made in a moment: every record is a copy of one, with its own place, queue offset and times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from mqctl.store import record
from mqctl.store.javahash import java_hash
from mqctl.store.scan.queuefiles import ENTRY
from mqctl.store.scan.records import HEADS

RECORD: Final = 300
QUEUES: Final = 4
FILE: Final = 1 << 30
QUEUE_FILE_ENTRIES: Final = 300_000
TOPIC: Final = "orders"
BEGIN_MS: Final = 1_760_000_000_000
PROPERTIES: Final = b"TAGS\x01paid\x02KEYS\x01order-000001\x02UNIQ_KEY\x01%b\x02CLUSTER\x01c" % (b"7F" * 16)


def make_store(root: Path, size: int) -> int:
    """A store whose log has `size` bytes of records, in files of a gigabyte; its queues list them all. Returns how many
    records there are."""
    (root / "commitlog").mkdir(parents=True)
    count = 0
    for start in range(0, size, FILE):
        here = min(size - start, FILE - record.BLANK.size) // RECORD
        with (root / "commitlog" / f"{start:020d}").open("wb") as file:
            for piece in _pieces(here):
                _records(start, count + piece.start, piece).tofile(file)
            left = FILE - here * RECORD
            file.write(record.BLANK.pack(left, record.MAGIC_BLANK) if start + FILE < size else b"")
            file.truncate(FILE)
        _list(root, start, count, here)
        count += here
    return count


def _pieces(count: int) -> Iterator[range]:
    for first in range(0, count, 100_000):
        yield range(first, min(first + 100_000, count))


def _records(start: int, number: int, piece: range) -> np.ndarray:
    host = record.pack_host("127.0.0.1", 10911)
    body = b"x" * (RECORD - record.encoded_size(0, len(TOPIC), 0, len(PROPERTIES)))
    one = record.encode(RECORD, TOPIC.encode(), 0, 0, 0, 0, 0, 0, host, 0, host, 0, 0, body, PROPERTIES)
    copies = np.tile(np.frombuffer(one, np.uint8), (len(piece), 1))
    heads = np.ndarray((len(piece),), HEADS[0], copies, 0, (RECORD,))
    numbers = np.arange(number, number + len(piece))
    heads["phys_offset"] = start + RECORD * np.arange(piece.start, piece.stop)
    heads["queue_id"], heads["queue_offset"] = numbers % QUEUES, numbers // QUEUES
    heads["born_time"] = heads["store_time"] = BEGIN_MS + numbers // 10
    return copies


def _list(root: Path, start: int, first: int, count: int) -> None:
    """Entries of the records of one file, added to the files of their queues."""
    numbers = np.arange(first, first + count)
    for queue in range(QUEUES):
        mine = numbers[numbers % QUEUES == queue]
        entries = np.empty(len(mine), ENTRY)
        entries["phys_offset"], entries["size"] = start + RECORD * (mine - first), RECORD
        entries["tags_code"] = java_hash("paid")
        folder = root / "consumequeue" / TOPIC / str(queue)
        folder.mkdir(parents=True, exist_ok=True)
        _append(folder, int(mine[0] // QUEUES) if len(mine) else 0, entries)


def _append(folder: Path, offset: int, entries: np.ndarray) -> None:
    while len(entries):
        number, within = divmod(offset, QUEUE_FILE_ENTRIES)
        piece, entries = np.split(entries, [QUEUE_FILE_ENTRIES - within])
        path = folder / f"{number * QUEUE_FILE_ENTRIES * ENTRY.itemsize:020d}"
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(within * ENTRY.itemsize)
            file.write(piece.tobytes())
            file.truncate(QUEUE_FILE_ENTRIES * ENTRY.itemsize)
        offset += len(piece)
