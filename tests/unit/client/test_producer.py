"""The producer: every way of sending, retries, and what it says when nothing helps."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading

import pytest

from mqctl import testing
from mqctl.client import Message, Producer, SendStatus
from mqctl.client.engine import Engine
from mqctl.client.sending import RETRY_PAUSE_S
from mqctl.errors import (
    ConfigError,
    ConnectionFailed,
    MqError,
    NoBroker,
    NotFound,
    RequestTimeout,
    ResponseError,
    RetriableResponse,
)
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.compression import Compression, compress
from mqctl.remoting.connection import Connection, Request
from mqctl.remoting.recallhandle import RecallHandle
from tests.aio import in_loop, until
from tests.unit.client.fakes import FakeBroker, FakeNamesrv, cluster


@in_loop
async def test_every_way_of_sending_ends_in_the_log() -> None:
    with testing.broker() as mq:
        mq.create_topic("t", queues=4)
        async with Producer("g", mq.namesrv) as producer:
            sent = await producer.send(Message("t", b"single", tags="a", keys=["k"]))
            batch = await producer.send_batch([Message("t", b"batch-%d" % number) for number in range(3)])
            oneway = await producer.send_oneway(Message("t", b"oneway"))
            tasks = [await producer.submit(Message("t", b"task-%d" % number)) for number in range(20)]
        stored = {message.body: message for message in mq.messages("t")}
        assert len(stored) == 25
        single = stored[b"single"]
        assert (single.msg_id, single.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
        assert (single.queue_id, single.queue_offset) == (sent.queue.queue_id, sent.queue_offset)
        assert (single.tags, single.keys, sent.status) == ("a", ["k"], SendStatus.SEND_OK)
        assert [stored[b"batch-%d" % number].msg_id for number in range(3)] == batch.msg_id.split(",")
        assert stored[b"oneway"].msg_id == oneway
        assert {task.result().msg_id for task in tasks} == {stored[b"task-%d" % number].msg_id for number in range(20)}


@in_loop
async def test_an_order_key_keeps_to_one_queue() -> None:
    with testing.broker() as mq:
        mq.create_topic("t", queues=4)
        async with Producer("g", mq.namesrv) as producer:
            for number in range(40):
                await producer.send(Message("t", b"%d" % number), order_key=f"key-{number % 3}")
            named = (await producer.queues("t"))[2]
            assert (await producer.send(Message("t", b"named"), queue=named)).queue == named
        for key in range(3):
            mine = [each for each in mq.messages("t") if each.body.isdigit() and int(each.body) % 3 == key]
            assert len({each.queue_id for each in mine}) == 1
            mine.sort(key=lambda each: each.queue_offset)
            assert [int(each.body) for each in mine] == list(range(key, 40, 3))


@in_loop
async def test_a_topic_is_created_on_first_use_or_said_to_be_missing() -> None:
    with testing.broker() as mq:
        async with Producer("g", mq.namesrv) as producer:
            results = [await producer.send(Message("new", b"x")) for _ in range(8)]
            assert {result.queue.queue_id for result in results} == {0, 1, 2, 3}
    with testing.broker(autoCreateTopicEnable=False) as mq:
        async with Producer("g", mq.namesrv) as producer:
            with pytest.raises(NotFound, match="the topic new does not exist"):
                await producer.send(Message("new", b"x"))


@in_loop
async def test_another_broker_is_asked_after_a_failure() -> None:
    async with cluster("broker-a", "broker-b") as (namesrv, (first, second)):
        first.behaviour = lambda connection, request: request.reply(2, remark="[OVERLOAD]")
        async with Producer("g", namesrv.address) as producer:
            results = [await producer.send(Message("t", b"%d" % number)) for number in range(6)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}
        assert second.bodies == [b"0", b"1", b"2", b"3", b"4", b"5"]


@in_loop
async def test_all_attempts_of_a_message_have_one_id() -> None:
    async with cluster("broker-a", "broker-b") as (namesrv, brokers):

        def take_and_lose_the_answer(connection: Connection, request: Command) -> None:
            brokers[0].take(request)
            connection.abort()

        brokers[0].behaviour = take_and_lose_the_answer
        async with Producer("g", namesrv.address) as producer:
            for _ in range(4):  # as many as there are queues: each is tried first once
                await producer.send(Message("t", b"x"))
        assert brokers[0].unique_keys
        assert set(brokers[0].unique_keys) < set(brokers[1].unique_keys)


@in_loop
async def test_a_refusal_of_the_message_itself_is_not_repeated() -> None:
    async with cluster("broker-a", "broker-b") as (namesrv, brokers):
        asked: list[Command] = []

        def refuse(connection: Connection, request: Command) -> Command:
            asked.append(request)
            return request.reply(13, remark="too large")

        for broker in brokers:
            broker.behaviour = refuse
        async with Producer("g", namesrv.address) as producer:
            with pytest.raises(ResponseError, match="MESSAGE_ILLEGAL: too large") as refused:
                await producer.send(Message("t", b"x"))
        assert (refused.value.code, refused.value.retriable, len(asked)) == (13, False, 1)


@in_loop
async def test_when_nothing_helps_the_last_error_says_so_and_is_retriable() -> None:
    async with cluster() as (namesrv, (broker,)):
        asked = itertools.count()

        def busy(connection: Connection, request: Command) -> Command:
            return request.reply(14, remark=f"disk full {next(asked)}")

        broker.behaviour = busy
        async with Producer("g", namesrv.address, retries=2) as producer:
            with pytest.raises(RetriableResponse, match="disk full 2") as failed:
                await producer.send(Message("t", b"x"))
            assert failed.value.retriable
            await broker.stop()
            with pytest.raises(ConnectionFailed):
                await producer.send(Message("t", b"x"))


@in_loop
async def test_a_send_never_takes_longer_than_its_time_out() -> None:
    async with cluster() as (namesrv, (broker,)):
        broker.behaviour = lambda connection, request: None
        async with Producer("g", namesrv.address, timeout=0.5) as producer:
            with pytest.raises(RequestTimeout):
                await producer.send(Message("t", b"x"))
            namesrv.silent = True
            with pytest.raises(RequestTimeout, match=r"no name server said within 0\.1 s where other is"):
                await producer.send(Message("other", b"x"), timeout=0.1)


@in_loop
async def test_steps_of_one_call_share_its_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    async def watched(engine: Engine, address: str, command: Request, timeout: float) -> None:
        given.append(timeout)

    monkeypatch.setattr(Engine, "oneway", watched)
    async with cluster() as (namesrv, _), Producer("g", namesrv.address, timeout=2.0) as producer:
        await producer.send_oneway(Message("t", b"x"))
        assert given[0] < 2.0, "finding the queue took some of it"
        namesrv.silent = True
        handle = RecallHandle("other", "broker-a", "0", "ID").encode()
        with pytest.raises(RequestTimeout, match=r"no name server said within 0\.1 s where other is"):
            await producer.recall(handle, timeout=0.1)


@in_loop
async def test_name_servers_may_go_once_the_route_is_known() -> None:
    async with cluster() as (namesrv, (broker,)):
        async with Producer("g", namesrv.address) as producer:
            await producer.send(Message("t", b"0"))
            await namesrv.stop()
            await producer.send(Message("t", b"1"))
        assert broker.bodies == [b"0", b"1"]


@in_loop
async def test_no_broker_at_all_and_no_writable_queue() -> None:
    namesrv = FakeNamesrv()
    await namesrv.start()
    async with Producer("g", namesrv.address) as producer:
        with pytest.raises(NoBroker, match="no broker has registered"):
            await producer.send(Message("t", b"x"))
        namesrv.route("t", FakeBroker(), perm=4)
        with pytest.raises(NoBroker, match="no queue of topic t can be written to"):
            await producer.send(Message("t", b"x"))
        broker = FakeBroker()
        await broker.start()
        namesrv.route("t", broker)
        await producer.send(Message("t", b"at once, not after the next refresh"))
    await broker.stop()
    await namesrv.stop()


@in_loop
async def test_slow_brokers_are_avoided_when_asked_for() -> None:
    async with cluster("broker-a", "broker-b") as (namesrv, (first, second)):

        def fail_once(connection: Connection, request: Command) -> Command:
            first.behaviour = None
            return request.reply(1, remark="trouble")

        first.behaviour = fail_once
        async with Producer("g", namesrv.address, avoid_slow_brokers=True) as producer:
            for number in range(12):
                await producer.send(Message("t", b"%d" % number))
        assert len(second.bodies) >= 11, "after its failure broker-a is left alone"


@in_loop
async def test_submit_waits_for_room_and_leaving_waits_for_all() -> None:
    async with cluster() as (namesrv, (broker,)):
        held: list[tuple[Connection, Command]] = []
        broker.behaviour = lambda connection, request: held.append((connection, request))
        async with Producer("g", namesrv.address, max_in_flight=2) as producer:
            tasks = [await producer.submit(Message("t", b"%d" % number)) for number in range(2)]
            third = asyncio.create_task(producer.submit(Message("t", b"2")))
            while len(held) < 2:
                await asyncio.sleep(0)
            assert not third.done()
            broker.behaviour = None
            for connection, request in held:
                connection.send(broker.take(request))
            tasks.append(await third)
        assert [task.result().status for task in tasks] == [SendStatus.SEND_OK] * 3
        assert sorted(broker.bodies) == [b"0", b"1", b"2"]


@in_loop
async def test_a_producer_that_nobody_answers_can_still_be_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with Producer("g", "127.0.0.1:1", timeout=0.2) as producer:
        task = await producer.submit(Message("t", b"x"))
    with pytest.raises(ConnectionFailed):
        task.result()
    with pytest.raises(MqError):
        await producer.send(Message("t", b"x"))


@in_loop
async def test_the_route_is_asked_again_when_the_broker_moved() -> None:
    async with cluster() as (namesrv, (broker,)):
        async with Producer("g", namesrv.address) as producer:
            await producer.send(Message("t", b"0"))
            await broker.stop()
            moved = FakeBroker(broker.name)
            await moved.start()
            namesrv.route("t", moved)
            await producer.send(Message("t", b"1"))
        assert moved.bodies == [b"1"]
        await moved.stop()


@pytest.mark.parametrize(
    ("group", "options"),
    [("", {}), ("no blanks", {}), ("g", {"timeout": 0}), ("g", {"retries": -1}), ("g", {"max_in_flight": 0})],
)
def test_settings_that_cannot_work(group: str, options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Producer(group, "127.0.0.1:1", **options)  # type: ignore[arg-type]


@in_loop
async def test_a_delayed_message_can_be_taken_back() -> None:
    with testing.broker() as mq:
        mq.create_topic("t", queues=1)
        async with Producer("g", mq.namesrv) as producer:
            assert not (await producer.send(Message("t", b"now"))).recall_handle
            kept, taken = [await producer.send(Message("t", body, delay_ms=60_000)) for body in (b"kept", b"taken")]
            assert await producer.recall(taken.recall_handle) == taken.msg_id
            mq.clock.advance(61)
            assert [message.body for message in mq.messages("t", at_least=2)] == [b"now", b"kept"]
            with pytest.raises(ResponseError, match="delivered already"):
                await producer.recall(kept.recall_handle)
            with pytest.raises(ConfigError, match="recall handle"):
                await producer.recall("no handle")


@in_loop
async def test_large_bodies_are_compressed_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def watched(data: bytes, kind: Compression) -> tuple[bytes, int]:
        threads.append(threading.current_thread() is not threading.main_thread())
        return compress(data, kind)

    monkeypatch.setattr("mqctl.remoting.compression.compress", watched)
    bodies = [bytes(5000), bytes(100_000)]
    with testing.broker() as mq:
        mq.create_topic("t", queues=1)
        async with Producer("g", mq.namesrv) as producer:
            for body in bodies:
                await producer.send(Message("t", body))
        assert [message.body for message in mq.messages("t")] == bodies
    assert threads == [False, True]


@in_loop
async def test_who_cancels_a_send_ends_its_attempts() -> None:
    async with cluster() as (namesrv, (broker,)):
        asked: list[Command] = []

        def busy(connection: Connection, request: Command) -> Command:
            asked.append(request)
            return request.reply(ResponseCode.SYSTEM_BUSY)

        broker.behaviour = busy
        async with Producer("g", namesrv.address, retries=5) as producer:
            sending = await producer.submit(Message("t", b"x"))
            await until(lambda: asked)
            sending.cancel()
            broker.behaviour = None
            await producer.send(Message("t", b"y"))
            await asyncio.sleep(3 * RETRY_PAUSE_S)
        assert broker.bodies == [b"y"]


@in_loop
async def test_closing_ends_a_send_that_still_looks_for_a_broker() -> None:
    async with cluster() as (namesrv, _):
        namesrv.silent = True
        producer = Producer("g", namesrv.address)
        await producer.start()
        sending = asyncio.create_task(producer.send(Message("t", b"x")))
        await until(lambda: namesrv.asked)
        await producer.close()
        with pytest.raises(MqError, match="closed"):
            await sending
