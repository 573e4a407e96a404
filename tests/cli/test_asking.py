"""The question before a command takes something away: whom it hits, and that nothing happens without a yes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from mqctl.client import Message
from mqctl.client.blocking import Producer
from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.cli.terminal import Terminal
from tests.peers.ours import OurBroker


@pytest.fixture
def cli(broker: OurBroker, tmp_path: Path) -> Cli:
    """mqctl with a home of its own, for the journal."""
    return Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})


def question(cli: Cli, *words: str) -> str:
    """What a person is asked who then says no."""
    assert cli(*words).status == ExitCode.USAGE, "nobody is there to be asked"
    ended = cli(*words, answer="no")
    assert (ended.status, ended.out) == (ExitCode.REFUSED, "")
    asked, separator, rest = ended.err.partition(" [y/N] ")
    assert (separator, rest) == (" [y/N] ", "nothing was changed\n"), ended
    return asked


def route(cli: Cli, topic: str) -> tuple[int, int, str]:
    [row] = cli.ok("topic", "route", topic, "-o", "json").json
    return row["writeQueueNums"], row["readQueueNums"], row["perm"]


@pytest.fixture
def group(cli: Cli, topic: str) -> str:
    """A group that has one of two messages in each of four queues left to consume."""
    name = f"g-{topic}"
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    cli.ok("consumer", "update", name)
    cli.ok("msg", "send", topic, "x", "--count", "8")
    for queue in range(4):
        cli.ok("offset", "set", name, "-t", topic, "-q", str(queue), "--to", "1", "--yes")
    return name


@pytest.mark.parametrize(
    ("keys", "status", "said"),
    [
        (b"n\r", ExitCode.REFUSED, "nothing was changed"),
        (b"\r", ExitCode.REFUSED, "nothing was changed"),
        (b"\x03", ExitCode.REFUSED, "nothing was changed"),
        (b"\x04", ExitCode.REFUSED, "nothing was changed"),
        (b"y\r", ExitCode.DONE, "undo it with"),
    ],
    ids=["no", "enter", "ctrl-c", "ctrl-d", "yes"],
)
def test_in_a_terminal(cli: Cli, topic: str, tmp_path: Path, keys: bytes, status: ExitCode, said: str) -> None:
    cli.ok("topic", "update", topic)
    with closing(Terminal("topic", "delete", topic, home=tmp_path, variables=cli.variables)) as terminal:
        terminal.wait_for("Go on? [y/N] ")
        assert f"Delete the topic {topic} on broker-a: 0 messages go" in terminal.text()
        terminal.press(keys)
        assert terminal.end() == status
        assert f"\n{said}" in terminal.text()
        assert terminal.restored()
        assert b"Traceback" not in terminal.drawn
    assert (cli("topic", "route", topic).status == ExitCode.DONE) == (status != ExitCode.DONE)


def test_fewer_queues(cli: Cli, topic: str, group: str) -> None:
    words = ("topic", "update", topic, "-w", "3", "-r", "2")
    assert question(cli, *words) == (
        "broker-a: nobody writes to queue 3 any more; "
        "broker-a: nobody reads queues 2 to 3 any more, "
        f"messages that are not consumed there: {group} 2 (`mqctl topic resize` waits for them). Go on?"
    )
    assert route(cli, topic) == (4, 4, "rw")
    cli.ok(*words, answer="y")
    assert route(cli, topic) == (3, 2, "rw")


def test_rights(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "1", "-r", "1", "--perm", "w")
    cli.ok("topic", "perm", topic, "rw")
    assert question(cli, "topic", "perm", topic, "r") == "broker-a: nobody may write. Go on?"
    assert question(cli, "topic", "update", topic, "--perm", "2") == "broker-a: nobody may read. Go on?"
    assert route(cli, topic) == (1, 1, "rw")
    cli.ok("updateTopicPerm", "-t", topic, "-p", "4", "-c", "DefaultCluster")
    assert route(cli, topic) == (1, 1, "r")


def test_an_order(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("topic", "order", "set", topic, "broker-a:1")
    asked = question(cli, "topic", "order", "delete", topic)
    assert asked == f"Forget at {broker.namesrv} that {topic} is ordered. Go on?"
    cli.ok("updateOrderConf", "-t", topic, "-m", "get")
    cli.ok("updateOrderConf", "-t", topic, "-m", "delete")
    assert cli("topic", "order", "get", topic).status == ExitCode.NOT_FOUND


def test_a_group_that_shall_not_consume(cli: Cli, group: str) -> None:
    words = ("consumer", "update", group, "--disable")
    assert question(cli, *words) == (
        f"Keep the group {group} from consuming on broker-a: 0 clients are connected, 4 messages are unread. Go on?"
    )
    cli.ok(*words, answer="yes")
    cli.ok(*words, "--retry-max", "3")  # it may not consume as it is
    cli.ok("consumer", "update", f"{group}-new", "--disable")


def test_an_account(cli: Cli, broker: OurBroker) -> None:
    update = ("acl", "account", "update", "asked-account")
    cli.ok(*update, "--secret-key", "12345678", "--default-topic-perm", "SUB")
    asked = question(cli, *update, "--default-topic-perm", "DENY", "--secret-key", "87654321")
    assert asked == (
        f"Change the account asked-account on {broker.address}: defaultTopicPerm SUB -> DENY; secretKey. Go on?"
    )
    cli.ok(*update, "--default-topic-perm", "SUB")  # as it is
    cli.ok("updateAclConfig", "-a", "asked-account", "-i", "DENY", "-c", "DefaultCluster")
    cli.ok("deleteAclConfig", "-a", "asked-account", "-c", "DefaultCluster")


def test_a_delayed_message(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("topic", "update", topic)
    with Producer("g", broker.namesrv) as producer:
        msg_id = producer.send(Message(topic, b"x", delay_level=18)).msg_id
    asked = question(cli, "delay", "cancel", msg_id)
    assert asked.startswith(f"Take back {msg_id} to {topic}, due ")
    assert asked.endswith("; nobody gets it then. Go on?")
    cli.ok("delay", "cancel", msg_id, answer="y")
    assert cli.ok("delay", "ls", topic, "-o", "json").json == []
