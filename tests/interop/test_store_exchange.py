"""One store, two makes of broker: what either wrote, the other serves and continues.

Both brokers get the same folder, file sizes, name, cluster and port, so clients see one broker that restarts. A
journal of what producers were told is compared with what a Java client reads after every change of the make.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer, wait_for_topic
from tests.peers.apache import ApacheBroker
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, Message
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = OurBroker | ApacheBroker

# Small files, so that a few megabytes are several of each kind.
SIZES: Final = {"mappedFileSizeCommitLog": 1024 * 1024, "mappedFileSizeConsumeQueue": 20 * 200}
# Topics of a store and how many queues each has: plain messages; bodies that fill log files; one queue that is
# longer than a queue file has entries.
QUEUES: Final = {"plain": 4, "large": 2, "long": 1}
LARGE_BODY: Final = random.Random(1).randbytes(40_000)
TAGS: Final = ["A", "B", "漢字"]
# A 4.9.7 broker stores a batch's own id with each of its messages, so what consumers see is not what the producer
# was told. What counts is that they see the same whichever broker they ask.
ID_OF_FIRST_SIGHT: Final = ""


class Place(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int


class Told(NamedTuple):
    """What a message is, as far as its producer knows."""

    body: bytes
    tags: str | None
    keys: str | None
    msg_id: str
    offset_msg_id: str


def told(message: Message) -> Told:
    return Told(message.body, message.tags, message.keys, message.msg_id, str(message.offset_msg_id))


class Exchange:
    """A store, the brokers that take turns on it, and a client with the journal of what it sent."""

    def __init__(self, client: ClientDriver, namesrv: OurNamesrv, folder: Path, unique: Unique) -> None:
        self.client = client
        self.folder = folder
        self.topics = {word: unique(word) for word in QUEUES}
        self.group = unique("group")
        self.journal: dict[Place, Told] = {}
        self._read_by_group: set[Place] = set()
        self._unique = unique
        self._namesrv = namesrv.address
        self._name = unique("broker")
        self._conf = {**SIZES, "storePathRootDir": folder / "store", "storePathCommitLog": folder / "store/commitlog"}
        self._port = 0
        self._sent = 0
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    # -- brokers --------------------------------------------------------------------------------------------

    def ours(self) -> OurBroker:
        broker = OurBroker(self.folder / "ours", self._namesrv, self._name, f"c-{self._name}", self._conf)
        self._start(broker)
        return broker

    def apache(self, version: str) -> ApacheBroker:
        folder = self.folder / f"apache-{version}"
        broker = require(ApacheBroker, version, folder, self._namesrv, self._name, f"c-{self._name}", self._conf)
        self._start(broker)
        return broker

    def _start(self, broker: AnyBroker) -> None:
        """On the port of the first one: message ids hold it, and clients ask there for what an id names."""
        self._port = broker.port = self._port or broker.port
        self._stack.callback(broker.kill)
        broker.start()
        start_producer(self.client, broker, self._unique("producers"), sendTimeoutMs=10_000)

    def change(self, old: AnyBroker, end: str) -> None:
        """Ends the old broker; clients begin anew with the next one."""
        self.client.reset()
        old.stop() if end == "stop" else old.kill()

    # -- sending --------------------------------------------------------------------------------------------

    def make_topics(self, broker: AnyBroker) -> None:
        for word, topic in self.topics.items():
            make_topic(broker, topic, QUEUES[word])

    def send(self, *, plain: int = 60, large: int = 0, long: int = 0) -> None:
        """Sends of every kind, the plain ones with a batch among them; offsets must go on without a gap."""
        self._send_many("plain", plain, b"plain-", tags=TAGS, keys="key-{i} other")
        self._send_batch(5)
        self._send_many("large", large, LARGE_BODY, tags=[TAGS[0]], keys="large-{i}")
        self._send_many("long", long, b"long-")
        for (topic, queue_id), offsets in self.offsets().items():
            assert offsets == list(range(len(offsets))), f"{topic}-{queue_id}"

    def _send_many(self, word: str, count: int, body: bytes, **fields: Any) -> None:
        if not count:
            return
        start, self._sent = self._sent, self._sent + count
        template = {"topic": self.topics[word], "body": body, **fields}
        report = self.client.call("send_many", name="p", count=count, start=start, concurrency=8, template=template)
        assert (report["errors"], report["statuses"]) == ([], {"SEND_OK": count})
        tags, keys = fields.get("tags"), fields.get("keys")
        for index, msg_id, offset_msg_id, _, queue_id, queue_offset in report["results"]:
            tag = tags[index % len(tags)] if tags else None
            key = keys.replace("{i}", str(index)) if keys else None
            message = Told(body + b"%d" % index, tag, key, msg_id, offset_msg_id)
            self._note(Place(self.topics[word], queue_id, queue_offset), message)

    def _send_batch(self, count: int) -> None:
        start, self._sent = self._sent, self._sent + count
        bodies = [b"batch-%d" % number for number in range(start, start + count)]
        topic = self.topics["plain"]
        messages = [{"topic": topic, "body": body, "tags": "A", "keys": "batch"} for body in bodies]
        reply = self.client.call("send_batch", name="p", messages=messages)
        sent = zip(bodies, reply["offsetMsgId"].split(","), strict=True)
        for queue_offset, (body, offset_msg_id) in enumerate(sent, reply["queueOffset"]):
            message = Told(body, "A", "batch", ID_OF_FIRST_SIGHT, offset_msg_id)
            self._note(Place(topic, reply["queueId"], queue_offset), message)

    def _note(self, place: Place, message: Told) -> None:
        assert self.journal.setdefault(place, message) == message, f"{place} was given twice"

    def offsets(self) -> dict[tuple[str, int], list[int]]:
        """The offsets given out, per queue."""
        found: dict[tuple[str, int], list[int]] = {
            (topic, queue_id): [] for word, topic in self.topics.items() for queue_id in range(QUEUES[word])
        }
        for place in sorted(self.journal):
            found[place.topic, place.queue_id].append(place.queue_offset)
        return found

    # -- reading --------------------------------------------------------------------------------------------

    def consume_as_group(self, broker: AnyBroker, *, exactly: bool = True) -> None:
        """The group reads what it has not read yet: nothing else, unless the broker was killed since."""
        topic = self.topics["plain"]
        wanted = {place for place in self.journal if place.topic == topic} - self._read_by_group
        # A stop that does not wait for listeners commits less than they have shown us.
        patient = {"awaitTerminationMillisWhenShutdown": 5000}
        name = self._unique("member")
        start_consumer(self.client, broker, topic, self.group, name=name, java=patient)
        self.client.wait_messages(name, predicate=lambda got: wanted <= set(map(place_of, got)))
        self.client.call("consumer_stop", name=name)
        got = Counter(map(place_of, self.client.messages(name)))
        assert set(got) <= wanted | self._read_by_group
        if exactly:
            assert got == Counter(wanted)
        self._read_by_group |= wanted

    def check(self, broker: AnyBroker) -> None:
        """All that was ever sent is there, once, at its place and with its content; each queue ends behind it."""
        everything = [{"topic": topic, "expression": "*"} for topic in self.topics.values()]
        name = self._unique("fresh")
        fields: dict[str, Any] = {"name": name, "group": name, "namesrv": broker.namesrv, "from": "first"}
        self.client.call("consumer_start", **fields, subscriptions=everything, pullBatchSize=32)
        got = self.client.wait_messages(name, len(self.journal))
        assert Counter(map(place_of, got)) == Counter(list(self.journal))
        for each in got:
            self._adopt_id(place_of(each), each.msg_id)
        differing = {place_of(each): each for each in got if told(each) != self.journal[place_of(each)]}
        assert not differing
        for (topic, queue_id), offsets in self.offsets().items():
            where: dict[str, Any] = {"namesrv": broker.namesrv, "topic": topic, "queueId": queue_id}
            limits = [self.client.call(op, **where)["offset"] for op in ("min_offset", "max_offset")]
            assert limits == [0, len(offsets)], f"{topic}-{queue_id}"
        some = random.Random(1).sample(sorted(self.journal), 5)
        for place in some:
            wanted = self.journal[place]
            viewed = self.client.call(
                "view_message", namesrv=broker.namesrv, topic=place.topic, msgId=wanted.offset_msg_id
            )
            assert told(Message.from_fields(viewed["message"])) == wanted

    def _adopt_id(self, place: Place, msg_id: str) -> None:
        known = self.journal[place]
        if known.msg_id == ID_OF_FIRST_SIGHT:
            self.journal[place] = known._replace(msg_id=msg_id)


def place_of(message: Message) -> Place:
    return Place(message.topic, message.queue_id, message.queue_offset)


@pytest.fixture
def exchange(java55: ClientDriver, our_namesrv: OurNamesrv, tmp_path: Path, unique: Unique) -> Iterator[Exchange]:
    made = Exchange(java55, our_namesrv, tmp_path, unique)
    yield made
    made.close()


def fill(exchange: Exchange, broker: AnyBroker) -> None:
    """Several files of each kind, and a group that has read the first half of the plain messages."""
    exchange.make_topics(broker)
    exchange.send(large=60, long=450)
    exchange.consume_as_group(broker)
    exchange.send()
    exchange.check(broker)
    store = exchange.folder / "store"
    assert len(list((store / "commitlog").iterdir())) >= 3
    assert len(list((store / "consumequeue" / exchange.topics["long"] / "0").iterdir())) >= 2


def go_on(exchange: Exchange, broker: AnyBroker, *, exactly: bool) -> None:
    """What the other make left is all there; new messages follow it, and the group reads on."""
    exchange.check(broker)
    exchange.consume_as_group(broker, exactly=exactly)
    exchange.send(large=10, long=20)
    exchange.check(broker)


def assert_undamaged(exchange: Exchange) -> None:
    """What our broker takes for damage it puts aside; a store that Apache's broker wrote has none."""
    assert not (exchange.folder / "store" / "damaged").exists()


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.long), "kill"])
def test_ours_to_apaches_and_back(exchange: Exchange, end: str) -> None:
    clean = end == "stop"
    ours = exchange.ours()
    fill(exchange, ours)
    exchange.change(ours, end)
    apaches = exchange.apache("4.9.7")
    go_on(exchange, apaches, exactly=clean)
    exchange.change(apaches, end)
    ours = exchange.ours()
    go_on(exchange, ours, exactly=clean)
    assert_undamaged(exchange)


