"""Our producer and Java's consumers, at Apache's brokers and ours."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mqctl.client import (
    Compression,
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendStatus,
    TransactionState,
    blocking,
)
from tests.aio import in_loop
from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker, mqadmin
from tests.peers.driver import ClientDriver
from tests.peers.driver import Message as Received
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = ApacheBroker | OurBroker

LEVEL_1_SECONDS = 1


def test_every_way_of_sending_reaches_java(any_broker: AnyBroker, java49: ClientDriver, unique: Unique) -> None:
    topic = unique("python")
    make_topic(any_broker, topic, 4)
    large = b"all work and no play " * 5000
    with blocking.Producer(unique("pg"), any_broker.namesrv) as producer:
        sent = producer.send(Message(topic, b"sync", tags="A", keys=["k1", "k2"], flag=7, properties={"größe": "你好"}))
        batch = producer.send_batch([Message(topic, b"batch-%d" % n, tags=f"T{n}", keys=f"b{n}") for n in range(5)])
        futures = [producer.submit(Message(topic, b"async-%d" % n)) for n in range(50)]
        oneway = producer.send_oneway(Message(topic, b"oneway"))
        compressed = producer.send(Message(topic, large))
        results = {b"async-%d" % n: future.result() for n, future in enumerate(futures)}
        start_consumer(java49, any_broker, topic, unique("cg"))
        got = {each.body: each for each in java49.wait_messages("c", 58)}
    assert len(java49.messages("c")) == len(got) == 58, "each once"
    one = got[b"sync"]
    assert (one.msg_id, one.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
    assert (one.broker_name, one.queue_id) == (sent.queue.broker_name, sent.queue.queue_id)
    assert (one.queue_offset, sent.status) == (sent.queue_offset, SendStatus.SEND_OK)
    assert (one.tags, one.keys, one.flag, one.properties["größe"]) == ("A", "k1 k2", 7, "你好")
    for body, result in results.items():
        assert (got[body].msg_id, got[body].queue_offset) == (result.msg_id, result.queue_offset)
    assert got[b"oneway"].msg_id == oneway
    assert (got[large].msg_id, got[large].sys_flag & 1) == (compressed.msg_id, 1)
    entries = [got[b"batch-%d" % n] for n in range(5)]
    assert [each.msg_id for each in entries] == batch.msg_id.split(",")
    assert [(each.tags, each.keys) for each in entries] == [(f"T{n}", f"b{n}") for n in range(5)]
    assert [each.queue_offset for each in entries] == list(range(batch.queue_offset, batch.queue_offset + 5))


def test_messages_of_a_key_arrive_in_order(any_broker: AnyBroker, java55: ClientDriver, unique: Unique) -> None:
    topic = unique("ordered")
    make_topic(any_broker, topic, 4)
    with blocking.Producer(unique("pg"), any_broker.namesrv) as producer:
        for number in range(60):
            producer.send(Message(topic, b"%d" % number, keys=f"k{number % 5}"), order_key=f"k{number % 5}")
    start_consumer(java55, any_broker, topic, unique("cg"), orderly=True)
    got = java55.wait_messages("c", 60)
    for key in range(5):
        mine = [each for each in got if each.keys == f"k{key}"]
        assert [int(each.body) for each in mine] == list(range(key, 60, 5))
        assert len({each.queue_id for each in mine}) == 1


def test_tags_are_filtered_and_delays_kept(any_broker: AnyBroker, java49: ClientDriver, unique: Unique) -> None:
    topic = unique("delayed")
    make_topic(any_broker, topic, 1)
    start_consumer(java49, any_broker, topic, unique("cg"), expression="late || now")
    with blocking.Producer(unique("pg"), any_broker.namesrv) as producer:
        begin = time.time()
        producer.send(Message(topic, b"late", tags="late", keys="k", delay_level=1))
        producer.send(Message(topic, b"now", tags="now"))
        producer.send(Message(topic, b"unwanted", tags="other"))
        first, second = java49.wait_messages("c", 2)
    assert (first.body, second.body, second.tags, second.keys) == (b"now", b"late", "late", "k")
    assert second.store_timestamp / 1000 - begin > LEVEL_1_SECONDS - 0.1


@pytest.mark.parametrize("kind", list(Compression))
def test_java_expands_what_we_compress(
    our_broker: OurBroker, java55: ClientDriver, unique: Unique, kind: Compression
) -> None:
    topic = unique("compressed")
    body = b"the same again and again " * 1000
    with blocking.Producer(unique("pg"), our_broker.namesrv, compression=kind) as producer:
        producer.send(Message(topic, body))
    start_consumer(java55, our_broker, topic, unique("cg"))
    (got,) = java55.wait_messages("c", 1)
    assert (got.body, got.sys_flag & 0x700) == (body, kind)


class Listener:
    """Leaves every transaction open, and says what became of it when a broker asks."""

    def __init__(self) -> None:
        self.checked: list[ReceivedMessage] = []

    def execute(self, message: Message, argument: Any) -> TransactionState:
        return TransactionState(argument)

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return TransactionState.COMMIT if message.keys == ["good"] else TransactionState.ROLLBACK


@pytest.mark.parametrize("broker_fixture", ["apache_broker", pytest.param("apache55_broker", marks=pytest.mark.long)])
def test_transactions_and_the_check_backs_of_apaches_brokers(
    broker_fixture: str, request: pytest.FixtureRequest, java49: ClientDriver, unique: Unique
) -> None:
    broker = request.getfixturevalue(broker_fixture)
    topic = unique("transactions")
    make_topic(broker, topic, 2)
    start_consumer(java49, broker, topic, unique("cg"))
    listener = Listener()
    with blocking.TransactionProducer(unique("pg"), listener, broker.namesrv) as producer:

        def send(body: bytes, key: str, verdict: TransactionState) -> str:
            return producer.send_in_transaction(Message(topic, body, keys=key), verdict).sent.msg_id

        committed = send(b"committed", "x", TransactionState.COMMIT)
        send(b"rolled back", "x", TransactionState.ROLLBACK)
        good = send(b"asked, good", "good", TransactionState.UNKNOWN)
        bad = send(b"asked, bad", "bad", TransactionState.UNKNOWN)
        got = java49.wait_messages("c", 2)
        deadline = time.monotonic() + 30
        # 5.5.0 writes down that a transaction has ended only after a while, and may ask about others as well.
        while not {good, bad} <= {message.msg_id for message in listener.checked}:
            assert time.monotonic() < deadline, listener.checked
            time.sleep(0.05)
    assert {each.msg_id: each.body for each in got} == {committed: b"committed", good: b"asked, good"}
    assert {message.topic for message in listener.checked} == {topic}
    asked = Counter(message.msg_id for message in listener.checked)
    delivered = Counter(each.msg_id for each in java49.messages("c"))
    # For the same reason it may ask twice about one, and then delivers it for each answer.
    assert delivered.keys() == {committed, good}
    assert delivered[committed] == 1
    assert delivered[good] <= asked[good]
    if broker.version == "5.5.0":
        # Since its first transaction it polls for more without a pause, with half a core.
        broker.kill()
        broker.start()


def test_questions_and_answers_between_java_and_us(any_broker: AnyBroker, java49: ClientDriver, unique: Unique) -> None:
    topic = unique("questions")
    make_topic(any_broker, topic, 2)
    java49.call("producer_start", name="answers", group=unique("pg"), namesrv=any_broker.namesrv)
    start_consumer(java49, any_broker, topic, unique("cg"), replyBy="answers")
    with blocking.Producer(unique("pg"), any_broker.namesrv) as producer:
        answer = producer.request(Message(topic, b"who is there?"), timeout=30)
    assert answer.body == b"re: who is there?"


@in_loop
async def test_java_asks_and_we_answer(any_broker: AnyBroker, java55: ClientDriver, unique: Unique) -> None:
    topic = unique("asked")
    make_topic(any_broker, topic, 2)
    start_producer(java55, any_broker, unique("pg"))
    async with Producer(unique("pg"), any_broker.namesrv) as producer:

        async def answer(question: ReceivedMessage) -> None:
            await producer.reply(question, b"re: " + question.body)

        async with PushConsumer(unique("cg"), answer, topic, any_broker.namesrv, start=ConsumeFrom.FIRST):
            asked = {"name": "p", "topic": topic, "body": b"who?", "timeoutMs": 20_000}
            reply = await asyncio.to_thread(java55.call, "request", **asked)
    assert Received.from_fields(reply["message"]).body == b"re: who?"


@pytest.mark.parametrize("broker_fixture", ["apache55_broker", "our_broker"])
def test_any_delay(broker_fixture: str, request: pytest.FixtureRequest, java49: ClientDriver, unique: Unique) -> None:
    broker = request.getfixturevalue(broker_fixture)
    topic = unique("timers")
    make_topic(broker, topic, 1)
    start_consumer(java49, broker, topic, unique("cg"))
    with blocking.Producer(unique("pg"), broker.namesrv) as producer:
        begin_ms = time.time_ns() // 1_000_000
        producer.send(Message(topic, b"second", deliver_at_ms=begin_ms + 3000, tags="T", keys="k"))
        producer.send(Message(topic, b"first", delay_ms=1500))
        taken_back = producer.send(Message(topic, b"between", deliver_at_ms=begin_ms + 2500))
        assert producer.recall(taken_back.recall_handle) == taken_back.msg_id
        first, second = java49.wait_messages("c", 2)
    assert (first.body, second.body, second.tags, second.keys) == (b"first", b"second", "T", "k")
    # Apache's timer wheel has ticks of a second.
    assert first.received_at - begin_ms > 500
    assert second.received_at - begin_ms > 2000


def test_apaches_tools_read_our_traces(apache_broker: ApacheBroker, unique: Unique) -> None:
    topic = unique("traced")
    make_topic(apache_broker, topic, 1)
    group, readers = unique("pg"), unique("cg")
    consumed = threading.Event()
    with blocking.Producer(group, apache_broker.namesrv, trace=True) as producer:
        sent = producer.send(Message(topic, b"x", tags="A", keys="k"))
    with blocking.PushConsumer(
        readers, lambda _: consumed.set(), topic, apache_broker.namesrv, start=ConsumeFrom.FIRST, trace=True
    ):
        assert consumed.wait(30)
    deadline = time.monotonic() + 30
    while not {group, readers} <= set(
        (shown := mqadmin("4.9.7", apache_broker.namesrv, "queryMsgTraceById", "-i", sent.msg_id)).stdout.split()
    ):
        assert time.monotonic() < deadline, shown
    lines = [line.split() for line in shown.stdout.splitlines()]
    (published,) = [line for line in lines if line[:1] == ["Pub"]]
    assert (published[1], published[-1]) == (group, "success")
    assert [line for line in lines if line[:1] == ["Sub"] or readers in line], shown.stdout
