"""The commit log: every message of every topic, one after the other, in the order of arrival.

Appending has two steps. `append` gives a record its place and keeps its bytes in memory; `write` brings
all that was appended since the last time to the file with one system call. Only what is written may be
acknowledged or read; if writing fails the places are given back, as if nothing had been appended.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.files import NAME_DIGITS, FileHandles, Segments
from mqctl.store.smallfiles import sync_directory

log = logging.getLogger(__name__)

REWRITE_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Unsynced:
    """What has to be synced for the log to be on disk up to `end`. `sync` may run in any thread."""

    end: int
    created: int
    ranges: tuple[tuple[int, int, int], ...]  # descriptor, position, size
    directory: Path | None

    def sync(self, *, rewrite: bool = False) -> None:
        """Raises OSError when the disk refuses. After a refusal the kernel may take the pages for clean
        although they never reached the disk, and the next sync succeed without doing anything: `rewrite`
        makes them dirty again first."""
        for descriptor, position, size in self.ranges:
            if rewrite:
                _rewrite(descriptor, position, size)
            os.fdatasync(descriptor)
        if self.directory is not None:
            sync_directory(self.directory)
            sync_directory(self.directory.parent)  # the folder may be as new as the file


class CommitLog:
    """Owned by one thread. `flushed` is how far it is on disk, `end` how far it is written, `next_offset`
    how far records are appended."""

    def __init__(self, directory: Path, file_size: int) -> None:
        # The log has few files and all of them may be read at any time: none is ever closed early.
        self._handles = FileHandles(limit=1 << 20)
        self.segments = Segments(directory, file_size, self._handles)
        self.flushed = 0
        self.end = 0
        self.next_offset = 0
        self._synced_files = 0
        self._file_end = 0
        self._runs: list[tuple[int, list[bytes]]] = []
        self._refused_end = 0
        self._uncut: Path | None = None

    @property
    def begin(self) -> int:
        return self.segments.begin

    def load(self) -> None:
        """Finds the files that are there. Raises StoreError if one is missing between two others: the log would
        end before it, and all that lies behind would be cut off."""
        self.segments.load()
        for start, following in pairwise(self.segments.starts):
            if start + self.segments.file_size != following:
                missing = self.segments.directory / f"{start + self.segments.file_size:0{NAME_DIGITS}d}"
                raise StoreError(
                    f"{missing} is missing, though there are files before and after it",
                    hint="bring it back, or move all files before it away: the messages in those are then gone",
                )

    def open_at(self, end: int) -> None:
        """Appending continues at `end`, which recovery has found to be the end of the sound records."""
        self.end = self.next_offset = end
        self.flushed = min(self.flushed, end)
        self._file_end = self.segments.start_of(end) + self.segments.file_size
        self._runs = []

    def cut(self, end: int, aside: Path) -> None:
        """Ends the log at `end` for good. Whatever lies behind it is kept in the folder `aside`: left in
        place, the remains of old records could one day be taken for the continuation of new ones. While the disk
        has no room for that the log can be read, and writes are refused."""
        self.open_at(end)
        try:
            self.segments.cut(end, aside)
        except StoreError as error:
            log.error("%s; no messages are taken before that is done", error)
            self._uncut = aside

    def place(self, size: int) -> int:
        """The offset where a record of `size` bytes will go. Rolls over to the next file if it must."""
        if self.next_offset + size + record.BLANK.size > self._file_end:
            self._roll(size)
        return self.next_offset

    def append(self, data: bytes) -> None:
        """Takes records whose place was asked for just before."""
        if not self._runs:
            self._runs.append((self.next_offset, []))
        self._runs[-1][1].append(data)
        self.next_offset += len(data)

    def _roll(self, size: int) -> None:
        if size + record.BLANK.size > self.segments.file_size:
            raise StoreError(f"a record of {size} bytes does not fit into a file of {self.segments.file_size}")
        blank = record.BLANK.pack(self._file_end - self.next_offset, record.MAGIC_BLANK)
        self.append(blank)
        self.next_offset = self._file_end
        self._file_end += self.segments.file_size
        self._runs.append((self.next_offset, []))

    def write(self) -> int:
        """Brings what was appended to the file; returns how far the log grew. On StoreError nothing of it
        counts as appended."""
        runs, self._runs = self._runs, []
        written = self.next_offset
        try:
            if self._uncut is not None or self._refused_end:
                self._clear_remains()
            for offset, pieces in runs:
                if pieces:
                    self.segments.write(offset, pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except StoreError:
            self._refused_end = max(self._refused_end, written)
            self.open_at(self.end)
            raise
        grown, self.end = written - self.end, written
        return grown

    def _clear_remains(self) -> None:
        """A write that failed may have brought whole records to the disk. Nobody was told that they are
        stored, so they must be gone before anything new leads a recovery up to them. So must what a recovery
        found behind the end."""
        if self._uncut is not None:
            self.segments.cut(self.end, self._uncut)
            self._uncut = None
        self.segments.erase(self.end, self._refused_end)
        self._refused_end = 0

    # -- syncing ------------------------------------------------------------------------------------

    def unsynced(self) -> Unsynced:
        """Taken on the owner's thread; hand it back to `synced` when its sync has succeeded."""
        files = range(self.segments.start_of(self.flushed), self.end, self.segments.file_size)
        ranges = tuple(self._range_in(start) for start in files if self.segments.has(start))
        # A file that is new in its folder is not safe before the folder is.
        directory = self.segments.directory if self.segments.created > self._synced_files else None
        return Unsynced(self.end, self.segments.created, ranges, directory)

    def _range_in(self, start: int) -> tuple[int, int, int]:
        position = max(self.flushed - start, 0)
        size = min(self.end - start, self.segments.file_size) - position
        return self.segments.descriptor(start), position, size

    def synced(self, unsynced: Unsynced) -> None:
        self.flushed = max(self.flushed, unsynced.end)
        self._synced_files = unsynced.created

    def sync(self) -> None:
        """Brings all that is written to the disk. Raises StoreError."""
        unsynced = self.unsynced()
        try:
            unsynced.sync()
        except OSError as error:
            raise StoreError(f"cannot sync {self.segments.directory}: {error.strerror}") from error
        self.synced(unsynced)

    def prepare_next_file(self) -> None:
        """Creates the file after the current one, so that no send waits for it. Any thread may call this
        when it is the only caller."""
        following = self.segments.start_of(self.end) + self.segments.file_size
        if not self.segments.has(following):
            self.segments.create(following)

    def oldest_removable(self) -> Path | None:
        """The oldest file, unless it is in use: by appends, or by a sync, which may be under way in another
        thread with the descriptors of all files from `flushed` on."""
        starts = self.segments.starts
        if len(starts) < 2 or starts[0] + self.segments.file_size > self.flushed:
            return None
        return self.segments.path(starts[0])

    def forget_oldest(self) -> Path:
        """The log begins one file later. Deleting what is returned is the caller's business."""
        return self.segments.forget(self.segments.starts[0])

    def read(self, phys_offset: int, size: int) -> bytes | None:
        """The bytes of records that the caller knows to be there (their place comes from a consume queue);
        None when they are not: deleted, or not written yet."""
        if phys_offset + size > self.end:
            return None
        data = self.segments.read(phys_offset, size)
        return data if len(data) == size else None

    def read_record(self, phys_offset: int) -> bytes | None:
        """The whole record that starts at `phys_offset`, None where none does. The offset may come from a
        peer, so magic, size and the record's own idea of its place are checked before it is believed."""
        if not self.begin <= phys_offset < self.end:
            return None
        head = self.segments.read(phys_offset, record.MIN_RECORD)
        if not record.is_head_at(head, phys_offset):
            return None
        return self.read(phys_offset, record.size_of(head))

    def store_timestamp(self, phys_offset: int) -> int | None:
        """When the record at this place was stored."""
        head = self.segments.read(phys_offset, record.TIMESTAMP_HEAD)
        return record.store_timestamp_of(head) if record.is_head_at(head, phys_offset) else None

    def close(self) -> None:
        """A clean stop removes the file that was created ahead, as Java does."""
        for start in [s for s in self.segments.starts if s > self.end]:
            self.segments.remove(start)
        self.release()

    def release(self) -> None:
        self._handles.close()


def _rewrite(descriptor: int, position: int, size: int) -> None:
    end = position + size
    while position < end:
        data = os.pread(descriptor, min(REWRITE_CHUNK, end - position), position)
        os.pwrite(descriptor, data, position)
        position += len(data)
