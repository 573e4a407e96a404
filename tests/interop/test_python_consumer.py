"""Our consumers: messages from Java's producers, at Apache's brokers and ours, alone and beside Java's consumers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from mqctl.client import ConsumeFrom, Message, MqError, ReceivedMessage, RetryLater, Sql, blocking
from mqctl.client.offsets import local_offsets_path
from mqctl.remoting.unique_id import local_ip
from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker, mqadmin
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = ApacheBroker | OurBroker

FIRST = ConsumeFrom.FIRST
SECONDS = 30.0


class Inbox:
    """A listener in threads that keeps what it gets."""

    def __init__(self, reject: Callable[[ReceivedMessage], bool] = lambda message: False) -> None:
        self.messages: list[ReceivedMessage] = []
        self._changed = threading.Condition()
        self._reject = reject

    def __call__(self, message: ReceivedMessage) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        if self._reject(message):
            raise RetryLater(delay_level=1, suspend=0.1)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS), f"{len(self.messages)} arrived, last {self.bodies[-5:]}"

    def wait_count(self, count: int) -> None:
        self.wait(lambda: len(self.messages) >= count)


def test_what_java_sends_is_received_as_it_was_sent(
    any_broker: AnyBroker, java49: ClientDriver, unique: Unique
) -> None:
    topic, group = unique("received"), unique("cg")
    make_topic(any_broker, topic, 4)
    start_producer(java49, any_broker, unique("pg"), compressThreshold=1000)
    large = b"again and again " * 1000
    one = java49.call(
        "send", name="p", topic=topic, body=b"one", tags="A", keys="k1 k2", flag=5, properties={"größe": "你好"}
    )
    java49.call("send", name="p", topic=topic, body=large)
    many = java49.call("send_many", name="p", count=100, template={"topic": topic, "body": b"many-"}, concurrency=4)
    inbox = Inbox()
    with blocking.PushConsumer(group, inbox, topic, any_broker.namesrv, start=FIRST):
        inbox.wait_count(102)
    assert Counter(inbox.bodies) == Counter([b"one", large, *(b"many-%d" % number for number in range(100))])
    by_body = {message.body: message for message in inbox.messages}
    got = by_body[b"one"]
    assert (got.msg_id, got.offset_msg_id) == (one["msgId"], one["offsetMsgId"])
    assert (got.broker_name, got.queue_id, got.queue_offset) == (one["brokerName"], one["queueId"], one["queueOffset"])
    assert (got.topic, got.tags, got.keys, got.flag, got.properties["größe"]) == (topic, "A", ["k1", "k2"], 5, "你好")
    for index, msg_id, _, _, queue_id, queue_offset in many["results"]:
        message = by_body[b"many-%d" % index]
        assert (message.msg_id, message.queue_id, message.queue_offset) == (msg_id, queue_id, queue_offset)
    # The next of the group goes on where this one stopped: nothing again, nothing missing.
    java49.call("send", name="p", topic=topic, body=b"later")
    again = Inbox()
    with blocking.PushConsumer(group, again, topic, any_broker.namesrv, start=FIRST):
        again.wait_count(1)
    assert again.bodies == [b"later"]


def test_a_failure_comes_again_and_in_the_end_is_a_dead_letter(
    any_broker: AnyBroker, java49: ClientDriver, unique: Unique
) -> None:
    topic, group = unique("failing"), unique("cg")
    make_topic(any_broker, topic, 1)
    start_producer(java49, any_broker, unique("pg"))
    inbox = Inbox(reject=lambda message: message.body == b"bad" or message.reconsume_times == 0)
    with blocking.PushConsumer(group, inbox, topic, any_broker.namesrv, start=FIRST, max_reconsume_times=1):
        for body in (b"bad", b"good"):
            java49.call("send", name="p", topic=topic, body=body)
        inbox.wait_count(4)
        start_consumer(java49, any_broker, f"%DLQ%{group}", unique("cg"), name="dead")
        (dead,) = java49.wait_messages("dead", 1)
    attempts = Counter((message.body, message.topic, message.reconsume_times) for message in inbox.messages)
    assert attempts == {(body, topic, times): 1 for body in (b"bad", b"good") for times in (0, 1)}
    assert len({message.msg_id for message in inbox.messages}) == 2
    assert dead.body == b"bad"


def test_filters(apache_broker: ApacheBroker, java49: ClientDriver, unique: Unique) -> None:
    topic = unique("filtered")
    make_topic(apache_broker, topic, 2)
    start_producer(java49, apache_broker, unique("pg"))
    for number in range(10):
        tag, properties = f"T{number % 3}", {"size": str(number)}
        java49.call("send", name="p", topic=topic, body=b"%d" % number, tags=tag, properties=properties)
    tagged, sized = Inbox(), Inbox()
    with (
        blocking.PushConsumer(unique("cg"), tagged, {topic: "T0 || T2"}, apache_broker.namesrv, start=FIRST),
        blocking.PushConsumer(unique("cg"), sized, {topic: Sql("size > 6")}, apache_broker.namesrv, start=FIRST),
    ):
        tagged.wait_count(7)
        sized.wait_count(3)
    assert sorted(tagged.bodies) == [b"0", b"2", b"3", b"5", b"6", b"8", b"9"]
    assert sorted(sized.bodies) == [b"7", b"8", b"9"]


def test_a_group_of_java_and_python_shares_queues_and_keeps_order(
    any_broker: AnyBroker, java49: ClientDriver, java55: ClientDriver, unique: Unique
) -> None:
    topic, group = unique("mixed"), unique("cg")
    make_topic(any_broker, topic, 6)
    start_producer(java49, any_broker, unique("pg"))
    start_consumer(java49, any_broker, topic, group, orderly=True)
    start_consumer(java55, any_broker, topic, group, orderly=True)
    inbox = Inbox()
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        java49.call("send_many", name="p", start=sent, count=count, template={"topic": topic, "body": b""})
        sent += count

    def received() -> int:
        return len(inbox.messages) + len(java49.messages("c")) + len(java55.messages("c"))

    with blocking.PushConsumer(group, inbox, topic, any_broker.namesrv, start=FIRST, orderly=True) as consumer:

        def mine() -> set[int]:
            return {queue.queue_id for queue in consumer.assignment() if queue.topic == topic}

        wait_for(lambda: len(shares(topic, consumer, java49, java55)) == 6 and len(mine()) == 2)
        send(120)
        wait_for(lambda: received() >= 120)
        assert {message.queue_id for message in inbox.messages} == mine()
    send(60)  # its queues are taken over at once
    wait_for(lambda: received() >= 180)
    bodies = Counter(inbox.bodies)
    orders: dict[int, list[int]] = {}
    for message in inbox.messages:
        orders.setdefault(message.queue_id, []).append(message.queue_offset)
    for client in (java49, java55):
        bodies.update(message.body for message in client.messages("c"))
        for each in client.messages("c"):
            orders.setdefault(each.queue_id, []).append(each.queue_offset)
    assert bodies == Counter(b"%d" % number for number in range(180))
    # Ours come first in each list, and it had its queues first: so over all of them the order holds.
    assert orders == {queue_id: sorted(offsets) for queue_id, offsets in orders.items()}


@pytest.mark.parametrize("kind", ["apache_broker", "our_broker"])
def test_members_of_both_kinds_join_and_leave_while_messages_are_sent(
    kind: str, java49: ClientDriver, java55: ClientDriver, unique: Unique, request: pytest.FixtureRequest
) -> None:
    broker: AnyBroker = request.getfixturevalue(kind)
    topic, group = unique("joining"), unique("cg")
    make_topic(broker, topic, 6)
    start_consumer(java49, broker, topic, group)
    inboxes = [Inbox(), Inbox()]
    enough = threading.Event()
    sent: list[bytes] = []

    def send_on() -> None:
        with blocking.Producer(unique("pg"), broker.namesrv) as producer:
            while not enough.wait(0.002):
                body = b"%d" % len(sent)
                producer.send(Message(topic, body))
                sent.append(body)

    def received() -> set[bytes]:
        lists = [java49.messages("c"), java55.messages("c"), *(inbox.messages for inbox in inboxes)]
        return {message.body for messages in lists for message in messages}

    sender = threading.Thread(target=send_on, daemon=True)
    with blocking.PushConsumer(group, inboxes[0], topic, broker.namesrv, start=FIRST) as first:
        wait_for(lambda: len(shares(topic, first)) == 3)
        sender.start()
        with blocking.PushConsumer(group, inboxes[1], topic, broker.namesrv, start=FIRST):
            inboxes[1].wait_count(1)
            start_consumer(java55, broker, topic, group)
            wait_for(lambda: java55.messages("c"))
        enough.set()
        sender.join()
        # What was at work in a queue that changed hands comes twice, and nothing is passed over.
        wait_for(lambda: received() >= set(sent))


def numbers(start: int) -> set[bytes]:
    return {b"%d" % number for number in range(start, start + 10)}


def shares(topic: str, consumer: blocking.PushConsumer, *clients: ClientDriver) -> list[int]:
    """The queue ids that all of them have, those that two have twice."""
    found = [queue.queue_id for queue in consumer.assignment() if queue.topic == topic]
    for client in clients:
        queues = client.call("consumer_assignment", name="c")["queues"]
        found += [queue["queueId"] for queue in queues if queue["topic"] == topic]
    return found


def wait_for(condition: Callable[[], object]) -> None:
    """For what other processes do: nothing here announces it."""
    ended = threading.Event()
    for _ in range(int(SECONDS / 0.05)):
        if condition():
            return
        ended.wait(0.05)
    raise AssertionError("did not happen in time")


def test_java_goes_on_where_python_stopped_and_back(
    any_broker: AnyBroker, java49: ClientDriver, unique: Unique
) -> None:
    topic, group = unique("positions"), unique("cg")
    make_topic(any_broker, topic, 2)
    start_producer(java49, any_broker, unique("pg"))

    def send(start: int) -> None:
        java49.call("send_many", name="p", start=start, count=10, template={"topic": topic, "body": b""})

    send(0)
    first, last = Inbox(), Inbox()
    with blocking.PushConsumer(group, first, topic, any_broker.namesrv, start=FIRST):
        first.wait_count(10)
    send(10)
    start_consumer(java49, any_broker, topic, group)
    middle = java49.wait_messages("c", 10)
    java49.call("consumer_stop", name="c")
    send(20)
    with blocking.PullConsumer(group, topic, any_broker.namesrv, start=FIRST) as consumer:
        while not numbers(20) <= set(last.bodies):
            for message in consumer.poll():
                last(message)
    assert Counter(first.bodies) == Counter(numbers(0))
    assert {message.body for message in middle} == numbers(10)
    # Java's consumer stops without waiting for its listener: what that just had may come again.
    assert Counter(body for body in last.bodies if body not in numbers(10)) == Counter(numbers(20))


def test_mqadmin_looks_into_a_consumer_and_moves_it(
    apache_broker: ApacheBroker, java49: ClientDriver, unique: Unique
) -> None:
    topic, group = unique("inspected"), unique("cg")
    make_topic(apache_broker, topic, 1)
    start_producer(java49, apache_broker, unique("pg"))
    sent = [java49.call("send", name="p", topic=topic, body=b"%d" % number) for number in range(5)]
    inbox = Inbox()
    with blocking.PushConsumer(group, inbox, topic, apache_broker.namesrv, start=FIRST) as consumer:
        inbox.wait_count(5)
        consumer.commit()
        status = mqadmin("4.9.7", apache_broker.namesrv, "consumerStatus", "-g", group, "-i", consumer.client_id, "-s")
        assert "CONSUME_PASSIVELY" in status.stdout, status
        assert topic in status.stdout
        consumed = mqadmin(
            "4.9.7", apache_broker.namesrv, "queryMsgById", "-g", group, "-d", consumer.client_id, "-i",
            sent[2]["offsetMsgId"],
        )  # fmt: skip
        assert "CR_SUCCESS" in consumed.stdout, consumed
        assert inbox.bodies[-1] == b"2"
        reset = mqadmin("4.9.7", apache_broker.namesrv, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
        assert topic in reset.stdout or "success" in reset.stdout, reset
        inbox.wait_count(11)
    assert inbox.bodies[-5:] == [b"0", b"1", b"2", b"3", b"4"]


def test_nothing_is_lost_when_the_broker_is_killed(own_broker: OurBroker, unique: Unique) -> None:
    topic = unique("killed")
    make_topic(own_broker, topic, 4)
    inbox = Inbox()
    acknowledged: list[bytes] = []
    enough = threading.Event()

    def send_on() -> None:
        with blocking.Producer(unique("pg"), own_broker.namesrv) as producer:
            for number in range(100_000):
                if enough.is_set():
                    return
                body = b"%d" % number
                try:
                    producer.send(Message(topic, body))
                except MqError:
                    continue  # not acknowledged: may be there or not
                acknowledged.append(body)

    with blocking.PushConsumer(unique("cg"), inbox, topic, own_broker.namesrv, start=FIRST):
        sender = threading.Thread(target=send_on)
        sender.start()
        inbox.wait_count(200)
        own_broker.kill()
        own_broker.start()
        before = len(acknowledged)
        wait_for(lambda: len(acknowledged) > before + 200)
        enough.set()
        sender.join()
        inbox.wait(lambda: set(acknowledged) <= set(inbox.bodies))


def test_a_broadcast_goes_on_where_java_stopped(our_broker: OurBroker, java49: ClientDriver, unique: Unique) -> None:
    topic, group = unique("broadcast"), unique("cg")
    make_topic(our_broker, topic, 2)
    start_producer(java49, our_broker, unique("pg"))
    java49.call("send_many", name="p", count=10, template={"topic": topic, "body": b""})
    start_consumer(java49, our_broker, topic, group, model="broadcasting", instanceName="here")
    java49.wait_messages("c", 10)
    java49.call("consumer_stop", name="c")
    (file,) = java49.workdir.glob(f".rocketmq_offsets/*@here/{group}/offsets.json")
    # Either finds its own address, and with several networks not the same one.
    home = local_offsets_path(java49.workdir / "ours", f"{local_ip()}@here", group)
    home.parent.mkdir(parents=True)
    home.write_bytes(file.read_bytes())
    java49.call("send_many", name="p", start=10, count=10, template={"topic": topic, "body": b""})
    inbox = Inbox()
    with blocking.PushConsumer(
        group, inbox, topic, our_broker.namesrv, broadcast=True, instance="here", offsets_dir=java49.workdir / "ours"
    ):
        inbox.wait(lambda: numbers(10) <= set(inbox.bodies))
    assert len(inbox.bodies) < 20
    file.write_bytes(home.read_bytes())
    start_consumer(java49, our_broker, topic, group, name="again", model="broadcasting", instanceName="here")
    java49.call("send", name="p", topic=topic, body=b"last")
    assert [message.body for message in java49.wait_messages("again", 1)] == [b"last"]
