"""Real producers against our broker: every way of sending, and every refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers import wire
from tests.peers.driver import ClientDriver, DriverError
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

PULL_MESSAGE = 11
SEND_MESSAGE_V2 = 310
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
MESSAGE_ILLEGAL = 13


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_sent_messages_come_back_whole(client: ClientDriver, our_broker: OurBroker, unique: Unique, mode: str) -> None:
    topic = unique("whole")
    start_producer(client, our_broker, unique("pg"))
    template = {"topic": topic, "body": b"body-", "tags": "T", "keys": "key-{i}", "properties": {"n": "{i}"}}
    report = client.call("send_many", name="p", count=100, concurrency=8, mode=mode, template=template)
    assert (report["errors"], report["statuses"]) == ([], {"SEND_OK": 100})

    start_consumer(client, our_broker, topic, unique("cg"))
    got = {each.body: each for each in client.wait_messages("c", 100)}

    assert len(client.messages("c")) == 100, "no duplicates"
    for index, msg_id, offset_msg_id, broker_name, queue_id, queue_offset in report["results"]:
        message = got[b"body-%d" % index]
        assert (message.msg_id, message.offset_msg_id) == (msg_id, offset_msg_id)
        assert (message.broker_name, message.queue_id) == (broker_name, queue_id)
        assert message.queue_offset == queue_offset
        assert (message.topic, message.tags, message.keys) == (topic, "T", f"key-{index}")
        assert message.properties["n"] == str(index)


def test_offsets_of_a_queue_have_no_gaps(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("gapless")
    start_producer(client, our_broker, unique("pg"))
    report = client.call("send_many", name="p", count=60, concurrency=6, template={"topic": topic, "body": b"x"})
    queues: dict[int, list[int]] = {}
    for _, _, _, _, queue_id, queue_offset in report["results"]:
        queues.setdefault(queue_id, []).append(queue_offset)
    assert sum(len(offsets) for offsets in queues.values()) == 60
    for offsets in queues.values():
        assert sorted(offsets) == list(range(len(offsets)))


def test_oneway_arrives(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("oneway")
    make_topic(our_broker, topic, 4)
    start_producer(client, our_broker, unique("pg"))
    for number in range(5):
        client.call("send", name="p", topic=topic, body=b"oneway-%d" % number, mode="oneway")
    start_consumer(client, our_broker, topic, unique("cg"))
    got = client.wait_messages("c", 5)
    assert sorted(each.body for each in got) == [b"oneway-%d" % number for number in range(5)]


def test_batch_keeps_each_message_itself(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("batch")
    make_topic(our_broker, topic, 4)
    start_producer(client, our_broker, unique("pg"))
    messages = [
        {"topic": topic, "body": b"batch-%d" % n, "tags": f"T{n}", "keys": f"k{n}", "properties": {"n": str(n)}}
        for n in range(10)
    ]
    sent = client.call("send_batch", name="p", messages=messages)
    assert sent["sendStatus"] == "SEND_OK"

    start_consumer(client, our_broker, topic, unique("cg"))
    got = sorted(client.wait_messages("c", 10), key=lambda each: each.queue_offset)

    first = sent["queueOffset"]
    assert [each.queue_offset for each in got] == list(range(first, first + 10)), "side by side in one queue"
    assert {each.queue_id for each in got} == {sent["queueId"]}
    assert [each.body for each in got] == [b"batch-%d" % n for n in range(10)]
    assert [(each.tags, each.keys) for each in got] == [(f"T{n}", f"k{n}") for n in range(10)]
    assert [each.properties["n"] for each in got] == [str(n) for n in range(10)]
    assert len({each.msg_id for each in got}) == 10, "each message keeps its own unique key"


def test_text_of_any_language(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("utf8")
    text = 'héllo wörld Здравствуйте 你好 😀 "quoted" \\back\tslash'
    make_topic(our_broker, topic, 1)
    start_producer(client, our_broker, unique("pg"))
    sent = client.call(
        "send", name="p", topic=topic, body=text.encode(), tags="标签", keys="ключ", properties={"größe": text}
    )
    assert sent["sendStatus"] == "SEND_OK"
    start_consumer(client, our_broker, topic, unique("cg"), expression="标签")
    (got,) = client.wait_messages("c", 1)
    assert (got.body.decode(), got.tags, got.keys, got.properties["größe"]) == (text, "标签", "ключ", text)


def test_large_bodies_are_compressed_by_the_client_and_kept(
    client: ClientDriver, our_broker: OurBroker, unique: Unique
) -> None:
    topic = unique("compressed")
    make_topic(our_broker, topic, 1)
    start_producer(client, our_broker, unique("pg"))
    body = b"all work and no play " * 5000
    client.call("send", name="p", topic=topic, body=body)
    start_consumer(client, our_broker, topic, unique("cg"))
    (got,) = client.wait_messages("c", 1)
    assert got.body == body


def test_the_size_limit_is_4_mib(java55: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("limit")
    make_topic(our_broker, topic, 1)
    # The client has the same limit: raise its own so that the broker's answer is seen.
    options = {"maxMessageSize": 8 << 20, "compressThreshold": 16 << 20, "retryTimes": 0}
    start_producer(java55, our_broker, unique("pg"), **options)
    assert java55.call("send", name="p", topic=topic, body=bytes(4 << 20))["sendStatus"] == "SEND_OK"
    with pytest.raises(DriverError) as refused:
        java55.call("send", name="p", topic=topic, body=bytes((4 << 20) + 1))
    assert refused.value.code == MESSAGE_ILLEGAL
    assert "4194304" in refused.value.error
    assert java55.call("send", name="p", topic=topic, body=b"after")["queueOffset"] == 1


def test_a_topic_is_created_on_first_send(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("auto")
    start_producer(client, our_broker, unique("pg"), createTopicQueueNums=4)
    client.call("send", name="p", topic=topic, body=b"first")
    queues = client.call("queues", namesrv=our_broker.namesrv, topic=topic)["queues"]
    assert sorted(each["queueId"] for each in queues) == [0, 1, 2, 3]


def test_an_unknown_topic_is_refused_where_creation_is_off(own_broker: OurBroker, unique: Unique) -> None:
    own_broker.stop()
    own_broker.conf["autoCreateTopicEnable"] = "false"
    own_broker.start()
    reply = send_raw(own_broker, unique("none"))
    assert reply.code == TOPIC_NOT_EXIST
    assert reply.remark is not None
    assert "does not exist" in reply.remark


def send_raw(broker: OurBroker, topic: str) -> wire.Reply:
    """A send that asks no route first, so that the broker's own answer is seen."""
    fields = {"a": "g", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    return wire.request(broker.address, SEND_MESSAGE_V2, **fields)


def test_write_permission_is_enforced(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("readonly")
    make_topic(our_broker, topic, 2)
    start_producer(java49, our_broker, unique("pg"), retryTimes=0)
    java49.call("send", name="p", topic=topic, body=b"while writable", queueId=0)
    make_topic(our_broker, topic, 2, perm=4)
    with pytest.raises(DriverError):
        java49.call("send", name="p", topic=topic, body=b"too late", queueId=0)
    refused = send_raw(our_broker, topic)
    assert (refused.code, refused.remark) == (NO_PERMISSION, f"sending to topic '{topic}' on this broker is forbidden")
    start_consumer(java49, our_broker, topic, unique("cg"))
    (got,) = java49.wait_messages("c", 1)
    assert got.body == b"while writable"


def test_read_permission_is_enforced(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("writeonly")
    make_topic(our_broker, topic, 1, perm=2)
    start_producer(java49, our_broker, unique("pg"))
    java49.call("send", name="p", topic=topic, body=b"hidden")
    pull = {
        "consumerGroup": "g", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
    }  # fmt: skip
    assert wire.request(our_broker.address, PULL_MESSAGE, **pull).code == NO_PERMISSION
    make_topic(our_broker, topic, 1, perm=6)
    assert wire.request(our_broker.address, PULL_MESSAGE, **pull).code == 0
