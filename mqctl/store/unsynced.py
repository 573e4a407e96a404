"""Which files were written since they were last brought to the disk.

Consume queues are written all the time and synced now and then, many at once: a checkpoint may promise only what
a sync has confirmed. The owner's thread notes and takes; what it took is synced in any thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mqctl.errors import StoreError
from mqctl.store.smallfiles import sync_directory


class UnsyncedFiles:
    def __init__(self, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        self.files = set(files)
        # With names in them that a loss of power could take back.
        self.folders = set(folders)

    def made(self, folder: Path) -> None:
        """A file is new in `folder`, which may be new itself, as may be the one around it: a queue's first file
        comes with the folders of the queue and of its topic."""
        self.folders.update((folder, folder.parent, folder.parent.parent))

    def take(self) -> UnsyncedFiles:
        """All that was noted, which is then forgotten here."""
        taken = UnsyncedFiles(self.files, self.folders)
        self.files.clear()
        self.folders.clear()
        return taken

    def sync(self) -> None:
        """Waits for the disk. A file that was deleted meanwhile needs nothing. Raises StoreError; then nobody
        can tell any more what is on disk: the kernel reports a page that it could not write only once."""
        for path in self.files:
            _sync(path)
        for folder in self.folders:
            try:
                sync_directory(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"cannot sync {folder}: {error.strerror}") from error


def _sync(path: Path) -> None:
    """The file is opened anew, so that it matters to nobody when its owner closes or deletes it meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot sync {path}: {error.strerror}") from error
