"""traffic, sizes, latency, keys and skew on stores made by hand, against counts made of what was sent."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.errors import ConfigError, NotFound
from spark import keys, lag, latency, sizes, skew, traffic
from spark.result import Ask, Result
from spark.stores import Stores
from tests.spark.making import START_MS, Sent, making, write_config

ALL = 1_000_000
HOSTS = (("10.0.0.1", 40000), ("10.0.0.2", 40001), ("10.0.0.2", 40002))
BODY_SIZES = (0, 100, 256, 257, 5000, 70_000)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Sent]]:
    """Two brokers, six queues of orders and two of bills, three minutes; retries and waiting messages beside."""
    root = tmp_path_factory.mktemp("cluster")
    sent: list[Sent] = []
    chance = random.Random(7)
    for name, queues in (("broker-a", 4), ("broker-b", 2)):
        with making(root / name, name, sent) as maker:
            for number in range(150):
                maker.send(
                    "orders",
                    chance.choice([0, 0, 0, *range(queues)]),
                    bytes(chance.choice(BODY_SIZES)),
                    tags=chance.choice(["paid", "new", ""]),
                    keys=chance.choice(["", f"order-{number % 20}", f"order-{number} customer-1"]),
                    host=chance.choice(HOSTS),
                    took_ms=chance.choice([0, 1, 5, 40, -3]),
                    at_ms=START_MS + number * 1200,
                )
            for number in range(20):
                maker.send("bills", number % 2, b"%d" % number)
            maker.send("%RETRY%readers", 0, keys="order-1")
            maker.send("SCHEDULE_TOPIC_XXXX", 2, keys="order-1")
        write_config(root / name, topics={"orders": queues, "bills": 2, "empty": 8})
    return str(root), sent


@pytest.fixture(scope="module")
def stores(spark: SparkSession, sent: tuple[str, list[Sent]]) -> Stores:
    return Stores(spark, sent[0])


def rows(result: Result) -> list[dict[str, Any]]:
    return [row.asDict() for row in result.frame.collect()]


def counted(sent: Iterable[Sent], by: Callable[[Sent], Any]) -> dict[Any, tuple[int, int]]:
    """Messages and bytes."""
    found: dict[Any, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for each in sent:
        messages, size = found[by(each)]
        found[by(each)] = (messages + 1, size + each.size)
    return dict(found)


def moment(ms: int) -> datetime:
    """As Spark gives it out: in the session's time zone, without saying so."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().replace(tzinfo=None)


# -- traffic --------------------------------------------------------------------------------------------


