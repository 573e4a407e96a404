"""Consumers and brokers that stop and start again: nothing is lost, nothing is read twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.driver import ClientDriver, GoDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

# Without this a Java consumer stops while listeners still run, and their messages come again.
PATIENT = {"awaitTerminationMillisWhenShutdown": 5000}


def send(client: ClientDriver, topic: str, start: int, count: int) -> None:
    template = {"topic": topic, "body": b"m-"}
    report = client.call("send_many", name="p", count=count, start=start, concurrency=4, template=template)
    assert report["errors"] == []


def numbered(start: int, count: int) -> Counter[bytes]:
    return Counter(b"m-%d" % number for number in range(start, start + count))


def test_a_consumer_goes_on_where_it_stopped(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic, group = unique("goes_on"), unique("cg")
    make_topic(our_broker, topic, 4)
    start_producer(client, our_broker, unique("pg"))
    send(client, topic, 0, 40)
    patience = {} if isinstance(client, GoDriver) else {"java": PATIENT}
    start_consumer(client, our_broker, topic, group, name="before", **patience)
    client.wait_messages("before", 40)
    client.call("consumer_stop", name="before")
    send(client, topic, 40, 40)
    start_consumer(client, our_broker, topic, group, name="after")
    got = Counter(each.body for each in client.wait_messages("after", 40))
    assert got == numbered(40, 40)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_restart_loses_nothing(java55: ClientDriver, own_broker: OurBroker, unique: Unique, end: str) -> None:
    topic, group = unique("restart"), unique("cg")
    make_topic(own_broker, topic, 4)
    start_producer(java55, own_broker, unique("pg"))
    send(java55, topic, 0, 200)
    start_consumer(java55, own_broker, topic, group, name="before", java=PATIENT)
    java55.wait_messages("before", 200)
    java55.call("consumer_stop", name="before")
    queues = range(4)
    ends = [java55.call("max_offset", namesrv=own_broker.namesrv, topic=topic, queueId=q)["offset"] for q in queues]
    getattr(own_broker, end)()
    own_broker.start()
    again = [java55.call("max_offset", namesrv=own_broker.namesrv, topic=topic, queueId=q)["offset"] for q in queues]
    assert again == ends
    assert sum(ends) == 200
    send(java55, topic, 200, 100)
    start_consumer(java55, own_broker, topic, group, name="after")
    wanted = numbered(200, 100)
    got = java55.wait_messages("after", predicate=lambda got: not wanted - Counter(m.body for m in got))
    if end == "stop":
        assert Counter(each.body for each in got) == wanted, "offsets were kept: none again, none lost"
    # From the beginning, as a group that knows nothing: all 300, once.
    start_consumer(java55, own_broker, topic, unique("fresh"), name="fresh")
    got = java55.wait_messages("fresh", 300)
    assert Counter(each.body for each in got) == numbered(0, 300)


def test_a_broker_that_goes_away_is_found_again(java55: ClientDriver, own_broker: OurBroker, unique: Unique) -> None:
    topic, group = unique("away"), unique("cg")
    make_topic(own_broker, topic, 2)
    start_producer(java55, own_broker, unique("pg"))
    start_consumer(java55, own_broker, topic, group)
    send(java55, topic, 0, 20)
    java55.wait_messages("c", 20)
    own_broker.stop()
    own_broker.start()
    send(java55, topic, 20, 20)
    wanted = numbered(20, 20)
    got = java55.wait_messages("c", predicate=lambda got: not wanted - Counter(m.body for m in got), timeout=60)
    assert not numbered(0, 40) - Counter(each.body for each in got)


def test_positions(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("positions")
    make_topic(our_broker, topic, 1)
    start_producer(java49, our_broker, unique("pg"))
    where = {"namesrv": our_broker.namesrv, "topic": topic, "queueId": 0}
    assert java49.call("max_offset", **where)["offset"] == 0
    send(java49, topic, 0, 5)
    start_consumer(java49, our_broker, topic, unique("cg"))
    got = sorted(java49.wait_messages("c", 5), key=lambda each: each.queue_offset)
    assert java49.call("max_offset", **where)["offset"] == 5
    assert java49.call("min_offset", **where)["offset"] == 0
    times = [each.store_timestamp for each in got]
    assert java49.call("search_offset", timestamp=times[0] - 10_000, **where)["offset"] == 0
    assert java49.call("search_offset", timestamp=times[-1] + 10_000, **where)["offset"] == 4
    assert java49.call("search_offset", timestamp=times[2], **where)["offset"] == times.index(times[2])
    viewed = java49.call("view_message", namesrv=our_broker.namesrv, topic=topic, msgId=got[3].offset_msg_id)
    assert viewed["message"]["queueOffset"] == 3
