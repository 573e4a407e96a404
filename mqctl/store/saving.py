"""Making queues and index safe, and writing down in the checkpoint up to where they are.

flush the queues, settle the index      their owner: everything is in the files
Saver.begin                             their owner: which files that are
Saving.sync, sync of the log            any thread: everything is on disk
Saving.write                            any thread: the checkpoint says so
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mqctl.errors import StoreError
from mqctl.store.checkpoint import Checkpoint, IndexPosition, read_checkpoint, write_checkpoint
from mqctl.store.index import KeyIndex
from mqctl.store.unsynced import UnsyncedFiles


class Mark(NamedTuple):
    """A place behind some record of the log, that record's store time, and where it begins if that is known."""

    log_offset: int
    timestamp: int
    last_record: int = -1


class Saver:
    """The checkpoint of a store. `unsynced` notes which queue files are written.

    `has_failed` is set when a sync did: nobody can tell any more what is on disk. The checkpoint must stay where it
    is then, and the next start, even after an orderly stop, rebuild what lies behind it.
    """

    def __init__(self, path: Path, unsynced: UnsyncedFiles, index: KeyIndex | None) -> None:
        self._path = path
        self._unsynced = unsynced
        self.index = index
        self.checkpoint = Checkpoint()
        self.has_failed = False

    def load(self) -> Checkpoint:
        """Raises StoreError when there is a file that cannot be read."""
        self.checkpoint = read_checkpoint(self._path)
        return self.checkpoint

    @property
    def safe_offset(self) -> int:
        """Up to where the checkpoint vouches for log and queues; -1 if it says nothing."""
        return -1 if self.checkpoint.safe_offset is None else self.checkpoint.safe_offset

    def begin(self, mark: Mark, *, with_index: bool) -> Saving:
        """For what was published up to the mark. By now the queues that were dirty then must be flushed, and
        `with_index` all keys of the messages before it settled."""
        index = self.index if with_index else None
        position = self.checkpoint.index_position if index is None else index.position(mark.log_offset)
        return Saving(self, mark, self._unsynced.take(), index, position)

    def put(self, checkpoint: Checkpoint) -> None:
        """Any thread may call this, one at a time. Raises StoreError."""
        write_checkpoint(self._path, checkpoint)
        self.checkpoint = checkpoint

    def distrust(self) -> None:
        """Nothing is known of log and queues any more. Raises StoreError."""
        self.put(Checkpoint(index_timestamp=self.checkpoint.index_timestamp))


class Saving(NamedTuple):
    """One checkpoint on its way."""

    saver: Saver
    mark: Mark
    queue_files: UnsyncedFiles
    synced_index: KeyIndex | None
    index_position: IndexPosition | None

    def sync(self) -> None:
        """Raises StoreError."""
        try:
            self.queue_files.sync()
            if self.synced_index is not None:
                self.synced_index.flush()
        except StoreError:
            self.saver.has_failed = True
            raise

    def write(self) -> None:
        """After `sync`, and when the log is on disk up to the mark. Raises StoreError."""
        log_offset, timestamp, last_record = self.mark
        index = self.saver.index
        index_timestamp = index.flushed_timestamp if index is not None else 0
        self.saver.put(Checkpoint(timestamp, timestamp, index_timestamp, log_offset, last_record, self.index_position))
