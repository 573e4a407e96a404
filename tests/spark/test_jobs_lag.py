"""lag: what mqadmin says of the same moment, and what only the store tells."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.errors import ConfigError, NotFound
from mqctl.store.scan.folder import StoreFolder
from spark import lag
from spark.result import Ask
from spark.stores import Stores
from tests.interop.acting import make_topic, mqadmin_in, start_consumer
from tests.spark.conftest import FilledStore
from tests.spark.making import START_MS, making, write_config

NOW_MS = START_MS + 3_600_000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One message a second: 20 in each of three queues of orders, then ten bills, ten letters and ten memos. The first
    file of the log is gone, with the first orders."""
    root = tmp_path_factory.mktemp("store")
    with making(root, "a", file_size=4096) as maker:
        for number in range(60):
            maker.send("orders", number % 3, at_ms=START_MS + number * 1000)
        for number in range(30):
            topic = ("bills", "letters", "memos")[number // 10]
            maker.send(topic, at_ms=START_MS + 60_000 + number * 1000)
        maker.send("%DLQ%readers")
        maker.send("SCHEDULE_TOPIC_XXXX")
    write_config(
        root,
        topics={"orders": 2, "letters": 1, "memos": 1, "nothing": 2},  # two queues to read, though three were written
        groups=("readers", "writers"),
        offsets={
            "orders@readers": {0: 18},
            "nothing@readers": {0: 5},
            "letters@writers": {0: 10},
            "memos@deleted": {0: 4},
            "bills@readers": {0: 7},
            "memos@CID_RMQ_SYS_TRANS": {0: 1},
        },
    )
    (root / "commitlog" / f"{0:020d}").unlink()
    return root


@pytest.fixture(scope="module")
def stores(spark: SparkSession, root: Path) -> Stores:
    return Stores(spark, f"a={root}")


def told(stores: Stores, *columns: str, **asked: Any) -> list[tuple[Any, ...]]:
    frame = lag.run(stores, Ask(now_ms=NOW_MS, top=1000, **asked)).frame
    return [tuple(row[name] for name in columns) for row in frame.collect()]


EXPECTED = {
    ("readers", "orders", 0, 20, 18, 2, "ok"),
    ("readers", "orders", 1, 20, 0, 20, "expired"),
    ("readers", "nothing", 0, 0, 5, 0, "ahead"),
    ("readers", "nothing", 1, 0, 0, 0, "ok"),
    ("writers", "letters", 0, 10, 10, 0, "ok"),
    ("deleted", "memos", 0, 10, 4, 6, "group gone"),
    ("readers", "bills", 0, 10, 7, 3, "topic gone"),
}
COLUMNS = ("group", "topic", "queue_id", "broker_offset", "consumer_offset", "lag", "state")


def test_groups_queues_and_what_became_of_them(stores: Stores) -> None:
    found = told(stores, *COLUMNS)
    (unread,) = set(found) - EXPECTED
    assert set(found) - {unread} == EXPECTED
    assert unread[:5] == (None, "orders", 2, 20, None)  # the third queue: nobody may read it
    assert 0 < unread[5] < 20
    lags = [row[5] for row in found]
    assert lags == sorted(lags, reverse=True)


def test_of_some(stores: Stores) -> None:
    assert told(stores, "group", "topic", "lag", group=("deleted",)) == [("deleted", "memos", 6)]
    assert told(stores, "group", "lag", topic=("letters",)) == [("writers", 0)]
    assert told(stores, "group", "lag", group=("CID_RMQ_SYS_TRANS",)) == [("CID_RMQ_SYS_TRANS", 9)]
    assert told(stores, "group", "topic", "queues", "lag", by=("group", "topic"), group=("readers",)) == [
        ("readers", "orders", 2, 22),
        ("readers", "bills", 1, 3),
        ("readers", "nothing", 2, 0),
    ]
    with pytest.raises(NotFound, match="no store has the topic absent"):
        lag.run(stores, Ask(topic=("absent",)))
    with pytest.raises(ConfigError, match="colour"):
        lag.run(stores, Ask(by=("colour",)))
    with pytest.raises(NotFound, match="no store has the group absent"):
        lag.run(stores, Ask(group=("absent", "readers")))


def test_seconds(stores: Stores) -> None:
    found = {row[:3]: row[3] for row in told(stores, "group", "topic", "queue_id", "seconds", seconds=True)}
    ago = (NOW_MS - START_MS) / 1000
    assert found["readers", "orders", 0] == ago - 18 * 3
    assert found["deleted", "memos", 0] == ago - 60 - 20 - 4
    assert found["readers", "bills", 0] == ago - 60 - 7
    assert found["writers", "letters", 0] == found["readers", "nothing", 0] == 0
    # What these would get next was deleted; the first that is left counts.
    assert ago - 60 < found["readers", "orders", 1] < ago
    assert ago - 60 < found[None, "orders", 2] < ago


def test_the_log_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Not for messages; and for seconds only one record, so all others may be rubbish."""
    with making(tmp_path, "a") as maker:
        sizes = [maker.send("orders", at_ms=START_MS + number * 1000).size for number in range(10)]
    write_config(tmp_path, topics={"orders": 1}, groups=("readers",), offsets={"orders@readers": {0: 4}})
    (log,) = (tmp_path / "commitlog").iterdir()
    data = log.read_bytes()
    before, size = sum(sizes[:4]), sizes[4]
    log.write_bytes(b"\xff" * before + data[before : before + size] + b"\xff" * (len(data) - before - size))
    stores = Stores(spark, f"a={tmp_path}")
    assert told(stores, "lag", "seconds", seconds=True) == [(6, (NOW_MS - START_MS) / 1000 - 4)]
    log.write_bytes(b"\xff" * len(data))
    assert told(stores, "lag") == [(6,)]


def test_lag_is_what_mqadmin_says(spark: SparkSession, apache_store: FilledStore) -> None:
    """A Java consumer read nine of fifteen messages; Apache's broker and tool tell how far it is."""
    client, broker, group = apache_store.client, apache_store.broker, "lag-readers"
    assert client is not None
    assert broker is not None
    make_topic(broker, "lag-topic", 4)

    def send(count: int) -> None:
        for number in range(count):
            client.call("send", name="p", topic="lag-topic", body=b"x", queueId=number % 3, brokerName="broker-a")

    send(9)
    start_consumer(client, broker, "lag-topic", group)
    client.wait_messages("c", 9)
    client.call("consumer_stop", name="c")
    send(6)
    _wait_for_offsets(apache_store.root, f"lag-topic@{group}", 9)
    printed = mqadmin_in(client, broker, "consumerProgress", "-g", group)
    lines = [line.split() for line in printed.splitlines() if "broker-a" in line]
    expected = {(words[0], int(words[2])): tuple(map(int, words[3:5])) for words in lines}
    assert sum(words[0] == "lag-topic" for words in lines) == 4
    found = lag.run(apache_store.stores(spark), Ask(group=(group,))).frame.collect()
    assert {(row.topic, row.queue_id): (row.broker_offset, row.consumer_offset) for row in found} == expected
    assert sum(row.lag for row in found) == 6
    assert {row.state for row in found} == {"ok"}


def _wait_for_offsets(root: Path, name: str, total: int) -> None:
    """Apache's broker writes them down every five seconds."""
    end = time.monotonic() + 60
    while (
        sum(StoreFolder("a", str(root)).config("consumerOffset.json").get("offsetTable", {}).get(name, {}).values())
        != total
    ):
        assert time.monotonic() < end, "the broker did not write its offsets"
        time.sleep(0.1)
