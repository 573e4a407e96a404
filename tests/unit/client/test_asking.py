"""Request and reply: who may answer, and what the asker gets."""

from __future__ import annotations

import asyncio

import pytest

from mqctl.client import Message, Producer
from mqctl.client.asking import answer_to
from mqctl.errors import MqError, RequestTimeout
from mqctl.names import AUTO_CREATE_TOPIC
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import join_properties, parse_properties
from tests.aio import in_loop, until
from tests.unit.client.fakes import Behaviour, FakeBroker, cluster


def echo(broker: FakeBroker, answers: set[asyncio.Task[Command]]) -> Behaviour:
    """Takes a question and pushes it back as its answer."""

    def answer(connection: Connection, request: Command) -> Command:
        asked = parse_properties(request.fields()["i"])
        ext = {"topic": "c_REPLY_TOPIC", "properties": f"CORRELATION_ID\x01{asked['CORRELATION_ID']}"}
        answers.add(asyncio.create_task(connection.request(Command(326, ext=ext, body=request.body), 5)))
        return broker.take(request)

    return answer


def received(**properties: str) -> ReceivedMessage:
    host = ("127.0.0.1", 1)
    return ReceivedMessage("t", b"?", join_properties(properties), 0, 0, 0, 0, 0, 0, 0, 0, host, 0, host, 0, 0)


@in_loop
async def test_an_answer_finds_its_question() -> None:
    async with cluster() as (namesrv, (broker,)):
        answers: list[asyncio.Task[Command]] = []

        def answer_soon(connection: Connection, request: Command) -> Command:
            asked = parse_properties(request.fields()["i"])
            assert asked["REPLY_TO_CLIENT"] == producer.client_id == broker.heartbeats[0].client_id
            properties = f"CORRELATION_ID\x01{asked['CORRELATION_ID']}"
            ext = {"topic": "c_REPLY_TOPIC", "properties": properties, "bornHost": "/127.0.0.1:99", "queueId": "1"}
            push = connection.request(Command(326, ext=ext, body=b"re: " + request.body), 5)
            answers.append(asyncio.create_task(push))
            return broker.take(request)

        broker.behaviour = answer_soon
        async with Producer("g", namesrv.address) as producer:
            got = await asyncio.gather(*(producer.request(Message("t", b"%d" % number)) for number in range(5)))
            assert [each.body for each in got] == [b"re: %d" % number for number in range(5)]
            assert (got[0].born_host, got[0].topic) == (("127.0.0.1", 99), "c_REPLY_TOPIC")
            late = await next(iter(broker.connections)).request(Command(326, ext={"topic": "x"}), 5)
            assert late.code == 0, "nobody waits for it, which is not the broker's fault"
        assert [(await answer).code for answer in answers] == [0] * 5


@in_loop
async def test_a_question_without_an_answer_times_out() -> None:
    async with cluster() as (namesrv, _), Producer("g", namesrv.address) as producer:
        with pytest.raises(RequestTimeout, match=r"not answered within 0\.5 s"):
            await producer.request(Message("t", b"?"), timeout=0.5)


@in_loop
async def test_a_broker_that_hangs_holds_up_no_question() -> None:
    answers: set[asyncio.Task[Command]] = set()
    async with cluster("broker-a", "broker-b") as (namesrv, (broker, hanging)):
        broker.behaviour = echo(broker, answers)
        hanging.silent = True
        namesrv.route("t", broker)
        namesrv.route("elsewhere", hanging)
        async with Producer("g", namesrv.address) as producer:
            await producer._engine.routes.find("elsewhere")
            for _ in range(3):
                assert (await producer.request(Message("t", b"?"), timeout=1)).body == b"?"
            assert len(hanging.heartbeats) == 1
        await asyncio.gather(*answers)


@in_loop
async def test_a_broker_that_joins_later_knows_who_asks() -> None:
    answers: set[asyncio.Task[Command]] = set()
    async with cluster("broker-a", "broker-b") as (namesrv, (first, later)):
        first.behaviour = echo(first, answers)
        namesrv.route("t", first)
        async with Producer("g", namesrv.address) as producer:
            await producer.request(Message("t", b"?"))
            namesrv.route("other", first, later)
            await producer._engine.routes.refresh("other")
            await producer.request(Message("t", b"?"))
            assert [data.client_id for data in later.heartbeats] == [producer.client_id]
            await later.stop()
            await later.start()
            await until(lambda: producer._engine.standing(later.address) is None)
            await producer.request(Message("t", b"?"))
            assert len(later.heartbeats) == 2, "it may have forgotten us"
        await asyncio.gather(*answers)


@in_loop
async def test_for_a_question_to_a_new_topic_all_brokers_know_who_asks() -> None:
    answers: set[asyncio.Task[Command]] = set()
    async with cluster("broker-a", "broker-b", topic=AUTO_CREATE_TOPIC) as (namesrv, brokers):
        for broker in brokers:
            broker.behaviour = echo(broker, answers)
        async with Producer("g", namesrv.address) as producer:
            await producer.request(Message("new", b"?"))
            assert [len(broker.heartbeats) for broker in brokers] == [1, 1]
        await asyncio.gather(*answers)


def test_the_answer_goes_where_the_question_says() -> None:
    question = received(CLUSTER="c", CORRELATION_ID="1", REPLY_TO_CLIENT="me", TTL="3000", other="x")
    properties = {"CORRELATION_ID": "1", "REPLY_TO_CLIENT": "me", "TTL": "3000", "MSG_TYPE": "reply"}
    assert answer_to(question) == ("c_REPLY_TOPIC", properties)
    with pytest.raises(MqError, match="is no question: it lacks CORRELATION_ID, REPLY_TO_CLIENT"):
        answer_to(received(CLUSTER="c"))


def test_a_consumer_can_tell_questions_from_other_messages() -> None:
    question = received(CLUSTER="c", CORRELATION_ID="1", REPLY_TO_CLIENT="me")
    assert question.wants_reply
    assert not received(**answer_to(question)[1]).wants_reply
    assert not received().wants_reply
