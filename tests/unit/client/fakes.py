"""A name server and brokers that do as a test says, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from mqctl.remoting import bodies
from mqctl.remoting.bodies import BrokerData, ClusterInfo, HeartbeatData, QueueData, TopicRouteData
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.message import decode_batch
from mqctl.server.loop import RemotingServer
from mqctl.store.properties import parse_properties

TOPIC_NOT_EXIST = 17

Behaviour = Callable[[Connection, Command], Command | None]


@dataclass
class FakeBroker:
    """Takes messages; `behaviour` replaces that with something else."""

    name: str = "broker-a"
    bodies: list[bytes] = field(default_factory=list)
    unique_keys: list[str] = field(default_factory=list)
    queue_ids: list[int] = field(default_factory=list)
    heartbeats: list[HeartbeatData] = field(default_factory=list)
    unregistered: list[dict[str, str]] = field(default_factory=list)
    connections: set[Connection] = field(default_factory=set)
    behaviour: Behaviour | None = None
    silent: bool = False  # to heartbeats
    port: int = 0

    def __post_init__(self) -> None:
        table = {34: (None, self._heartbeat), 35: (None, self._unregister)}
        self.server = RemotingServer({**table, **dict.fromkeys((310, 320, 325), (None, self._send))})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.port = await self.server.listen("127.0.0.1", self.port)

    async def stop(self) -> None:
        await self.server.stop()
        self.__post_init__()

    def take(self, request: Command) -> Command:
        """Stores a message and says so."""
        fields = request.fields()
        if request.code == 320:
            self.bodies += [entry.body for entry in decode_batch(request.body)]
        else:
            self.bodies.append(request.body)
            self.unique_keys.append(parse_properties(fields["i"])["UNIQ_KEY"])
        self.queue_ids.append(int(fields["e"]))
        place = {"msgId": f"{len(self.bodies):032X}", "queueId": fields["e"], "queueOffset": str(len(self.bodies) - 1)}
        return request.reply(ext={**place, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})

    def _send(self, connection: Connection, request: Command, header: None) -> Command | None:
        if self.behaviour is not None:
            return self.behaviour(connection, request)
        return self.take(request)

    def _heartbeat(self, connection: Connection, request: Command, header: None) -> Command | None:
        self.connections.add(connection)
        self.heartbeats.append(bodies.decode(HeartbeatData, request.body))
        return None if self.silent else request.reply()

    def _unregister(self, connection: Connection, request: Command, header: None) -> Command:
        self.unregistered.append(request.fields())
        return request.reply()


@dataclass
class FakeNamesrv:
    """Knows the routes that are put into it; counts what it is asked."""

    routes: dict[str, TopicRouteData] = field(default_factory=dict)
    brokers: dict[str, BrokerData] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: bool = False
    port: int = 0

    def __post_init__(self) -> None:
        self.server = RemotingServer({105: (None, self._route), 106: (None, self._cluster)})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.port = await self.server.listen("127.0.0.1", self.port)

    async def stop(self) -> None:
        await self.server.stop()
        self.__post_init__()

    def route(self, topic: str, *brokers: FakeBroker, queues: int = 2, perm: int = 6) -> None:
        data = [BrokerData(cluster="c", broker_name=each.name, broker_addrs={0: each.address}) for each in brokers]
        self.brokers |= {each.broker_name: each for each in data}
        self.routes[topic] = TopicRouteData(
            broker_datas=data,
            queue_datas=[
                QueueData(broker_name=each.name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
                for each in brokers
            ],
        )

    def _route(self, connection: Connection, request: Command, header: None) -> Command | None:
        topic = request.fields()["topic"]
        self.asked.append(topic)
        if self.silent:
            return None
        route = self.routes.get(topic)
        if route is None:
            return request.reply(TOPIC_NOT_EXIST, remark="no route")
        return request.reply(body=bodies.encode(route))

    def _cluster(self, connection: Connection, request: Command, header: None) -> Command:
        info = ClusterInfo(broker_addr_table=self.brokers, cluster_addr_table={"c": sorted(self.brokers)})
        return request.reply(body=bodies.encode(info))


@contextlib.asynccontextmanager
async def cluster(
    *names: str, topic: str = "t", queues: int = 2
) -> AsyncIterator[tuple[FakeNamesrv, list[FakeBroker]]]:
    """A name server and brokers of these names (one, `broker-a`, if none is given) that share a topic."""
    namesrv = FakeNamesrv()
    brokers = [FakeBroker(name) for name in names or ("broker-a",)]
    for server in (namesrv, *brokers):
        await server.start()
    namesrv.route(topic, *brokers, queues=queues)
    try:
        yield namesrv, brokers
    finally:
        await asyncio.gather(*(server.stop() for server in (namesrv, *brokers)))
