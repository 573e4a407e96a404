"""The pull consumer against a real broker: polling, positions, queues by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime

import pytest

from mqctl.client import ConsumeFrom, MessageQueue, PullConsumer, pull
from mqctl.client.blocking import PullConsumer as BlockingPullConsumer
from mqctl.errors import ConfigError, NotFound
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop
from tests.unit.client.embedded import numbered, send

FIRST = ConsumeFrom.FIRST


async def poll_all(consumer: PullConsumer, count: int) -> list[bytes]:
    """The bodies of so many messages, one poll after the other."""
    found: list[bytes] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += [message.body for message in await consumer.poll(1.0)]
    return found


@in_loop
async def test_polls_hand_out_everything_once_and_in_the_order_of_each_queue(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    await send(mq, "t", numbered(100))
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
        messages = []
        while len(messages) < 100:
            polled = await consumer.poll(5.0, max_messages=7)
            assert 0 < len(polled) <= 7
            messages += polled
        assert await consumer.poll(0.01) == []
    assert sorted(message.body for message in messages) == sorted(numbered(100))
    for queue_id in range(4):
        offsets = [message.queue_offset for message in messages if message.queue_id == queue_id]
        assert offsets == list(range(25))


@in_loop
async def test_what_was_polled_counts_with_the_next_poll_or_a_good_end(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    with pytest.raises(ZeroDivisionError):
        async with PullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
            assert await consumer.poll(max_messages=1)
            assert await consumer.poll(max_messages=1)
            raise ZeroDivisionError  # while the second is being handled
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
        assert await poll_all(consumer, 2) == [b"1", b"2"]
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
        await send(mq, "t", [b"3"])
        assert await poll_all(consumer, 1) == [b"3"]


@in_loop
async def test_positions_move_by_hand_alone_if_wanted(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(4))
    queue = MessageQueue("t", "broker-a", 0)
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST, auto_commit=False) as consumer:
        await consumer.poll(max_messages=2)
        await consumer.commit()
        assert await consumer.committed(queue) == 2
        await consumer.poll(max_messages=1)
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
        assert await poll_all(consumer, 2) == [b"2", b"3"]


@in_loop
async def test_queues_by_hand(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=2)
    await send(mq, "t", numbered(10))
    async with PullConsumer("g", namesrv=mq.namesrv, start=FIRST) as consumer:
        one, two = await consumer.queues("t")
        await consumer.assign([one])
        assert consumer.assignment() == {one}
        ones = await poll_all(consumer, 5)
        await consumer.assign([two])
        twos = await poll_all(consumer, 5)
        assert sorted(ones + twos) == numbered(10)
        with pytest.raises(NotFound):
            await consumer.seek(one, 0)
        with pytest.raises(NotFound):
            await consumer.assign([MessageQueue("nothing-there", "broker-a", 0)])
    async with PullConsumer("g2", "t", mq.namesrv) as consumer:
        with pytest.raises(ConfigError):
            await consumer.assign([one])


@in_loop
async def test_seeking(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    await asyncio.sleep(0.2)  # the message nearest to the moment is found, so it has to be nearer to the later ones
    moment = datetime.fromtimestamp(time.time())
    await send(mq, "t", numbered(3, 3))
    async with PullConsumer("g", namesrv=mq.namesrv, start=FIRST) as consumer:
        (queue,) = await consumer.queues("t")
        await consumer.assign([queue])
        assert await poll_all(consumer, 6) == numbered(6)
        await consumer.seek(queue, 4)
        assert await poll_all(consumer, 2) == numbered(2, 4)
        await consumer.seek_to_begin(queue)
        assert await poll_all(consumer, 6) == numbered(6)
        await consumer.seek_to_time(queue, moment)
        assert await poll_all(consumer, 3) == numbered(3, 3)
        await consumer.seek_to_begin(queue)
        await consumer.seek_to_end(queue)
        await send(mq, "t", [b"new"])
        assert await poll_all(consumer, 1) == [b"new"]
        assert await consumer.committed(queue) is not None
    async with PullConsumer("g2", namesrv=mq.namesrv, start=FIRST, auto_commit=False) as consumer:
        await consumer.assign([queue])
        await consumer.seek(queue, 5)
        assert await poll_all(consumer, 2) == [b"5", b"new"]
        await consumer.seek(queue, 6)
        await consumer.assign([])
        assert await consumer.committed(queue) == 0


@in_loop
async def test_a_paused_queue_brings_nothing_new(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=2)
    async with PullConsumer("g", namesrv=mq.namesrv, start=FIRST) as consumer:
        one, two = await consumer.queues("t")
        await consumer.assign([one, two])
        await asyncio.sleep(0.05)  # pulls are at the broker by now
        consumer.pause(one)
        await consumer.seek(two, 0)
        await send(mq, "t", numbered(10))
        assert len(await poll_all(consumer, 5)) == 5
        assert {message.queue_id for message in await consumer.poll(0.05)} <= {0}
        consumer.resume(one)
        await poll_all(consumer, 5)


@in_loop
async def test_a_queue_whose_broker_is_away_is_taken_once_that_is_back(
    mq: EmbeddedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "AGAIN_SECONDS", 0.01)
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    async with PullConsumer("g", namesrv=mq.namesrv, start=FIRST) as consumer:
        (queue,) = await consumer.queues("t")
        await asyncio.to_thread(mq.stop)
        await consumer.assign([queue])
        assert consumer.assignment() == set()
        await asyncio.to_thread(mq.start)
        assert await poll_all(consumer, 3) == numbered(3)
        await consumer.assign([])
        assert consumer.assignment() == set()
    assert sum("where to begin" in record.message for record in caplog.records) == 1


@in_loop
async def test_the_last_of_several_seeks_counts(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(6))
    queue = MessageQueue("t", "broker-a", 0)
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
        await poll_all(consumer, 2)
        consumer.pause(queue)
        await asyncio.gather(consumer.seek(queue, 1), consumer._membership.rebalance(), consumer.seek(queue, 4))
        assert await consumer.poll(0.01) == [], "still paused"
        consumer.resume(queue)
        assert await poll_all(consumer, 2) == [b"4", b"5"]


@in_loop
async def test_a_queue_that_is_given_away_during_a_seek_stays_away(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    is_ours = True

    def strategy(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        return list(queues) if is_ours else []

    async with PullConsumer("g", "t", mq.namesrv, strategy=strategy) as consumer:
        (queue,) = consumer.assignment()
        is_ours = False
        await asyncio.gather(consumer.seek(queue, 3), consumer._membership.rebalance())
        assert consumer.assignment() == set()


@in_loop
async def test_positions_can_be_named_and_need_not_be_waited_for(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=2)
    await send(mq, "t", numbered(10))
    async with PullConsumer("g", "t", mq.namesrv, start=FIRST, auto_commit=False) as consumer:
        await poll_all(consumer, 10)
        one, two = sorted(consumer.assignment())
        await consumer.commit({one: 2})
        assert [await consumer.committed(queue) for queue in (one, two)] == [2, 0]
        await consumer.commit_async({two: 3})
        assert [await consumer.committed(queue) for queue in (one, two)] == [2, 3]
        await consumer.commit_async()
        assert [await consumer.committed(queue) for queue in (one, two)] == [5, 5]
        with pytest.raises(NotFound):
            await consumer.commit({MessageQueue("t", "broker-a", 9): 1})
        with pytest.raises(NotFound):
            consumer.commit_async({MessageQueue("t", "broker-a", 9): 1})


def test_the_blocking_twin(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    asyncio.run(send(mq, "t", numbered(3)))
    with BlockingPullConsumer("g", "t", mq.namesrv, start=FIRST) as consumer:
        assert [message.body for message in consumer.poll()] == numbered(3)
    with BlockingPullConsumer("g", namesrv=mq.namesrv, start=FIRST) as consumer:
        (queue,) = consumer.queues("t")
        consumer.assign([queue])
        assert consumer.committed(queue) == 3
        consumer.commit_async({queue: 1}).result(10)
        assert consumer.committed(queue) == 1
        consumer.seek_to_begin(queue)
        assert [message.body for message in consumer.poll()] == numbered(3)
        assert consumer.assignment() == {queue}
