"""Choosing messages of a queue by their properties, which only the records themselves hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from mqctl.store import record
from mqctl.store.commitlog import CommitLog
from mqctl.store.consumequeue import ENTRY

# How much of the log one pull may look through, so that others get their turn however large the messages are.
SIFT_BYTES: Final = 4 * 1024 * 1024
# Neighbours in the log are read together, up to this much at a time: what follows the last message that is wanted has
# been read for nothing.
STRETCH_BYTES: Final = 64 * 1024


class PropertyFilter(Protocol):
    @property
    def size(self) -> int:
        """How many conditions there are to check."""

    def matches(self, properties: str) -> bool: ...


class Stretch(NamedTuple):
    """Records that lie side by side in the log."""

    start: int
    sizes: list[int]


class Sifted(NamedTuple):
    records: list[bytes]
    scanned: int  # queue entries
    was_removed: bool  # nothing was there to look at any more


def stretches(entries: bytes) -> Iterator[Stretch]:
    """The records of queue entries, in order, as far as one pull may go; at least one."""
    current = Stretch(-1, [])
    end, total = -1, 0
    for phys_offset, size, _ in ENTRY.iter_unpack(entries):
        if total and total + size > SIFT_BYTES:
            break
        if phys_offset != end or phys_offset + size - current.start > STRETCH_BYTES:
            if current.sizes:
                yield current
            current = Stretch(phys_offset, [])
        current.sizes.append(size)
        end = phys_offset + size
        total += size
    if current.sizes:
        yield current


def sift(log: CommitLog, entries: bytes, max_messages: int, max_bytes: int, wanted: PropertyFilter) -> Sifted:
    """The records that match, up to the limits; the first one whatever its size."""
    found: list[bytes] = []
    scanned = size_bytes = 0
    was_removed = True
    for stretch in stretches(entries):
        data = log.read(stretch.start, sum(stretch.sizes))
        if data is None:
            scanned += len(stretch.sizes)
            continue
        was_removed = False
        begin = 0
        for size in stretch.sizes:
            end = begin + size
            if _matches(data, begin, end, wanted):
                if found and (len(found) >= max_messages or size_bytes + size > max_bytes):
                    return Sifted(found, scanned, False)
                found.append(data[begin:end])
                size_bytes += size
            scanned += 1
            begin = end
    return Sifted(found, scanned, was_removed)


def _matches(data: bytes, begin: int, end: int, wanted: PropertyFilter) -> bool:
    try:
        return wanted.matches(record.properties_of(data, begin, end))
    except record.RecordError:
        return False  # no client could read it either
