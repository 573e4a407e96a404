"""What a consumer answers to operators. With mqadmin in between, see the interop tests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mqctl.client import ConsumeFrom, MessageQueue, PullConsumer, PushConsumer, ReceivedMessage, RetryLater
from mqctl.client.engine import Engine
from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import GetConsumerStatusBody, ResetOffsetBody
from mqctl.remoting.bodies_consumer import ConsumeDirectlyResult, ConsumerRunningInfo
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.headers_consumer import (
    ConsumeDirectlyHeader,
    ConsumerTopicHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)
from mqctl.store.fetch import Limits, fetch
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop, until
from tests.unit.client.embedded import Inbox, numbered, send

NOBODY: Any = None
QUEUE = MessageQueue("t", "broker-a", 0)


def position(consumer: PushConsumer | PullConsumer) -> int:
    return sum(held.position for held in consumer.held_queues())


@in_loop
async def test_positions_and_running_info(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    inbox = Inbox()
    async with PushConsumer("g", inbox, {"t": "a || b"}, mq.namesrv, start=ConsumeFrom.FIRST) as consumer:
        await send(mq, "t", numbered(3), tags="a")
        await until(lambda: position(consumer) == 3)
        request = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
        answer = consumer._inspecting.on_status(NOBODY, request, ConsumerTopicHeader("t", "g"))
        assert bodies.decode(GetConsumerStatusBody, answer.body).message_queue_table == {QUEUE: 3}
        answer = consumer._inspecting.on_running_info(NOBODY, request, RunningInfoHeader("g", jstack_enable=True))
        info = bodies.decode(ConsumerRunningInfo, answer.body)
        assert info.mq_table[QUEUE].commit_offset == 3
        assert info.mq_table[QUEUE].last_consume_timestamp >= consumer.started_ms
        assert {data.topic: data.sub_string for data in info.subscription_set} == {"t": "a || b", "%RETRY%g": "*"}
        assert (info.properties["PROP_CONSUME_TYPE"], info.properties["PROP_CONSUMEORDERLY"]) == (
            "CONSUME_PASSIVELY",
            "false",
        )
        assert info.jstack is not None
        assert __name__ in info.jstack or "test_inspecting" in info.jstack
        with pytest.raises(RequestFailed):
            consumer._inspecting.on_running_info(NOBODY, request, RunningInfoHeader("other"))


@in_loop
async def test_a_pull_consumer_answers_as_well(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(5))
    async with PullConsumer("g", "t", mq.namesrv, start=ConsumeFrom.FIRST) as consumer:
        await until(lambda: [len(held) for held in consumer.held_queues()] == [5])
        await consumer.poll(max_messages=2)
        await consumer.commit()
        await consumer.poll(max_messages=1)
        request = Command(RequestCode.GET_CONSUMER_RUNNING_INFO)
        answer = consumer._inspecting.on_running_info(NOBODY, request, RunningInfoHeader("g"))
        info = bodies.decode(ConsumerRunningInfo, answer.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert (info.mq_table[QUEUE].commit_offset, info.mq_table[QUEUE].cached_msg_count) == (2, 2)
        table = bodies.encode(ResetOffsetBody(offset_table={QUEUE: 1}))
        request = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, body=table)
        await consumer._inspecting.on_reset(NOBODY, request, ResetOffsetHeader("t", "g"))
        assert await consumer.committed(QUEUE) == 1
        assert [message.body for message in await consumer.poll()] == numbered(4, 1)


@in_loop
async def test_positions_can_be_asked_for_through_a_broker(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", numbered(3))
    async with (
        PushConsumer("g", Inbox(), "t", mq.namesrv, start=ConsumeFrom.FIRST) as push,
        PullConsumer("g2", "t", mq.namesrv, start=ConsumeFrom.FIRST) as pull,
        Engine(mq.namesrv) as engine,
    ):
        await until(lambda: position(push) == 3)
        await pull.poll(max_messages=2)
        await pull.commit()
        for consumer, expected in ((push, 3), (pull, 2)):
            question = Command(
                RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext={"topic": "t", "group": consumer.group}
            )
            answer = await engine.call(mq.address, question)
            table = bodies.decode(GetConsumerStatusBody, answer.body).consumer_table
            assert table == {consumer.client_id: {QUEUE: expected}}


@pytest.mark.parametrize("orderly", [False, True])
@in_loop
async def test_positions_are_moved(mq: EmbeddedBroker, orderly: bool) -> None:
    mq.create_topic("t", queues=1)
    inbox = Inbox()
    async with PushConsumer("g", inbox, "t", mq.namesrv, start=ConsumeFrom.FIRST, orderly=orderly) as consumer:
        await send(mq, "t", numbered(5))
        await inbox.wait(5)
        other = MessageQueue("t", "broker-b", 0)
        table = bodies.encode(ResetOffsetBody(offset_table={QUEUE: 2, other: 7}))
        request = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, body=table)
        await consumer._inspecting.on_reset(NOBODY, request, ResetOffsetHeader("t", "g"))
        await inbox.wait(8)
    assert inbox.bodies == [*numbered(5), b"2", b"3", b"4"]


@in_loop
async def test_one_message_is_consumed_directly(mq: EmbeddedBroker) -> None:
    mq.create_topic("t", queues=1)
    await send(mq, "t", [b"good", b"bad", b"later"])
    answers = {b"bad": ValueError("no"), b"later": RetryLater()}
    inbox = Inbox()

    async def handle(message: ReceivedMessage) -> None:
        await inbox(message)
        if (error := answers.get(message.body)) is not None:
            raise error

    store = mq._running.store
    results = []
    async with PushConsumer("g", handle, "%RETRY%other", mq.namesrv) as consumer:
        for offset in range(3):
            record = fetch(store, "t", 0, offset, Limits(1, 1000)).records
            request = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, body=record)
            header = ConsumeDirectlyHeader("g", broker_name="broker-a")
            answer = await consumer._directly.on_consume_directly(NOBODY, request, header)
            results.append(bodies.decode(ConsumeDirectlyResult, answer.body))
        with pytest.raises(RequestFailed):
            await consumer._directly.on_consume_directly(NOBODY, Command(309), ConsumeDirectlyHeader("g"))
    assert [result.consume_result for result in results] == ["CR_SUCCESS", "CR_THROW_EXCEPTION", "CR_LATER"]
    assert results[1].remark == "ValueError: no"
    assert inbox.bodies == [b"good", b"bad", b"later"]
    await asyncio.sleep(0)
