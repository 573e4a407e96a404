"""A broker that takes connections and requests and never answers: nothing waits for it longer than it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from mqctl.client import ConsumeFrom, MessageQueue, PullConsumer, PushConsumer, RequestTimeout
from mqctl.client.consumer import GroupConsumer
from mqctl.client.engine import Engine
from mqctl.remoting.bodies import BrokerData, QueueData, TopicRouteData
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop
from tests.unit.client.embedded import Inbox, numbered, send
from tests.unit.client.fakes import FakeNamesrv

SHORT_S = 0.1
QUEUE = MessageQueue("t", "broker-a", 0)


@pytest.fixture(autouse=True)
def short_time_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is 3 s otherwise."""
    for method in (Engine.call, Engine.request, Engine.oneway):
        monkeypatch.setattr(method, "__defaults__", (SHORT_S,))
    for name in ("engine.TIMEOUT_S", "engine.GOODBYE_SECONDS", "consumer.GOODBYE_SECONDS", "orderly.LOCK_TIMEOUT_S"):
        monkeypatch.setattr(f"mqctl.client.{name}", SHORT_S)


@contextlib.asynccontextmanager
async def silent_cluster() -> AsyncIterator[str]:
    """The address of a name server that sends everybody to such a broker."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass
        writer.close()

    namesrv = FakeNamesrv()
    await namesrv.start()
    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    namesrv.routes["t"] = TopicRouteData(
        broker_datas=[BrokerData(broker_name="broker-a", broker_addrs={0: f"{host}:{port}"})],
        queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)],
    )
    async with server:
        yield namesrv.address
    await namesrv.stop()


MAKERS: dict[str, Callable[[str], GroupConsumer]] = {
    "push": lambda namesrv: PushConsumer("g", Inbox(), "t", namesrv),
    "orderly": lambda namesrv: PushConsumer("g", Inbox(), "t", namesrv, orderly=True),
    "traced": lambda namesrv: PushConsumer("g", Inbox(), "t", namesrv, trace=True),
    "pull": lambda namesrv: PullConsumer("g", "t", namesrv),
}


@pytest.mark.parametrize("kind", list(MAKERS))
@in_loop
async def test_a_consumer_starts_and_ends(kind: str) -> None:
    async with silent_cluster() as namesrv, MAKERS[kind](namesrv) as consumer:
        assert consumer.assignment() == set()
        await consumer.commit()


@in_loop
async def test_queues_by_hand() -> None:
    async with silent_cluster() as namesrv, PullConsumer("g", namesrv=namesrv) as consumer:
        await consumer.assign([QUEUE])
        assert consumer.assignment() == set()
        assert await consumer.poll(0.01) == []
        with pytest.raises(RequestTimeout):
            await consumer.committed(QUEUE)


def mute(mq: EmbeddedBroker) -> None:
    """From now on the broker answers nothing."""
    handlers = mq._running.server._handlers
    for code in handlers:
        handlers[code] = (None, lambda connection, request, header: None)


@in_loop
async def test_a_pull_consumer_whose_broker_falls_silent(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    async with PullConsumer("g", "t", mq.namesrv, start=ConsumeFrom.FIRST) as consumer:
        assert len(await consumer.poll()) == 3
        mute(mq)
        await consumer.commit()
        await consumer.seek(QUEUE, 1)
        with pytest.raises(RequestTimeout):
            await consumer.seek_to_end(QUEUE)
        assert await consumer.poll(0.01) == []


@pytest.mark.parametrize("orderly", [False, True])
@in_loop
async def test_a_push_consumer_whose_broker_falls_silent(mq: EmbeddedBroker, orderly: bool) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=ConsumeFrom.FIRST, orderly=orderly) as consumer:
        await inbox.wait(3)
        mute(mq)
        await consumer.seek(QUEUE, 1)
        await consumer.commit()
