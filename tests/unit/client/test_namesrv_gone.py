"""The name servers are gone for a minute: in it a client refreshes its routes twice, sends two heartbeats, rebalances
three times and saves its positions twelve times. The periods are shortened, the rounds are the same."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mqctl.client import ConsumeFrom, Message, Producer, PushConsumer
from mqctl.client.engine import Engine
from mqctl.errors import ConnectionFailed
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop, until
from tests.unit.client.embedded import Inbox, numbered
from tests.unit.client.fakes import cluster

SHORTER = 300  # times
ROUNDS = 3


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    for period in ("refresh_seconds", "heartbeat_seconds"):
        monkeypatch.setitem(Engine.__init__.__kwdefaults__, period, 30 / SHORTER)
    monkeypatch.setattr("mqctl.client.membership.REBALANCE_SECONDS", 20 / SHORTER)
    monkeypatch.setattr("mqctl.client.consumer.COMMIT_SECONDS", 5 / SHORTER)


@in_loop
async def test_a_producer_goes_on_and_finds_new_topics_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with cluster() as (namesrv, (broker,)), Producer("g", namesrv.address) as producer:
        namesrv.route("other", broker)
        await producer.send(Message("t", b"before"))
        await namesrv.stop()
        for number in range(ROUNDS):
            heard = len(broker.heartbeats)
            await until(lambda heard=heard: len(broker.heartbeats) > heard)  # type: ignore[misc]
            await producer.send(Message("t", b"%d" % number))
        with pytest.raises(ConnectionFailed) as refused:
            await producer.send(Message("other", b"who has it?"))
        assert refused.value.retriable
        await namesrv.start()
        await until(lambda: "t" in namesrv.asked[-2:])
        await producer.send(Message("other", b"after"))
        assert broker.bodies == [b"before", *numbered(ROUNDS), b"after"]


@in_loop
async def test_a_consumer_keeps_its_queues_and_saves_its_positions(
    mq: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def refused() -> int:
        return sum("routes are not refreshed" in record.message for record in caplog.records)

    mq.create_topic("t", queues=2)
    inbox = Inbox()
    async with (
        Producer("p", mq.namesrv) as producer,
        PushConsumer("g", inbox, "t", mq.namesrv, start=ConsumeFrom.FIRST) as consumer,
    ):
        await producer.send(Message("t", b"before"))
        mine = consumer.assignment()
        await asyncio.to_thread(mq._background.run, mq._namesrv.stop())
        for number in range(ROUNDS):
            before = refused()
            await until(lambda before=before: refused() > before)  # type: ignore[misc]
            await producer.send(Message("t", b"%d" % number))
        assert sorted(await inbox.wait(1 + ROUNDS)) == sorted([b"before", *numbered(ROUNDS)])
        assert consumer.assignment() == mine
        queues = [queue for queue in mine if queue.topic == "t"]

        async def saved() -> int:
            return sum([await consumer._reader.committed(queue) or 0 for queue in queues])

        async with asyncio.timeout(5):
            while await saved() < 1 + ROUNDS:
                await asyncio.sleep(0.01)
