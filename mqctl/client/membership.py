"""A consumer's place in its group: which queues are its own, found out again whenever that may have changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from mqctl.client.clusters import readable_address
from mqctl.client.engine import Engine
from mqctl.client.rebalance import Strategy
from mqctl.errors import ConnectionFailed, MqError, NotFound
from mqctl.names import RETRY_PREFIX
from mqctl.remoting import bodies
from mqctl.remoting.bodies import ConsumerList, MessageQueue, TopicRouteData
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import ConsumerGroupHeader
from mqctl.remoting.topicbits import PERM_READ

log = logging.getLogger(__name__)

REBALANCE_SECONDS: Final = 20.0
# After a round that could not do all it should, and twice as long after each more of them, up to the second.
AGAIN_SECONDS: Final = 1.0
MOST_AGAIN_SECONDS: Final = 4.0

# Told the queues of a topic that are ours from now on; returns whether it could take them all.
Assign = Callable[[str, set[MessageQueue]], Awaitable[bool]]


class Membership:
    """Loop only."""

    def __init__(
        self, engine: Engine, group: str, topics: Iterable[str], assign: Assign, *, strategy: Strategy | None
    ) -> None:
        """Without a `strategy` every consumer gets all queues: broadcasting."""
        self._engine = engine
        self._group = group
        self._topics = sorted(topics)
        self._assign = assign
        self._strategy = strategy
        self._wake = asyncio.Event()
        self._again_seconds: float | None = None  # until the next round, if the last one could not do all it should
        self._missing: set[str] = set()
        engine.routes.on_change.append(lambda topic, route: self.wake() if topic in self._topics else None)

    def wake(self) -> None:
        """Something changed: the next round begins at once."""
        self._wake.set()

    async def run(self) -> None:
        """One round every 20 s, and whenever woken."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._again_seconds or REBALANCE_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            await self.rebalance()

    async def rebalance(self) -> None:
        """One round. What cannot be found out leaves things as they are."""
        settled = True
        for topic in self._topics:
            try:
                settled = await self._rebalance(topic) and settled
            except MqError as error:
                log.warning("%s: the queues of %s are not known: %s", self._group, topic, error.message)
                settled = False
        if settled:
            self._again_seconds = None
        elif self._again_seconds is None:
            self._again_seconds = AGAIN_SECONDS
        else:
            self._again_seconds = min(2 * self._again_seconds, MOST_AGAIN_SECONDS)

    async def _rebalance(self, topic: str) -> bool:
        try:
            route = await self._engine.routes.find(topic)
        except NotFound:
            self._say_missing(topic)
            return False
        self._missing.discard(topic)
        queues = sorted(readable_queues(route, topic))
        if self._strategy is None:
            return await self._assign(topic, set(queues))
        clients = await self._members(route)
        if self._engine.client_id not in clients:
            await self._engine.heartbeat()
            clients = await self._members(route)
        try:
            mine = self._strategy(self._engine.client_id, queues, sorted(clients))
        except Exception as error:  # it may be the user's own
            raise MqError(f"the strategy failed: {type(error).__name__}: {error}") from error
        return await self._assign(topic, set(mine))

    async def _members(self, route: TopicRouteData) -> list[str]:
        """Any broker of the topic knows them all, since members send heartbeats to each."""
        addresses = [readable_address(broker.broker_addrs) for broker in route.broker_datas]
        known = [address for address in addresses if address is not None]
        if not known:
            raise ConnectionFailed("no broker of the topic is known")
        header = ConsumerGroupHeader(consumer_group=self._group)
        command = Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext=header_fields(header))
        answer = await self._engine.call(random.choice(known), command)
        try:
            return bodies.decode(ConsumerList, answer.body).consumer_id_list
        except bodies.BodyError as error:
            raise MqError(f"the list of consumers cannot be read: {error}") from None

    def _say_missing(self, topic: str) -> None:
        if topic not in self._missing and not topic.startswith(RETRY_PREFIX):
            log.warning("%s: the topic %s does not exist; it is consumed once it does", self._group, topic)
        self._missing.add(topic)


def readable_queues(route: TopicRouteData, topic: str) -> list[MessageQueue]:
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    ]
