"""Handling a message once although it may be delivered twice.

RocketMQ delivers at least once: after a crash, a rebalance or a lost answer the same message comes again. Whether it
was handled is known only to whoever remembers its key:

    once = Idempotence("handled.db")

    @once
    async def handle(message: ReceivedMessage) -> None: ...

A key is written down when its handler has returned. A crash between the two lets the message be handled again, so a
handler whose effect must never happen twice keeps the key in the same transaction as the effect.

Before, the key is lent to the handler. After a crash nobody else gets it until that lease runs out; meanwhile the
message waits at the broker rather than using up its attempts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from mqctl.client.calling import is_coroutine_function
from mqctl.client.listening import RetryLater
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import ORIGIN_MESSAGE_ID, UNIQ_KEY
from mqctl.store.schedule import DEFAULT_LEVELS_MS

H = TypeVar("H", bound=Callable[..., object])

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


class _Claim(NamedTuple):
    """What is left for the handler, under keys that are its own meanwhile."""

    keys: list[str]
    given: Any  # a message, or a list where it was given one
    is_complete: bool  # nothing of it is being handled elsewhere


class Idempotence:
    """Wraps handlers so that each key is handled once. Keys of one store are of one kind: give every handler that does
    something else a store, or a `key`, of its own."""

    def __init__(
        self,
        store: KeyStore | str | Path,
        *,
        key: Callable[[ReceivedMessage], str] = message_key,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`store`: a file for sqlite, which several processes may share, or any KeyStore. `key`: what makes two
        messages the same; an order number from the producer also catches messages that were sent twice.
        `lease_seconds`: longer than any handler takes; with a KeyStore, what that one uses."""
        self._store: KeyStore = (
            SqliteKeys(store, lease_seconds=lease_seconds) if isinstance(store, (str, Path)) else store
        )
        self._key = key
        self._lease_seconds = lease_seconds

    def seen(self, message: ReceivedMessage) -> Seen:
        """For handlers that do it themselves: a new key has to be followed by `done` or `failed`."""
        return self._store.begin(self._key(message))

    def done(self, message: ReceivedMessage) -> None:
        self._store.done(self._key(message))

    def failed(self, message: ReceivedMessage) -> None:
        self._store.failed(self._key(message))

    def __call__(self, handler: H) -> H:
        """The handler, not called for messages that were handled before; one of lists gets those that are new. What is
        being handled elsewhere comes again later."""
        return cast(
            H, self._around_coroutine(handler) if is_coroutine_function(handler) else self._around_plain(handler)
        )

    def _around_plain(self, handler: Callable[[Any], object]) -> Callable[[Any], object]:
        @functools.wraps(handler)
        def once(given: Any) -> Awaitable[None] | None:
            claim = self._claim(given)
            if claim.keys:
                try:
                    result = handler(claim.given)
                except BaseException:
                    self._let_go(claim)
                    raise
                if inspect.isawaitable(result):
                    return self._awaited(result, claim)
            self._finish(claim)
            return None

        return once

    def _around_coroutine(self, handler: Callable[[Any], Any]) -> Callable[[Any], object]:
        @functools.wraps(handler)
        async def once(given: Any) -> None:
            # The store may wait for a disk or a server: not on the loop.
            claim = await asyncio.to_thread(self._claim, given)
            if claim.keys:
                await self._awaited(handler(claim.given), claim)
            else:
                self._finish(claim)

        return once

    async def _awaited(self, work: Awaitable[object], claim: _Claim) -> None:
        try:
            await work
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._let_go, claim))
            raise
        await asyncio.to_thread(self._finish, claim)

    def _claim(self, given: ReceivedMessage | list[ReceivedMessage]) -> _Claim:
        messages = given if isinstance(given, list) else [given]
        keyed: dict[str, ReceivedMessage] = {}
        for message in messages:
            keyed.setdefault(self._key(message), message)
        seen = {key: self._store.begin(key) for key in keyed}
        keys = [key for key, how in seen.items() if how is Seen.NEW]
        new = [keyed[key] for key in keys]
        return _Claim(keys, new if isinstance(given, list) else given, Seen.RUNNING not in seen.values())

    def _let_go(self, claim: _Claim) -> None:
        for key in claim.keys:
            self._store.failed(key)

    def _finish(self, claim: _Claim) -> None:
        for key in claim.keys:
            self._store.done(key)
        if not claim.is_complete:
            # Sooner it may be for nothing, and only so many attempts are allowed.
            raise RetryLater(delay_level=level_after(self._lease_seconds), counts=False)


def level_after(seconds: float) -> int:
    """The shortest of the delay levels that brokers have by default which is no shorter, else the longest."""
    return min(bisect_left(DEFAULT_LEVELS_MS, seconds * 1000) + 1, len(DEFAULT_LEVELS_MS))


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
