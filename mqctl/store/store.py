"""The message store: the commit log and its consume queues behind one small surface.

It knows nothing of sockets or event loops. One thread owns it: `put` as many messages as there are, then
`commit` once; what commit returned for is in the files and visible to readers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mqctl.errors import StoreError
from mqctl.store import record, recover
from mqctl.store.commitlog import CommitLog
from mqctl.store.consumequeue import ENTRY_SIZE, ConsumeQueue
from mqctl.store.files import FileHandles
from mqctl.store.index import KeyIndex, indexed_keys
from mqctl.store.indexfile import Geometry
from mqctl.store.lock import StoreLock
from mqctl.store.saving import Mark, Saver
from mqctl.store.schedule import DEFAULT_LEVELS_MS

log = logging.getLogger(__name__)

# How many consume queue files stay open. The process limit is often 1024 in all.
OPEN_QUEUE_FILES: Final = 512

HOST_BITS: Final = record.SYS_BORN_HOST_V6 | record.SYS_STORE_HOST_V6


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    root: Path
    commitlog_dir: Path
    commitlog_file_size: int = 1024 * 1024 * 1024
    queue_file_size: int = 300_000 * ENTRY_SIZE
    index: Geometry | None = Geometry()  # None: messages cannot be looked up by key
    delay_levels_ms: tuple[int, ...] = DEFAULT_LEVELS_MS


class NewMessage(msgspec.Struct, gc=False):
    """A message on its way into the log. `properties` is the text that will be stored."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    reconsume_times: int = 0
    prepared_offset: int = 0
    keys: Sequence[str] | None = None  # for the index; None: those in `properties`
    # For delayed messages: the queue entry holds the store time plus this, instead of the tags code.
    delay_ms: int | None = None


class Appended(msgspec.Struct, gc=False):
    """Where a message went. Provisional until the next commit."""

    queue_offset: int
    phys_offset: int
    size: int
    store_timestamp: int


# (queue, log offset, size, tags code, store time, keys): what queue and index need of a record.
Entry = tuple[ConsumeQueue, int, int, int, int, Sequence[str]]


