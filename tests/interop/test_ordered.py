"""Consumers that keep the order: one at a time on each queue, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer, wait_for_topic
from tests.peers import wire
from tests.peers.driver import ClientDriver, Message
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
NewClient = Callable[[str], ClientDriver]

PUT_KV_CONFIG = 100
QUEUES = 4
PER_QUEUE = 25


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """With locks that end soon after their owner was killed, and retries that come soon."""
    conf = {"rebalanceLockMaxLiveTime": 2000, "messageDelayLevel": "1s 1s 1s 1s"}
    folder = tmp_path_factory.mktemp("ordered")
    with (
        OurNamesrv(folder / "namesrv", {"orderMessageEnable": True}) as namesrv,
        OurBroker(folder / "broker", namesrv.address, conf=conf) as server,
    ):
        yield server


def by_queue(messages: list[Message]) -> dict[int, list[int]]:
    """The queue offsets that came, in the order of arrival."""
    found: dict[int, list[int]] = {}
    for message in messages:
        found.setdefault(message.queue_id, []).append(message.queue_offset)
    return found


def test_a_message_turned_down_keeps_its_place(client: ClientDriver, broker: OurBroker, unique: Unique) -> None:
    """SUSPEND_CURRENT_QUEUE_A_MOMENT: the next one waits until this one is accepted."""
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, 2)
    start_producer(client, broker, unique("producers"))
    for number in range(8):
        client.call("send", name="p", topic=topic, body=b"%d" % number, queueId=number % 2)
    start_consumer(client, broker, topic, group, orderly=True, failFirst=1, suspendMs=10)
    deliveries = client.wait_messages("c", 16)
    assert by_queue(deliveries) == {queue: [0, 0, 1, 1, 2, 2, 3, 3] for queue in range(2)}
    assert {message.topic for message in deliveries} == {topic}, "nothing went through the retry topic"


def test_turned_down_too_often_it_makes_room(java49: ClientDriver, broker: OurBroker, unique: Unique) -> None:
    """An orderly consumer sends what it gives up to its retry topic by itself, with the number of tries; the broker
    sees that these are too many."""
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, 1)
    start_producer(java49, broker, unique("producers"))
    sent = java49.call("send", name="p", topic=topic, body=b"stuck", tags="tag", keys="key")
    options = {"orderly": True, "failFirst": -1, "suspendMs": 10, "maxReconsumeTimes": 1}
    start_consumer(java49, broker, topic, group, **options)
    wait_for_topic(broker, f"%DLQ%{group}")
    start_consumer(java49, broker, f"%DLQ%{group}", unique("undertakers"), name="dead")
    (letter,) = java49.wait_messages("dead", 1)
    assert (letter.body, letter.tags, letter.keys, letter.msg_id) == (b"stuck", "tag", "key", sent["msgId"])
    assert letter.properties["RETRY_TOPIC"] == topic
    assert [message.reconsume_times for message in java49.messages("c")] == [0, 1]


def test_one_of_two_is_killed(java55: ClientDriver, broker: OurBroker, new_client: NewClient, unique: Unique) -> None:
    """The other one goes on where the killed one stood, in order and without leaving anything out. Both are 5.5.0:
    4.9.7 asks only every 20 s for a queue whose lock it did not get."""
    killed = new_client("java55")
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, QUEUES)
    options = {"orderly": True, "listenerSleepMs": 20}
    start_consumer(killed, broker, topic, group, **options)
    start_consumer(java55, broker, topic, group, **options)
    start_producer(java55, broker, unique("producers"))
    template = {"topic": topic, "body": b"", "queueId": list(range(QUEUES))}
    java55.call("send_many", name="p", count=QUEUES * PER_QUEUE, template=template)
    java55.wait_messages("c", 10)
    killed.wait_messages("c", 10)
    killed.kill()
    before = killed.messages("c")

    def complete(messages: list[Message]) -> bool:
        return len({(message.queue_id, message.queue_offset) for message in before + messages}) == QUEUES * PER_QUEUE

    after = java55.wait_messages("c", predicate=complete)
    for offsets in by_queue(sorted(before + after, key=lambda message: message.received_at)).values():
        highest = -1
        for offset in offsets:
            assert offset <= highest + 1, f"one was passed over: {offsets}"
            highest = max(highest, offset)


def test_the_order_configuration_reaches_clients(
    java49: ClientDriver, java55: ClientDriver, broker: OurBroker, unique: Unique
) -> None:
    """With mqadmin's updateOrderConf the name server says which queues are written to, whatever the brokers have."""
    topic = unique("topic")
    make_topic(broker, topic, 4)
    conf = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": f"{broker.name}:3"}
    assert wire.request(broker.namesrv, PUT_KV_CONFIG, **conf).code == wire.SUCCESS
    for client in (java49, java55):
        queues = client.call("queues", namesrv=broker.namesrv, topic=topic)["queues"]
        assert [queue["queueId"] for queue in queues] == [0, 1, 2]
