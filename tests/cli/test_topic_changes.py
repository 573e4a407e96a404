"""What `mqctl topic` changes besides `update`: permissions, order, many at once, fewer queues, deletion; and undo."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.peers.ours import OurBroker


@pytest.fixture
def cli(broker: OurBroker, tmp_path: Path) -> Cli:
    """mqctl with a home of its own, for the journal."""
    return Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})


def queues(cli: Cli, topic: str) -> tuple[int, int]:
    """Write and read queues, as the name server says."""
    [row] = cli.ok("topic", "route", topic, "-o", "json").json
    return row["writeQueueNums"], row["readQueueNums"]


def test_perm_of_a_topic_that_exists(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    [row] = cli.ok("topic", "perm", topic, "r", "--yes", "-o", "json").json
    assert (row["before"]["perm"], row["after"]["perm"], row["after"]["writeQueueNums"]) == ("rw", "r", 2)
    ended = cli("topic", "perm", topic[:-1], "r")
    assert ended.status == ExitCode.NOT_FOUND
    assert f"did you mean {topic}" in ended.err


def test_an_update_is_journalled_and_undone(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    cli.ok("undo", "--yes")
    assert queues(cli, topic) == (2, 2)


def order(cli: Cli, topic: str) -> tuple[str | None, bool]:
    """What the name server keeps of it, and the broker's flag."""
    kept = cli("topic", "order", "get", topic, "-o", "json")
    [row] = cli.ok("topic", "perm", topic, "rw", "--dry-run", "-o", "json").json
    return kept.json[0]["orderConf"] if kept.status == ExitCode.DONE else None, row["before"]["order"]


def test_the_order_goes_back_with_the_topic(cli: Cli, topic: str, tmp_path: Path) -> None:
    """Brokers take the flag from the name servers, so what these keep is changed and put back first."""
    ordered = ("broker-a:2", True)
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    cli.ok("topic", "update", topic, "--order")
    assert order(cli, topic) == ordered
    cli.ok("undo", "--yes")
    assert order(cli, topic) == (None, False)
    cli.ok("undo", "--yes")
    assert order(cli, topic) == ordered

    cli.ok("topic", "resize", topic, "--queues", "3", "--yes")
    assert order(cli, topic) == ("broker-a:3", True)
    cli.ok("undo", "--yes")
    assert order(cli, topic) == ordered

    file = tmp_path / "topics.yaml"
    file.write_text(f"- {{topicName: {topic}, order: false}}\n- {{topicName: {topic}-2, order: true}}\n")
    cli.ok("topic", "apply", "-f", str(file), "--yes")
    assert (order(cli, topic), order(cli, f"{topic}-2")) == ((None, False), ("broker-a:8", True))
    cli.ok("undo", "--yes")
    assert order(cli, topic) == ordered
    assert cli("topic", "route", f"{topic}-2").status == ExitCode.NOT_FOUND
    cli.ok("topic", "order", "delete", topic, "--yes")


def test_an_apply_is_one_change(cli: Cli, topic: str, tmp_path: Path) -> None:
    cli.ok("topic", "update", f"{topic}-0", "-w", "2", "-r", "2")
    file = tmp_path / "topics.json"
    file.write_text(json.dumps([{"topicName": f"{topic}-{number}", "writeQueueNums": 4} for number in range(3)]))
    cli.ok("topic", "apply", "-f", str(file), "--yes")
    [applied, _] = cli.ok("undo", "list", "-o", "json").json
    assert (applied["summary"], applied["changes"]) == ("update of 3 topics", 3)
    would = cli.ok("undo", "--dry-run", "-o", "json").json
    assert [row["before"] is None for row in would] == [False, True, True]
    assert queues(cli, f"{topic}-1") == (4, 8)
    cli.ok("undo", "--yes")
    assert queues(cli, f"{topic}-0") == (2, 2)
    assert [cli("topic", "route", f"{topic}-{number}").status for number in (1, 2)] == [ExitCode.NOT_FOUND] * 2


def test_a_deleted_topic_comes_back_empty(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "3", "-r", "2", "--perm", "r")
    [before] = cli.ok("topic", "route", topic, "-o", "json").json
    cli.ok("topic", "delete", topic, "--yes")
    cli.ok("undo", "--yes")
    assert cli.ok("topic", "route", topic, "-o", "json").json == [before]


def test_order_is_set_shown_and_forgotten(cli: Cli, topic: str) -> None:
    assert cli("topic", "order", "get", topic).status == ExitCode.NOT_FOUND
    assert cli("topic", "order", "set", topic, "nonsense").status == ExitCode.USAGE
    cli.ok("topic", "order", "set", topic, "broker-a:3")
    assert cli.ok("topic", "order", "get", topic, "-o", "json").json == [{"topic": topic, "orderConf": "broker-a:3"}]
    cli.ok("topic", "order", "delete", topic, "--yes")
    assert cli("topic", "order", "get", topic).status == ExitCode.NOT_FOUND


def test_delete_says_what_goes_and_leaves_nothing(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "1", "-r", "1")
    cli.ok("msg", "send", topic, "x", "--count", "3")
    said = f"Delete the topic {topic} on broker-a: 3 messages go, no group reads it."
    assert cli.ok("topic", "delete", topic, "--dry-run").err == said + "\n"
    assert cli("topic", "delete", topic).status == ExitCode.USAGE  # nobody can be asked
    cli.ok("topic", "route", topic)
    cli.ok("topic", "delete", topic, "--yes")
    assert cli("topic", "route", topic).status == ExitCode.NOT_FOUND
    assert topic not in cli.ok("topic", "list").out.split()


