"""Following a store while a broker writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from mqctl.client.blocking import Producer
from mqctl.errors import StoreError
from mqctl.remoting.message import Message
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.plan import LogPlan
from mqctl.testing import broker as embedded_broker
from mqctl.testing.embedded import EmbeddedBroker
from spark.stream import going_on
from tests.unit.store.stores import FILE, opened, put_all
from tests.unit.store.stores import numbered as stored

BATCH = 100
SMALL_LOG = 256 * 1024


@pytest.fixture
def mq() -> Iterator[EmbeddedBroker]:
    """Its log rolls after some thousand messages."""
    with embedded_broker(mappedFileSizeCommitLog=SMALL_LOG) as running:
        running.create_topic("t", queues=4)
        yield running


def send(producer: Producer, first: int, stop: int) -> None:
    for start in range(first, stop, BATCH):
        bodies = (b"%d" % number for number in range(start, min(start + BATCH, stop)))
        producer.send_batch([Message("t", body) for body in bodies])


def follow(spark: SparkSession, mq: EmbeddedBroker, **options: object) -> DataFrame:
    reader = spark.readStream.format("mqstore").option("stores", f"a={mq.store}")
    options = {"columns": "topic,phys_offset,body", "body": "full", "topics": "t", **options}
    return reader.options(**options).load().selectExpr("phys_offset", "cast(body as string) as body")


def run_to_end(frame: DataFrame, folder: Path) -> None:
    query: StreamingQuery = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert query.awaitTermination(120)


def written(spark: SparkSession, folder: Path) -> list[str]:
    rows = spark.read.parquet(str(folder / "out")).orderBy("phys_offset").collect()
    return [row.body for row in rows]


def numbers(stop: int) -> list[str]:
    return [str(number) for number in range(stop)]


def test_each_message_once_over_restarts_and_rolled_files(
    spark: SparkSession, mq: EmbeddedBroker, tmp_path: Path
) -> None:
    """Two runs of one query, the first in micro-batches of a part of the log each."""
    with Producer("g", mq.namesrv) as producer:
        for first, stop in ((0, 3000), (3000, 3001)):
            send(producer, first, stop)
            run_to_end(follow(spark, mq, batch_bytes=200_000), tmp_path)
            assert written(spark, tmp_path) == numbers(stop)


def test_a_query_that_begins_with_what_comes(spark: SparkSession, mq: EmbeddedBroker, tmp_path: Path) -> None:
    with Producer("g", mq.namesrv) as producer:
        send(producer, 0, 10)
        run_to_end(follow(spark, mq, start="latest"), tmp_path)
        send(producer, 10, 20)
        run_to_end(follow(spark, mq, start="latest"), tmp_path)
    assert written(spark, tmp_path) == numbers(20)[10:]


def test_a_log_that_is_not_what_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files that were deleted unread are passed over aloud; a shorter log in the old one's place is refused."""
    with opened(tmp_path) as store:
        put_all(store, stored(40))
        end = store.log.end
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    plan = LogPlan(StoreFolder("a", str(tmp_path)))
    assert [going_on(plan, place) for place in (0, FILE, end)] == [FILE, FILE, end]
    assert caplog.text == ""
    assert going_on(plan, 100) == FILE
    assert f"a: {FILE - 100} bytes of the log were deleted unread" in caplog.text
    with pytest.raises(StoreError, match=f"ends before {end + 1}, which this query has reached"):
        going_on(plan, end + 1)
