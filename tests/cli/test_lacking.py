"""Commands that look for messages while a broker is away: they show what the others have, and say what is lacking."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, Ended, program
from tests.cli.test_dlq import bury
from tests.cli.test_replay import stopped
from tests.cli.test_topic import registered_but_gone
from tests.peers.ours import OurBroker, OurNamesrv

UNKNOWN_ID = "F" * 32


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OurNamesrv, OurBroker]]:
    folder = tmp_path_factory.mktemp("lacking")
    with OurNamesrv(folder / "n") as namesrv, OurBroker(folder / "b", namesrv.address) as broker:
        yield namesrv, broker


@pytest.fixture(scope="module")
def message(running: tuple[OurNamesrv, OurBroker]) -> dict[str, Any]:
    """The one in the topic `orders`, which is a dead letter of the group `shop` as well."""
    _, broker = running
    cli = Cli({"NAMESRV_ADDR": broker.namesrv})
    cli.ok("topic", "update", "orders", "-w", "1", "-r", "1")
    cli.ok("topic", "update", "safe")
    return bury(cli, broker, "orders", "shop", "hello")


@pytest.fixture
def cli(running: tuple[OurNamesrv, OurBroker], message: dict[str, Any]) -> Iterator[Cli]:
    """The broker `gone` is one of two that have the topics, and the only one that has others."""
    namesrv, _ = running
    topics = ("orders", "%DLQ%shop", "%DLQ%lost", "other", "OFFSET_MOVED_EVENT")
    with registered_but_gone(namesrv, "gone", "DefaultCluster", *topics):
        yield Cli({"NAMESRV_ADDR": namesrv.address})


def check_marked(ended: Ended) -> None:
    assert (ended.status, "warning: gone is missing here: cannot connect" in ended.err) == (ExitCode.PARTIAL, True)


def test_print(cli: Cli) -> None:
    ended = cli("msg", "print", "orders", "--format", "{body}")
    assert ended.out == "hello\n"
    check_marked(ended)
    ended = cli("msg", "print", "orders", "--by-tag", "-o", "json")
    assert [row["messages"] for row in ended.json] == [1]
    check_marked(ended)
    assert cli("msg", "print", "other").status == ExitCode.UNREACHABLE, "nobody answers"
    assert cli("msg", "print", "orders", "--queue", "gone:0").status == ExitCode.UNREACHABLE


def test_tail(cli: Cli) -> None:
    ended = cli("msg", "tail", "orders", "--from", "earliest", "--max", "1", "--format", "{body}")
    assert ended.out == "hello\n"
    assert "warning: cannot connect" in ended.err
    check_marked(ended)
    assert cli("msg", "tail", "other").status == ExitCode.UNREACHABLE


def test_a_tail_goes_on_with_a_broker_that_comes_late(tmp_path: Path) -> None:
    with (
        OurNamesrv(tmp_path / "n") as namesrv,
        OurBroker(tmp_path / "a", namesrv.address) as late,
        OurBroker(tmp_path / "b", namesrv.address, name="broker-b"),
    ):
        cli = Cli({"NAMESRV_ADDR": namesrv.address})
        cli.ok("topic", "update", "t", "-w", "1", "-r", "1")
        for name in ("broker-a", "broker-b"):
            cli.ok("msg", "send", "t", name, "--queue", f"{name}:0")
        words = ("msg", "tail", "t", "--from", "earliest", "--timeout", "1", "-n", namesrv.address)
        with program(*words, cwd=tmp_path) as following:
            with stopped(late):
                assert following.err_line().endswith("; trying again")
                assert following.err_line().startswith("following t: 2 queues")
                assert following.line().endswith(" broker-b")
            assert following.line().endswith(" broker-a")
            assert following.end(signal.SIGINT).status == 0


def test_dead_letters(cli: Cli) -> None:
    ended = cli("dlq", "show", "shop", "--format", "{body}")
    assert ended.out == "hello\n"
    check_marked(ended)
    ended = cli("dlq", "resend", "shop", "--to", "safe", "--dry-run", "-o", "json")
    assert [row["outcome"] for row in ended.json_lines] == ["would be sent"]
    check_marked(ended)


def test_nothing_is_sent_where_it_may_be_already(cli: Cli) -> None:
    ended = cli("dlq", "resend", "shop", "--yes", "-o", "json")
    [row] = ended.json_lines
    assert (row["outcome"], "whether it was sent already is not known" in row["why"]) == ("failed", True)
    assert ended.status == ExitCode.REFUSED


def test_dead_letters_in_a_file(cli: Cli, tmp_path: Path) -> None:
    ended = cli("dlq", "export", "shop", str(tmp_path / "letters"))
    assert "1 messages" in ended.err
    check_marked(ended)


def test_groups_with_dead_letters(cli: Cli) -> None:
    """Also one of which nobody knows how many it has."""
    ended = cli("dlq", "list", "-o", "json")
    assert [(row["group"], row["messages"]) for row in ended.json] == [("lost", None), ("shop", 1)]
    check_marked(ended)


def test_delayed(cli: Cli) -> None:
    ended = cli("delay", "ls", "-o", "json")
    assert ended.json == []
    check_marked(ended)
    assert cli("delay", "show", UNKNOWN_ID).status == ExitCode.UNREACHABLE, "it may wait at the other"


def test_monitor_says_what_is_away(cli: Cli) -> None:
    ended = cli("monitor", "--once", "-o", "json")
    assert [(row["kind"], row["subject"]) for row in ended.json_lines] == [("broker", "gone")]
    assert ended.status == ExitCode.ALERT


# -- single messages ------------------------------------------------------------------------------------


def test_a_message_of_any_topic(cli: Cli, message: dict[str, Any]) -> None:
    assert cli.ok("msg", "get", message["msgId"], "--format", "{body}").out == "hello\n"
    assert cli("msg", "get", UNKNOWN_ID).status == ExitCode.UNREACHABLE, "it may be at the other"


def test_several_messages(cli: Cli, message: dict[str, Any]) -> None:
    ended = cli("msg", "get", message["msgId"], "nonsense", message["offsetMsgId"], "--format", "{body}")
    assert ended.out == "hello\nhello\n"
    assert ended.status == ExitCode.PARTIAL
    assert "warning: nonsense is missing here: 'nonsense' is no message id" in ended.err
    ended = cli("msg", "get", "nonsense,rubbish")
    assert ended.status == ExitCode.NOT_FOUND
    assert "nonsense is missing" in ended.err
    assert "rubbish is missing" in ended.err
