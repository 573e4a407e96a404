"""Delayed messages with real clients: by level and by time, none early, none lost, none forgotten by a restart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.acting import Broker, make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, DriverError, Message
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]


def now_ms() -> int:
    return int(time.time() * 1000)


def begin(client: ClientDriver, broker: Broker, unique: Unique) -> str:
    """A topic with a producer and a consumer that waits."""
    topic = unique("delayed")
    make_topic(broker, topic, 2)
    start_producer(client, broker, unique("pg"))
    start_consumer(client, broker, topic, unique("cg"))
    return topic


def send(client: ClientDriver, topic: str, body: bytes, **fields: Any) -> dict[str, Any]:
    reply = client.call("send", name="p", topic=topic, body=body, tags="T", keys="k1 k2", **fields)
    assert reply["sendStatus"] == "SEND_OK"
    return reply


def test_levels(client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = begin(client, our_broker, unique)
    send(client, topic, b"warm-up")
    client.wait_messages("c", 1)
    wanted = {b"5 s": 2, b"1 s": 1, b"1 s again": 1, b"at once": 0}
    ids = {}
    for body, level in wanted.items():
        fields = {"delayLevel": level} if level else {}
        ids[body] = send(client, topic, body, properties={"own": "x"}, queueId=1, **fields)["msgId"]
    got = [each for each in client.wait_messages("c", 5) if each.body in wanted]
    got.sort(key=lambda each: each.queue_offset)  # clients may swap neighbours
    assert [each.body for each in got] == [b"at once", b"1 s", b"1 s again", b"5 s"]
    for each in got:
        delay_ms = {0: 0, 1: 1000, 2: 5000}[wanted[each.body]]
        assert each.store_timestamp - each.born_timestamp >= delay_ms, "early"
        assert (each.msg_id, each.tags, each.keys) == (ids[each.body], "T", "k1 k2")
        assert (each.queue_id, each.properties["own"], each.topic) == (1, "x", topic)


def test_times_of_their_own(java55: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = begin(java55, our_broker, unique)
    begun = now_ms()
    wishes = {
        b"3 s": {"deliverTimeMs": begun + 3000},
        b"2 s": {"delayTimeSec": 2},
        b"1.5 s": {"delayTimeMs": 1500},
        b"passed": {"deliverTimeMs": begun - 1000},
        b"taken back": {"deliverTimeMs": begun + 2500},
    }
    sent = {body: send(java55, topic, body, java=wish) for body, wish in wishes.items()}
    assert sent[b"passed"]["recallHandle"] is None
    handle = sent[b"taken back"]["recallHandle"]
    assert java55.call("recall", name="p", topic=topic, handle=handle)["msgId"] == sent[b"taken back"]["msgId"]
    got = java55.wait_messages("c", 4)
    assert [each.body for each in got] == [b"passed", b"1.5 s", b"2 s", b"3 s"]
    early = [each.body for each, wait_ms in zip(got, (0, 1500, 2000, 3000), strict=True)
             if each.store_timestamp < begun + wait_ms]  # fmt: skip
    assert not early
    for each in got:
        assert (each.msg_id, each.tags, each.keys) == (sent[each.body]["msgId"], "T", "k1 k2")
    with pytest.raises(DriverError) as refused:
        java55.call("recall", name="p", topic=topic, handle=sent[b"3 s"]["recallHandle"])
    assert refused.value.code == 604
    with pytest.raises(DriverError) as refused:
        send(java55, topic, b"too long", java={"delayTimeSec": 4 * 24 * 3600})
    assert refused.value.code == 13


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_loses_none(java55: ClientDriver, own_broker: OurBroker, unique: Unique, end: str) -> None:
    topic = begin(java55, own_broker, unique)
    send(java55, topic, b"soon", delayLevel=1)
    java55.wait_messages("c", 1)
    template = {"topic": topic, "body": b"level-", "delayLevel": 2}
    report = java55.call("send_many", name="p", count=200, concurrency=8, template=template)
    assert report["errors"] == []
    sent_at = now_ms()
    timers = [send(java55, topic, b"time-%d" % number, java={"delayTimeMs": 4000}) for number in range(20)]
    java55.call("recall", name="p", topic=topic, handle=timers[7]["recallHandle"])
    getattr(own_broker, end)()
    own_broker.start()
    wanted = {b"level-%d" % number for number in range(200)} | {b"time-%d" % number for number in range(20)}
    wanted.remove(b"time-7")
    got = java55.wait_messages("c", predicate=lambda got: wanted <= {each.body for each in got})
    counts = Counter(each.body for each in got)
    assert set(counts) == {*wanted, b"soon"}
    if end == "stop":
        assert set(counts.values()) == {1}, "a clean stop repeats nothing"
    for each in got:
        if each.body.startswith(b"level-"):
            assert each.store_timestamp - each.born_timestamp >= 5000, "early"
        elif each.body.startswith(b"time-"):
            assert each.store_timestamp >= sent_at + 4000, "early"


def test_waiting_messages_move_with_their_store(
    java49: ClientDriver, our_namesrv: OurNamesrv, tmp_path: Path, unique: Unique
) -> None:
    """From our broker to Apache's and back; each delivers what the other took in."""
    name, topic, group = unique("broker"), unique("moving"), unique("cg")
    store = tmp_path / "store"
    conf = {
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "mappedFileSizeCommitLog": 4 * 1024 * 1024,
        "messageDelayLevel": "1s 4s",
    }

    def start_ours() -> OurBroker:
        broker = OurBroker(tmp_path / "ours", our_namesrv.address, name, name, conf)
        broker.start()
        start_producer(java49, broker, unique("pg"), sendTimeoutMs=10_000)
        return broker

    def start_apaches() -> ApacheBroker:
        broker = require(ApacheBroker, "4.9.7", tmp_path / "apache", our_namesrv.address, name, name, conf)
        broker.start()
        start_producer(java49, broker, unique("pg"), sendTimeoutMs=10_000)
        return broker

    def received(broker: Broker, count: int) -> list[Message]:
        fresh = unique("fresh")
        start_consumer(java49, broker, topic, fresh, name=fresh)
        return sorted(java49.wait_messages(fresh, count), key=lambda each: each.queue_offset)

    broker: OurBroker | ApacheBroker = start_ours()
    try:
        make_topic(broker, topic, 1)
        send(java49, topic, b"here", delayLevel=1)
        start_consumer(java49, broker, topic, group)
        java49.wait_messages("c", 1)
        send(java49, topic, b"ours", delayLevel=2)
        java49.reset()
        broker.stop()
        broker = start_apaches()
        send(java49, topic, b"there", delayLevel=1)
        assert [each.body for each in received(broker, 3)] == [b"here", b"ours", b"there"]
        send(java49, topic, b"apache's", delayLevel=7)
        java49.reset()
        broker.stop()
        broker = start_ours()
        got = received(broker, 4)
        assert [each.body for each in got] == [b"here", b"ours", b"there", b"apache's"]
        assert got[1].store_timestamp - got[1].born_timestamp >= 4000
        assert got[3].store_timestamp - got[3].born_timestamp >= 4000
        last = java49.call("max_offset", namesrv=broker.namesrv, topic=topic, queueId=0)
        assert last["offset"] == 4
    finally:
        broker.kill()
