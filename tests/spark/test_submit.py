"""The program as people call it, with a Spark of its own on this machine and with a cluster's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Ended, execute
from tests.spark.making import Sent, making, write_config
from tests.spark.standalone import QUICK, Cluster, cluster

# Something of every kind that executors do: columns, maps, bodies, and numbers of all stores.
QUERY = """
SELECT store, topic, queue_id, tags, count(*) AS messages, sum(size) AS bytes, sum(length(body)) AS body_bytes,
       min(keys) AS first_key, max(properties['UNIQ_KEY']) AS last_id, max(store_time) AS last
FROM messages GROUP BY ALL ORDER BY ALL
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[Sent]]:
    """Two of them, with several log files each."""
    sent: list[Sent] = []
    options = []
    for name, count in (("broker-a", 300), ("broker-b", 200)):
        root = tmp_path_factory.mktemp(name)
        with making(root, name, sent, file_size=16384) as maker:
            for number in range(count):
                topic = ("orders", "audit")[number % 3 == 0]
                maker.clock.now_ms += 1000
                maker.send(topic, number % 4, b"b" * number, tags=("new", "paid")[number % 2], keys=f"k-{number}")
        write_config(root, topics={"orders": 4, "audit": 4})
        options += ["--store", f"{name}={root}"]
    return options, sent


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


# Three JVMs of a cluster, two executors and two drivers take their time beside other tests.
pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]


def analyze(folder: Path, *args: str) -> Ended:
    variables = {**QUICK, "PYSPARK_PYTHON": sys.executable}  # workers have the same one here
    return execute("analyze", *args, cwd=folder, variables=variables, limit_s=280)


def expected(sent: list[Sent]) -> list[dict[str, Any]]:
    groups = sorted({(each.store, each.topic, each.queue_id, each.tags) for each in sent})
    found = {
        group: [each for each in sent if (each.store, each.topic, each.queue_id, each.tags) == group]
        for group in groups
    }
    return [
        {
            **dict(zip(("store", "topic", "queue_id", "tags"), group, strict=True)),
            "messages": len(members),
            "bytes": sum(each.size for each in members),
            "body_bytes": sum(len(each.body) for each in members),
            "first_key": min(each.keys for each in members),
            "last_id": max(each.uniq_key for each in members),
        }
        for group, members in found.items()
    ]


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for part in sorted(folder.glob("part-*")) for line in part.read_text().splitlines()]


def test_a_cluster_answers_as_this_machine_does(
    stores: tuple[list[str], list[Sent]], standalone: Cluster, tmp_path: Path
) -> None:
    """Here into files, there to standard output."""
    options, sent = stores
    here = analyze(tmp_path, "sql", QUERY, *options, "--master", "local[2]", "-o", "json", "--out", "rows")
    assert (here.status, here.out, here.err) == (0, "", f"written to {tmp_path}/rows\n")
    conf = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"]
    there = analyze(tmp_path, "sql", QUERY, *options, "--master", standalone.master, *conf, "-o", "json")
    assert (there.status, there.err) == (0, "")
    assert there.json == written(tmp_path / "rows")
    assert [{name: value for name, value in row.items() if name != "last"} for row in there.json] == expected(sent)
    assert standalone.executors() == [1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]  # Spark leaves nothing where one happens to be
