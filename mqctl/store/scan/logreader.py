"""The records of a part of the log, window by window, beside a broker that writes and deletes."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

import numpy as np

from mqctl.store.record import CRC_MASK
from mqctl.store.scan import chain
from mqctl.store.scan.folder import DataFile, StoreFolder
from mqctl.store.scan.records import MIN_RECORD, Places, Records, sound
from mqctl.store.scan.storage import Bytes

log = logging.getLogger(__name__)

# How much of the log is looked at at a time: enough that the work per window does not count, and not more than the
# caches of a processor hold. Four times as much takes half as long again.
WINDOW: Final = 4 * 1024 * 1024

# Where one record is looked for, it is usually near.
PROBE: Final = 64 * 1024

# Entries of a queue whose records are this far apart are read with two calls.
FAR: Final = 1024 * 1024

DELETED: Final = "%s: %s was deleted while it was read"


class LogRange(NamedTuple):
    """The records that begin in [start, stop).

    Up to the last record that is in a consume queue the log is known to go on: damage is skipped, and `start` may be
    anywhere. Behind it (`to_end`) begins what is being written: `start` must be a record's place, and the first bytes
    that are no record are the end of the log. What lies behind that may be left from before a crash.
    """

    start: int
    stop: int
    to_end: bool = False


class Found(NamedTuple):
    file: DataFile
    records: Records


def read_range(store: StoreFolder, part: LogRange) -> Iterator[Found]:
    for file in store.log_files():
        if part.start < file.end and file.start < part.stop:
            whole = yield from FileReader(store, file).read(part)
            if part.to_end and not whole:
                return


class FileReader:
    def __init__(self, store: StoreFolder, file: DataFile) -> None:
        self._store = store
        self._file = file

    def read(self, part: LogRange) -> Generator[Found, None, bool]:
        """Returns whether it has come to the end of its range, or of its file where the log goes on in the next."""
        place: int | None = max(part.start, self._file.start)
        stop = min(part.stop, self._file.end)
        if place == part.start != self._file.start and not part.to_end:
            place = self._next_place(part.start, stop)
        while place is not None and place < stop:
            data = self._window(place, WINDOW)
            if not len(data):
                log.warning(DELETED, self._store.name, self._file.path)
                return True
            at, following = chain.places(data, 0, stop - place)
            records, good = sound(data, place, at)
            if not good.all():
                following = int(at[good.argmin()])
                records = records.first(int(good.argmin()))
            if part.to_end and len(records) and not _is_whole(records):
                following = int(records.at[-1])
                records = records.first(len(records) - 1)
                if not len(records):
                    return False
            if len(records):
                yield Found(self._file, records)
            elif (larger := self._larger(data, place)) is not None:
                yield Found(self._file, larger)
                following = int(larger.field("size")[0])
            elif chain.is_blank(data, 0, self._file.end - place):
                return True
            elif part.to_end:
                return False
            else:
                following_place = self._next_place(place + 1, stop)
                log.warning(
                    "%s: no record at log offset %d; the next one is at %s", self._store.name, place, following_place
                )
                place = following_place
                continue
            place += following
        return True

    def _window(self, place: int, size: int) -> Bytes:
        return self._store.storage.window(self._file.path, place - self._file.start, size, whole=True)

    def _larger(self, data: Bytes, place: int) -> Records | None:
        """The record here, if it is one that the window is too small for."""
        size = next((size for at, size in chain.candidates(data, place, 1)), 0)
        return self._record(place, size) if len(data) < size <= self._file.end - place else None

    def _record(self, place: int, size: int) -> Records | None:
        data = self._window(place, size)
        if len(data) < MIN_RECORD:
            return None
        found, _ = sound(data, place, np.zeros(1, np.int64))
        return found if len(found) else None

    def find(self, start: int, stop: int) -> Records | None:
        """The first record that begins in [start, stop), wherever that is."""
        size = PROBE
        while start < stop:
            data = self._window(start, size)
            for at, record_size in chain.candidates(data, start, stop - start):
                if record_size <= self._file.end - start - at:
                    found = self._record(start + at, record_size)
                    if found is not None:
                        return found
            if len(data) < MIN_RECORD:
                return None
            start += len(data) - MIN_RECORD + 1  # a head that the window has cut in two is seen whole in the next
            size = WINDOW
        return None

    def _next_place(self, start: int, stop: int) -> int | None:
        found = self.find(start, stop)
        return None if found is None else found.base


def _is_whole(records: Records) -> bool:
    """Whether the last one has all its bytes: its head may be visible before the rest of it. What is not written yet is
    zero, and a property text ends with anything else."""
    last = records.select(np.arange(len(records)) == len(records) - 1)
    body_at, end = int(last.body_at[0]), int(last.at[0] + last.field("size")[0])
    body = last.data[body_at : body_at + int(last.body_size[0])]
    if len(body) and zlib.crc32(body.data) & CRC_MASK != int(last.field("body_crc")[0]):
        return False
    return bool(last.properties_size[0] == 0 or last.data[end - 1])


def read_places(store: StoreFolder, places: Places, sizes: Places) -> Iterator[Found]:
    """The records that queue entries lead to, in the order of the log; what is no record there is left out."""
    files = store.log_files()
    order = np.argsort(places, kind="stable")
    places, sizes = places[order], sizes[order]
    for file in files:
        low, high = np.searchsorted(places, (file.start, file.end))
        for first, last in _groups(places[low:high], sizes[low:high]):
            begin = int(places[low + first])
            end = int((places[low + first : low + last] + sizes[low + first : low + last]).max())
            data = store.storage.window(file.path, begin - file.start, min(end, file.end) - begin, whole=False)
            if not len(data):
                log.warning(DELETED, store.name, file.path)
            at = places[low + first : low + last] - begin
            records, good = sound(data, begin, at[at + MIN_RECORD <= len(data)])
            if not good.all():
                log.warning("%s: %d queue entries lead to no record", store.name, len(good) - len(records))
            if len(records):
                yield Found(file, records)


def _groups(places: Places, sizes: Places) -> Iterator[tuple[int, int]]:
    """Neighbours that are read together: [first, last) of each group."""
    first = 0
    far = np.append(places[1:] - places[:-1] - sizes[:-1] > FAR, True) if len(places) else np.empty(0, np.bool_)
    for last in (np.flatnonzero(far) + 1).tolist():
        while first < last:
            end = first + int(np.searchsorted(places[first:last], places[first] + WINDOW))
            yield first, end
            first = end
