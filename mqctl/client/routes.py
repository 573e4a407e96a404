"""Where topics live, as the name servers last said, and which brokers follow from that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from mqctl.client.clusters import master_of
from mqctl.errors import MqError, NotFound
from mqctl.remoting.bodies import TopicRouteData

log = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 30.0  # pollNameServerInterval of Java's clients

RouteListener = Callable[[str, TopicRouteData], None]


class Routes:
    """Loop only. Every topic that was asked for once is asked about again by `refresh_all`.

    A route that was known stays when the name servers are gone, or say that the topic is: they say so as well
    while its only broker restarts, and then its old address is the one to try.
    """

    def __init__(self, lookup: Callable[[str], Awaitable[TopicRouteData]]) -> None:
        """`lookup` asks a name server; it raises NotFound for a topic that no broker has."""
        self._lookup = lookup
        self._routes: dict[str, TopicRouteData] = {}
        self._wanted: set[str] = set()
        self._under_way: dict[str, asyncio.Task[TopicRouteData]] = {}
        # Broker name to address by broker id, over all routes. A broker that is in no route any more is not here.
        self.brokers: dict[str, dict[int, str]] = {}
        # Called with topic and route when a route is new or not what it was.
        self.on_change: list[RouteListener] = []

    def known(self, topic: str) -> TopicRouteData | None:
        return self._routes.get(topic)

    async def find(self, topic: str) -> TopicRouteData:
        """What is known, else what a name server says. Raises NotFound, ConnectionFailed, RequestTimeout."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRouteData:
        """What a name server says now. Callers that ask at the same time share the answer."""
        self._wanted.add(topic)
        task = self._under_way.get(topic)
        if task is None:
            task = asyncio.create_task(self._ask(topic))
            self._under_way[topic] = task
            task.add_done_callback(lambda done: self._done(topic, done))
        return await asyncio.shield(task)

    async def refresh_all(self) -> None:
        """Never raises MqError: what cannot be learned now is asked again next time."""
        for topic in sorted(self._wanted):
            try:
                await self.refresh(topic)
            except NotFound:
                continue
            except MqError as error:
                log.warning("routes are not refreshed: %s", error.message)
                return

    def master(self, broker_name: str) -> str | None:
        return master_of(self.brokers.get(broker_name, {}))

    def forget(self, topic: str) -> None:
        """Nobody here needs the topic any more."""
        self._wanted.discard(topic)
        if self._routes.pop(topic, None) is not None:
            self._collect_brokers()

    def stop(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    async def _ask(self, topic: str) -> TopicRouteData:
        route = await self._lookup(topic)
        before = self._routes.pop(topic, None)
        self._routes[topic] = route  # the last one: routes that are no longer confirmed must not hide where brokers are
        if route != before:
            self._collect_brokers()
            for listener in self.on_change:
                listener(topic, route)
        return route

    def _done(self, topic: str, task: asyncio.Task[TopicRouteData]) -> None:
        del self._under_way[topic]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; if nobody does, it is not worth a complaint

    def _collect_brokers(self) -> None:
        self.brokers = {
            broker.broker_name: broker.broker_addrs for route in self._routes.values() for broker in route.broker_datas
        }
