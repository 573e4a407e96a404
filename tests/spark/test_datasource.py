"""The tables, read by Spark from stores whose content is known."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqctl.store.javahash import java_hash
from spark.stores import Stores
from tests.spark.conftest import FilledStore

OURS = "topic in ('orders', 'audit')"


@pytest.fixture(params=["apache_store", "apache55_store", "our_store"])
def filled(request: pytest.FixtureRequest) -> FilledStore:
    """Of each broker in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, FilledStore)
    return found


def test_messages_are_those_that_were_sent(spark: SparkSession, filled: FilledStore) -> None:
    """Through the log, and through the queues. The compressed one comes out as it went in."""
    columns = ("topic", "queue_id", "queue_offset", "tags", "keys", "uniq_key", "body")
    expected = sorted(
        (
            each["topic"], each["queue_id"], each["queue_offset"], each.get("tags"), each.get("keys"), each["msg_id"],
            each["body"],
        )
        for each in filled.sent
        if each["topic"] in ("orders", "audit")
    )  # fmt: skip
    stores = filled.stores(spark)
    assert sorted(tuple(row) for row in stores.messages(*columns, body="full").where(OURS).collect()) == expected
    through_queues = stores.messages(*columns, body="full", topics=("orders", "audit"))
    assert sorted(tuple(row) for row in through_queues.collect()) == expected


def test_all_columns_of_a_message(spark: SparkSession, filled: FilledStore) -> None:
    (row,) = filled.stores(spark).messages(topics=("orders",)).where("keys = 'order-3'").collect()
    assert (row.store, row.version, row.reconsume_times, row.prepared_offset) == ("broker-a", 1, 0, 0)
    assert row.body is None and row.body_size == len(b"order-3")
    assert row.properties["TAGS"] == "new" and row.properties["UNIQ_KEY"] == row.uniq_key
    assert row.store_host.startswith("127.0.0.1:") and row.born_host.startswith("127.0.0.1:")
    assert row.born_time <= row.store_time
    assert int(row.msg_id[-16:], 16) == row.phys_offset
    assert int(row.file) <= row.phys_offset


def test_the_other_tables(spark: SparkSession, apache_store: FilledStore) -> None:
    stores = apache_store.stores(spark)
    entries = stores.queues("queue_id", "tags_code", topics=("orders",)).collect()
    sent = Counter((each["queue_id"], java_hash(each["tags"])) for each in apache_store.of_topic("orders"))
    assert Counter((row.queue_id, row.tags_code) for row in entries) == sent
    (orders,) = stores.topics().where("topic = 'orders'").collect()
    assert (orders.read_queues, orders.write_queues, orders.perm, orders.order) == (4, 4, 6, False)
    assert stores.groups().columns[:2] == ["store", "group"]
    hashes = {abs(java_hash(f"orders#order-{number}")) for number in range(8)}
    places = {row.phys_offset for row in stores.messages("phys_offset", "keys").where(OURS_KEYS).collect()}
    found = {row.phys_offset for row in stores.index().collect() if row.key_hash in hashes}
    assert places <= found
    assert stores.offsets().columns == ["store", "group", "topic", "queue_id", "consumer_offset"]
    assert stores.delay_offsets().columns == ["store", "level", "queue_offset"]


OURS_KEYS = "keys in ('order-0', 'order-1', 'order-7')"


def test_one_data_frame_for_many_queries(spark: SparkSession, our_store: FilledStore) -> None:
    """Spark, where it is set to, hands a source the filters of a query. One that took them would read by them for
    every other query of the same data frame."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        messages = our_store.stores(spark).messages("topic", "queue_id")
        audit, first_queue = messages.where("topic = 'audit'"), messages.where("topic = 'orders' and queue_id = 0")
        assert (audit.count(), first_queue.count(), messages.where(OURS).count()) == (20, 15, 80)
        assert audit.union(first_queue).groupBy("topic").count().orderBy("topic").collect() == [
            ("audit", 20),
            ("orders", 15),
        ]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_counts_are_those_of_the_rows(spark: SparkSession, filled: FilledStore) -> None:
    stores = filled.stores(spark)
    for table in (stores.messages, stores.queues):
        rows = Counter[tuple[str, int]]()
        for row in table("topic", "queue_id", "size").collect():
            rows[row.topic, row.queue_id] += row.size
        counted = (
            table("topic", "queue_id", counted=True).groupBy("topic", "queue_id").sum("messages", "bytes").collect()
        )
        assert {(row.topic, row.queue_id): row["sum(bytes)"] for row in counted} == rows
        assert sum(row["sum(messages)"] for row in counted) == table("size").count()


def test_many_stores(spark: SparkSession, our_store: FilledStore, tmp_path: Path) -> None:
    for name in ("broker-a", "broker-b"):
        shutil.copytree(our_store.root, tmp_path / name)
    counts = Stores(spark, str(tmp_path)).messages("store", "topic").where(OURS).groupBy("store").count().collect()
    assert {row.store: row["count"] for row in counts} == {"broker-a": 80, "broker-b": 80}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"table": "none"}, "there is no table none"),
        ({"columns": "topic,colour"}, "no column colour"),
        ({"body": "half"}, "body is none, full or head:N"),
        ({"since_ms": "yesterday"}, "since_ms is a number"),
        ({"stores": "/nonexistent"}, "holds no store"),
        ({"counted": "true"}, "counted by some columns"),
        ({"counted": "true", "columns": "topic,properties"}, "not by properties"),
        ({"counted": "true", "table": "index", "columns": "file"}, "not in index"),
    ],
)
def test_mistakes_are_named(spark: SparkSession, our_store: FilledStore, options: dict[str, str], text: str) -> None:
    reader = spark.read.format("mqstore").options(**{"stores": str(our_store.root), **options})
    with pytest.raises(PySparkException, match=text):
        reader.load().count()
