"""The harness against Apache's own servers: if these fail, a failure against ours means nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.acting import start_consumer, start_producer, wait_for_topic
from tests.peers.apache import ApacheBroker, mqadmin
from tests.peers.driver import ClientDriver, DriverDied, DriverError, Unsupported

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]


def make_topic(client: ClientDriver, broker: ApacheBroker, topic: str, queues: int = 4) -> None:
    counts: dict[str, Any] = {"readQueueNums": queues, "writeQueueNums": queues}
    client.call("create_topic", namesrv=broker.namesrv, broker=broker.address, topic=topic, **counts)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_twenty_there_and_back(client: ClientDriver, apache_broker: ApacheBroker, unique: Unique, mode: str) -> None:
    topic = unique("there_and_back")
    start_producer(client, apache_broker, unique("pg"))
    template = {"topic": topic, "body": b"body-", "tags": "T", "keys": "key-{i}", "properties": {"n": "{i}"}}
    report = client.call("send_many", name="p", count=20, concurrency=4, mode=mode, template=template)
    assert report["errors"] == []
    assert report["statuses"] == {"SEND_OK": 20}

    wait_for_topic(apache_broker, topic)
    start_consumer(client, apache_broker, topic, unique("cg"))
    got = {each.body: each for each in client.wait_messages("c", 20)}

    assert len(client.messages("c")) == 20, "no duplicates"
    for index, msg_id, offset_msg_id, broker_name, queue_id, queue_offset in report["results"]:
        message = got[b"body-%d" % index]
        assert (message.msg_id, message.offset_msg_id) == (msg_id, offset_msg_id)
        assert (message.broker_name, message.queue_id) == (broker_name, queue_id)
        assert message.queue_offset == queue_offset
        assert (message.topic, message.tags, message.keys) == (topic, "T", f"key-{index}")
        assert message.properties["n"] == str(index)
        assert message.reconsume_times == 0


def test_oneway_batch_and_chosen_queue(client: ClientDriver, apache_broker: ApacheBroker, unique: Unique) -> None:
    topic = unique("oneway")
    make_topic(client, apache_broker, topic)
    start_producer(client, apache_broker, unique("pg"))
    chosen = client.call("send", name="p", topic=topic, body=b"chosen", queueId=2, flag=7)
    assert (chosen["queueId"], chosen["queueOffset"]) == (2, 0)
    oneway = client.call("send", name="p", topic=topic, body=b"oneway", mode="oneway", queueId=1)
    batch = [{"topic": topic, "body": b"batch-%d" % n} for n in range(3)]
    assert client.call("send_batch", name="p", messages=batch, queueId=3)["sendStatus"] == "SEND_OK"

    start_consumer(client, apache_broker, topic, unique("cg"))
    got = {each.body: each for each in client.wait_messages("c", 5)}

    assert got[b"chosen"].flag == 7
    assert (got[b"oneway"].msg_id, got[b"oneway"].queue_id) == (oneway["msgId"], 1)
    assert [got[b"batch-%d" % n].queue_offset for n in range(3)] == [0, 1, 2]
    queues = client.call("queues", namesrv=apache_broker.namesrv, topic=topic)["queues"]
    assert [(queue["brokerName"], queue["queueId"]) for queue in queues] == [("broker-a", n) for n in range(4)]


def test_failed_first_delivery_comes_again(client: ClientDriver, apache_broker: ApacheBroker, unique: Unique) -> None:
    topic, group = unique("again"), unique("cg")
    # Otherwise the broker makes the retry topic at the first heartbeat, and the client, which asked for its route
    # a moment before, asks again only 30 s later.
    make_topic(client, apache_broker, f"%RETRY%{group}", queues=1)
    start_producer(client, apache_broker, unique("pg"))
    sent = client.call("send", name="p", topic=topic, body=b"stubborn")
    start_consumer(client, apache_broker, topic, group, failFirst=1, retryDelayLevel=1)

    first, second = client.wait_messages("c", 2)

    assert (first.accepted, second.accepted) == (False, True)
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert first.msg_id == second.msg_id == sent["msgId"]
    assert second.topic == topic, "the client shows the original topic, not %RETRY%"


def test_orderly_consumer_suspends_and_keeps_order(
    client: ClientDriver, apache_broker: ApacheBroker, unique: Unique
) -> None:
    topic = unique("orderly")
    make_topic(client, apache_broker, topic, queues=1)
    start_producer(client, apache_broker, unique("pg"))
    client.call("send_many", name="p", count=5, template={"topic": topic, "body": b"", "queueId": 0})
    start_consumer(client, apache_broker, topic, unique("cg"), orderly=True, failFirst=1, suspendMs=20)

    got = client.wait_messages("c", 10)

    assert [(each.body, each.accepted) for each in got] == [
        (b"%d" % n, accepted) for n in range(5) for accepted in (False, True)
    ]


def test_sql_filter(client: ClientDriver, apache_broker: ApacheBroker, unique: Unique) -> None:
    topic = unique("sql")
    start_producer(client, apache_broker, unique("pg"))
    template = {"topic": topic, "body": b"", "properties": {"n": "{i}"}}
    client.call("send_many", name="p", count=10, template=template)
    start_consumer(client, apache_broker, topic, unique("cg"), expressionType="SQL92", expression="n >= 7")

    # The 5.5.0 client now and then pulls with a newer subscription than its last heartbeat told the broker, and
    # is refused (25, SUBSCRIPTION_NOT_LATEST) until the next one, 30 s later.
    assert sorted(each.body for each in client.wait_messages("c", 3)) == [b"7", b"8", b"9"]


def test_broker_refusal_carries_its_code(client: ClientDriver, apache_broker: ApacheBroker, unique: Unique) -> None:
    topic = unique("shrunk")
    make_topic(client, apache_broker, topic, queues=4)
    start_producer(client, apache_broker, unique("pg"), retryTimes=0)
    client.call("send", name="p", topic=topic, body=b"first")  # the producer now believes in four queues
    make_topic(client, apache_broker, topic, queues=1)
    with pytest.raises(DriverError) as refused:
        client.call("send", name="p", topic=topic, body=b"late", queueId=3)
    assert refused.value.code == 1
    assert "queueId[3] is illegal" in refused.value.error


@pytest.mark.parametrize("kind", ["java49", "java55"])
def test_offsets_and_lookups(
    kind: str, request: pytest.FixtureRequest, apache_broker: ApacheBroker, unique: Unique
) -> None:
    client: ClientDriver = request.getfixturevalue(kind)
    topic = unique("lookup")
    where: dict[str, Any] = {"namesrv": apache_broker.namesrv, "topic": topic}
    make_topic(client, apache_broker, topic, queues=1)
    start_producer(client, apache_broker, unique("pg"))
    template = {"topic": topic, "body": b"m", "keys": "k{i}"}
    rows = client.call("send_many", name="p", count=5, template=template)["results"]

    assert client.call("max_offset", queueId=0, **where)["offset"] == 5
    assert client.call("min_offset", queueId=0, **where)["offset"] == 0
    assert client.call("search_offset", queueId=0, timestamp=0, **where)["offset"] == 0
    _, msg_id, offset_msg_id, *_ = rows[3]
    assert client.call("view_message", msgId=offset_msg_id, **where)["message"]["msgId"] == msg_id
    assert [each["msgId"] for each in client.call("query_key", key="k3", **where)["messages"]] == [msg_id]


def check_lite_pull(client: ClientDriver, broker: ApacheBroker, unique: Unique) -> None:
    topic = unique("lite")
    make_topic(client, broker, topic, queues=1)
    start_producer(client, broker, unique("pg"))
    rows = client.call("send_many", name="p", count=5, template={"topic": topic, "body": b"m"})["results"]
    pulling: dict[str, Any] = {"topic": topic, "from": "first", "autoCommit": False, "namesrv": broker.namesrv}
    client.call("lite_pull_start", name="l", group=unique("lg"), **pulling)
    pulled: list[str] = []
    while len(pulled) < 5:
        batch = client.call("lite_pull_poll", name="l", timeoutMs=10000)["messages"]
        assert batch, "nothing within 10 s"
        pulled += [each["msgId"] for each in batch]
    assert pulled == [row[1] for row in rows]
    assert len(client.call("lite_pull_assignment", name="l")["queues"]) == 1
    client.call("lite_pull_commit", name="l")
    client.call("lite_pull_stop", name="l")


def test_lite_pull_49(java49: ClientDriver, apache_broker: ApacheBroker, unique: Unique) -> None:
    check_lite_pull(java49, apache_broker, unique)


def test_lite_pull_55(java55: ClientDriver, apache55_broker: ApacheBroker, unique: Unique) -> None:
    """Against a 5.5.0 server: this client's lite pull uses a request (361) that a 4.9.7 broker does not know."""
    check_lite_pull(java55, apache55_broker, unique)


