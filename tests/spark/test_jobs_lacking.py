"""Stores that lack something: all messages, their queues, the end of a record, or a file that was just there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.errors import NotFound
from mqctl.store.scan.folder import StoreFolder
from spark import check, delays, diff, export, lag, retries, sizes, sql, trace, transactions
from spark.result import Ask, Result
from spark.stores import Stores
from spark.vanishing import Vanishing
from tests.spark.storing import NOW_MS, Keeper, keeping

HOUR_MS = 3_600_000
LOST = "broker-a has no consume queues: "


def stores_of(spark: SparkSession, root: Path) -> Stores:
    return Stores(spark, f"broker-a={root}")


def told(result: Result, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in result.frame.collect()]


# -- no messages ----------------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    return tmp_path / "empty"


def test_a_store_with_nothing_in_it(spark: SparkSession, empty: Path, tmp_path: Path) -> None:
    stores = stores_of(spark, empty)
    for job, ask, notes in [
        (check, Ask(), ["no damage was found"]),
        (diff, Ask(other=f"broker-b={empty}"), ["broker-a and broker-b hold the same records"]),
        (export, Ask(out=str(tmp_path / "out")), ["there was nothing new"]),
        (sql, Ask(query="SELECT topic FROM messages"), []),
    ]:
        result = job.run(stores, ask)
        assert (told(result), result.exit_code, list(result.notes)) == ([], 0, notes), job.__name__
    with pytest.raises(NotFound, match="no message has the key"):
        trace.run(stores, Ask(key="k"))


# -- no queues ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def queueless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One group read two of three orders; of the bills nobody did. A message was returned three times and waits, one is
    a dead letter, and one has a delay of its own to wait for."""
    root = tmp_path_factory.mktemp("queueless")
    with keeping(root) as keeper:
        for _ in range(3):
            keeper.put("orders")
        keeper.put("bills")
        keep_returned(keeper)
        keeper.delay(5, NOW_MS + HOUR_MS, "orders", UNIQ_KEY="later", KEYS="later")
        keeper.write_topics("orders", "bills", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX")
        keeper.write_config("subscriptionGroup.json", subscriptionGroupTable={"g": {"groupName": "g"}})
        keeper.write_config("consumerOffset.json", offsetTable={"orders@g": {"0": 2}})
        keeper.write_config("delayOffset.json", offsetTable={"3": 1})
    shutil.rmtree(root / "consumequeue")
    return root


def keep_returned(keeper: Keeper) -> None:
    for name, last in (("dead", "%DLQ%g"), ("waits", None)):
        common = {"UNIQ_KEY": name, "ORIGIN_MESSAGE_ID": f"origin-{name}", "RETRY_TOPIC": "orders"}
        keeper.put("%RETRY%g", times=1, **common)
        if last is not None:
            keeper.put(last, times=2, **common)
        keeper.delay(3, NOW_MS, "%RETRY%g", 2, **common)  # what waited is before the level's offset


def test_lag_without_queues(spark: SparkSession, queueless: Path) -> None:
    stores = stores_of(spark, queueless)
    result = lag.run(stores, Ask())
    assert told(result, "group", "topic", "broker_offset", "lag", "state") == [
        (None, "%RETRY%g", 2, 2, "unread"),
        (None, "bills", 1, 1, "unread"),
        ("g", "orders", 3, 1, "ok"),
    ]
    assert list(result.notes) == [f"{LOST}where they would end was looked up in the log"]
    assert told(lag.run(stores, Ask(topic=("bills",))), "topic", "lag") == [("bills", 1)]


def test_delays_without_queues(spark: SparkSession, queueless: Path) -> None:
    stores = stores_of(spark, queueless)
    result = delays.run(stores, Ask(now_ms=NOW_MS))
    assert set(told(result, "topic", "level", "messages", "next")) == {
        ("%RETRY%g", "3", 1, None),
        ("orders", "5", 1, None),
    }
    assert list(result.notes) == [f"{LOST}when messages with a delay level come is not known"]
    assert told(trace.run(stores, Ask(key="later")), "step", "until") == [("waits", None)]


def test_retries_without_queues(spark: SparkSession, queueless: Path) -> None:
    result = retries.run(stores_of(spark, queueless), Ask(by=("message",)))
    assert told(result, "uniq_key", "state", "attempts", "next") == [
        ("waits", "waiting", 2, None),
        ("dead", "dead", 2, None),
    ]
    assert list(result.notes) == [f"{LOST}when a message comes again is not known"]


@pytest.mark.parametrize("job", [retries, delays, transactions, trace, export])
def test_a_topic_that_is_not_there(spark: SparkSession, tmp_path: Path, job: Any) -> None:
    """While there are queues. Without any, only the log tells which topics there were."""
    with keeping(tmp_path / "store") as keeper:
        keeper.put("orders", KEYS="k")
    ask = Ask(topic=("orders", "nothing"), key="k", out=str(tmp_path / "out"))
    with pytest.raises(NotFound, match="no store has the topic nothing"):
        job.run(stores_of(spark, tmp_path / "store"), ask)


# -- a torn end -----------------------------------------------------------------------------------------


def test_a_record_that_is_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    """As after a power cut: it counts for nobody."""
    with keeping(tmp_path) as keeper:
        place = [keeper.put("orders", body=b"b" * 100) for _ in range(3)][-1].phys_offset
        keeper.write_topics("orders")
    (log,) = (tmp_path / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(place + 120)
        file.write(bytes(1000))
    stores = stores_of(spark, tmp_path)
    assert told(sizes.run(stores, Ask()), "topic", "messages", "max") == [("orders", 2, 100)]
    what = "no record, nor a blank up to the file's end"
    assert told(check.run(stores, Ask()), "file", "position", "what") == [(f"commitlog/{0:020d}", place, what)]


# -- a file that vanishes -------------------------------------------------------------------------------


def test_files_that_were_deleted_meanwhile_are_told(tmp_path: Path) -> None:
    folder = StoreFolder("a", str(tmp_path))
    (tmp_path / "commitlog").mkdir()
    for start in (0, 1024):
        (tmp_path / "commitlog" / f"{start:020d}").write_bytes(b"x")
    vanishing = Vanishing([folder])
    assert list(vanishing.notes()) == []
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    (note,) = vanishing.notes()
    assert note == f"files of the log of {tmp_path} were deleted meanwhile: what they held may be missing here"