@pytest.mark.parametrize(("version", "end"), [("4.9.7", "kill"), ("5.5.0", "stop")])
def test_apaches_to_ours(exchange: Exchange, version: str, end: str) -> None:
    apaches = exchange.apache(version)
    fill(exchange, apaches)
    exchange.change(apaches, end)
    go_on(exchange, exchange.ours(), exactly=end == "stop")
    assert_undamaged(exchange)


@pytest.mark.parametrize("first", ["ours", "apache"])
def test_what_a_consumer_turned_down_comes_again_from_the_other(exchange: Exchange, unique: Unique, first: str) -> None:
    """The messages lie in the schedule topic on their way to the group's retry topic when the broker changes."""
    begin, go_on = (exchange.ours, lambda: exchange.apache("4.9.7"))[:: 1 if first == "ours" else -1]
    client, topic, group = exchange.client, exchange.topics["plain"], unique("retrying")
    bodies = {b"back-%d" % number for number in range(5)}
    old = begin()
    exchange.make_topics(old)
    patient = {"awaitTerminationMillisWhenShutdown": 5000}
    start_consumer(client, old, topic, group, name="refusing", failFirst=-1, retryDelayLevel=3, java=patient)
    client.call("send_many", name="p", count=5, concurrency=1, template={"topic": topic, "body": b"back-"})
    client.wait_messages("refusing", 5)
    client.call("consumer_stop", name="refusing")
    exchange.change(old, "stop")
    new = go_on()
    wait_for_topic(new, f"%RETRY%{group}")
    start_consumer(client, new, topic, group, name="accepting")
    got = client.wait_messages("accepting", predicate=lambda got: bodies <= {message.body for message in got})
    assert Counter(message.body for message in got) == Counter(bodies)
    assert {message.reconsume_times for message in got} == {1}
    assert all(message.topic == topic and message.properties["RETRY_TOPIC"] == topic for message in got)
