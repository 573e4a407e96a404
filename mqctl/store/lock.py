"""The lock on a store folder: one broker at a time, ours or Apache's."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mqctl.errors import StoreError


class StoreLock:
    """The file `lock`, its first byte locked the way Java's FileChannel.tryLock does it. The kernel releases
    it with the process, however that ends; but also when anything in the process opens and closes the file."""

    def __init__(self, root: Path) -> None:
        self._path = root / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises StoreError when another process has it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"cannot lock the store: {self._path}: {error.strerror}") from None
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError:
            os.close(descriptor)
            raise StoreError(
                f"the store {self._path.parent} is in use by another broker",
                hint="stop that one, or choose another storePathRootDir",
            ) from None
        os.pwrite(descriptor, b"lock", 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