def test_apply_creates_changes_and_leaves_alone(cli: Cli, topic: str, tmp_path: Path) -> None:
    cli.ok("topic", "update", f"{topic}-a", "-w", "2", "-r", "2")
    wanted = [{"topicName": f"{topic}-a", "readQueueNums": 3}, {"topicName": f"{topic}-b", "perm": "r"}]
    file = tmp_path / "topics.json"
    file.write_text(json.dumps(wanted))
    assert len(cli.ok("topic", "apply", "-f", str(file), "--dry-run", "-o", "json").json) == 2
    cli.ok("topic", "apply", "-f", str(file), "--yes")
    assert queues(cli, f"{topic}-a") == (2, 3)
    assert queues(cli, f"{topic}-b") == (8, 8)
    assert cli.ok("topic", "apply", "-f", str(file), "-o", "json").json == []  # all is as it says: nothing to ask


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "does not hold a list"),
        ("- 1", "not a topic"),
        ("- {topicName: t, queues: 3}", "unknown queues"),
        ("- {topicName: t, perm: zz}", "not a permission"),
        ("- {topicName: t, readQueueNums: many}", "no number of queues"),
        ("- {topicName: t, readQueueNums: true}", "no number of queues"),
        ("- {topicName: t, writeQueueNums: -1}", "no number of queues"),
        ("- {topicName: t, writeQueueNums: 65537}", "write one from 0 to 65536"),
        ("- {topicName: t, order: 'false'}", "order is neither true nor false"),
        ("[", "neither JSON nor YAML"),
    ],
)
def test_apply_of_what_cannot_be(cli: Cli, tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(text)
    ended = cli("topic", "apply", "-f", str(file))
    assert ended.status == ExitCode.USAGE
    assert complaint in ended.err


def test_allocate_and_clusters(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "3", "-r", "3")
    rows = cli.ok("topic", "allocate", topic, "--clients", "b,a", "-o", "json").json
    assert rows == [
        {"client": "a", "queues": ["broker-a:0", "broker-a:1"]},
        {"client": "b", "queues": ["broker-a:2"]},
    ]
    assert cli.ok("topic", "clusters", topic, "-o", "json").json == [{"cluster": "DefaultCluster"}]


def test_unit_topics(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "--unit")
    assert {"topic": topic} in cli.ok("topic", "unit", "-o", "json").json
    cli.ok("topic", "update", topic, "--no-unit", "--unit-sub")
    assert {"topic": topic} not in cli.ok("topic", "unit", "-o", "json").json
    assert {"topic": topic} in cli.ok("topic", "unit", "only-subscribed", "-o", "json").json


# -- resize ---------------------------------------------------------------------------------------------


@pytest.fixture
def consumed(cli: Cli, topic: str) -> str:
    """A group that has consumed queues 0 and 1 of four with one message each, and not 2 and 3."""
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    group = f"g-{topic}"
    cli.ok("consumer", "update", group)
    for queue in range(4):
        cli.ok("msg", "send", topic, "x", "--queue", str(queue))
        cli.ok("offset", "set", group, "-t", topic, "-q", str(queue), "--to", str(int(queue < 2)), "--yes")
    return group


def test_resize_grows_at_once(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    cli.ok("topic", "resize", topic, "--queues", "5", "--yes")
    assert queues(cli, topic) == (5, 5)


def test_resize_shrinks_what_every_group_has_consumed(cli: Cli, topic: str, consumed: str) -> None:
    plan = cli.ok("topic", "resize", topic, "--queues", "2", "--dry-run")
    assert "w4 r4" in plan.err
    assert queues(cli, topic) == (4, 4)
    for queue in (2, 3):
        cli.ok("offset", "set", consumed, "-t", topic, "-q", str(queue), "--to", "1", "--yes")
    ended = cli.ok("topic", "resize", topic, "--queues", "2", "--quiet", "0.1", "--yes")
    assert "2 messages in queues that go" in ended.err
    assert queues(cli, topic) == (2, 2)


def test_resize_that_is_stopped_goes_on(cli: Cli, topic: str, consumed: str, tmp_path: Path) -> None:
    words = ("topic", "resize", topic, "--queues", "2", "--quiet", "0.1", "--yes")
    with program(*words, cwd=tmp_path, variables=cli.variables) as started:
        assert any(f"still to consume: {consumed} 2" in line for line in iter(started.err_line, ""))
        assert queues(cli, topic) == (2, 4)
        ended = started.end(signal.SIGINT)
    assert ended.status == ExitCode.REFUSED
    assert "goes on from here" in ended.err
    cli.ok(*words, "--ignore", consumed)
    assert queues(cli, topic) == (2, 2)


def test_resize_does_not_leave_messages_behind_that_nobody_reads(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    cli.ok("msg", "send", topic, "x", "--queue", "1")
    words = ("topic", "resize", topic, "--queues", "1", "--quiet", "0", "--yes")
    ended = cli(*words)
    assert ended.status == ExitCode.REFUSED
    assert "1 messages are in queues that go" in ended.err
    cli.ok(*words, "--abandon")
    assert queues(cli, topic) == (1, 1)
