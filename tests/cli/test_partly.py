"""What changes something while one of several servers is away: each target's own outcome, and what was done can be
undone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.cli import run
from mqctl.env import Environment
from mqctl.exit import ExitCode
from mqctl.remoting.codes import RequestCode
from tests.cli.running import Cli, Ended, Stream, program
from tests.cli.test_topic import registered_but_gone
from tests.peers import wire
from tests.peers.ours import OurBroker, OurNamesrv

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNamesrv]:
    with OurNamesrv(tmp_path_factory.mktemp("namesrv")) as server:
        yield server


@pytest.fixture(scope="module")
def brokers(namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OurBroker, OurBroker]]:
    """Two of one cluster. A test that stops the second starts it again."""
    folder = tmp_path_factory.mktemp("brokers")
    with (
        OurBroker(folder / "a", namesrv.address, "broker-a") as first,
        OurBroker(folder / "b", namesrv.address, "broker-b") as second,
    ):
        yield first, second


@pytest.fixture
def cli(namesrv: OurNamesrv, brokers: tuple[OurBroker, OurBroker], tmp_path: Path) -> Cli:
    return Cli({"NAMESRV_ADDR": namesrv.address, "HOME": str(tmp_path)})


@pytest.fixture
def halved(cli: Cli, namesrv: OurNamesrv) -> Cli:
    """The same cluster with a second name server, which nobody reaches."""
    return Cli({**cli.variables, "NAMESRV_ADDR": f"{namesrv.address};{NOBODY}"})


def partly(cli: Cli, *args: str) -> Any:
    """The rows of a command that was done in part, and says who did not take part."""
    ended = cli(*args, "-o", "json")
    assert ended.status == ExitCode.PARTIAL, ended
    assert "Traceback" not in ended.err
    return ended.json


def journalled(cli: Cli) -> list[str]:
    """What can be undone, the last change first."""
    return [entry["summary"] for entry in cli.ok("undo", "list", "-o", "json").json if not entry["undone"]]


def order(cli: Cli, topic: str) -> str | None:
    """What the name server keeps of it."""
    kept = cli("topic", "order", "get", topic, "-o", "json")
    return str(kept.json[0]["orderConf"]) if kept.status == ExitCode.DONE else None


@pytest.fixture
def consumed(cli: Cli, topic: str) -> str:
    """A group that has consumed nothing of one message in each of a topic's two queues, one on either broker."""
    group = f"g-{topic}"
    cli.ok("topic", "update", topic, "-w", "1", "-r", "1")
    cli.ok("consumer", "update", group)
    for name in ("broker-a", "broker-b"):
        cli.ok("msg", "send", topic, "x", "--queue", f"{name}:0")
        cli.ok("offset", "set", group, "-t", topic, "-q", f"{name}:0", "--to", "0", "--yes")
    return group


