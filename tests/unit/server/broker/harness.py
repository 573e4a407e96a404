"""A broker in this process, on real sockets, and clients that talk to it through a ConnectionPool."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from mqctl.remoting.command import JSON, Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.message import Message, ReceivedMessage, decode_records, encode_batch
from mqctl.remoting.pool import ConnectionPool
from mqctl.server.broker.app import VIP_PORT_DISTANCE, Broker
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.clock import Clock
from mqctl.store.properties import format_properties

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4
SECONDS: Final = 5.0


def free_port() -> int:
    """A port that is free together with the one the broker opens beside it."""
    while True:
        with socket.socket() as main, socket.socket() as vip:
            main.bind(("127.0.0.1", 0))
            port = int(main.getsockname()[1])
            with contextlib.suppress(OSError):
                vip.bind(("127.0.0.1", port - VIP_PORT_DISTANCE))
                return port


class Pulled(NamedTuple):
    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[ReceivedMessage]
    remark: str | None

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


class Client:
    """One connection to the broker. What the broker asks of it waits in `pushed`."""

    def __init__(self, address: str, name: str = "client") -> None:
        self.address = address
        self.name = name
        self.pushed: asyncio.Queue[Command] = asyncio.Queue()
        self.pool = ConnectionPool(self._on_request)

    def _on_request(self, connection: Connection, request: Command) -> None:
        self.pushed.put_nowait(request)

    async def close(self) -> None:
        await self.pool.close()

    # -- any request ------------------------------------------------------------------------------------

    async def ask(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", codec: int = JSON) -> Command:
        texts = {name: str(value) for name, value in (ext or {}).items()}
        return await self.pool.request(self.address, Command(code, ext=texts, body=body, codec=codec), SECONDS)

    async def ok(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", codec: int = JSON) -> Command:
        answer = await self.ask(code, ext, body, codec)
        assert answer.code == 0, (answer.code, answer.remark)
        return answer

    async def json(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> Any:
        return json.loads((await self.ok(code, ext, body)).body)

    async def oneway(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> None:
        connection = await self.pool.connect(self.address)
        texts = {name: str(value) for name, value in (ext or {}).items()}
        connection.oneway(Command(code, ext=texts, body=body))

    # -- messages ---------------------------------------------------------------------------------------

    async def send(self, body: bytes = b"body", codec: int = JSON, **fields: Any) -> Command:
        return await self.ask(310, send_ext(**fields), body, codec)

    async def sent(self, body: bytes = b"body", **fields: Any) -> int:
        """Sends what must be accepted; its queue offset."""
        answer = await self.send(body, **fields)
        assert answer.code == 0, (answer.code, answer.remark)
        return int(answer.fields()["queueOffset"])

    async def send_batch(self, messages: Iterable[Message], codec: int = JSON, **fields: Any) -> Command:
        return await self.ask(320, send_ext(m="true", **fields), encode_batch(messages), codec)

    async def pull(self, queue_offset: int = 0, codec: int = JSON, code: int = 11, **fields: Any) -> Pulled:
        answer = await self.ask(code, pull_ext(queueOffset=queue_offset, **fields), codec=codec)
        assert answer.codec == codec
        ext = answer.fields()
        numbers = [int(ext.get(name, -1)) for name in ("nextBeginOffset", "minOffset", "maxOffset")]
        return Pulled(answer.code, *numbers, decode_records(answer.body), answer.remark)

    async def max_offset(self, topic: str = "t", queue_id: int = 0) -> int:
        answer = await self.ok(30, {"topic": topic, "queueId": queue_id})
        return int(answer.fields()["offset"])

    # -- topics and groups ------------------------------------------------------------------------------

    async def create_topic(self, topic: str = "t", queues: int = 1, perm: int = 6, **fields: Any) -> None:
        await self.ok(17, topic_ext(topic, queues, perm, **fields))

    async def heartbeat(self, *groups: str, topics: tuple[str, ...] = ("t",), **consumer: Any) -> None:
        await self.ok(34, body=heartbeat(self.name, groups, topics, **consumer))

    async def notified(self) -> str:
        """The group of the next NOTIFY_CONSUMER_IDS_CHANGED."""
        async with asyncio.timeout(SECONDS):
            push = await self.pushed.get()
        assert (push.code, push.is_oneway) == (40, True)
        return push.fields()["consumerGroup"]


def send_ext(
    topic: str = "t", queue_id: int = 0, properties: dict[str, str] | None = None, **short: Any
) -> dict[str, Any]:
    return {
        "a": "producers",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 0,
        "i": format_properties(properties or {}),
        **short,
    }


def pull_ext(topic: str = "t", queue_id: int = 0, tags: str = "*", flags: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION | flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subVersion": 0,
        "subscription": tags,
        **fields,
    }


def topic_ext(topic: str, queues: int = 1, perm: int = 6, **fields: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
        **fields,
    }


def subscription(topic: str, tags: str = "*", version: int = 1) -> dict[str, Any]:
    return {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "TAG",
        "subString": tags,
        "subVersion": version,
        "tagsSet": [] if tags == "*" else tags.split("||"),
        "topic": topic,
    }


def heartbeat(
    client_id: str,
    consumers: Iterable[str] = (),
    topics: Iterable[str] = ("t",),
    producers: Iterable[str] = (),
    subscriptions: list[dict[str, Any]] | None = None,
    **consumer: Any,
) -> bytes:
    if subscriptions is None:
        subscriptions = [subscription(topic) for topic in topics]
    return json.dumps(
        {
            "clientID": client_id,
            "consumerDataSet": [
                {
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "consumeType": "CONSUME_PASSIVELY",
                    "groupName": group,
                    "messageModel": "CLUSTERING",
                    "subscriptionDataSet": subscriptions,
                    "unitMode": False,
                    **consumer,
                }
                for group in consumers
            ],
            "producerDataSet": [{"groupName": group} for group in producers],
        }
    ).encode()


class House:
    """A running broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.port = broker.config.listen_port
        self.address = f"127.0.0.1:{self.port}"
        self._clients: list[Client] = []

    def client(self, name: str = "client") -> Client:
        self._clients.append(Client(self.address, name))
        return self._clients[-1]

    @property
    def parked(self) -> int:
        """How many pulls wait for a message."""
        return sum(len(pulls) for pulls in self.broker.pulling.long_polls._parked.values())

    async def close_clients(self) -> None:
        for client in self._clients:
            await client.close()


