"""The files of a log or a queue, read by somebody who does not own them.

A broker beside us may append and may delete its oldest file at any moment; a file that is gone reads as empty.
Files are opened for each read and closed again. Reads are large, so this costs little, and a store may have more
queues than a process may have descriptors.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mqctl.errors import StoreError
from mqctl.store.files import NAME_DIGITS


@contextmanager
def reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


class DataFile(NamedTuple):
    start: int
    size: int
    on_disk: int
    path: Path

    @property
    def end(self) -> int:
        return self.start + self.size

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; b"" if the file was deleted meanwhile."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error
        with reading(self.path):
            try:
                return os.pread(descriptor, size, position)
            finally:
                os.close(descriptor)

    def next_data(self, position: int) -> int | None:
        """The first place from `position` on that is not in a hole of a sparse file; None if only a hole is left."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:
            return None
        finally:
            os.close(descriptor)


class DataFiles:
    """The files of one folder, as they were when this was made, sorted; they form one space of offsets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = list(_data_files(directory))
        self._starts = [file.start for file in self.files]

    @property
    def begin(self) -> int:
        return self._starts[0] if self._starts else 0

    @property
    def end(self) -> int:
        return self.files[-1].end if self.files else 0

    def file_at(self, offset: int) -> DataFile | None:
        number = bisect_right(self._starts, offset) - 1
        return self.files[number] if number >= 0 and offset < self.files[number].end else None

    def file_after(self, offset: int) -> DataFile | None:
        """The first file that begins behind `offset`."""
        number = bisect_right(self._starts, offset)
        return self.files[number] if number < len(self.files) else None

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, not past the end of the file that holds `offset`; b"" where there is none."""
        file = self.file_at(offset)
        return file.read(offset - file.start, min(size, file.end - offset)) if file is not None else b""

    def read_through(self, offset: int, size: int) -> bytes:
        """Like read, but on into the files that follow."""
        pieces = []
        while size > 0 and (piece := self.read(offset, size)):
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return b"".join(pieces)


def _data_files(directory: Path) -> Iterator[DataFile]:
    with reading(directory):
        if not directory.is_dir():
            return
        for path in sorted(directory.iterdir()):
            if not (path.name.isdecimal() and len(path.name) == NAME_DIGITS):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            yield DataFile(int(path.name), status.st_size, status.st_blocks * 512, path)
