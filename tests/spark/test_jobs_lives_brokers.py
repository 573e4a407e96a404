"""Jobs beside brokers that run, Apache's and ours: what a Java client made of messages, and the messages themselves."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mqctl.client.blocking import Producer
from mqctl.remoting.message import Message
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.record import Record
from spark import check, delays, diff, export, retries, sql, trace, transactions
from spark.result import Ask, Result
from spark.stores import Stores
from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker
from tests.spark.conftest import FilledStore

pytestmark = pytest.mark.interop

LEVEL_18_MS = 7_200_000
DEADLINE_S = 60.0


def rows(result: Result) -> list[dict[str, Any]]:
    return [row.asDict() for row in result.frame.collect()]


def stored(store: FilledStore, topic: str, queue_id: int = 0) -> list[Record]:
    """What is in a queue by now."""
    folder = StoreFolder(store.root)
    queues = [each for each in folder.queues if (each.topic, each.queue_id) == (topic, queue_id)]
    found = [each for queue in queues for each in folder.messages(queue, queue.min_offset, queue.max_offset)]
    return [each for each in found if isinstance(each, Record)]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(params=["apache_store", "our_store", pytest.param("apache55_store", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest) -> FilledStore:
    """With a Java client: ours is used by the one of the other."""
    found: FilledStore = request.getfixturevalue(request.param)
    return found if found.client is not None else replace(found, client=request.getfixturevalue("apache_store").client)


def pay(store: FilledStore) -> None:
    """A transaction of each kind."""
    client, broker = store.client, store.broker
    assert client is not None
    assert broker is not None
    make_topic(broker, "paid", 1)
    start_producer(client, broker, "spark-payers", name="t", transactional=True)
    for outcome in ("commit", "rollback", "unknown"):
        properties = {"outcome": outcome, "checked": "unknown"}
        client.call("send", name="t", topic="paid", body=outcome.encode(), keys=outcome, properties=properties)
    # 5.5 gathers ops for some seconds and writes them as one.
    wait_until(lambda: b"1" in b"".join(op.body for op in stored(store, "RMQ_SYS_TRANS_OP_HALF_TOPIC")))
    client.call("producer_stop", name="t")


def live(store: FilledStore) -> None:
    """Two messages that one group has given up and another one will get again in two hours; three that are sent with
    that delay."""
    client, broker = store.client, store.broker
    assert client is not None
    assert broker is not None
    for topic in ("returned", "later"):
        make_topic(broker, topic, 1)
    start_producer(client, broker, "spark-senders", name="s")
    for number in range(2):
        client.call("send", name="s", topic="returned", body=b"%d" % number, keys=f"r-{number}")
    for number in range(3):
        client.call("send", name="s", topic="later", body=b"%d" % number, keys=f"l-{number}", delayLevel=18)
    client.call("producer_stop", name="s")
    for name, level in (("dying", -1), ("waiting", 18)):
        start_consumer(client, broker, "returned", f"spark-{name}", name=name, failFirst=-1, retryDelayLevel=level)
    wait_until(lambda: len(stored(store, "%DLQ%spark-dying")) == 2)
    wait_until(lambda: len(stored(store, "SCHEDULE_TOPIC_XXXX", 17)) == 5)
    for name in ("dying", "waiting"):
        client.call("consumer_stop", name=name)


def test_transactions_and_check(spark: SparkSession, store: FilledStore) -> None:
    pay(store)
    [half] = rows(transactions.run(store.stores(spark), Ask(now_ms=int(time.time() * 1000))))
    assert (half["topic"], half["group"], half["state"], half["keys"]) == ("paid", "spark-payers", "open", "unknown")
    assert [row for row in rows(check.run(store.stores(spark), Ask())) if row["severity"] == "damage"] == []
    if isinstance(store.broker, ApacheBroker) and store.broker.version == "5.5.0":
        # Since its first transaction it polls for more without a pause, with half a core.
        store.broker.kill()
        store.broker.start()


def test_lives(spark: SparkSession, store: FilledStore) -> None:
    live(store)
    stores, now_ms = store.stores(spark), int(time.time() * 1000)
    returned = rows(retries.run(stores, Ask(now_ms=now_ms, topic=("returned",))))
    assert [(row["group"], row["messages"], row["dead"], row["waiting"]) for row in returned] == [
        ("spark-dying", 2, 2, 0),
        ("spark-waiting", 2, 0, 2),
    ]
    assert [row["attempts"] for row in returned] == [2, 2]
    left_ms = returned[1]["until"].timestamp() * 1000 - now_ms
    assert LEVEL_18_MS - 120_000 < left_ms <= LEVEL_18_MS

    pending = {row["topic"]: (row["level"], row["messages"]) for row in rows(delays.run(stores, Ask(now_ms=now_ms)))}
    assert pending["later"] == ("18", 3)
    assert pending["%RETRY%spark-waiting"] == ("18", 2)

    steps = [row["step"] for row in rows(trace.run(stores, Ask(key="r-1")))]
    assert (steps[0], sorted(steps[1:])) == ("sent", ["dead letter", "waits"])


def test_the_messages_themselves(
    spark: SparkSession, apache_store: FilledStore, our_store: FilledStore, tmp_path: Path
) -> None:
    """export, sql and diff, of both brokers at a time."""
    filled = {"apache": apache_store, "ours": our_store}
    sent = [{"store": name, **each} for name, store in filled.items() for each in store.sent]
    stores = Stores(spark, ";".join(f"{name}={store.root}" for name, store in filled.items()))

    export.run(stores, Ask(out=str(tmp_path / "out"), topic=("orders", "audit")))
    columns = ("store", "topic", "queue_id", "queue_offset", "uniq_key", "body")
    written = pq.read_table(tmp_path / "out", columns=list(columns)).to_pylist()
    expected = [{**each, "uniq_key": each["msg_id"]} for each in sent]
    assert sorted(tuple(map(row.get, columns)) for row in written) == sorted(
        tuple(map(each.get, columns)) for each in expected
    )

    query = "SELECT store, topic, tags, count(*) FROM messages WHERE topic IN ('orders', 'audit') GROUP BY ALL"
    answer = sql.run(stores, Ask(query=query)).frame.collect()
    assert {tuple(row)[:3]: row[3] for row in answer} == Counter(
        (each["store"], each["topic"], each.get("tags")) for each in sent
    )

    for store in filled.values():
        copy = tmp_path / store.root.parent.name / "copy"
        shutil.copytree(store.root / "commitlog", copy / "commitlog")
        assert store.broker is not None
        make_topic(store.broker, "late", 1)
        with Producer("late-producers", store.namesrv) as producer:
            places = [producer.send(Message("late", b"%d" % number)).queue_offset for number in range(3)]
        found = rows(diff.run(store.stores(spark), Ask(other=f"copy={copy}")))
        late = [row for row in found if row["topic"] == "late"]
        assert [(row["what"], row["messages"], row["first_offset"], row["last_offset"]) for row in late] == [
            ("missing", 3, places[0], places[-1])
        ]