class Agreeing(Stream):
    """A person who says yes, after something else has happened."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        super().__init__(terminal=True)

    def readline(self, size: int = -1, /) -> str:
        self._before()
        return "y\n"


@contextlib.contextmanager
def headless(namesrv: OurNamesrv, topic: str) -> Iterator[None]:
    """A broker that has the topic, and of which only a slave is left."""
    who = ("headless", "DefaultCluster", topic)
    with registered_but_gone(namesrv, *who, broker_id=1), registered_but_gone(namesrv, *who) as master:
        fields = {"brokerName": who[0], "clusterName": who[1], "brokerAddr": master, "brokerId": "0"}
        wire.request(namesrv.address, RequestCode.UNREGISTER_BROKER, **fields)
        yield


# -- a name server is away ------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("topic", "order", "set"), ("namesrv", "kv", "put", "ORDER_TOPIC_CONFIG")], ids=str)
def test_a_value_that_one_name_server_took(halved: Cli, cli: Cli, topic: str, words: tuple[str, ...]) -> None:
    [row] = partly(halved, *words, topic, "broker-a:3")
    assert (row["before"], row["after"], order(cli, topic)) == (None, "broker-a:3", "broker-a:3")
    assert len(journalled(halved)) == 1


def test_an_undo_that_was_done_in_part_goes_on(cli: Cli, namesrv: OurNamesrv, topic: str, tmp_path: Path) -> None:
    with OurNamesrv(tmp_path / "second") as second:
        both = Cli({**cli.variables, "NAMESRV_ADDR": f"{namesrv.address};{second.address}"})
        alone = Cli({**cli.variables, "NAMESRV_ADDR": second.address})
        both.ok("topic", "order", "set", topic, "broker-a:3")
        second.stop()
        ended = both("undo", "1", "--yes")
        assert ended.status == ExitCode.PARTIAL
        assert "`mqctl undo 1` goes on with the rest" in ended.err
        assert order(cli, topic) is None
        assert both("undo", "1", "--yes").status == ExitCode.UNREACHABLE
        second.start()
        assert order(alone, topic) == "broker-a:3"
        both.ok("undo", "1", "--yes")
        assert order(alone, topic) is None
        assert both("undo", "1").err == "error: 1 is undone already\n"


def test_a_topic_of_which_one_name_server_heard(halved: Cli, cli: Cli, topic: str) -> None:
    rows = partly(halved, "topic", "update", topic, "-w", "2", "-r", "2", "--order")
    assert [(row["after"]["order"], row["error"]) for row in rows] == [(True, None)] * 2
    assert order(cli, topic) == "broker-a:2;broker-b:2"
    rows = partly(halved, "topic", "delete", topic, "--yes")
    assert [(row["before"] is None, row["after"], row["error"]) for row in rows] == [(False, None, None)] * 2
    assert journalled(halved) == [f"deletion of topic {topic}", f"update of topic {topic}"]
    halved.ok("undo", "--yes")
    assert [row["brokerName"] for row in cli.ok("topic", "route", topic, "-o", "json").json] == ["broker-a", "broker-b"]


def test_many_topics_of_which_one_name_server_heard(halved: Cli, cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(f"- {{topicName: {topic}, order: true}}\n")
    partly(halved, "topic", "apply", "-f", str(file), "--yes")
    assert order(cli, topic) == "broker-a:8;broker-b:8"
    document = tmp_path / "metadata.json"
    document.write_text(f'{{"topicConfigTable": {{"{topic}": {{}}}}, "orderTopicConfig": {{"{topic}": ":3"}}}}')
    [row] = [row for row in partly(halved, "cluster", "import", str(document), "--yes") if row["kind"] == "order"]
    assert row["after"] == order(cli, topic) == "broker-a:3;broker-b:3"
    assert journalled(halved)[-1] == "update of 1 topics"
    assert "import of 1 orders" in journalled(halved)


def test_a_group_whose_topics_one_name_server_remembers(halved: Cli, cli: Cli, topic: str) -> None:
    cli.ok("consumer", "update", topic)
    ended = halved("consumer", "delete", topic, "--topics", "--yes")
    assert ended.status == ExitCode.PARTIAL
    assert f"warning: %DLQ%{topic} at {NOBODY} is missing here" in ended.err
    assert journalled(halved)[0] == f"deletion of group {topic}"


def test_a_broker_of_which_one_name_server_still_lets_write(halved: Cli, cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    [row] = partly(halved, "broker", "drain", "broker-a", "--quiet", "0", "--yes")
    assert row["safe"]
    perms = {row["brokerName"]: row["perm"] for row in cli.ok("topic", "route", topic, "-o", "json").json}
    assert perms == {"broker-a": "r", "broker-b": "rw"}
    ended = cli("broker", "drain", "broker-a", "--wait", "0", "--yes", "-o", "json")
    assert ended.status == ExitCode.UNREACHABLE
    assert [row["safe"] for row in ended.json] == [False]
    assert "error: broker-a is not drained after 0 s\nhint: producers are kept away until" in ended.err
    cli.ok("broker", "undrain", "broker-a", "--yes")


def test_a_drain_that_breaks_off_says_what_is_so(
    cli: Cli, brokers: tuple[OurBroker, OurBroker], tmp_path: Path
) -> None:
    with program("broker", "drain", "broker-b", "--yes", cwd=tmp_path, variables=cli.variables) as draining:
        assert "messages put" in draining.err_line()
        brokers[1].stop()
        try:
            ended = draining.wait()
        finally:
            brokers[1].start()
    assert ended.status == ExitCode.UNREACHABLE
    assert "stopped waiting; producers are kept away until `mqctl broker undrain broker-b`\nerror: " in ended.err


# -- a broker is away -----------------------------------------------------------------------------------


def test_a_topic_that_one_broker_cannot_delete(cli: Cli, namesrv: OurNamesrv, topic: str) -> None:
    cli.ok("topic", "update", topic)
    with registered_but_gone(namesrv, "gone", "DefaultCluster", topic) as address:
        rows = partly(cli, "topic", "delete", topic, "--yes")
    assert [(row["brokerName"], row["before"] is None) for row in rows[:2]] == [
        ("broker-a", False),
        ("broker-b", False),
    ]
    assert rows[2]["error"] == f"cannot connect to {address}: Connection refused"
    assert journalled(cli)[0] == f"deletion of topic {topic}"


def test_order_is_taken_from_one_broker_only(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2", "--order")
    cli.ok("topic", "update", topic, "--no-order", "-b", "broker-a")
    assert order(cli, topic) == "broker-b:2"
    cli.ok("undo", "--yes")
    assert order(cli, topic) == "broker-a:2;broker-b:2"
    cli.ok("topic", "update", topic, "--no-order")
    assert order(cli, topic) is None


@pytest.mark.parametrize("words", [("perm", "TOPIC", "rw"), ("resize", "TOPIC", "--queues", "9", "--yes")], ids=str)
def test_a_broker_without_a_master_is_not_passed_over(
    cli: Cli, namesrv: OurNamesrv, topic: str, words: tuple[str, ...]
) -> None:
    cli.ok("topic", "update", topic, "--perm", "r")
    with headless(namesrv, topic):
        ended = cli("topic", *(topic if word == "TOPIC" else word for word in words))
    assert ended.status == ExitCode.PARTIAL
    assert "no master of headless is running" in ended.err + ended.out
    assert len(journalled(cli)) > 1


def test_a_topic_is_deleted_where_there_is_a_master(cli: Cli, namesrv: OurNamesrv, topic: str) -> None:
    cli.ok("topic", "update", topic)
    with headless(namesrv, topic):
        rows = partly(cli, "topic", "delete", topic, "--yes")
    assert [row["error"] for row in rows] == [None, None, "no master of headless is running"]


def test_the_brokers_that_an_undo_did_not_reach_are_for_the_next(
    cli: Cli, brokers: tuple[OurBroker, OurBroker], topic: str
) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    brokers[1].stop()
    try:
        would = partly(cli, "undo", "2", "--dry-run")
        assert [row["note"] == "" for row in would] == [True, False]
        partly(cli, "undo", "2", "--yes")
    finally:
        brokers[1].start()
    assert sorted(row["writeQueueNums"] for row in cli.ok("topic", "route", topic, "-o", "json").json) == [2, 4]
    cli.ok("undo", "2", "--yes")
    assert [row["writeQueueNums"] for row in cli.ok("topic", "route", topic, "-o", "json").json] == [2, 2]
    assert cli("undo", "2").err == "error: 2 is undone already\n"


# -- offsets --------------------------------------------------------------------------------------------

OFFSETS = [
    ("get", "GROUP", "-t", "TOPIC"),
    ("reset", "GROUP", "-t", "TOPIC", "--to", "latest", "--yes"),
    ("clone", "GROUP", "other-GROUP", "--yes"),
]


def told(words: tuple[str, ...], topic: str, group: str) -> list[str]:
    return [word.replace("GROUP", group).replace("TOPIC", topic) for word in ("offset", *words)]


@pytest.mark.parametrize("words", OFFSETS, ids=("get", "reset", "clone"))
def test_offsets_of_the_brokers_that_answer(
    cli: Cli, namesrv: OurNamesrv, topic: str, consumed: str, words: tuple[str, ...]
) -> None:
    with registered_but_gone(namesrv, "gone", "DefaultCluster", topic) as address:
        ended = cli(*told(words, topic, consumed), "-o", "json")
    assert ended.status == ExitCode.PARTIAL
    assert f"warning: gone is missing here: cannot connect to {address}" in ended.err
    assert [row["brokerName"] for row in ended.json] == ["broker-a", "broker-b"]


@pytest.mark.parametrize("words", OFFSETS[:2], ids=("get", "reset"))
def test_offsets_of_a_broker_without_a_master(
    cli: Cli, namesrv: OurNamesrv, topic: str, consumed: str, words: tuple[str, ...]
) -> None:
    with headless(namesrv, topic):
        ended = cli(*told(words, topic, consumed), "-o", "json")
    assert ended.status == ExitCode.PARTIAL
    assert "warning: headless is missing here: no master of headless is running\n" in ended.err
    assert len(ended.json) == 2


def test_offsets_that_one_broker_did_not_take(
    cli: Cli, brokers: tuple[OurBroker, OurBroker], topic: str, consumed: str
) -> None:
    """It goes down between the plan and the deed."""
    words = ("offset", "skip", consumed, "-t", topic, "-o", "json")
    env = Environment(Agreeing(brokers[1].stop), Stream(), Stream(), cli.variables)
    try:
        status = run(words, env)
    finally:
        brokers[1].start()
    ended = Ended(status, env.stdout.content(), env.stderr.content())
    assert ended.status == ExitCode.PARTIAL, ended
    assert [(row["brokerName"], row["error"] is None) for row in ended.json] == [
        ("broker-a", True),
        ("broker-b", False),
    ]
    assert "0 messages are consumed again, 1 are skipped" in ended.err
    rows = cli.ok("offset", "get", consumed, "-t", topic, "-o", "json").json
    assert [row["offset"] for row in rows] == [1, 0]
    cli.ok("undo", "--yes")
    rows = cli.ok("offset", "get", consumed, "-t", topic, "-o", "json").json
    assert [row["offset"] for row in rows] == [0, 0]
