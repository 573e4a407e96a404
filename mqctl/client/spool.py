"""The spool file: messages that wait for a cluster that is gone.

A stream of msgpack arrays `[CRC-32 of the payload, payload]`, only ever appended to. A payload is itself msgpack:

    ["m", code, topic, msg id, body, flag, sys flag, properties, order key or nil, broker name or nil, queue id]
    ["s", n]     n messages are with a broker by now, counted from when the file was last empty
    ["c", n]     at the start: the first n of these were cut off

What a kill cut off at the end was never acknowledged; when the file is opened, it moves to a file beside. When
every message is sent, the file becomes empty again; when half of it is, a file without that half takes its place.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack
from msgspec.structs import astuple

from mqctl.client.outgoing import Outgoing
from mqctl.errors import StoreError
from mqctl.remoting.bodies import MessageQueue
from mqctl.store.smallfiles import sync_directory

log = logging.getLogger(__name__)

MAX_SPOOL_BYTES: Final = 64 * 1024 * 1024

_MESSAGE: Final = "m"
_SENT: Final = "s"
_CUT: Final = "c"
# A smaller file is not worth the syncs of replacing it.
CUT_OVER: Final = 1024 * 1024
# A batch of the largest messages with their properties stays far below.
_MAX_ENTRY: Final = 32 * 1024 * 1024
_READ_BYTES: Final = 1024 * 1024
# What is looked at stays in memory, and in the file, until it is all sent.
_PEEK_BYTES: Final = 1024 * 1024


class Entry(NamedTuple):
    """A message, and the queue its sender named, if he did."""

    outgoing: Outgoing
    queue: MessageQueue | None

    def pack(self) -> bytes:
        queue = (None, -1) if self.queue is None else (self.queue.broker_name, self.queue.queue_id)
        return _pack((_MESSAGE, *astuple(self.outgoing), *queue))


class Spool:
    """Any thread, one at a time. Everything here waits for the disk."""

    def __init__(self, path: Path, max_bytes: int = MAX_SPOOL_BYTES) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.pending = 0  # messages that no broker has
        self.size_bytes = 0
        self._sent = 0
        self._sent_bytes = 0  # where the first message begins that no broker has
        self._read_at = 0
        self._peeked: deque[int] = deque()  # where those end that `peek` returned and no broker has
        self._descriptor = -1
        self._lock = threading.Lock()

    def open(self) -> None:
        """Finds out what an earlier run left. Raises StoreError when the file cannot be used or another has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                raise BlockingIOError  # its owner put another file in its place just now
            self._beside(".new").unlink(missing_ok=True)  # a kill came before it was whole
            sync_directory(self.path.parent)
        except BlockingIOError:
            self.close()
            raise StoreError(
                f"the spool {self.path} is in use by another producer", hint="give each producer its own file"
            ) from None
        except OSError as error:
            self.close()
            raise StoreError(f"cannot open the spool {self.path}: {error.strerror}") from None
        self._recover()

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    @property
    def waiting_bytes(self) -> int:
        """What `max_bytes` is for: the part of the file that is still needed."""
        return self.size_bytes - self._sent_bytes

    def append(self, packed: Sequence[bytes]) -> None:
        """All of them, and on disk when it returns. Raises StoreError, and then keeps none."""
        with self._lock:
            try:
                _write(self._descriptor, b"".join(packed), self.size_bytes)
                os.fdatasync(self._descriptor)
            except OSError as error:
                raise StoreError(f"cannot write the spool {self.path}: {error.strerror}") from None
            self.size_bytes += sum(map(len, packed))
            self.pending += len(packed)

    def peek(self, count: int) -> list[Entry]:
        """The oldest messages that wait, in order; fewer where they are large."""
        with self._lock:
            found: list[Entry] = []
            begin = self._read_at
            for payload, end in _payloads(self._descriptor, self._read_at, self.size_bytes):
                self._read_at = end
                if payload[0] == _MESSAGE:
                    found.append(_entry(payload))
                    self._peeked.append(end)
                    if len(found) == count or end - begin >= _PEEK_BYTES:
                        break
            return found

    def mark_sent(self, count: int) -> None:
        """So many of those that `peek` returned are with a broker. Not synced: after a crash of the machine they are
        sent twice. Raises StoreError when the disk refuses the mark, with the same consequence."""
        with self._lock:
            self._sent += count
            self.pending -= count
            for _ in range(count):
                self._sent_bytes = self._peeked.popleft()
            try:
                self._shorten()
            except OSError as error:
                raise StoreError(f"cannot write the spool {self.path}: {error.strerror}") from None

    def _shorten(self) -> None:
        if not self.pending:
            os.ftruncate(self._descriptor, 0)
            self.size_bytes = self._sent = self._sent_bytes = self._read_at = 0
        elif self._sent_bytes >= max(CUT_OVER, self.size_bytes // 2):
            self._cut_off_sent()
        else:
            mark = _pack((_SENT, self._sent))
            _write(self._descriptor, mark, self.size_bytes)
            self.size_bytes += len(mark)

    def _cut_off_sent(self) -> None:
        """A file with the rest takes the place of this one: killed at any moment, one of them is there and whole."""
        head = _pack((_CUT, self._sent))
        path = self._beside(".new")
        anew = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(anew, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(anew, head, 0)
            _copy(self._descriptor, self._sent_bytes, self.size_bytes, anew, len(head))
            os.fsync(anew)
            path.replace(self.path)
        except OSError:
            os.close(anew)
            raise
        os.close(self._descriptor)
        self._descriptor = anew
        moved = len(head) - self._sent_bytes
        self.size_bytes += moved
        self._read_at += moved
        self._peeked = deque(end + moved for end in self._peeked)
        self._sent_bytes = len(head)
        sync_directory(self.path.parent)

    def set_aside(self, entry: Entry) -> Path:
        """For a message that the cluster will never take: keeps it in a file beside, in the same format. Raises
        StoreError."""
        return self._keep_beside(".refused", entry.pack())

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _keep_beside(self, suffix: str, data: bytes) -> Path:
        path = self._beside(suffix)
        try:
            with path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from None
        return path

    def _recover(self) -> None:
        size_bytes = os.fstat(self._descriptor).st_size
        whole = messages = cut = 0
        for payload, end in _payloads(self._descriptor, 0, size_bytes):
            whole = end
            if payload[0] == _MESSAGE:
                messages += 1
            else:
                self._sent = max(self._sent, payload[1])  # marks from before the cut may follow it
                cut = payload[1] if payload[0] == _CUT else cut
        if whole < size_bytes:
            tail = os.pread(self._descriptor, size_bytes - whole, whole)
            path = self._keep_beside(".damaged", tail)
            log.warning("spool %s: the last %d bytes are no whole message, now in %s", self.path, len(tail), path)
            os.ftruncate(self._descriptor, whole)
        self.size_bytes = whole
        self.pending = messages - (self._sent - cut)
        skipped = self._sent - cut
        for payload, end in _payloads(self._descriptor, 0, whole if skipped else 0):
            skipped -= payload[0] == _MESSAGE
            if not skipped:
                self._read_at = self._sent_bytes = end
                break


def _pack(payload: tuple[Any, ...]) -> bytes:
    packed: bytes = msgpack.packb(payload)
    entry: bytes = msgpack.packb((zlib.crc32(packed), packed))
    return entry


def _entry(payload: list[Any]) -> Entry:
    *fields, broker_name, queue_id = payload[1:]
    outgoing = Outgoing(*fields)
    return Entry(outgoing, None if broker_name is None else MessageQueue(outgoing.topic, broker_name, queue_id))


def _payloads(descriptor: int, start: int, end: int) -> Iterator[tuple[list[Any], int]]:
    """Payloads and where each ends, up to the first that is cut off or damaged."""
    unpacker = msgpack.Unpacker(max_buffer_size=_MAX_ENTRY + _READ_BYTES)
    position = start
    while position < end:
        chunk = os.pread(descriptor, min(_READ_BYTES, end - position), position)
        if not chunk:
            return
        position += len(chunk)
        unpacker.feed(chunk)
        try:
            for crc, packed in unpacker:
                if zlib.crc32(packed) != crc:
                    return
                yield msgpack.unpackb(packed), start + unpacker.tell()
        except (ValueError, TypeError, msgpack.UnpackException):
            return


def _copy(source: int, start: int, end: int, target: int, at: int) -> None:
    """From `start` to `end`, to `at`."""
    while piece := os.pread(source, min(_READ_BYTES, end - start), start):
        _write(target, piece, at)
        start, at = start + len(piece), at + len(piece)


def _write(descriptor: int, data: bytes, at: int) -> None:
    """All of it. A part that a full disk let through lies behind the end that counts."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
