"""Stores that are written at 10,000 messages a second, by Apache's broker and by ours, scanned all the while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.client.blocking import Producer
from mqctl.remoting.message import Message
from mqctl.store.scan.messages import Wanted
from mqctl.testing import broker
from spark.stores import Stores
from tests.interop.acting import make_topic
from tests.spark.conftest import FilledStore
from tests.unit.store.scan.reading import read

TOPIC = "paced"
QUEUES = 4
PER_SECOND = 10_000
SECONDS = 2
BATCH = 100
BODY = 200
PART = 1 << 20
COLUMNS = ("phys_offset", "topic", "queue_id", "queue_offset", "body")

Scan = Callable[[], list[dict[str, Any]]]


def body(queue_id: int, queue_offset: int) -> bytes:
    """Different all through, so that a record of which a part is missing would be noticed."""
    return (b"%d/%d " % (queue_id, queue_offset)) * BODY


class Writer(threading.Thread):
    """Sends batches when they are due, or at once where the machine is too slow. `acknowledged` of each queue says how
    many messages are in the log for certain."""

    def __init__(self, namesrv: str) -> None:
        super().__init__()
        self.acknowledged = [0] * QUEUES
        self._namesrv = namesrv

    def run(self) -> None:
        with Producer("paced-producers", self._namesrv) as producer:
            queues = {queue.queue_id: queue for queue in producer.queues(TOPIC)}
            begin = time.monotonic()
            for number in range(PER_SECOND * SECONDS // BATCH):
                time.sleep(max(0.0, begin + number * BATCH / PER_SECOND - time.monotonic()))
                queue_id = number % QUEUES
                first = self.acknowledged[queue_id]
                messages = [Message(TOPIC, body(queue_id, each)[:BODY]) for each in range(first, first + BATCH)]
                result = producer.send_batch(messages, queue=queues[queue_id])
                assert result.queue_offset == first
                self.acknowledged[queue_id] += BATCH


@pytest.fixture
def ours() -> Iterator[tuple[str, Path]]:
    with broker(mappedFileSizeCommitLog=1 << 20) as mq:
        mq.create_topic(TOPIC, queues=QUEUES)
        yield mq.namesrv, mq.store


@pytest.fixture
def apaches(apache_store: FilledStore) -> tuple[str, Path]:
    assert apache_store.broker is not None
    make_topic(apache_store.broker, TOPIC, QUEUES)
    return apache_store.namesrv, apache_store.root


@pytest.mark.parametrize("written", ["ours", "apaches"])
def test_scans_of_a_store_that_is_written(spark: SparkSession, request: pytest.FixtureRequest, written: str) -> None:
    """Each finds all that was acknowledged when it began, of each queue the first messages without a gap, and only
    whole ones; those after the end find every one."""
    namesrv, root = request.getfixturevalue(written)
    wanted = Wanted(columns=COLUMNS).with_body("full")
    through_queues = Wanted(columns=COLUMNS, topics=frozenset({TOPIC})).with_body("full")
    scans: list[Scan] = [
        lambda: [row for row in read(root, wanted, PART) if row["topic"] == TOPIC],
        lambda: read(root, through_queues, PART),
        lambda: Stores(spark, str(root)).messages(*COLUMNS, topics=(TOPIC,), body="full").toArrow().to_pylist(),
    ]
    writer = Writer(namesrv)
    writer.start()
    meanwhile = 0
    for scan in cycle(scans):
        if not writer.is_alive():
            break
        before = list(writer.acknowledged)
        check(scan(), before)
        meanwhile += 1
    writer.join()
    assert meanwhile > 1
    assert sum(writer.acknowledged) == PER_SECOND * SECONDS
    for scan in scans:
        assert check(scan(), writer.acknowledged) == writer.acknowledged


def check(found: list[dict[str, Any]], acknowledged: list[int]) -> list[int]:
    """How many of each queue."""
    counts = []
    for queue_id, certain in enumerate(acknowledged):
        rows = [row for row in found if (row["topic"], row["queue_id"]) == (TOPIC, queue_id)]
        rows.sort(key=lambda row: int(row["queue_offset"]))
        assert [row["queue_offset"] for row in rows] == list(range(len(rows)))
        assert len(rows) >= certain
        assert all(row["body"] == body(queue_id, row["queue_offset"])[:BODY] for row in rows)
        counts.append(len(rows))
    return counts
