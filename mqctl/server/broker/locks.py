"""Which consumer of a group may take messages from a queue in order: one at a time, for a minute unless renewed.

Consumers with an orderly listener ask for their queues every 20 s and stop consuming a queue whose lock they could
not renew for 30 s. The lock outlives them by so much that two never work on one queue, not even when the connection
of the first one breaks: that is why a lost connection does not give its locks back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from mqctl.remoting import bodies
from mqctl.remoting.bodies import LockBatchBody, LockBatchResult, MessageQueue
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.loop import HandlerTable


class _Lock(NamedTuple):
    client_id: str
    until: float


class QueueLocks:
    """Loop only. Like Apache's broker it locks whatever queue is named, so that queues which are about to exist,
    or belong to another broker, do no harm."""

    def __init__(self, lifetime_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._locks: dict[tuple[str, MessageQueue], _Lock] = {}

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.LOCK_BATCH_MQ: (None, self.on_lock),
            RequestCode.UNLOCK_BATCH_MQ: (None, self.on_unlock),
        }

    def on_lock(self, connection: Connection, request: Command, _: None) -> Command:
        """Answers with those of the queues that the client holds now."""
        wanted = bodies.decode(LockBatchBody, request.body)
        held = [queue for queue in wanted.mq_set if self._lock(wanted.consumer_group, queue, wanted.client_id)]
        return request.reply(body=bodies.encode(LockBatchResult(lock_ok_mq_set=held)))

    def on_unlock(self, connection: Connection, request: Command, _: None) -> Command:
        """What another client holds stays locked."""
        given = bodies.decode(LockBatchBody, request.body)
        for queue in given.mq_set:
            lock = self._locks.get((given.consumer_group, queue))
            if lock is not None and lock.client_id == given.client_id:
                del self._locks[given.consumer_group, queue]
        return request.reply()

    def _lock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        now = self._clock()
        lock = self._locks.get((group, queue))
        if lock is not None and lock.client_id != client_id and now <= lock.until:
            return False
        self._locks[group, queue] = _Lock(client_id, now + self._lifetime_s)
        return True

    def forget_expired(self) -> None:
        now = self._clock()
        for key in [key for key, lock in self._locks.items() if lock.until < now]:
            del self._locks[key]
