"""Files here, or behind any URI that pyarrow's file systems open. A file that is gone reads as empty.

A location is a path or a URI, always text: it goes to executors as it is, and each opens it for itself.
"""

from __future__ import annotations

import errno
import mmap
import os
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pyarrow import fs

from mqctl.errors import StoreError

Bytes = NDArray[np.uint8]

_NOTHING: Final = np.empty(0, np.uint8)
_REFUSED_BY_S3: Final = "ACCESS_DENIED"  # of which pyarrow makes an OSError like any other
_POPULATE: Final = getattr(mmap, "MAP_POPULATE", 0)  # Linux only: pages arrive together, not one fault after the other


class Entry(NamedTuple):
    name: str
    path: str
    is_dir: bool
    size: int


class Storage(Protocol):
    """Raises PermissionError for what may not be read, StoreError for what cannot be."""

    def entries(self, path: str) -> list[Entry]:
        """What a folder holds, sorted by name; nothing if there is no such folder."""

    def read(self, path: str, at: int, size: int) -> bytes:
        """Up to `size` bytes."""

    def window(self, path: str, at: int, size: int, *, whole: bool) -> Bytes:
        """The same for large pieces, not copied where that can be; `whole` if all of it will be looked at."""


def storage(location: str) -> Storage:
    """Raises StoreError for a URI that nothing opens."""
    return _remote("/".join(location.split("/", 3)[:3])) if "://" in location else LOCAL


def join(location: str, *names: str) -> str:
    return "/".join((location.rstrip("/"), *names))


def _failure(path: str, error: OSError) -> Exception:
    """A refusal keeps its kind, in the words of Python: what an executor raises comes back as text."""
    if isinstance(error, PermissionError) or _REFUSED_BY_S3 in str(error):
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return StoreError(f"cannot read {path}: {error.strerror or error}")


class _Local:
    def entries(self, path: str) -> list[Entry]:
        try:
            with os.scandir(path) as found:
                return sorted(entry for each in found if (entry := _entry(each)) is not None)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _failure(path, error) from error

    def read(self, path: str, at: int, size: int) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _failure(path, error) from error
        try:
            return os.pread(descriptor, size, at)
        except OSError as error:
            raise _failure(path, error) from error
        finally:
            os.close(descriptor)

    def window(self, path: str, at: int, size: int, *, whole: bool) -> Bytes:
        # A window, not the file: what is mapped counts as memory of an executor.
        try:
            with Path(path).open("rb") as file:
                size = min(size, os.fstat(file.fileno()).st_size - at)
                if size <= 0:
                    return _NOTHING
                begin = at - at % mmap.ALLOCATIONGRANULARITY
                flags = mmap.MAP_SHARED | (_POPULATE if whole else 0)
                mapped = mmap.mmap(file.fileno(), at + size - begin, flags, mmap.PROT_READ, offset=begin)
        except FileNotFoundError:
            return _NOTHING
        except OSError as error:
            raise _failure(path, error) from error
        return np.frombuffer(mapped, np.uint8)[at - begin :]


def _entry(found: os.DirEntry[str]) -> Entry | None:
    try:
        return Entry(found.name, found.path, found.is_dir(), found.stat().st_size)
    except FileNotFoundError:
        return None


LOCAL: Final[Storage] = _Local()


class _Remote:
    """`base` is the scheme and the host of all URIs here, `inner` what stands for them in a path of the file system: a
    bucket, or nothing."""

    def __init__(self, base: str, filesystem: fs.FileSystem, inner: str) -> None:
        self._base = base
        self._filesystem = filesystem
        self._inner_base = inner.rstrip("/")

    def entries(self, path: str) -> list[Entry]:
        try:
            found = self._filesystem.get_file_info(fs.FileSelector(self._inner(path), allow_not_found=True))
        except OSError as error:
            raise _failure(path, error) from error
        return sorted(
            Entry(each.base_name, join(path, each.base_name), each.type == fs.FileType.Directory, each.size or 0)
            for each in found
        )

    def read(self, path: str, at: int, size: int) -> bytes:
        try:
            with self._filesystem.open_input_file(self._inner(path)) as file:
                size = min(size, file.size() - at)
                return bytes(file.read_at(size, at)) if size > 0 else b""
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _failure(path, error) from error

    def window(self, path: str, at: int, size: int, *, whole: bool) -> Bytes:
        return np.frombuffer(self.read(path, at, size), np.uint8)

    def _inner(self, path: str) -> str:
        """Not by `from_uri`, which takes a percent sign for an escape: names of topics have some."""
        return self._inner_base + path.removeprefix(self._base)


@lru_cache(maxsize=64)
def _remote(base: str) -> _Remote:
    """Opened once for all that is below, since that may take questions to a server."""
    try:
        return _Remote(base, *fs.FileSystem.from_uri(f"{base}/"))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot open {base}: {error}") from error