def test_traffic_of_everything(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    found = rows(traffic.run(stores, Ask(by=("time", "topic", "tag", "host"), bucket_s=60, top=ALL)))
    expected = counted(
        sent[1],
        lambda each: (
            moment(each.store_ms // 60_000 * 60_000),
            each.topic,
            each.tags or None,
            each.born_host.split(":")[0],
        ),
    )
    assert {
        (row["time"], row["topic"], row["tag"], row["host"]): (row["messages"], row["bytes"]) for row in found
    } == expected
    assert all(row["per_second"] == pytest.approx(row["messages"] / 60, abs=0.001) for row in found)
    assert [row["time"] for row in found] == sorted(row["time"] for row in found)


def test_traffic_of_the_busiest(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    """All times of the one topic that has most; a bucket that suits three minutes."""
    found = rows(traffic.run(stores, Ask(top=1)))
    assert {row["topic"] for row in found} == {"orders"}
    assert sum(row["messages"] for row in found) == sum(each.topic == "orders" for each in sent[1])
    assert 10 < len(found) <= traffic.MOST_BUCKETS


@pytest.mark.parametrize("by", [("topic",), ("store", "topic", "queue")])
def test_traffic_from_the_entries_alone(
    by: tuple[str, ...], stores: Stores, sent: tuple[str, list[Sent]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stores, "messages", None)
    found = rows(traffic.run(stores, Ask(by=by, top=ALL)))
    names = {"store": "store", "topic": "topic", "queue": "queue_id"}
    expected = counted(sent[1], lambda each: tuple(getattr(each, names[name]) for name in by))
    assert {tuple(row[name] for name in by): (row["messages"], row["bytes"]) for row in found} == expected
    assert [row["messages"] for row in found] == sorted((row["messages"] for row in found), reverse=True)


def test_traffic_of_some_time_and_topic(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    since, until = START_MS + 60_000, START_MS + 90_000
    ask = Ask(topic=("orders",), by=("topic",), since_ms=since, until_ms=until)
    (found,) = rows(traffic.run(stores, ask))
    expected = [each for each in sent[1] if each.topic == "orders" and since <= each.store_ms < until]
    assert (found["messages"], found["bytes"]) == (len(expected), sum(each.size for each in expected))


def test_traffic_by_what_it_cannot_tell(stores: Stores) -> None:
    with pytest.raises(ConfigError, match="colour"):
        traffic.run(stores, Ask(by=("topic", "colour")))
    with pytest.raises(ConfigError, match="tags code"):
        traffic.run(stores, Ask(by=("code", "host")))


def test_a_topic_that_is_not_there_or_empty(stores: Stores) -> None:
    for job in (traffic, sizes, latency, keys, skew):
        with pytest.raises(NotFound, match="no store has the topic nothing"):
            job.run(stores, Ask(topic=("orders", "nothing")))
    assert rows(latency.run(stores, Ask(topic=("empty",)))) == []


# -- sizes ----------------------------------------------------------------------------------------------


def test_sizes(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    found = {row["topic"]: row for row in rows(sizes.run(stores, Ask(top=ALL)))}
    assert found.keys() == {each.topic for each in sent[1]}
    orders = [each for each in sent[1] if each.topic == "orders"]
    bodies = sorted(len(each.body) for each in orders)
    row = found["orders"]
    assert (row["messages"], row["bytes"]) == (len(orders), sum(each.size for each in orders))
    assert (row["min"], row["p50"], row["max"]) == (0, bodies[len(bodies) // 2 - 1], 70_000)
    assert row["mean"] == pytest.approx(sum(bodies) / len(bodies), abs=0.1)
    assert row["overhead"] == pytest.approx(1 - sum(bodies) / row["bytes"], abs=0.001)
    steps = Counter(bodies)
    assert [row[name] for name in (*sizes.STEPS, sizes.BEYOND)] == [
        steps[0] + steps[100] + steps[256], steps[257], 0, steps[5000], 0, steps[70_000], 0
    ]  # fmt: skip
    assert max(found, key=lambda topic: found[topic]["bytes"]) == next(iter(found))


# -- latency --------------------------------------------------------------------------------------------


def test_latency_from_birth_to_the_log(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    found = {row["topic"]: row for row in rows(latency.run(stores, Ask(top=ALL)))}
    assert found.keys() == {"orders", "bills"}
    took = sorted(each.store_ms - each.born_ms for each in sent[1] if each.topic == "orders")
    row = found["orders"]
    assert (row["stage"], row["group"], row["messages"]) == (latency.BORN_TO_STORED, None, len(took))
    assert (row["min"], row["max"], row["negative"]) == (-3, 40, took.count(-3))
    assert row["p50"] == took[len(took) // 2 - 1]
    assert row["p99"] == 40


def test_latency_from_end_to_end_of_traced_messages(spark: SparkSession, tmp_path: Path) -> None:
    """What the traces of clients say: three messages of which one was consumed by two groups, one by nobody; a batch of
    two; and lines that only look like one."""
    lines = [
        "Pub|1000|r|makers|orders|A|tag|key|10.0.0.1:10911|5|3|0|OFFSET|true",
        "SubBefore|1040|r|readers|R1|A|0|key",
        "SubAfter|R1|A|7|true|key|0|1047|readers",
        "SubBefore|1100|r|others|R2|A|0|key",
        "Pub|2000|r|makers|orders|B|tag|key|10.0.0.1:10911|5|3|0|OFFSET|true",
        "Pub|3000|r|makers|bills|C,D|tag|key|10.0.0.1:10911|5|3|0|OFFSET|true",
        "SubBefore|3010|r|readers|R3|D|0|key",
        "SubAfter|R3|D|20|true|key|0|3030|readers",
        "SubBefore|soon|r",
        "Pub|yesterday|r|makers|orders|E|tag|key|10.0.0.1:10911|5|3|0|OFFSET|true",
    ]
    with making(tmp_path, "a") as maker:
        for few in (lines[:3], lines[3:]):
            body = "".join(line.replace("|", "\x01") + "\x02" for line in few).encode()
            maker.send("RMQ_SYS_TRACE_TOPIC", body=body)
        maker.send("orders", took_ms=5)
    found = rows(latency.run(Stores(spark, f"a={tmp_path}"), Ask(top=ALL)))
    told = {(row["topic"], row["group"], row["stage"]): (row["messages"], row["p50"]) for row in found}
    assert told == {
        ("orders", None, latency.BORN_TO_STORED): (1, 5),
        ("orders", "readers", latency.SENT_TO_CONSUMER): (1, 40),
        ("orders", "readers", latency.CONSUMING): (1, 7),
        ("orders", "readers", latency.END_TO_END): (1, 47),
        ("orders", "others", latency.SENT_TO_CONSUMER): (1, 100),
        ("bills", "readers", latency.SENT_TO_CONSUMER): (1, 10),
        ("bills", "readers", latency.CONSUMING): (1, 20),
        ("bills", "readers", latency.END_TO_END): (1, 30),
    }


# -- keys -----------------------------------------------------------------------------------------------


def test_hot_keys(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    found = [row for row in rows(keys.run(stores, Ask(top=ALL))) if row["kind"] == keys.HOT]
    expected = Counter(key for each in sent[1] if each.topic == "orders" for key in each.keys.split())
    assert {row["key"]: row["messages"] for row in found} == {key: n for key, n in expected.items() if n > 1}
    assert [row["messages"] for row in found] == sorted((row["messages"] for row in found), reverse=True)
    hosts = sorted({each.born_host for each in sent[1] if "customer-1" in each.keys})
    (row,) = (row for row in found if row["key"] == "customer-1")
    assert (row["producers"], row["born_hosts"]) == (len(hosts), " ".join(hosts))
    (only,) = {row["key"] for row in rows(keys.run(stores, Ask(key="customer-1")))}
    assert only == "customer-1"


def test_duplicates_and_who_sent_them(spark: SparkSession, tmp_path: Path) -> None:
    first, second = ("10.0.0.1", 1), ("10.0.0.2", 2)
    with making(tmp_path, "a") as maker:
        maker.send("orders", body=b"one", keys="sent-twice", host=first)
        maker.send("orders", body=b"one", keys="sent-twice", host=second)
        maker.send("orders", body=b"one", keys="changed", host=first)
        maker.send("orders", body=b"two", keys="changed", host=first)
        maker.send("orders", body=b"one", keys="again", uniq_key="SAME", host=second)
        maker.send("orders", body=b"one", keys="again", uniq_key="SAME", host=second)
        maker.send("orders", body=b"one", uniq_key="SAME", host=second)
        maker.send("bills", body=b"one", keys="again", uniq_key="SAME", host=first)
        maker.send("orders", body=b"one", keys="once")
    found = rows(keys.run(Stores(spark, f"a={tmp_path}"), Ask()))
    assert [(row["kind"], row["key"], row["messages"], row["copies"], row["born_hosts"]) for row in found] == [
        ("hot", "again", 2, 0, "10.0.0.2:2"),
        ("hot", "changed", 2, 0, "10.0.0.1:1"),
        ("hot", "sent-twice", 2, 1, "10.0.0.1:1 10.0.0.2:2"),
        ("repeated", "sent-twice", 2, 1, "10.0.0.1:1 10.0.0.2:2"),
        ("resent", "SAME", 3, 2, "10.0.0.2:2"),
    ]


# -- skew -----------------------------------------------------------------------------------------------


def test_skew(stores: Stores, sent: tuple[str, list[Sent]]) -> None:
    found = rows(skew.run(stores, Ask(top=ALL)))
    per_queue = Counter((each.store, each.topic, each.queue_id) for each in sent[1])
    queues = [row for row in found if row["level"] == "queue"]
    assert {(row["store"], row["topic"], row["queue_id"]): row["messages"] for row in queues} == {
        place: count for place, count in per_queue.items() if place[1] in ("orders", "bills")
    }
    assert {row["share"] for row in queues if row["topic"] == "orders"} == {50.0}  # 300 in six queues
    heavy = max(queues, key=lambda row: row["messages"])
    assert (heavy["queue_id"], heavy["state"]) == (0, "heavy")
    by_topic = {(row["store"], row["topic"]): row for row in found if row["level"] == "topic"}
    assert by_topic["broker-a", "orders"]["share"] == 200  # it has four of the six
    assert by_topic["broker-b", "orders"]["times"] == 1.5
    brokers = {row["store"]: (row["messages"], row["share"]) for row in found if row["level"] == "broker"}
    assert brokers == {"broker-a": (170, 220), "broker-b": (170, 120)}
    excess = [abs(row["messages"] - row["share"]) for row in found]
    assert excess == sorted(excess, reverse=True)


def test_skew_sees_queues_that_hold_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with making(tmp_path, "a") as maker:
        for _ in range(8):
            maker.send("orders", 1)
    write_config(tmp_path, topics={"orders": 4})
    found = rows(skew.run(Stores(spark, f"a={tmp_path}"), Ask()))
    assert [(row["queue_id"], row["messages"], row["times"], row["state"]) for row in found] == [
        (1, 8, 4.0, "heavy"),
        (0, 0, 0.0, "light"),
        (2, 0, 0.0, "light"),
        (3, 0, 0.0, "light"),
    ]


# -- what is not there ----------------------------------------------------------------------------------


def test_a_store_with_nothing_in_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for job in (traffic, sizes, latency, keys, skew, lag):
        assert rows(job.run(Stores(spark, f"a={tmp_path}"), Ask())) == [], job.__name__


def test_a_store_that_lost_its_queues(spark: SparkSession, tmp_path: Path) -> None:
    """The log is read instead."""
    with making(tmp_path, "a") as maker:
        sent = [maker.send("orders", number % 2) for number in range(5)]
    shutil.rmtree(tmp_path / "consumequeue")
    stores = Stores(spark, f"a={tmp_path}")
    (found,) = rows(traffic.run(stores, Ask(topic=("orders",), by=("topic",))))
    assert (found["messages"], found["bytes"]) == (5, sum(each.size for each in sent))
    assert [(row["queue_id"], row["messages"]) for row in rows(skew.run(stores, Ask()))] == [(0, 3), (1, 2)]
