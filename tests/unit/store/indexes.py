"""Tiny indexes for tests, and a second, plain way to make the bytes of an index file."""

from __future__ import annotations

from pathlib import Path
from struct import pack, pack_into, unpack_from
from typing import Any, Final, NamedTuple

from mqctl.store.index import KeyIndex
from mqctl.store.indexfile import Geometry
from mqctl.store.javahash import java_hash

SMALL: Final = Geometry(hash_slots=5, max_entries=9)
FOREVER: Final = 1 << 62
BEGIN: Final = 1_700_000_000_000


class Message(NamedTuple):
    phys_offset: int
    timestamp: int
    topic: str
    keys: tuple[str, ...]


def messages(count: int, start: int = 0, keys: tuple[str, ...] = (), topic: str = "t") -> list[Message]:
    """One second and 100 bytes apart, each with a key of its own besides."""
    return [
        Message(100 * number, BEGIN + 1000 * number, topic, (f"k{number}", *keys))
        for number in range(start, start + count)
    ]


def opened(directory: Path, geometry: Geometry = SMALL, was_clean: bool = True, **options: Any) -> KeyIndex:
    flushed = options.pop("flushed_timestamp", 0)
    index = KeyIndex(directory, geometry, **options)
    index.open(was_clean=was_clean, flushed_timestamp=flushed)
    return index


def add_all(index: KeyIndex, batch: list[Message]) -> None:
    for message in batch:
        index.add(*message)


def drop_without_close(index: KeyIndex) -> None:
    """Closes the descriptors, as the end of a process does, and nothing else."""
    for file in index._files:
        file.close()


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.isdecimal())


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in files(directory)]


def find(index: KeyIndex, known: list[Message], topic: str, key: str, max_count: int = 64) -> list[int]:
    """A lookup as the broker does it: each candidate is compared with the message."""
    right = {m.phys_offset for m in known if m.topic == topic and key in m.keys}
    return index.query(topic, key, max_count, 0, FOREVER, right.__contains__)


def finds_all(index: KeyIndex, known: list[Message]) -> bool:
    return all(m.phys_offset in find(index, known, m.topic, key) for m in known for key in m.keys)


class PlainFiles:
    """Index files as byte arrays, written one key at a time as the format's description says."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.contents: list[bytearray] = []

    def add(self, message: Message) -> None:
        for key in message.keys:
            if not self.contents or unpack_from(">i", self.contents[-1], 36)[0] == self.geometry.max_entries:
                self._start_file()
            self._put(self.contents[-1], message, abs(java_hash(f"{message.topic}#{key}")) & 0x7FFFFFFF)

    def _start_file(self) -> None:
        file = bytearray(40 + 4 * self.geometry.hash_slots + 20 * self.geometry.max_entries)
        if self.contents:
            _, end_time, _, end_offset = unpack_from(">qqqq", self.contents[-1])
            pack_into(">qqqq", file, 0, end_time, end_time, end_offset, end_offset)
        pack_into(">i", file, 36, 1)
        self.contents.append(file)

    def _put(self, file: bytearray, message: Message, key_hash: int) -> None:
        begin_time, _, begin_offset, _, used, number = unpack_from(">qqqqii", file)
        slot_at = 40 + 4 * (key_hash % self.geometry.hash_slots)
        (previous,) = unpack_from(">i", file, slot_at)
        seconds = max(0, (message.timestamp - begin_time) // 1000) if begin_time > 0 else 0
        entry = pack(">iqii", key_hash, message.phys_offset, seconds, previous)
        pack_into(">20s", file, 40 + 4 * self.geometry.hash_slots + 20 * number, entry)
        pack_into(">i", file, slot_at, number)
        if number == 1:
            begin_time, begin_offset = message.timestamp, message.phys_offset
        used += previous == 0
        end = (message.timestamp, begin_offset, message.phys_offset)
        pack_into(">qqqqii", file, 0, begin_time, *end, used, number + 1)
