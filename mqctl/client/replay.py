"""Sending one message after the other from the spool: how often each is tried, and what becomes of those nobody wants.

While brokers are gone or busy, a message waits as long as that takes. One that they refuse would hold up all behind
it: after some attempts it is set aside.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mqctl.client.clusters import master_of
from mqctl.client.delivery import Delivery
from mqctl.client.pace import Pace
from mqctl.client.queues import writable_queues
from mqctl.client.spool import Entry, Spool
from mqctl.errors import MqError, NoBroker, NotFound, ResponseError, StoreError
from mqctl.remoting.codes import ResponseCode

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0
PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 2.0
# About a minute. While a cluster comes back, a topic may be unknown until its broker has registered.
REFUSED_TRIES: Final = 30

# Refusals that say nothing about the message.
_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY.value, ResponseCode.SERVICE_NOT_AVAILABLE.value})


class Replay:
    """Loop only."""

    def __init__(self, spool: Spool, delivery: Delivery, pace: Pace) -> None:
        self._spool = spool
        self._delivery = delivery
        self._pace = pace
        # Those of which a message was refused to the end: what is behind it need not be tried as often.
        self._refused_topics: set[str] = set()
        self._said: set[tuple[object, ...]] = set()

    async def one(self, entry: Entry) -> None:
        """Ends when a broker has the message, or when it is set aside since none wants it."""
        refusals = 0
        pause = PAUSE_SECONDS
        while True:
            try:
                await self._delivery.deliver(entry.outgoing, TIMEOUT_S, entry.queue)
            except MqError as error:
                if self._is_refused(error, entry):
                    refusals += 1
                else:
                    refusals = 0
                    self._pace.stop()
                if refusals > self._tries(error, entry) and await self._set_aside(entry, error):
                    break
                self._say(entry, error)
            else:
                self._refused_topics.discard(entry.outgoing.topic)
                self._said.clear()
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        self._pace.one_left()

    def _say(self, entry: Entry, error: MqError) -> None:
        """Once per cause, until a message gets through."""
        cause = (type(error), getattr(error, "code", None), entry.outgoing.topic)
        if cause not in self._said:
            self._said.add(cause)
            log.warning("spool %s: message %s waits: %s", self._spool.path, entry.outgoing.msg_id, error.message)

    def _is_refused(self, error: MqError, entry: Entry) -> bool:
        """Whether brokers answer and do not want it, rather than being gone or busy."""
        if isinstance(error, NoBroker):
            return self._may_not_be_written(entry.outgoing.topic)
        if isinstance(error, ResponseError):
            return error.code not in _BUSY
        return not error.retriable

    def _may_not_be_written(self, topic: str) -> bool:
        route = self._delivery.engine.routes.known(topic)
        if route is None or writable_queues(route, topic):
            return False
        return any(master_of(broker.broker_addrs) for broker in route.broker_datas)

    def _tries(self, error: MqError, entry: Entry) -> int:
        """After how many refusals there may yet be another answer."""
        may_pass = error.retriable or isinstance(error, NotFound)
        return REFUSED_TRIES if may_pass and entry.outgoing.topic not in self._refused_topics else 0

    async def _set_aside(self, entry: Entry, refusal: MqError) -> bool:
        """Whether the disk took it; until it does, the message stays in the spool."""
        try:
            path = await asyncio.to_thread(self._spool.set_aside, entry)
        except StoreError as error:
            log.error("spool: message %s is refused and cannot be kept: %s", entry.outgoing.msg_id, error.message)
            return False
        log.error("spool: message %s is refused, kept in %s: %s", entry.outgoing.msg_id, path, refusal.message)
        if refusal.retriable or isinstance(refusal, NotFound):
            self._refused_topics.add(entry.outgoing.topic)
        return True
