"""Acknowledgements: an answer leaves only after what it promises is true.

    put -> written -> [synced] -> published: consumers may read it -> answered

A send puts its message into the store and leaves its answer here. Once per turn of the event loop all
messages put since are written with one system call. With ASYNC_FLUSH they are published and answered at once;
with SYNC_FLUSH they wait until the log is on disk up to their end, all those that came meanwhile sharing one
sync. A message that is not yet safe is not yet readable either.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mqctl.errors import StoreError
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.sendreply import SendReply
from mqctl.server.broker.flushing import Flushing
from mqctl.server.broker.pressure import LOOK_EVERY, Pressure
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.store import Entry, MessageStore

log = logging.getLogger(__name__)

Answer = Command | SendReply
Waiting = tuple[Connection, Answer]
Stored = asyncio.Future[None]


@dataclass(slots=True)
class _Batch:
    """What one turn of the loop wrote: where it ends in the log, and who waits for it to be on disk."""

    end: int
    entries: list[Entry]
    waiting: list[Waiting]
    stored: Stored | None
    deadline: asyncio.TimerHandle | None = field(default=None)


class Acks:
    """Loop only. `on_grown` hears which queues have new messages, after they are readable; `on_written` how many
    messages a write brought to the log, and how long it took."""

    def __init__(
        self, store: MessageStore, *, sync_flush: bool, sync_timeout_s: float, pressure: Pressure | None = None
    ) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Waiting] = []
        self._patient: list[Waiting] = []
        self._stored: Stored | None = None
        self.refused = 0  # messages that the disk did not take
        self._scheduled = False
        self.sync_flush = sync_flush
        self._sync_timeout_s = sync_timeout_s
        self.pressure = pressure or Pressure()
        self._unsynced: deque[_Batch] = deque()
        self.flushing = Flushing(store.log, self._flushed, self._not_flushed)
        self.on_grown: Callable[[Iterable[ConsumeQueue]], None] = lambda queues: None
        self.on_written: Callable[[int, float], None] = lambda messages, seconds: None

    def answer_when_written(self, connection: Connection, answer: Answer) -> None:
        """The answer promises that the message is in the log."""
        self._waiting.append((connection, answer))
        if not self._scheduled:
            self.schedule()
        elif not len(self._waiting) % LOOK_EVERY:
            self.pressure.look(len(self._waiting))

    def answer_when_synced(self, connection: Connection, answer: Answer) -> None:
        """The answer promises that the message is on disk; only with `sync_flush`."""
        self._patient.append((connection, answer))
        if not self._scheduled:
            self.schedule()
        elif not len(self._patient) % LOOK_EVERY:
            self.pressure.look(len(self._patient))

    def stored(self) -> Stored:
        """For the broker's own messages: done when all that was put so far can be read by consumers and, with
        `sync_flush`, is on disk. Fails with StoreError if none of it is stored. A sync that fails is tried again
        and only delays it. Each caller gets a future of its own: when one of them is cancelled the others still
        hear."""
        if self._stored is None:
            self._stored = self._loop.create_future()
            self.schedule()
        own = asyncio.shield(self._stored)
        own.add_done_callback(_heard)
        return own

    def schedule(self) -> None:
        """What was put will be written in this turn of the loop, whether or not anybody waits for it."""
        if not self._scheduled:
            self._scheduled = True
            self.pressure.turn_begins()
            self._loop.call_soon(self.commit)

    def commit(self) -> None:
        self._scheduled = False
        waiting, self._waiting = self._waiting, []
        patient, self._patient = self._patient, []
        stored, self._stored = self._stored, None
        self.pressure.write_begins()
        try:
            entries = self._store.write()
        except StoreError as error:
            self.refused += len(waiting) + len(patient)
            log.error("%d messages refused: %s", len(waiting) + len(patient), error)
            self._refuse(waiting + patient, ResponseCode.SERVICE_NOT_AVAILABLE, error.message)
            if stored is not None and not stored.done():
                stored.set_exception(error)
            return
        self.on_written(len(entries), self.pressure.write_ends())
        _answer(waiting)
        if self.sync_flush:
            self._await_sync(_Batch(self._store.log.end, entries, patient, stored))
        else:
            grown = self._store.publish(entries)
            _settle(stored)
            self.on_grown(grown)

    # -- waiting for the disk -----------------------------------------------------------------------

    def _await_sync(self, batch: _Batch) -> None:
        if batch.waiting:
            batch.deadline = self._loop.call_later(self._sync_timeout_s, self._late, batch)
        self._unsynced.append(batch)
        if batch.end <= self._store.log.flushed:  # nothing was put, and no sync will come on its account
            self._flushed(batch.end)
        else:
            self.flushing.request()

    def _flushed(self, end: int) -> None:
        while self._unsynced and self._unsynced[0].end <= end:
            batch = self._unsynced.popleft()
            if batch.deadline is not None:
                batch.deadline.cancel()
            grown = self._store.publish(batch.entries)
            _answer(batch.waiting)
            _settle(batch.stored)
            self.on_grown(grown)
        if self._unsynced:
            self.flushing.request()

    def _late(self, batch: _Batch) -> None:
        waiting, batch.waiting = batch.waiting, []
        self._refuse(waiting, ResponseCode.FLUSH_DISK_TIMEOUT, "the message is stored, but not on disk in time")

    def _not_flushed(self, error: OSError) -> None:
        """Whoever waits learns it now. The messages stay hidden until a later sync succeeds."""
        for batch in self._unsynced:
            waiting, batch.waiting = batch.waiting, []
            self._refuse(waiting, ResponseCode.FLUSH_DISK_TIMEOUT, f"the disk refused to sync: {error.strerror}")

    def _refuse(self, waiting: list[Waiting], code: ResponseCode, remark: str) -> None:
        """With FLUSH_DISK_TIMEOUT clients still read where the message went, so its fields stay."""
        ext_kept = code == ResponseCode.FLUSH_DISK_TIMEOUT
        for connection, answer in waiting:
            command = answer if isinstance(answer, Command) else answer.as_command()
            connection.send(command.reply(code, ext=command.fields() if ext_kept else None, remark=remark))


def _settle(stored: Stored | None) -> None:
    if stored is not None and not stored.done():
        stored.set_result(None)


def _heard(stored: Stored) -> None:
    """Whoever asked for it may be gone when it fails: that is no accident."""
    if not stored.cancelled():
        stored.exception()


def _answer(waiting: list[Waiting]) -> None:
    for connection, answer in waiting:
        connection.queue(answer)
    for connection in {connection for connection, _ in waiting}:
        connection.flush()
