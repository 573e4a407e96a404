"""One consume queue as it lies in its folder, and what it tells about the log without looking there."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, FILLER, LOST_SIZE
from mqctl.store.offline.datafiles import DataFiles

# How much of a queue is read at a time.
QUEUE_CHUNK: Final = 10_000 * ENTRY_SIZE


class QueueFiles:
    """One consume queue. `min_offset` and `max_offset` are what was there when this was made."""

    def __init__(self, directory: Path, topic: str, queue_id: int, log_begin: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = DataFiles(directory)
        first = self.files.begin // ENTRY_SIZE
        self.max_offset = self._find_end()
        # Before the first entry there may be some whose records were deleted, or fillers.
        self.min_offset = self._first(
            first, self.max_offset, lambda entry: entry[0] >= log_begin and ENTRY.pack(*entry) != FILLER
        )

    def _find_end(self) -> int:
        for file in reversed(self.files.files):
            low = file.start // ENTRY_SIZE
            end = self._first(low, low + file.size // ENTRY_SIZE, lambda entry: entry[1] <= 0)
            if end > low:
                return end
        return self.files.begin // ENTRY_SIZE

    def _first(self, low: int, high: int, wanted: Callable[[tuple[int, int, int]], bool]) -> int:
        """Binary search for the first entry in [low, high) that is wanted; `high` if none is."""
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is None or wanted(entry):
                high = middle
            else:
                low = middle + 1
        return low

    def entry(self, queue_offset: int) -> tuple[int, int, int] | None:
        data = self.files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Whole entries from `start` to `stop`, many at a time; ends early where the files do."""
        while start < stop:
            data = self.files.read(start * ENTRY_SIZE, min(QUEUE_CHUNK, (stop - start) * ENTRY_SIZE))
            whole = len(data) // ENTRY_SIZE
            if not whole:
                return
            yield data[: whole * ENTRY_SIZE]
            start += whole

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(log offset, size, tags code) from `start` to `stop`."""
        for piece in self.pieces(start, stop):
            yield from ENTRY.iter_unpack(piece)

    @property
    def messages(self) -> int:
        return self.max_offset - self.min_offset


class Usage(NamedTuple):
    messages: int
    size_bytes: int


def usage(queue: QueueFiles) -> Usage:
    """Without taking entries apart: an entry is five numbers of four bytes, and the third is the size."""
    messages = size_bytes = 0
    for data in queue.pieces(queue.min_offset, queue.max_offset):
        sizes = array("i", data)[2::5]
        if sys.byteorder == "little":
            sizes.byteswap()
        lost = sizes.count(LOST_SIZE)
        messages += len(sizes) - lost
        size_bytes += sum(sizes) - lost * LOST_SIZE
    return Usage(messages, size_bytes)


def usage_by_tag(queue: QueueFiles) -> dict[int, Usage]:
    """By tags code, the largest first."""
    messages: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for _, size, tags_code in queue.entries(queue.min_offset, queue.max_offset):
        if size != LOST_SIZE:
            messages[tags_code] += 1
            sizes[tags_code] += size
    return {tags_code: Usage(messages[tags_code], size) for tags_code, size in sizes.most_common()}