def broker_config(root: Path, **settings: Any) -> BrokerConfig:
    return BrokerConfig(
        **{
            "broker_name": "broker-a",
            "broker_ip1": "127.0.0.1",
            "bind_address": "127.0.0.1",
            "listen_port": free_port(),
            "store_path_root_dir": str(root),
            "mapped_file_size_commit_log": 64 * 1024 * 1024,
            "mapped_file_size_consume_queue": 20 * 1000,
            # A slow machine is no reason to refuse a test's messages.
            "broker_fast_failure_enable": False,
            "os_page_cache_busy_time_out_mills": 60_000,
            **settings,
        }
    )


@contextlib.asynccontextmanager
async def running(root: Path, clock: Clock | None = None, **settings: Any) -> AsyncIterator[House]:
    house = House(Broker(broker_config(root, **settings), clock))
    await house.broker.start()
    try:
        yield house
    finally:
        await house.close_clients()
        await house.broker.stop()


@contextlib.asynccontextmanager
async def serving(root: Path, *topics: str, **settings: Any) -> AsyncIterator[tuple[House, Client]]:
    """A broker with these topics (`t`, with one queue, unless others are named) and one client."""
    async with running(root, **settings) as house:
        client = house.client()
        for topic in topics or ("t",):
            await client.create_topic(topic)
        yield house, client
