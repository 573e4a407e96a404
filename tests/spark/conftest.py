"""One Spark session, one store written by Apache's broker and one by ours, for all tests of the analysis.

Both brokers run on: what a test needs of a moment it takes from them, and nobody else's topics may change under it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqctl.client.blocking import Producer
from mqctl.remoting.message import Message
from mqctl.testing import broker as embedded_broker
from mqctl.testing.embedded import EmbeddedBroker
from spark.datasource import StoreSource
from spark.stores import Stores
from tests.interop.acting import make_topic, start_producer
from tests.peers.apache import ApacheBroker, ApacheNamesrv
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, JavaDriver
from tests.peers.jvm import QUICK_START
from tests.peers.ours import REPOSITORY


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores of this machine."""
    folder = tmp_path_factory.mktemp("spark")
    # Planning and tasks run in processes of their own, which must find both packages.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(StoreSource)
    yield session
    session.stop()


@dataclass(slots=True)
class FilledStore:
    """A store and what was sent to it, in order: topic, body, tags, keys, queue_id, queue_offset, msg_id (UNIQ_KEY)."""

    root: Path
    namesrv: str
    sent: list[dict[str, Any]] = field(default_factory=list)
    client: ClientDriver | None = None  # of Apache's: still connected, under the producer "p"
    broker: ApacheBroker | EmbeddedBroker | None = None

    def stores(self, spark: SparkSession) -> Stores:
        return Stores(spark, f"broker-a={self.root}")

    def of_topic(self, topic: str) -> list[dict[str, Any]]:
        return [each for each in self.sent if each["topic"] == topic]


def plain_messages() -> Iterator[dict[str, Any]]:
    """orders: 60 messages in 4 queues with tags and keys, every tenth under a key that was there before; audit: 20
    without either, one of them compressed."""
    for number in range(60):
        yield {
            "topic": "orders",
            "body": b"order-%d" % number,
            "tags": ("new", "paid", "sent")[number % 3],
            "keys": f"order-{number - 10 if number % 10 == 9 and number > 10 else number}",
            "queue_id": number % 4,
        }
    for number in range(20):
        yield {"topic": "audit", "body": b"x" * 9000 if number == 7 else b"%d" % number, "queue_id": 0}


@pytest.fixture(scope="package")
def apache_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledStore]:
    """Of Apache's 4.9.7. `fill` says what is in it."""
    yield from filled_by_apache("4.9.7", tmp_path_factory.mktemp("spark49"))


@pytest.fixture(scope="package")
def apache55_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledStore]:
    """Of Apache's 5.5.0."""
    yield from filled_by_apache("5.5.0", tmp_path_factory.mktemp("spark55"))


def filled_by_apache(version: str, folder: Path) -> Iterator[FilledStore]:
    with (
        require(ApacheNamesrv, version, folder / "namesrv") as namesrv,
        require(ApacheBroker, version, folder / "broker", namesrv.address) as broker,
    ):
        client = require(lambda: JavaDriver(version))
        try:
            yield fill(broker, client)
        finally:
            client.close()


def fill(broker: ApacheBroker, client: ClientDriver) -> FilledStore:
    """Sends with a Java client. What a job needs besides is added here, with topics and groups of its own."""
    store = FilledStore(broker.store_dir, broker.namesrv, client=client, broker=broker)
    make_topic(broker, "orders", 4)
    make_topic(broker, "audit", 1)
    start_producer(client, broker, "spark-producers")
    for message in plain_messages():
        asked = {key: value for key, value in message.items() if key not in ("queue_id", "body")}
        answer = client.call(
            "send", name="p", body=message["body"], queueId=message["queue_id"], brokerName="broker-a", **asked
        )
        store.sent.append({**message, "queue_offset": answer["queueOffset"], "msg_id": answer["msgId"]})
    return store


@pytest.fixture(scope="package")
def our_store() -> Iterator[FilledStore]:
    """Of our broker, with the same plain messages."""
    with embedded_broker(brokerName="broker-a") as mq:
        yield fill_ours(mq)


def fill_ours(mq: EmbeddedBroker) -> FilledStore:
    store = FilledStore(mq.store, mq.namesrv, broker=mq)
    mq.create_topic("orders", queues=4)
    mq.create_topic("audit", queues=1)
    with Producer("spark-producers", mq.namesrv) as producer:
        queues = {
            (queue.topic, queue.queue_id): queue for topic in ("orders", "audit") for queue in producer.queues(topic)
        }
        for message in plain_messages():
            asked = {key: value for key, value in message.items() if key != "queue_id"}
            result = producer.send(Message(**asked), queue=queues[message["topic"], message["queue_id"]])
            store.sent.append({**message, "queue_offset": result.queue_offset, "msg_id": result.msg_id})
    return store
