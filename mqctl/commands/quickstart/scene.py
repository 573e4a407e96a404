"""What `mqctl quickstart` runs: both servers, a producer and two consumers of one group, and what they count."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqctl.client import ConsumeFrom, Message, MqError, Producer, PushConsumer, ReceivedMessage, SendResult
from mqctl.client.admin import Admin
from mqctl.client.admin.progress import consume_stats
from mqctl.remoting.bodies import TopicConfig
from mqctl.server.broker.app import VIP_PORT_DISTANCE
from mqctl.server.standalone import LOOPBACK, Standalone, configure, free_port

TOPIC: Final = "orders"
PRODUCER_GROUP: Final = "shop"
CONSUMER_GROUP: Final = "billing"
CONSUMERS: Final = 2
QUEUES: Final = 8
TAGS: Final = ("new", "paid", "shipped")

NAMESRV_PORT: Final = 9876
BROKER_PORT: Final = 10911

# Of so many messages percentiles are told: enough for a p99, few enough to follow a change.
LATENCIES_KEPT: Final = 1000


@dataclass(slots=True)
class Member:
    """One consumer. `lag` counts what its queues hold and it has not consumed. (`mqctl lag` says a little more: it
    knows only what consumers have told the broker.)"""

    name: str
    consumer: PushConsumer
    consumed: int = 0
    lag: int = 0

    @property
    def queues(self) -> int:
        return sum(queue.topic == TOPIC for queue in self.consumer.assignment())


@dataclass(slots=True)
class Scene:
    """Loop only. The figures are there to be read at any time."""

    servers: Standalone
    sent: int = 0
    failed: int = 0
    members: list[Member] = field(default_factory=list)
    _on_the_way: dict[str, float] = field(default_factory=dict)
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))

    @property
    def namesrv(self) -> str:
        return self.servers.broker.namesrv_addr

    def latency_ms(self, share: float) -> float | None:
        """From the call of `send` to the consumer's function; None while nothing has arrived."""
        ordered = sorted(self._latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1000 if ordered else None

    # -- at work ----------------------------------------------------------------------------------------

    async def produce(self, producer: Producer, rate: int) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        number = 0
        while True:
            number += 1
            await self._send(producer, number)
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _send(self, producer: Producer, number: int) -> None:
        key = f"o-{number}"
        body = json.dumps({"order": number, "amount": number % 90 + 10}).encode()
        self._on_the_way[key] = time.perf_counter()
        task = await producer.submit(Message(TOPIC, body, tags=TAGS[number % len(TAGS)], keys=key))

        def landed(task: asyncio.Future[SendResult]) -> None:
            if task.cancelled() or task.exception() is not None:
                self.failed += 1
                self._on_the_way.pop(key, None)
            else:
                self.sent += 1

        task.add_done_callback(landed)

    def _took(self, member: Member, message: ReceivedMessage) -> None:
        member.consumed += 1
        begun = self._on_the_way.pop(message.keys[0], None) if message.keys else None
        if begun is not None:  # else it was there before, in a folder that was named
            self._latencies.append(time.perf_counter() - begun)

    def add_member(self, number: int) -> PushConsumer:
        async def listener(message: ReceivedMessage) -> None:
            self._took(member, message)

        name = f"consumer-{number}"
        consumer = PushConsumer(
            CONSUMER_GROUP, listener, TOPIC, self.namesrv, start=ConsumeFrom.FIRST, instance=name, finish_seconds=1.0
        )
        member = Member(name, consumer)
        self.members.append(member)
        return consumer

    async def measure_lag(self, admin: Admin) -> None:
        """A broker that is too busy to answer leaves the figures as they are."""
        try:
            stats = await consume_stats(admin, self.servers.broker.address, CONSUMER_GROUP, TOPIC)
        except MqError:
            return
        for member in self.members:
            held = [each for each in member.consumer.held_queues() if each.queue in stats.offset_table]
            member.lag = sum(max(0, stats.offset_table[each.queue].broker_offset - each.position) for each in held)


@contextlib.asynccontextmanager
async def scene(folder: Path, rate: int) -> AsyncIterator[tuple[Scene, Admin]]:
    """Everything is at work inside, and stopped in order behind. Raises ConfigError or StoreError when the servers
    cannot start."""
    namesrv_port, broker_port = _ports()
    both, _ = configure({}, None, store=folder, namesrv_port=namesrv_port, broker_port=broker_port)
    async with contextlib.AsyncExitStack() as started:
        for server in both.servers():
            await server.start()
            started.push_async_callback(server.stop)
        running = Scene(both)
        admin = await started.enter_async_context(Admin(running.namesrv))
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        await admin.create_topic(both.broker.address, topic)
        for number in range(1, CONSUMERS + 1):
            await started.enter_async_context(running.add_member(number))
        producer = await started.enter_async_context(Producer(PRODUCER_GROUP, running.namesrv))
        producing = asyncio.create_task(running.produce(producer, rate))
        try:
            yield running, admin
        finally:
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)


def _ports() -> tuple[int, int]:
    """The usual ones, so that commands need no -n; others where those are taken."""
    broker_ports = (BROKER_PORT, BROKER_PORT - VIP_PORT_DISTANCE)
    return (
        NAMESRV_PORT if _is_free(NAMESRV_PORT) else free_port(),
        BROKER_PORT if all(map(_is_free, broker_ports)) else free_port(),
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port that was just left is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
