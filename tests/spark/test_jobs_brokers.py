"""The same jobs on stores that brokers wrote: Apache's 4.9.7 and 5.5.0, and ours, while they run."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.store.scan.bounds import Bounds
from mqctl.store.scan.folder import StoreFolder
from spark import keys, latency, sizes, skew, traffic
from spark.result import Ask, Result
from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.spark.conftest import FilledStore

TOPICS = ("orders", "audit")


@pytest.fixture(params=["apache_store", "apache55_store", "our_store"])
def filled(request: pytest.FixtureRequest) -> FilledStore:
    store: FilledStore = request.getfixturevalue(request.param)
    end = time.monotonic() + 20
    while _queued(store) < len(store.sent):  # a broker fills its consume queues a little later than its log
        assert time.monotonic() < end
        time.sleep(0.05)
    return store


def _queued(store: FilledStore) -> int:
    bounds = Bounds(StoreFolder("broker-a", str(store.root)))
    return sum(queue.max_offset for queue in bounds.queues(frozenset(TOPICS)))


def rows(result: Result) -> list[dict[str, Any]]:
    return [row.asDict() for row in result.frame.collect()]


def test_traffic(spark: SparkSession, filled: FilledStore) -> None:
    stores, sent = filled.stores(spark), filled.sent
    by_queue = rows(traffic.run(stores, Ask(topic=TOPICS, by=("topic", "queue"))))
    assert {(row["topic"], row["queue"]): row["messages"] for row in by_queue} == Counter(
        (each["topic"], each["queue_id"]) for each in sent
    )
    by_tag = rows(traffic.run(stores, Ask(topic=TOPICS, by=("time", "topic", "tag"), bucket_s=3600)))
    told: Counter[Any] = Counter()
    for row in by_tag:
        told[row["topic"], row["tag"]] += row["messages"]
    assert told == Counter((each["topic"], each.get("tags")) for each in sent)
    # Both ways to the bytes: the entries of the queues, and the records.
    assert sum(row["bytes"] for row in by_queue) == sum(row["bytes"] for row in by_tag)


def test_sizes_and_latency(spark: SparkSession, filled: FilledStore) -> None:
    stores, ask = filled.stores(spark), Ask(topic=("orders",))
    (orders,) = rows(sizes.run(stores, ask))
    bodies = [len(each["body"]) for each in filled.of_topic("orders")]
    assert (orders["messages"], orders["min"], orders["max"]) == (len(bodies), min(bodies), max(bodies))
    (born,) = rows(latency.run(stores, ask))
    assert (born["stage"], born["messages"]) == (latency.BORN_TO_STORED, len(bodies))
    assert 0 <= born["p50"] <= born["p99"] <= born["max"]


def test_keys_and_skew(spark: SparkSession, filled: FilledStore) -> None:
    stores = filled.stores(spark)
    hot = [row for row in rows(keys.run(stores, Ask(topic=TOPICS, top=100))) if row["kind"] == keys.HOT]
    expected = Counter(each["keys"] for each in filled.sent if each.get("keys"))
    assert {row["key"]: row["messages"] for row in hot} == {key: n for key, n in expected.items() if n > 1}
    assert {row["producers"] for row in hot} == {1}
    even = rows(skew.run(stores, Ask(topic=("orders",))))
    assert [(row["messages"], row["share"], row["state"]) for row in even] == [(15, 15.0, "even")] * 4


def test_a_traced_message_from_end_to_end(spark: SparkSession, apache_store: FilledStore) -> None:
    """Java's producer and consumer tell of each message; three of them."""
    client, broker = apache_store.client, apache_store.broker
    assert client is not None
    assert broker is not None
    make_topic(broker, "traced", 1)
    start_producer(client, broker, "traced-makers", name="tp", trace=True)
    start_consumer(client, broker, "traced", "traced-readers", name="tc", trace=True, listenerSleepMs=30)
    for number in range(3):
        client.call("send", name="tp", topic="traced", body=b"%d" % number)
    client.wait_messages("tc", 3)
    found: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + 60
    while found.get(latency.END_TO_END, {}).get("messages") != 3:  # traces follow in their own time
        assert time.monotonic() < end, found
        stages = rows(latency.run(apache_store.stores(spark), Ask(topic=("traced",))))
        found = {row["stage"]: row for row in stages}
    client.call("consumer_stop", name="tc")
    client.call("producer_stop", name="tp")
    assert {row["messages"] for row in found.values()} == {3}
    assert {stage: row["group"] for stage, row in found.items()} == {
        stage: None if stage == latency.BORN_TO_STORED else "traced-readers" for stage in latency.STAGES
    }
    assert found[latency.CONSUMING]["min"] >= 30
    assert found[latency.END_TO_END]["min"] >= found[latency.SENT_TO_CONSUMER]["min"] + 30
