"""`mqctl consumer`, `producer`, `offset`, `lag` and `undo` against a real broker and a consumer that runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqctl.client import Message, ReceivedMessage
from mqctl.client.blocking import Producer, PushConsumer
from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.cli.test_topic import registered_but_gone
from tests.peers.ours import OurBroker, OurNamesrv

QUEUES = 2


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


@pytest.fixture
def cli(broker: OurBroker, tmp_path: Path) -> Cli:
    """mqctl with a home of its own, for the journal."""
    return Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})


@pytest.fixture
def backlog(cli: Cli, topic: str, group: str) -> Iterator[None]:
    """Two queues with 5 messages each, of which the group has consumed 2 each."""
    cli.ok("topic", "update", topic, "-w", str(QUEUES), "-r", str(QUEUES))
    cli.ok("consumer", "update", group)
    cli.ok("msg", "send", topic, "x", "--count", "10")
    for queue in range(QUEUES):
        cli.ok("offset", "set", group, "-t", topic, "-q", str(queue), "--to", "2", "--yes")
    yield


def offsets(cli: Cli, group: str, topic: str) -> list[int | None]:
    return [row["offset"] for row in cli.ok("offset", "get", group, "-t", topic, "-o", "json").json]


@pytest.fixture
def running(broker: OurBroker, topic: str, group: str, backlog: None) -> Iterator[list[int]]:
    """A consumer of the group that has consumed all there is; the offsets it gets later."""
    consumed: list[int] = []
    enough = threading.Event()

    def listen(message: ReceivedMessage) -> None:
        consumed.append(message.queue_offset)
        if len(consumed) >= 6:
            enough.set()

    with PushConsumer(group, listen, topic, namesrv=broker.namesrv):
        assert enough.wait(20)
        yield consumed


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# -- progress -------------------------------------------------------------------------------------------


def test_list_leaves_the_servers_groups_out_unless_asked(cli: Cli, broker: OurBroker, group: str) -> None:
    cli.ok("consumer", "update", group)
    assert {"group": group, "brokers": [broker.name]} in cli.ok("consumer", "list", "-o", "json").json
    names = {row["group"] for row in cli.ok("consumer", "list", "-o", "json").json}
    assert "TOOLS_CONSUMER" not in names
    assert "TOOLS_CONSUMER" in cli.ok("consumer", "list", "--system").out


def test_progress_of_one_group_queue_by_queue(cli: Cli, topic: str, group: str, backlog: None) -> None:
    ended = cli.ok("consumer", "progress", group, "-o", "json")
    rows = [row for row in ended.json if row["topic"] == topic]
    assert [(row["queueId"], row["brokerOffset"], row["consumerOffset"], row["diff"]) for row in rows] == [
        (0, 5, 2, 3),
        (1, 5, 2, 3),
    ]
    assert all(row["lastTimestamp"] > 0 for row in rows)
    assert ended.err == "6 messages behind, consumes 0 a second\n"


def test_progress_of_all_groups_has_the_worst_first(cli: Cli, group: str, backlog: None) -> None:
    rows = cli.ok("consumer", "progress", "-o", "json").json
    assert [row["diff"] for row in rows] == sorted((row["diff"] for row in rows), reverse=True)
    [row] = [row for row in rows if row["group"] == group]
    assert (row["diff"], row["clients"], row["version"], row["consumeType"]) == (6, 0, None, None)


def test_a_group_that_does_not_exist_is_guessed(cli: Cli, group: str) -> None:
    cli.ok("consumer", "update", group)
    for command in (["consumer", "progress"], ["consumer", "config"], ["lag"], ["consumer", "connections"]):
        ended = cli(*command, f"{group}x")
        assert ended.status == ExitCode.NOT_FOUND
        assert ended.err.startswith(f"error: there is no consumer group {group}x\nhint: did you mean {group}")


def test_no_name_server_is_one_line(offline: Cli) -> None:
    for command in (["consumer", "list"], ["lag"], ["producer", "list"], ["offset", "get", "g", "-t", "t"]):
        ended = offline(*command)
        assert ended.status == ExitCode.UNREACHABLE
        assert ended.err.splitlines()[0] == "error: cannot connect to 127.0.0.1:1: Connection refused"


def test_a_broker_that_is_gone_does_not_hide_the_others(tmp_path: Path) -> None:
    with (
        OurNamesrv(tmp_path / "namesrv") as namesrv,
        OurBroker(tmp_path / "broker", namesrv.address) as broker,
        registered_but_gone(namesrv, "gone", broker.cluster) as address,
    ):
        cli = Cli({"NAMESRV_ADDR": namesrv.address})
        cli.ok("consumer", "update", "g", "-b", broker.address)
        for command in (["consumer", "list"], ["consumer", "progress"], ["lag", "--all"], ["producer", "list"]):
            ended = cli(*command)
            assert ended.status == ExitCode.PARTIAL
            assert ended.err == f"warning: gone is missing here: cannot connect to {address}: Connection refused\n"
        assert cli("consumer", "list", "-o", "json").json == [{"group": "g", "brokers": [broker.name]}]
        ended = cli("consumer", "update", "g", "--retry-max", "1", "-o", "json")
        assert ended.status == ExitCode.PARTIAL
        assert [row["brokerName"] for row in ended.json] == [broker.name]
        for words in (["consumer", "progress"], ["consumer", "progress", "g"]):
            with program(*words, "--watch", "0.1", "-o", "csv", cwd=tmp_path, variables=cli.variables) as watching:
                head = watching.line()
                assert head in [watching.line() for _ in range(2)]
                assert watching.end(signal.SIGINT).status == ExitCode.DONE


# -- lag ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "lines", "names"),
    [("group", 1, {"group"}), ("topic", 1, {"group", "topic"}), ("queue", 2, {"brokerName", "queueId"})],
)
def test_lag(cli: Cli, group: str, backlog: None, by: str, lines: int, names: set[str]) -> None:
    rows = cli.ok("lag", group, "--by", by, "-o", "json").json
    assert len(rows) == lines
    assert sum(row["lag"] for row in rows) == 6
    assert all(row["seconds"] > 0 and row["clients"] == 0 for row in rows)
    assert names <= rows[0].keys()


def test_lag_of_nobody_is_empty_unless_all_are_asked_for(cli: Cli, topic: str, group: str, backlog: None) -> None:
    cli.ok("offset", "skip", group, "-t", topic, "--yes")
    assert cli.ok("lag", group, "-o", "json").json == []
    [row] = cli.ok("lag", group, "--all", "-o", "json").json
    assert (row["lag"], row["seconds"]) == (0, 0.0)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--max-lag", "5"], ExitCode.ALERT),
        (["--max-lag", "6"], ExitCode.DONE),
        (["--max-seconds", "0"], ExitCode.ALERT),
        (["--max-seconds", "100000"], ExitCode.DONE),
        (["--max-lag", "5", "--watch", "1"], ExitCode.USAGE),
    ],
)
def test_lag_alerts_by_its_status(cli: Cli, group: str, backlog: None, options: list[str], status: ExitCode) -> None:
    assert cli("lag", group, *options).status == status


@pytest.mark.parametrize("command", ["lag", "consumer progress GROUP"])
def test_a_topic_that_does_not_exist_is_guessed(cli: Cli, topic: str, group: str, backlog: None, command: str) -> None:
    """Nobody is behind in it, so an alert would stay silent for ever."""
    ended = cli(*(group if word == "GROUP" else word for word in command.split()), "-t", f"{topic}x")
    assert ended.status == ExitCode.NOT_FOUND
    assert ended.out == ""
    assert ended.err.startswith(f"error: the topic {topic}x does not exist\nhint: did you mean {topic}")


def test_lag_by_client(cli: Cli, broker: OurBroker, topic: str, group: str, backlog: None) -> None:
    """One consumer that has a message of each queue in hand and does not get on."""
    in_hand: set[int] = set()
    all_queues, go_on = threading.Event(), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        in_hand.add(message.queue_id)
        if len(in_hand) == QUEUES:
            all_queues.set()
        assert go_on.wait(20)

    with PushConsumer(group, listen, topic, namesrv=broker.namesrv):
        assert all_queues.wait(20)
        [client] = cli.ok("consumer", "connections", group, "-o", "json").json
        [row] = cli.ok("lag", group, "-t", topic, "--by", "client", "-o", "json").json
        go_on.set()
    assert (row["clientId"], row["lag"], row["clients"], row["queues"]) == (client["clientId"], 6, 1, QUEUES)


def test_lag_watched(cli: Cli, broker: OurBroker, group: str, backlog: None, tmp_path: Path) -> None:
    watching = ["lag", group, "--watch", "0.1", "-o", "csv"]
    with program(*watching, cwd=tmp_path, variables={"NAMESRV_ADDR": broker.namesrv}) as lag:
        lines = [lag.line() for _ in range(4)]
        assert lines[0] == lines[2] == "group,topic,lag,seconds,clients,queues"
        assert lag.end(signal.SIGINT).status == 0


# -- clients --------------------------------------------------------------------------------------------


def test_connections_status_and_readers(cli: Cli, topic: str, group: str, running: list[int]) -> None:
    [client] = cli.ok("consumer", "connections", group, "-o", "json").json
    assert client["subscriptions"][topic] == "*"
    assert (client["consumeType"], client["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")

    [status] = cli.ok("consumer", "status", group, "--stacks", "-o", "json").json
    assert status["clientId"] == client["clientId"]
    assert (status["queues"], status["verdict"]) == (QUEUES + 1, [])
    assert "thread" in status["jstack"]

    queues = cli.ok("consumer", "status", group, "--client", client["clientId"], "-o", "json").json
    assert [(row["queueId"], row["commitOffset"]) for row in queues if row["topic"] == topic] == [(0, 5), (1, 5)]
    readers = cli.ok("consumer", "progress", group, "--clients", "-o", "json").json
    assert {row["clientId"] for row in readers if row["topic"] == topic} == {client["clientId"]}
    ended = cli("consumer", "status", group, "--client", "nobody")
    assert (ended.status, ended.err) == (ExitCode.NOT_FOUND, f"error: the group {group} has no client nobody\n")


def test_a_group_without_clients(cli: Cli, group: str) -> None:
    cli.ok("consumer", "update", group)
    for verb in ("connections", "status"):
        ended = cli("consumer", verb, group)
        assert (ended.status, ended.err) == (ExitCode.NOT_FOUND, f"error: no consumer of {group} is connected\n")


def test_producers(cli: Cli, broker: OurBroker, topic: str, group: str) -> None:
    with Producer(group, namesrv=broker.namesrv) as producer:
        producer.send(Message(topic, b"x"))
        rows = [row for row in cli.ok("producer", "list", "-o", "json").json if row["group"] == group]
        assert [(row["clientId"], row["brokers"]) for row in rows] == [(producer.client_id, [broker.name])]
        [row] = cli.ok("producer", "connections", group, "-t", topic, "-o", "json").json
        assert row["clientId"] == producer.client_id
    assert cli("producer", "connections", group, "-t", topic).status == ExitCode.NOT_FOUND


# -- settings -------------------------------------------------------------------------------------------


def test_update_changes_what_is_given_and_undo_puts_it_back(cli: Cli, broker: OurBroker, group: str) -> None:
    [created] = cli.ok("consumer", "update", group, "--retry-max", "3", "-o", "json").json
    assert created["before"] is None
    [row] = cli.ok("consumer", "update", group, "--disable", "--yes", "-o", "json").json
    assert row["changed"] == ["consumeEnable true -> false"]
    [config] = cli.ok("consumer", "config", group, "-o", "json").json
    assert (config["consumeEnable"], config["retryMaxTimes"]) == (False, 3)

    ended = cli.ok("undo", "--yes")
    assert "undo it with `mqctl undo 3`" in ended.err
    [config] = cli.ok("consumer", "config", group, "-o", "json").json
    assert (config["brokerName"], config["consumeEnable"], config["retryMaxTimes"]) == (broker.name, True, 3)
    entries = cli.ok("undo", "list", "-o", "json").json
    assert [(entry["id"], entry["undone"]) for entry in entries] == [(3, False), (2, True), (1, False)]
    assert entries[0]["summary"] == f"undo of 2, the update of group {group}"


def test_delete(cli: Cli, topic: str, group: str, backlog: None) -> None:
    ended = cli("consumer", "delete", group)
    assert ended.status == ExitCode.USAGE
    assert "nobody is there to be asked" in ended.err
    ended = cli.ok("consumer", "delete", group, "--dry-run")
    assert f"Delete the group {group} on broker-a: 0 clients are connected, 6 messages are unread." in ended.err
    cli.ok("consumer", "delete", group, "--offsets", "--yes")
    assert cli("consumer", "config", group).status == ExitCode.NOT_FOUND
    cli.ok("undo", "--yes")
    assert cli("consumer", "config", group).status == ExitCode.DONE


# -- offsets --------------------------------------------------------------------------------------------


def test_reset_and_undo(cli: Cli, topic: str, group: str, backlog: None) -> None:
    ended = cli.ok("offset", "reset", group, "-t", topic, "--to", "earliest", "--dry-run", "-o", "json")
    assert [(row["before"], row["after"]) for row in ended.json] == [(2, 0), (2, 0)]
    assert ended.err == "4 messages are consumed again, 0 are skipped\n"
    assert offsets(cli, group, topic) == [2, 2]

    cli.ok("offset", "reset", group, "-t", topic, "--to", "earliest", "--yes")
    assert offsets(cli, group, topic) == [0, 0]
    cli.ok("undo", "--yes")
    assert offsets(cli, group, topic) == [2, 2]
    cli.ok("offset", "skip", group, "-t", topic, "--yes")
    assert offsets(cli, group, topic) == [5, 5]
    cli.ok("offset", "reset", group, "-t", topic, "--to", "-1h", "--yes")
    assert offsets(cli, group, topic) == [0, 0]


def test_undo_asks_before_it_overwrites_what_came_later(cli: Cli, topic: str, group: str, backlog: None) -> None:
    cli.ok("offset", "skip", group, "-t", topic, "--yes")
    [skip] = [row["id"] for row in cli.ok("undo", "list", "-o", "json").json if row["summary"].startswith("reset")]
    cli.ok("offset", "set", group, "-t", topic, "-q", "broker-a:1", "--to", "4", "--yes")
    ended = cli("undo", str(skip), "--yes")
    assert ended.status == ExitCode.USAGE
    assert "1 of 2 things were changed again since" in ended.err
    cli.ok("undo", str(skip), "--yes", "--force")
    assert offsets(cli, group, topic) == [2, 2]
    assert cli("undo", str(skip), "--yes").err == f"error: {skip} is undone already\n"
    assert cli("undo", "999").status == ExitCode.NOT_FOUND


def test_a_running_group_is_told(cli: Cli, topic: str, group: str, running: list[int]) -> None:
    ended = cli("offset", "set", group, "-t", topic, "-q", "0", "--to", "1", "--yes")
    assert ended.status == ExitCode.REFUSED
    assert f"1 consumers of {group} run" in ended.err
    running.clear()
    rows = cli.ok("offset", "reset", group, "-t", topic, "--to", "earliest", "--yes", "-o", "json").json
    assert [row["after"] for row in rows] == [0, 0]
    until(lambda: sorted(running) == [number for number in range(5) for _ in range(QUEUES)])
    ended = cli("undo", "--yes")
    assert ended.status == ExitCode.REFUSED
    assert "would write their own offsets again" in ended.err


def test_clone(cli: Cli, topic: str, group: str, backlog: None) -> None:
    other = f"{group}-2"
    rows = cli.ok("offset", "clone", group, other, "--yes", "-o", "json").json
    assert [(row["queueId"], row["after"]) for row in rows] == [(0, 2), (1, 2)]
    cli.ok("consumer", "update", other)
    assert offsets(cli, other, topic) == [2, 2]


@pytest.mark.parametrize(
    ("args", "status", "complaint"),
    [
        (["set", "GROUP", "-t", "TOPIC", "-q", "0", "--to", "6"], ExitCode.USAGE, "holds the offsets 0 to 5, not 6"),
        (["set", "GROUP", "-t", "TOPIC", "-q", "9", "--to", "0"], ExitCode.NOT_FOUND, "has no queue 9"),
        (["set", "GROUP", "-t", "TOPIC", "-q", "x", "--to", "0"], ExitCode.USAGE, "'x' is not a queue"),
        (["reset", "GROUP", "-t", "TOPIC", "--to", "yesterday"], ExitCode.USAGE, "'yesterday' is not a time"),
        (["reset", "GROUP", "-t", "nowhere", "--to", "latest"], ExitCode.NOT_FOUND, "the topic nowhere does not exist"),
        (["get", "nobody", "-t", "TOPIC"], ExitCode.NOT_FOUND, "there is no consumer group nobody"),
        (["clone", "nobody", "GROUP"], ExitCode.NOT_FOUND, "there is no consumer group nobody"),
    ],
)
def test_offsets_that_cannot_be(
    cli: Cli, topic: str, group: str, backlog: None, args: list[str], status: ExitCode, complaint: str
) -> None:
    ended = cli("offset", *({"GROUP": group, "TOPIC": topic}.get(arg, arg) for arg in args))
    assert ended.status == status, ended
    assert complaint in ended.err
    assert ended.out == ""


# -- undo of what other commands change -----------------------------------------------------------------


def test_undo_of_a_topic_and_of_a_setting(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    cli.ok("topic", "update", topic, "-w", "6", "-r", "6")
    cli.ok("undo", "--yes")
    assert [row["writeQueueNums"] for row in cli.ok("topic", "route", topic, "-o", "json").json] == [4]
    cli.ok("broker", "config", "set", "maxMessageSize=1000000", "-b", broker.address, "--yes")
    cli.ok("undo", "--yes")
    [row] = cli.ok("broker", "config", "get", "maxMessageSize", "-b", broker.address, "-o", "json").json
    assert row["value"] == "4194304"
