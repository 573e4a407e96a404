"""Telling the name servers about this broker and its topics."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Coroutine, Iterable
from typing import Any, Final

import msgspec

from mqctl.errors import MqError
from mqctl.remoting import bodies, register_body
from mqctl.remoting.bodies import (
    KVTable,
    MessageQueue,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicRouteData,
)
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.pool import ConnectionPool, split_addresses
from mqctl.remoting.topicbits import PERM_READ, PERM_WRITE
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.topics import Topics

log = logging.getLogger(__name__)

CRC_MASK: Final = 0x7FFFFFFF
MIN_PERIOD_MS: Final = 10_000
MAX_PERIOD_MS: Final = 60_000
UNREGISTER_SECONDS: Final = 3.0
ROUTE_SECONDS: Final = 2.0


class Registration:
    """Loop only. Every name server gets every registration; one that is down misses it and catches up with
    the next. Topics that change while a registration is on its way share the following one."""

    def __init__(self, config: BrokerConfig, topics: Topics) -> None:
        self._config = config
        self._topics = topics
        self._pool = ConnectionPool()
        self._changed: dict[str, TopicConfig] = {}
        self._next_round: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._unreachable: set[str] = set()

    @property
    def name_servers(self) -> list[str]:
        return split_addresses(self._config.namesrv_addr)

    async def run(self) -> None:
        """The periodic full registration."""
        while True:
            period = min(max(self._config.register_name_server_period, MIN_PERIOD_MS), MAX_PERIOD_MS)
            await asyncio.sleep(period / 1000)
            await _survived(self.register_all())

    async def register_all(self) -> None:
        await self._register(self._topics.all().values())

    def topics_changed(self, topics: Iterable[TopicConfig]) -> asyncio.Future[None]:
        """Registers these topics at once; the future ends when every reachable name server knows them."""
        self._changed.update({topic.topic_name: topic for topic in topics})
        if self._next_round is None:
            self._next_round = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._register_changes())
        return self._next_round

    def settled(self) -> asyncio.Future[None]:
        """Ends when every change made so far has reached the name servers."""
        return self.topics_changed(())

    async def _register_changes(self) -> None:
        while self._next_round is not None:
            done, self._next_round = self._next_round, None
            changed, self._changed = self._changed, {}
            # What was deleted since then must not come back.
            there = [topic for name in changed if (topic := self._topics.get(name)) is not None]
            await _survived(self._register(there))
            done.set_result(None)
        self._task = None

    async def _register(self, topics: Iterable[TopicConfig]) -> None:
        body = self._body(topics)
        results = await asyncio.gather(*(self._register_at(server, body) for server in self.name_servers))
        ordered = [table for table in results if table is not None]
        if ordered:
            self._topics.set_order_topics({name: conf for table in ordered for name, conf in table.items()})

    def _body(self, topics: Iterable[TopicConfig]) -> bytes:
        """A broker that may not be read or written lends that to all its topics."""
        mask = self._config.broker_permission
        limited = mask & (PERM_READ | PERM_WRITE) != PERM_READ | PERM_WRITE
        table = {topic.topic_name: msgspec.structs.replace(topic, perm=mask) if limited else topic for topic in topics}
        wrapper = TopicConfigTable(data_version=self._topics.data_version, topic_config_table=table)
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        return register_body.encode(body, compressed=self._config.compressed_register)

    async def _register_at(self, server: str, body: bytes) -> dict[str, str] | None:
        """The ordered topics this name server knows; None if it could not be reached."""
        config = self._config
        command = Command(
            RequestCode.REGISTER_BROKER,
            ext={
                **self._identity(),
                "haServerAddr": config.ha_address,
                "compressed": "true" if config.compressed_register else "false",
                "bodyCrc32": str(zlib.crc32(body) & CRC_MASK),
            },
            body=body,
        )
        try:
            answer = await self._pool.call(server, command, config.register_broker_timeout_mills / 1000)
            table = bodies.decode(KVTable, answer.body).table if answer.body else {}
        except (MqError, ValueError) as error:
            if server not in self._unreachable:
                log.warning("name server %s: not registered: %s", server, error)
                self._unreachable.add(server)
            return None
        if server in self._unreachable:
            log.info("name server %s: registered again", server)
            self._unreachable.discard(server)
        return table

    def _identity(self) -> dict[str, str]:
        config = self._config
        return {
            "brokerName": config.broker_name,
            "brokerAddr": config.address,
            "clusterName": config.broker_cluster_name,
            "brokerId": str(config.broker_id),
        }

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """The read queues of a topic on all brokers, as the first name server that answers knows them; this
        broker's own where none does."""
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic, "acceptStandardJsonOnly": "true"})
        for server in self.name_servers:
            try:
                answer = await self._pool.call(server, command, ROUTE_SECONDS)
                route = bodies.decode(TopicRouteData, answer.body)
            except (MqError, ValueError):
                continue
            return [
                MessageQueue(topic, data.broker_name, queue_id)
                for data in route.queue_datas
                if data.perm & PERM_READ
                for queue_id in range(data.read_queue_nums)
            ]
        own = self._topics.get(topic)
        queues = own.read_queue_nums if own is not None else 0
        return [MessageQueue(topic, self._config.broker_name, queue_id) for queue_id in range(queues)]

    async def unregister(self) -> None:
        """Clients stop coming at once instead of when the name servers notice."""
        command_per_server = [
            self._pool.call(server, Command(RequestCode.UNREGISTER_BROKER, ext=self._identity()), UNREGISTER_SECONDS)
            for server in self.name_servers
        ]
        await asyncio.gather(*command_per_server, return_exceptions=True)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._pool.close()


async def _survived(registering: Coroutine[Any, Any, None]) -> None:
    """Name servers forget a broker that they do not hear of for two minutes, whatever went wrong in one round."""
    try:
        await registering
    except Exception:
        log.exception("registration failed")
