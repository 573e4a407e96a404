"""Acknowledgements: an answer leaves only after what it promises is true.

A send puts its message into the store and leaves its answer here. Once per turn of the event loop all
messages put since are written with one system call; then the answers go out and parked pulls are woken.
Further links of the chain (flushed to disk, replicated) belong between those two steps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from mqctl.errors import StoreError
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)


class Acks:
    """Loop only. `on_grown` hears which queues have new messages, after they are readable."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Connection, Command]] = []
        self._scheduled = False
        self.on_grown: Callable[[Iterable[ConsumeQueue]], None] = lambda queues: None

    def answer_when_written(self, connection: Connection, answer: Command) -> None:
        self._waiting.append((connection, answer))
        self.schedule()

    def schedule(self) -> None:
        """What was put will be written in this turn of the loop, whether or not anybody waits for it."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.commit)

    def commit(self) -> None:
        self._scheduled = False
        waiting, self._waiting = self._waiting, []
        try:
            grown = self._store.commit()
        except StoreError as error:
            log.error("%d messages refused: %s", len(waiting), error)
            for connection, answer in waiting:
                connection.send(_refusal(answer, error))
            return
        for connection, answer in waiting:
            connection.queue(answer)
        for connection in {connection for connection, _ in waiting}:
            connection.flush()
        self.on_grown(grown)


def _refusal(answer: Command, error: StoreError) -> Command:
    """What the waiting request gets instead of its answer. Producers then try another broker."""
    return answer.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=error.message)
