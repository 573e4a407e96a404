"""Handling a message once although it may be delivered twice.

RocketMQ delivers at least once: after a crash, a rebalance or a lost answer the same message comes again. Whether it
was handled is known only to whoever remembers its key:

    once = Idempotence("handled.db")

    @once
    async def handle(message: ReceivedMessage) -> None: ...

A key is written down when its handler has returned. A crash between the two lets the message be handled again, so a
handler whose effect must never happen twice keeps the key in the same transaction as the effect.
"""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, Protocol

from mqctl.client.calling import is_coroutine_function
from mqctl.client.listening import MessageListener, RetryLater
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import ORIGIN_MESSAGE_ID, UNIQ_KEY

KEEP_SECONDS: Final = 7 * 24 * 3600.0  # more than brokers keep messages: 3 days
# A handler that takes longer than this is taken for dead, and the message is handled again.
LEASE_SECONDS: Final = 15 * 60.0
# How many new keys are written between two clean-ups.
CLEAN_EVERY: Final = 1000


class Seen(Enum):
    NEW = auto()  # and from now on ours
    RUNNING = auto()  # somebody handles it now
    DONE = auto()


class KeyStore(Protocol):
    """Remembers keys. Called from any thread, and by several processes if they share it."""

    def begin(self, key: str) -> Seen:
        """What is known about the key; a new one is marked as running, in one step."""

    def done(self, key: str) -> None: ...

    def failed(self, key: str) -> None:
        """The key is new again."""


def message_key(message: ReceivedMessage) -> str:
    """The id that its producer gave the message, the same over all redeliveries."""
    properties = message.properties
    return properties.get(UNIQ_KEY) or properties.get(ORIGIN_MESSAGE_ID) or message.offset_msg_id


class Idempotence:
    """Wraps handlers so that each key is handled once. Keys of one store are of one kind: give every handler that does
    something else a store, or a `key`, of its own."""

    def __init__(self, store: KeyStore | str | Path, *, key: Callable[[ReceivedMessage], str] = message_key) -> None:
        """`store`: a file for sqlite, which several processes may share, or any KeyStore. `key`: what makes two
        messages the same; an order number from the producer also catches messages that were sent twice."""
        self._store: KeyStore = SqliteKeys(store) if isinstance(store, (str, Path)) else store
        self._key = key

    def seen(self, message: ReceivedMessage) -> Seen:
        """For handlers that do it themselves: a new key has to be followed by `done` or `failed`."""
        return self._store.begin(self._key(message))

    def done(self, message: ReceivedMessage) -> None:
        self._store.done(self._key(message))

    def failed(self, message: ReceivedMessage) -> None:
        self._store.failed(self._key(message))

    def __call__(self, handler: MessageListener) -> MessageListener:
        """The handler, not called for messages that were handled before. One that is being handled elsewhere comes
        again later."""
        return self._around_coroutine(handler) if is_coroutine_function(handler) else self._around_plain(handler)

    def _around_plain(self, handler: MessageListener) -> MessageListener:
        @functools.wraps(handler)
        def once(message: ReceivedMessage) -> None:
            if not _is_new(self.seen(message)):
                return
            try:
                handler(message)
            except BaseException:
                self.failed(message)
                raise
            self.done(message)

        return once

    def _around_coroutine(self, handler: Callable[[ReceivedMessage], Any]) -> MessageListener:
        @functools.wraps(handler)
        async def once(message: ReceivedMessage) -> None:
            # The store may wait for a disk or a server: not on the loop.
            if not _is_new(await asyncio.to_thread(self.seen, message)):
                return
            try:
                await handler(message)
            except BaseException:
                await asyncio.shield(asyncio.to_thread(self.failed, message))
                raise
            await asyncio.to_thread(self.done, message)

        return once


def _is_new(seen: Seen) -> bool:
    if seen is Seen.RUNNING:
        raise RetryLater
    return seen is Seen.NEW


class SqliteKeys:
    """Keys in a file. They are forgotten after `keep_seconds`."""

    def __init__(
        self,
        path: str | Path,
        *,
        keep_seconds: float = KEEP_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keep_seconds = keep_seconds
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._lock = threading.Lock()  # one statement at a time on one connection
        self._until_clean = 0
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30.0)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS seen "
            "(key TEXT PRIMARY KEY, done INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID"
        )

    def begin(self, key: str) -> Seen:
        now = self._clock()
        with self._lock:
            self._clean_sometimes(now)
            # A key that somebody began and never ended goes to whoever asks next.
            taken = self._database.execute(
                "INSERT INTO seen VALUES (?1, 0, ?2) ON CONFLICT (key) DO UPDATE SET done = 0, at = ?2 "
                "WHERE (done = 0 AND at < ?3) OR at < ?4",
                (key, now, now - self._lease_seconds, now - self._keep_seconds),
            ).rowcount
            if taken:
                return Seen.NEW
            row = self._database.execute("SELECT done FROM seen WHERE key = ?", (key,)).fetchone()
        # Gone in between: another process failed with it just now.
        return Seen.DONE if row is not None and row[0] else Seen.RUNNING

    def done(self, key: str) -> None:
        with self._lock:
            self._database.execute("INSERT OR REPLACE INTO seen VALUES (?, 1, ?)", (key, self._clock()))

    def failed(self, key: str) -> None:
        with self._lock:
            self._database.execute("DELETE FROM seen WHERE key = ? AND done = 0", (key,))

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _clean_sometimes(self, now: float) -> None:
        self._until_clean -= 1
        if self._until_clean <= 0:
            self._until_clean = CLEAN_EVERY
            self._database.execute("DELETE FROM seen WHERE at < ?", (now - self._keep_seconds,))
