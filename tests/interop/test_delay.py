"""Delayed messages with real clients: by level and by time, none early, none lost, none forgotten by a restart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.interop.acting import Broker, make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, DriverError, Message
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]


LEVELS = {0: 0, 1: 1000, 2: 2000}
CONF = {"messageDelayLevel": "1s 2s"}


@pytest.fixture(scope="module")
def delaying(our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """A broker with short levels of its own."""
    folder = tmp_path_factory.mktemp("delaying")
    with OurBroker(folder, our_namesrv.address, "delaying", "c-delaying", CONF) as broker:
        yield broker


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


def test_levels(client: ClientDriver, delaying: OurBroker, unique: Unique) -> None:
    topic = begin(client, delaying, unique)
    send(client, topic, b"warm-up")
    client.wait_messages("c", 1)
    wanted = {b"2 s": 2, b"1 s": 1, b"1 s again": 1, b"at once": 0}
    ids = {}
    for body, level in wanted.items():
        fields = {"delayLevel": level} if level else {}
        ids[body] = send(client, topic, body, properties={"own": "x"}, queueId=1, **fields)["msgId"]
    got = [each for each in client.wait_messages("c", 5) if each.body in wanted]
    got.sort(key=lambda each: each.queue_offset)  # clients may swap neighbours
    assert [each.body for each in got] == [b"at once", b"1 s", b"1 s again", b"2 s"]
    for each in got:
        delay_ms = LEVELS[wanted[each.body]]
        assert each.store_timestamp - each.born_timestamp >= delay_ms, "early"
        assert (each.msg_id, each.tags, each.keys) == (ids[each.body], "T", "k1 k2")
        assert (each.queue_id, each.properties["own"], each.topic) == (1, "x", topic)


def test_times_of_their_own(java55: ClientDriver, delaying: OurBroker, unique: Unique) -> None:
    topic = begin(java55, delaying, unique)
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
def test_a_restart_loses_none(java55: ClientDriver, delaying: OurBroker, unique: Unique, end: str) -> None:
    topic = begin(java55, delaying, unique)
    send(java55, topic, b"soon", delayLevel=1)
    java55.wait_messages("c", 1)
    template = {"topic": topic, "body": b"level-", "delayLevel": 2}
    report = java55.call("send_many", name="p", count=200, concurrency=8, template=template)
    assert report["errors"] == []
    sent_at = now_ms()
    timers = [send(java55, topic, b"time-%d" % number, java={"delayTimeMs": 2000}) for number in range(20)]
    java55.call("recall", name="p", topic=topic, handle=timers[7]["recallHandle"])
    getattr(delaying, end)()
    delaying.start()
    wanted = {b"level-%d" % number for number in range(200)} | {b"time-%d" % number for number in range(20)}
    wanted.remove(b"time-7")
    got = java55.wait_messages("c", predicate=lambda got: wanted <= {each.body for each in got})
    counts = Counter(each.body for each in got)
    assert set(counts) == {*wanted, b"soon"}
    if end == "stop":
        assert set(counts.values()) == {1}, "a clean stop repeats nothing"
    for each in got:
        if each.body.startswith(b"level-"):
            assert each.store_timestamp - each.born_timestamp >= LEVELS[2], "early"
        elif each.body.startswith(b"time-"):
            assert each.store_timestamp >= sent_at + 2000, "early"


class Moving:
    """A store that brokers of different makes take turns on, and a client."""

    def __init__(self, client: ClientDriver, namesrv: OurNamesrv, folder: Path, unique: Unique) -> None:
        self.client = client
        self.topic = unique("moving")
        self._folder = folder
        self._namesrv = namesrv.address
        self._unique = unique
        self._name = unique("broker")
        store = folder / "store"
        self._conf = {
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": 4 * 1024 * 1024,
            "messageDelayLevel": "1s 4s",
        }
        self.broker: OurBroker | ApacheBroker | None = None

    def ours(self) -> None:
        self._start(OurBroker(self._folder / "ours", self._namesrv, self._name, self._name, self._conf))

    def apaches(self, version: str) -> None:
        folder = self._folder / version
        self._start(require(ApacheBroker, version, folder, self._namesrv, self._name, self._name, self._conf))

    def _start(self, broker: OurBroker | ApacheBroker) -> None:
        self.close()
        self.broker = broker
        broker.start()
        start_producer(self.client, broker, self._unique("pg"), sendTimeoutMs=10_000)

    def close(self) -> None:
        self.client.reset()
        if self.broker is not None:
            self.broker.stop()

    def send(self, body: bytes, **fields: Any) -> dict[str, Any]:
        return send(self.client, self.topic, body, **fields)

    def received(self, *bodies: bytes) -> list[Message]:
        """All messages of the topic in their order, as soon as these are among them."""
        assert self.broker is not None
        fresh = self._unique("fresh")
        start_consumer(self.client, self.broker, self.topic, fresh, name=fresh)
        got = self.client.wait_messages(fresh, predicate=lambda got: set(bodies) <= {each.body for each in got})
        return sorted(got, key=lambda each: each.queue_offset)


@pytest.fixture
def moving(java55: ClientDriver, our_namesrv: OurNamesrv, tmp_path: Path, unique: Unique) -> Iterator[Moving]:
    made = Moving(java55, our_namesrv, tmp_path, unique)
    yield made
    made.close()


def test_waiting_messages_move_with_their_store(moving: Moving) -> None:
    """From our broker to Apache's and back; each delivers what the other took in. 4.9.7 knows nothing of times, so
    those come when our broker is back."""
    moving.ours()
    assert moving.broker is not None
    make_topic(moving.broker, moving.topic, 1)
    moving.send(b"here", delayLevel=1)
    moving.received(b"here")
    moving.send(b"time", java={"delayTimeMs": 2000})
    moving.send(b"ours", delayLevel=2)
    moving.apaches("4.9.7")
    moving.send(b"there", delayLevel=1)
    got = moving.received(b"here", b"ours", b"there")
    assert sorted(each.body for each in got) == [b"here", b"ours", b"there"]
    last = moving.send(b"apache's", delayLevel=7)["msgId"]
    cli = Cli({"NAMESRV_ADDR": moving.broker.namesrv})
    [row] = cli.ok("delay", "ls", moving.topic, "-c", moving.broker.cluster, "-o", "json").json
    assert (row["msgId"], row["delayLevel"]) == (last, 2)
    assert cli("delay", "cancel", last, "-c", moving.broker.cluster, "--yes").status == ExitCode.TOO_OLD
    moving.ours()
    everything = [b"apache's", b"here", b"ours", b"there", b"time"]
    got = moving.received(*everything)
    assert sorted(each.body for each in got) == everything
    where = {"namesrv": moving.broker.namesrv, "topic": moving.topic, "queueId": 0}
    assert moving.client.call("max_offset", **where)["offset"] == len(everything), "each once"
    for each in got:
        if each.body in (b"ours", b"apache's"):
            assert each.store_timestamp - each.born_timestamp >= 4000, "early"
