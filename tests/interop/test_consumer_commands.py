"""`mqctl consumer`, `offset`, `lag` and `producer` with Java's clients, against Apache's brokers and ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = OurBroker | ApacheBroker

QUEUES = 2


def consumed_and_more(
    client: ClientDriver, broker: AnyBroker, topic: str, group: str, consumed: int, waiting: int
) -> None:
    """A group that consumed some messages and is gone, and more messages."""
    make_topic(broker, topic, QUEUES)
    start_producer(client, broker, f"p_{group}", sendTimeoutMs=20_000)
    send(client, topic, consumed)
    start_consumer(client, broker, topic, group, java={"awaitTerminationMillisWhenShutdown": 5000})
    client.wait_messages("c", consumed)
    client.call("consumer_stop", name="c")
    send(client, topic, waiting)


def send(client: ClientDriver, topic: str, count: int) -> None:
    template = {"topic": topic, "body": b"m", "queueId": list(range(QUEUES))}
    assert not client.call("send_many", name="p", count=count, template=template)["errors"]


def readers(cli: Cli, topic: str, group: str) -> set[str | None]:
    """Who reads the queues; a group is seen when its offsets are, which consumers save from time to time."""
    end = time.monotonic() + 30
    while True:
        rows = cli.ok("consumer", "progress", group, "--clients", "-o", "json").json
        if found := {row["clientId"] for row in rows if row["topic"] == topic}:
            return found
        assert time.monotonic() < end, "the consumer saved no offsets"


def mqadmins_progress(client: ClientDriver, broker: AnyBroker, topic: str, group: str) -> list[list[str]]:
    """Broker, queue, end, consumed, difference."""
    printed = client.call("mqadmin", args=["consumerProgress", "-g", group, "-n", broker.namesrv])["stdout"]
    return [line.split()[1:6] for line in printed.splitlines() if line.startswith(f"{topic} ")]


def test_progress_lag_and_moves(any_broker: AnyBroker, java49: ClientDriver, unique: Unique, tmp_path: Path) -> None:
    topic, group = unique("progress"), unique("group")
    consumed_and_more(java49, any_broker, topic, group, 6, 4)
    cli = Cli({"NAMESRV_ADDR": any_broker.namesrv, "HOME": str(tmp_path)})

    rows = [row for row in cli.ok("consumer", "progress", group, "-o", "json").json if row["topic"] == topic]
    assert [(row["queueId"], row["brokerOffset"], row["consumerOffset"]) for row in rows] == [(0, 5, 3), (1, 5, 3)]
    assert mqadmins_progress(java49, any_broker, topic, group) == [
        [str(row[name]) for name in ("brokerName", "queueId", "brokerOffset", "consumerOffset", "diff")] for row in rows
    ]
    [row] = [row for row in cli.ok("lag", group, "-o", "json").json if row["topic"] == topic]
    assert row["lag"] == 4
    assert 0 < row["seconds"] < 600
    assert cli("lag", group, "--max-lag", "3").status == ExitCode.ALERT

    def offsets(of: str) -> list[int | None]:
        return [row["offset"] for row in cli.ok("offset", "get", of, "-t", topic, "-o", "json").json]

    cli.ok("offset", "reset", group, "-t", topic, "--to", "earliest", "--yes")
    assert offsets(group) == [0, 0]
    cli.ok("undo", "--yes")
    assert offsets(group) == [3, 3]
    cli.ok("offset", "set", group, "-t", topic, "-q", "1", "--to", "4", "--yes")
    other = unique("other")
    cli.ok("consumer", "update", other, "--retry-max", "3", "-b", any_broker.address)
    cli.ok("offset", "clone", group, other, "--yes")
    assert offsets(other) == [3, 4]
    [config] = cli.ok("consumer", "config", other, "-o", "json").json
    assert (config["retryMaxTimes"], config["consumeBroadcastEnable"]) == (3, False)

    # A consumer goes on where the group was put.
    cli.ok("offset", "skip", group, "-t", topic, "--yes")
    start_consumer(java49, any_broker, topic, group, name="c2")
    send(java49, topic, 2)
    assert sorted(message.queue_offset for message in java49.wait_messages("c2", 2)) == [5, 5]
    cli.ok("consumer", "delete", other, "--offsets", "--yes")
    assert cli("consumer", "config", other).status == ExitCode.NOT_FOUND


def test_clients(any_broker: AnyBroker, java55: ClientDriver, unique: Unique) -> None:
    topic, group = unique("clients"), unique("group")
    make_topic(any_broker, topic, QUEUES)
    start_producer(java55, any_broker, f"p_{group}", sendTimeoutMs=20_000)
    start_consumer(java55, any_broker, topic, group, java={"persistConsumerOffsetInterval": 200})
    send(java55, topic, 4)
    java55.wait_messages("c", 4)
    cli = Cli({"NAMESRV_ADDR": any_broker.namesrv})

    [client] = cli.ok("consumer", "connections", group, "-o", "json").json
    assert (client["language"], client["version"]) == ("JAVA", "V5_5_0")
    assert client["subscriptions"][topic] == "*"
    [status] = cli.ok("consumer", "status", group, "--stacks", "-o", "json").json
    assert (status["clientId"], status["verdict"]) == (client["clientId"], [])
    assert "ConsumeMessage" in status["jstack"]
    assert readers(cli, topic, group) == {client["clientId"]}
    [row] = [row for row in cli.ok("consumer", "progress", "-o", "json").json if row["group"] == group]
    assert (row["clients"], row["version"], row["consumeType"]) == (1, "V5_5_0", "CONSUME_PASSIVELY")
    [producer] = cli.ok("producer", "connections", f"p_{group}", "-t", topic, "-o", "json").json
    assert producer["version"] == "V5_5_0"
    assert f"p_{group}" in {row["group"] for row in cli.ok("producer", "list", "-o", "json").json}


def test_a_running_group_is_told_where_to_go_on(
    apache_broker: ApacheBroker, java49: ClientDriver, unique: Unique, tmp_path: Path
) -> None:
    """Java's consumer rests for 10 s before it does. The topic has a queue that nobody reads, for which Apache's broker
    alone would refuse."""
    topic, group = unique("told"), unique("group")
    make_topic(apache_broker, topic, QUEUES + 1, read=QUEUES)
    start_producer(java49, apache_broker, f"p_{group}", sendTimeoutMs=20_000)
    send(java49, topic, 4)
    start_consumer(java49, apache_broker, topic, group)
    java49.wait_messages("c", 4)
    cli = Cli({"NAMESRV_ADDR": apache_broker.namesrv, "HOME": str(tmp_path)})
    ended = cli("offset", "set", group, "-t", topic, "-q", "0", "--to", "1", "--yes")
    assert ended.status == ExitCode.REFUSED
    rows = cli.ok("offset", "reset", group, "-t", topic, "--to", "earliest", "--yes", "-o", "json").json
    assert [row["after"] for row in rows] == [0, 0, 0]
    again = java49.wait_messages("c", 8)[4:]
    assert sorted(message.queue_offset for message in again) == [0, 0, 1, 1]