def test_what_a_client_lacks_is_unsupported(
    go: ClientDriver, java49: ClientDriver, apache_broker: ApacheBroker, unique: Unique
) -> None:
    with pytest.raises(Unsupported):
        go.call("max_offset", namesrv=apache_broker.namesrv, topic="any", queueId=0)
    with pytest.raises(Unsupported):
        start_consumer(java49, apache_broker, "any", unique("cg"), clientRebalance=False)


@pytest.mark.parametrize("kind", ["java49", "java55", "go"])
def test_killed_client_keeps_what_it_received(
    new_client: Callable[[str], ClientDriver], kind: str, apache_broker: ApacheBroker, unique: Unique
) -> None:
    topic, client = unique("killed"), new_client(kind)
    start_producer(client, apache_broker, unique("pg"))
    client.call("send", name="p", topic=topic, body=b"once")
    wait_for_topic(apache_broker, topic)
    start_consumer(client, apache_broker, topic, unique("cg"))
    client.wait_messages("c", 1)
    client.kill()
    assert [each.body for each in client.messages("c")] == [b"once"]
    with pytest.raises(DriverDied):
        client.call("ping")


def test_mqadmin_lists_the_broker(apache_broker: ApacheBroker) -> None:
    done = mqadmin("4.9.7", apache_broker.namesrv, "clusterList")
    assert done.returncode == 0, done.stderr
    assert apache_broker.address in done.stdout


def test_broker_restarts_on_its_port_with_its_store(
    apache_broker: ApacheBroker, java49: ClientDriver, unique: Unique
) -> None:
    topic, address = unique("restart"), apache_broker.address
    make_topic(java49, apache_broker, topic, queues=1)
    start_producer(java49, apache_broker, unique("pg"))
    java49.call("send", name="p", topic=topic, body=b"kept")
    apache_broker.restart(crash=True)
    assert apache_broker.address == address
    start_consumer(java49, apache_broker, topic, unique("cg"))
    assert [each.body for each in java49.wait_messages("c", 1)] == [b"kept"]