class MessageStore:
    def __init__(
        self,
        config: StoreConfig,
        store_host: tuple[str, int],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.log = CommitLog(config.commitlog_dir, config.commitlog_file_size)
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.store_host = record.pack_host(*store_host)
        # Which hosts are IPv6 is ours to say, whatever the client claims. By the length of the born host.
        self._host_bits = {len(host): record.host_flags(host, self.store_host) for host in (bytes(8), bytes(20))}
        self._clock = clock
        self._handles = FileHandles(OPEN_QUEUE_FILES)
        self._pending: list[Entry] = []
        self._dirty: set[ConsumeQueue] = set()
        # Since this store was opened; the bytes are those of whole records.
        self.messages_put = 0
        self.bytes_put = 0
        # Why messages from outside are refused for now; empty when they are not.
        self.refusing = ""
        self.published = Mark(0, 0)
        self._flush_refused = False
        self.index = KeyIndex(config.root / "index", config.index, clock=clock) if config.index else None
        self._abort_file = config.root / "abort"
        self.saver = Saver(config.root / "checkpoint", self._handles.unsynced, self.index)
        self._lock = StoreLock(config.root)
        self.was_rebuilt = False  # queues were made anew, at least in part

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    @property
    def queue_root(self) -> Path:
        return self.config.root / "consumequeue"

    # -- life ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Loads what is there and leaves the mark that a clean stop removes. Raises StoreError; then nothing is
        left open."""
        try:
            self._open()
        except OSError as error:
            self._release()
            raise StoreError(
                f"cannot open the store {self.config.root}: {error.filename}: {error.strerror}",
                hint="a broker needs a folder of its own in which it may write",
            ) from error
        except StoreError:
            self._release()
            raise

    def _open(self) -> None:
        self.config.root.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        self.log.load()
        self._load_queues()
        was_clean = not self._abort_file.exists()
        checkpoint = self.saver.load()
        has_index = self._open_index(was_clean)
        recover.recover(self, checkpoint, was_clean=was_clean, has_index=has_index)
        self._abort_file.touch()

    def _open_index(self, was_clean: bool) -> bool:
        """False if the index has to be built from the whole log: its folder is made at the first start, so one
        that is missing was removed, or never was."""
        if self.index is None:
            return True
        checkpoint = self.saver.checkpoint
        self.index.open(
            was_clean=was_clean,
            flushed_timestamp=checkpoint.index_timestamp,
            position=checkpoint.index_position,
        )
        folder = self.config.root / "index"
        existed = folder.is_dir()
        folder.mkdir(exist_ok=True)
        return existed

    def close(self) -> None:
        """Everything to the disk; the next start finds a clean store."""
        is_saved = self._save_all()
        if self.index is not None:
            try:
                self.index.close()
            except StoreError as error:
                log.warning("%s", error)
        self.log.close()
        if is_saved:  # else the next start has something to rebuild
            self._abort_file.unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        if self.index is not None:
            self.index.release()
        self.log.release()
        self._handles.close()
        self._lock.release()

    def _save_all(self) -> bool:
        self.flush_queues()
        if self._dirty or self.saver.has_failed:
            return False
        try:
            if self.index is not None:
                self.index.settle()
            saving = self.saver.begin(self.published, with_index=True)
            self.log.sync()
            saving.sync()
            saving.write()
        except StoreError as error:
            log.warning("%s", error)
            return False
        return True

    def _load_queues(self) -> None:
        if not self.queue_root.is_dir():
            return
        for topic_dir in sorted(self.queue_root.iterdir()):
            for queue_dir in topic_dir.iterdir() if topic_dir.is_dir() else ():
                if queue_dir.name.isdecimal():
                    self.queue(topic_dir.name, int(queue_dir.name)).load(self.log.begin)

    # -- queues -------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if there is none. Its files appear with its first entries."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            queue = ConsumeQueue(self.queue_root, topic, queue_id, self.config.queue_file_size, self._handles)
            self.queues[topic, queue_id] = queue
        return queue

    def drop_topic(self, topic: str) -> None:
        """Deletes the topic's queues. Its records stay in the log until their file expires."""
        for key in [key for key in self.queues if key[0] == topic]:
            self._drop(key)

    def drop_queue(self, queue: ConsumeQueue) -> None:
        self._drop((queue.topic, queue.queue_id))

    def drop_queues(self) -> None:
        for key in list(self.queues):
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        queue = self.queues.pop(key)
        self._dirty.discard(queue)
        queue.dropped = True
        queue.destroy()

    # -- writing ------------------------------------------------------------------------------------

    def put(self, message: NewMessage) -> Appended:
        """Gives the message its place. Raises StoreError if no file can hold it."""
        queue = self.queues.get((message.topic, message.queue_id)) or self.queue(message.topic, message.queue_id)
        sys_flag = message.sys_flag & ~HOST_BITS | self._host_bits[len(message.born_host)]
        size = record.encoded_size(sys_flag, len(queue.topic_bytes), len(message.body), len(message.properties))
        self.log.place(size)
        return self._append(queue, message, sys_flag, size, self.now_ms())

    def put_batch(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Like put, for messages of one sender to one queue, which must lie side by side in one file."""
        first = messages[0]
        queue = self.queue(first.topic, first.queue_id)
        sys_flag = first.sys_flag & ~HOST_BITS | self._host_bits[len(first.born_host)]
        frame = record.encoded_size(sys_flag, len(queue.topic_bytes), 0, 0)
        sizes = [frame + len(message.body) + len(message.properties) for message in messages]
        self.log.place(sum(sizes))
        store_timestamp = self.now_ms()
        return [
            self._append(queue, message, sys_flag, size, store_timestamp)
            for message, size in zip(messages, sizes, strict=True)
        ]

    def _append(
        self, queue: ConsumeQueue, message: NewMessage, sys_flag: int, size: int, store_timestamp: int
    ) -> Appended:
        queue_offset, phys_offset = queue.next_offset, self.log.next_offset
        self.log.append(
            record.encode(
                size,
                queue.topic_bytes,
                message.queue_id,
                queue_offset,
                phys_offset,
                message.flag,
                sys_flag,
                message.born_timestamp,
                message.born_host,
                store_timestamp,
                self.store_host,
                message.reconsume_times,
                message.prepared_offset,
                message.body,
                message.properties,
            )
        )
        queue.next_offset = queue_offset + 1
        tags_code = message.tags_code if message.delay_ms is None else store_timestamp + message.delay_ms
        keys = message.keys
        if keys is None:
            keys = indexed_keys(message.properties.decode(errors="replace"))
        self._pending.append((queue, phys_offset, size, tags_code, store_timestamp, keys))
        return Appended(queue_offset, phys_offset, size, store_timestamp)

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def write(self) -> list[Entry]:
        """Brings all that was put since the last time to the log. On StoreError none of it is stored: its
        places are given back. What is written is not readable before it is published."""
        pending, self._pending = self._pending, []
        try:
            self.log.write()
        except StoreError:
            for entry in pending:
                entry[0].next_offset -= 1
            raise
        return pending

    def publish(self, entries: list[Entry]) -> set[ConsumeQueue]:
        """Lets consumers see what was written; the queues that grew. In the order of writing."""
        grown: set[ConsumeQueue] = set()
        index = self.index
        for queue, phys_offset, size, tags_code, store_timestamp, keys in entries:
            if queue.dropped:
                continue
            queue.append(phys_offset, size, tags_code)
            if index is not None:
                index.add(phys_offset, store_timestamp, queue.topic, keys)
            self.bytes_put += size
            queue.arrived += 1
            queue.arrived_bytes += size
            grown.add(queue)
        if entries:
            _, phys_offset, size, _, store_timestamp, _ = entries[-1]
            self.published = Mark(phys_offset + size, store_timestamp, phys_offset)
        self.messages_put += len(entries)
        self._dirty |= grown
        for queue in grown:
            if queue.wants_flush:
                self.flush_queue(queue)
        return grown

    def commit(self) -> set[ConsumeQueue]:
        """Write and publish in one step."""
        return self.publish(self.write())

    # -- consume queues to their files, everything to the disk ---------------------------------------

    def mark_dirty(self, queue: ConsumeQueue) -> None:
        self._dirty.add(queue)

    @property
    def dirty_queues(self) -> list[ConsumeQueue]:
        """Those with entries that are not in their files yet."""
        return list(self._dirty)

    def flush_queues(self) -> None:
        for queue in self.dirty_queues:
            self.flush_queue(queue)

    def flush_queue(self, queue: ConsumeQueue) -> bool:
        try:
            queue.flush()
        except StoreError as error:
            # Derived data: it stays in memory, is tried again, and can be rebuilt from the log.
            if not self._flush_refused:
                log.warning("consume queue %s-%d: %s", queue.topic, queue.queue_id, error)
            self._flush_refused = True
            return False
        self._flush_refused = False
        self._dirty.discard(queue)
        return True

    def forget_oldest_log_file(self) -> Path:
        """The log begins one file later; what is returned is left to delete. Queues whose entries are only in
        memory go to their files first: without them nothing would tell the next start, after a kill, which
        offsets were given out already."""
        self.flush_queues()
        return self.log.forget_oldest()
