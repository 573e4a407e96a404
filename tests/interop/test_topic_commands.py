"""`mqctl topic`, `cluster`, `broker` and `namesrv` against Apache's broker and ours; mqadmin sees the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from mqctl.remoting import fastjson
from tests.cli.running import Cli
from tests.interop.acting import start_consumer, start_producer
from tests.peers.apache import ApacheBroker
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = OurBroker | ApacheBroker


@pytest.fixture(params=["apache_broker", "our_broker"])
def any_broker(request: pytest.FixtureRequest) -> AnyBroker:
    broker: AnyBroker = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def cli(any_broker: AnyBroker, tmp_path: Path) -> Cli:
    return Cli({"NAMESRV_ADDR": any_broker.namesrv, "HOME": str(tmp_path)})


def mqadmin(client: ClientDriver, broker: AnyBroker, *words: str) -> str:
    return str(client.call("mqadmin", args=[*words, "-n", broker.namesrv])["stdout"])


def cells(printed: str, first: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.startswith(f"{first} ")]


def test_both_tools_see_the_same(any_broker: AnyBroker, java49: ClientDriver, cli: Cli, unique: Unique) -> None:
    topic = unique("both")
    cli.ok("updateTopic", "-c", any_broker.cluster, "-t", topic, "-w", "3", "-r", "4", "-p", "6")
    [queues] = fastjson.loads(mqadmin(java49, any_broker, "topicRoute", "-t", topic).encode())["queueDatas"]
    assert (queues["writeQueueNums"], queues["readQueueNums"], queues["perm"]) == (3, 4, 6)
    cli.ok("msg", "send", topic, "x", "--queue", "1", "--count", "2")
    rows = cli.ok("topic", "stats", topic, "-o", "json").json
    printed = cells(mqadmin(java49, any_broker, "topicStatus", "-t", topic), any_broker.name)
    assert [line[1:4] for line in printed] == [
        [str(row[name]) for name in ("queueId", "minOffset", "maxOffset")] for row in rows
    ]
    [listed] = [row for row in cli.ok("cluster", "list", "-o", "json").json if row["brokerAddr"] == any_broker.address]
    [line] = cells(mqadmin(java49, any_broker, "clusterList"), any_broker.cluster)
    assert line[1:5] == [listed["brokerName"], str(listed["brokerId"]), listed["brokerAddr"], listed["version"]]

    cli.ok("topic", "perm", topic, "r", "--yes")
    [queues] = fastjson.loads(mqadmin(java49, any_broker, "topicRoute", "-t", topic).encode())["queueDatas"]
    assert queues["perm"] == 4
    cli.ok("topic", "delete", topic, "--yes")
    assert topic not in mqadmin(java49, any_broker, "topicList").split()


def test_undo_of_an_order(any_broker: AnyBroker, cli: Cli, unique: Unique) -> None:
    """Brokers take the flag from the name servers, at the latest when they are told of the topic."""
    topic = unique("ordered")

    def ordered() -> bool:
        [row] = cli.ok("topic", "perm", topic, "rw", "--dry-run", "-o", "json").json
        return bool(row["before"]["order"])

    cli.ok("topic", "update", topic, "-c", any_broker.cluster)
    cli.ok("topic", "update", topic, "-c", any_broker.cluster, "--order")
    assert ordered()
    cli.ok("undo", "--yes")
    assert not ordered()
    assert cli("topic", "order", "get", topic).status == ExitCode.NOT_FOUND
    cli.ok("undo", "--yes")
    assert ordered()


def test_settings_kv_and_cleaning(any_broker: AnyBroker, java49: ClientDriver, cli: Cli, unique: Unique) -> None:
    def reserved() -> str:
        printed = mqadmin(java49, any_broker, "getBrokerConfig", "-b", any_broker.address)
        [line] = [line for line in printed.splitlines() if line.startswith("fileReservedTime ")]
        return line.split()[-1]

    before = reserved()
    cli.ok("updateBrokerConfig", "-b", any_broker.address, "-k", "fileReservedTime", "-v", "55")
    assert reserved() == "55"
    cli.ok("undo", "--yes")
    assert reserved() == before
    assert cli("broker", "config", "set", "noSuchKey=1", "--yes").status == ExitCode.NOT_FOUND

    topic = unique("kv")
    cli.ok("topic", "order", "set", topic, f"{any_broker.name}:2")
    assert f"{any_broker.name}:2" in mqadmin(java49, any_broker, "updateOrderConf", "-t", topic, "-m", "get")
    assert {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": f"{any_broker.name}:2"} in cli.ok(
        "namesrv", "kv", "list", "ORDER_TOPIC_CONFIG", "-o", "json"
    ).json
    cli.ok("topic", "order", "delete", topic, "--yes")
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        cli.ok(command, "-b", any_broker.address)
    assert {"bindAddress", "listenPort"} & {row["key"] for row in cli.ok("namesrv", "config", "get", "-o", "json").json}
    cli.ok("brokerStatus", "-b", any_broker.address)
    cli.ok("brokerConsumeStats", "-b", any_broker.address)
    [timed] = cli.ok("cluster", "rt", "--count", "3", "-o", "json").json
    assert timed["successCount"] == 3


def test_a_topic_shrinks_under_a_java_consumer_and_nothing_is_lost(
    any_broker: AnyBroker, java49: ClientDriver, cli: Cli, unique: Unique
) -> None:
    topic, group = unique("shrink"), unique("group")
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    start_producer(java49, any_broker, unique("p"))
    bodies = []
    for number in range(12):
        body = b"m-%d" % number
        java49.call("send", name="p", topic=topic, body=body, queueId=number % 4)
        bodies.append(body)
    start_consumer(java49, any_broker, topic, group)
    ended = cli.ok("topic", "resize", topic, "--queues", "2", "--quiet", "0.5", "--yes")
    assert "6 messages in queues that go" in ended.err
    [row] = cli.ok("topic", "route", topic, "-o", "json").json
    assert (row["writeQueueNums"], row["readQueueNums"]) == (2, 2)
    # Consumed to the end means that the consumer has them, whatever it does from now on.
    assert sorted(message.body for message in java49.wait_messages("c", 12)) == sorted(bodies)


def test_drain_is_seen_by_mqadmin_and_ended_by_undrain(
    any_broker: AnyBroker, java49: ClientDriver, cli: Cli, unique: Unique
) -> None:
    topic = unique("drain")
    cli.ok("topic", "update", topic)
    try:
        [row] = cli.ok("broker", "drain", any_broker.name, "--quiet", "0.2", "--yes", "-o", "json").json
        assert row["safe"]
        [queues] = fastjson.loads(mqadmin(java49, any_broker, "topicRoute", "-t", topic).encode())["queueDatas"]
        assert queues["perm"] == 4
    finally:
        cli.ok("broker", "undrain", any_broker.name, "--yes")
    start_producer(java49, any_broker, unique("p"))
    java49.call("send", name="p", topic=topic, body=b"back")
