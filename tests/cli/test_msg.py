"""`mqctl msg` against a real name server and broker."""

from __future__ import annotations

import base64
import csv
import io
import signal
import time
from pathlib import Path

import pytest
import yaml

from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.peers.ours import OurBroker, OurNamesrv


def tail(cli: Cli, topic: str, count: int, *options: str) -> list[dict[str, object]]:
    """The first `count` messages, in the order of their offsets."""
    ended = cli.ok("msg", "tail", topic, "--from", "earliest", "--max", str(count), "-o", "json", *options)
    return sorted(ended.json_lines, key=lambda row: (row["queueId"], row["queueOffset"]))


# -- send -----------------------------------------------------------------------------------------------


def test_what_was_sent_is_found_where_send_says(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    args = ["--tag", "paid", "--key", "k1", "--key", "k2", "--property", "region=eu", "--queue", "3"]
    [sent] = cli.ok("msg", "send", topic, "grüße", *args, "-o", "json").json_lines
    [found] = tail(cli, topic, 1)
    assert sent["sendStatus"] == "SEND_OK"
    assert (sent["brokerName"], sent["queueId"], sent["queueOffset"]) == ("broker-a", 3, 0)
    for name in ("msgId", "brokerName", "queueId", "queueOffset"):
        assert found[name] == sent[name]
    assert (found["body"], found["tags"], found["keys"]) == ("grüße", "paid", ["k1", "k2"])
    properties = found["properties"]
    assert isinstance(properties, dict)
    assert properties["region"] == "eu"
    assert properties["UNIQ_KEY"] == sent["msgId"]


def test_a_sent_line_for_people(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    words = cli.ok("msg", "send", topic, "x", "--queue", "0").out.split()
    assert len(words.pop(0)) == 32
    assert words == ["broker-a", "queue", "0", "offset", "0", "SEND_OK"]


def test_many_messages_go_round_the_queues(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "4")
    sent = cli.ok("msg", "send", topic, "x", "--count", "8", "-o", "json").json_lines
    assert sorted((row["queueId"], row["queueOffset"]) for row in sent) == [(q, n) for q in range(4) for n in range(2)]
    assert len({row["msgId"] for row in sent}) == 8


def test_the_first_message_creates_the_topic(cli: Cli, topic: str) -> None:
    cli.ok("msg", "send", topic, "first")
    [route] = cli.ok("topic", "route", topic, "-o", "json").json
    assert (route["readQueueNums"], route["writeQueueNums"], route["perm"]) == (4, 4, "rw")
    [found] = tail(cli, topic, 1)
    assert found["body"] == "first"


def test_a_dry_run_says_where_messages_could_go(cli: Cli, topic: str) -> None:
    dry = ("--dry-run", "-o", "json")
    would = cli.ok("msg", "send", topic, "first", *dry)
    assert would.err.endswith(f"the topic {topic} does not exist: the first message would create it\n")
    assert cli("topic", "route", topic).status == ExitCode.NOT_FOUND
    cli.ok("topic", "update", topic, "-w", "2")
    would = cli.ok("msg", "send", topic, "a\nbc", "--lines", "--count", "1000", *dry)
    assert would.json == [{"topic": topic, "brokerName": "broker-a", "queueId": queue} for queue in range(2)]
    assert would.err == "nothing was sent: 2,000 messages, 2.9 KiB\n"
    assert [row["queueId"] for row in cli.ok("msg", "send", topic, "x", "--queue", "1", *dry).json] == [1]
    assert cli("msg", "send", topic, "x", "--queue", "2", *dry).status == ExitCode.NOT_FOUND
    assert "4194304 are allowed" in cli("msg", "send", topic, "-", *dry, stdin=b"x" * 4_194_305).err
    assert {row["maxOffset"] for row in cli.ok("topic", "stats", topic, "-o", "json").json} == {0}


def test_bodies_from_stdin_and_files(cli: Cli, topic: str, tmp_path: Path) -> None:
    cli.ok("topic", "update", topic)
    binary = b"\xff\x00\x01"
    (tmp_path / "body").write_bytes(binary)
    cli.ok("msg", "send", topic, "-", "--queue", "0", stdin=b"piped\n")
    cli.ok("msg", "send", topic, f"@{tmp_path / 'body'}", "--queue", "1")
    text, raw = tail(cli, topic, 2)
    assert (text["body"], text["bodyBase64"]) == ("piped\n", None)
    assert (raw["body"], raw["bodyBase64"]) == (None, base64.b64encode(binary).decode())


@pytest.mark.parametrize(
    ("args", "status", "complaint"),
    [
        (["x", "--property", "KEYS=k"], ExitCode.USAGE, "KEYS belongs to RocketMQ"),
        (["x", "--property", "novalue"], ExitCode.USAGE, "'novalue' is not NAME=VALUE"),
        (["@/no/such/file"], ExitCode.USAGE, "error: cannot read /no/such/file: No such file or directory"),
        (["x", "--queue", "8"], ExitCode.NOT_FOUND, "has no writable queue 8: they are numbered 0 to 7"),
        (["x", "--property", "a=b\x02c"], ExitCode.REFUSED, "holds a separator byte"),
    ],
)
def test_messages_that_cannot_be_sent(cli: Cli, topic: str, args: list[str], status: int, complaint: str) -> None:
    cli.ok("topic", "update", topic)
    ended = cli("msg", "send", topic, *args)
    assert ended.status == status
    assert complaint in ended.err
    assert ended.out == ""


def test_a_topic_without_write_permission(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "--perm", "r")
    ended = cli("msg", "send", topic, "x")
    assert ended.status == ExitCode.REFUSED
    assert f"no queue of topic {topic} can be written to" in ended.err


def test_a_topic_that_nobody_creates(tmp_path: Path) -> None:
    with OurNamesrv(tmp_path / "ns") as namesrv:
        conf = {"autoCreateTopicEnable": False}
        with OurBroker(tmp_path / "broker", namesrv.address, conf=conf) as broker:
            ended = Cli({"NAMESRV_ADDR": broker.namesrv})("msg", "send", "t", "x")
    assert ended.status == ExitCode.NOT_FOUND
    assert ended.err == "error: the topic t does not exist\nhint: create it with `mqctl topic update t`\n"


# -- tail -----------------------------------------------------------------------------------------------


def test_tail_filters_by_tag(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    for tag in ("a", "b", "c"):
        cli.ok("msg", "send", topic, f"tagged {tag}", "--tag", tag, "--queue", "0")
    bodies = [row["body"] for row in tail(cli, topic, 2, "--tag", "a || c")]
    assert bodies == ["tagged a", "tagged c"]


def test_tags_with_equal_hashes_are_told_apart(cli: Cli, topic: str) -> None:
    """A broker compares hashes only, and Java's are the same for Aa and BB."""
    cli.ok("topic", "update", topic)
    for tag in ("BB", "Aa"):
        cli.ok("msg", "send", topic, tag, "--tag", tag, "--queue", "0")
    assert [row["body"] for row in tail(cli, topic, 1, "--tag", "Aa")] == ["Aa"]


def test_tail_from_a_time(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    cli.ok("msg", "send", topic, "old", "--queue", "0")
    [old] = tail(cli, topic, 1)
    between = int(str(old["storeTimestamp"])) + 1
    while time.time() * 1000 < between + 1:
        pass  # a message of the same millisecond would not be a later one
    cli.ok("msg", "send", topic, "new", "--queue", "0")
    ended = cli.ok("msg", "tail", topic, "--from", str(between), "--max", "1", "-o", "json")
    assert ended.json_lines[0]["body"] == "new"
    ended = cli.ok("msg", "tail", topic, "--from", "-1h", "--max", "1", "-o", "json")
    assert ended.json_lines[0]["body"] == "old"


def test_tail_in_every_format(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    cli.ok("msg", "send", topic, "one\ntwo \x1b[31m", "--tag", "t", "--key", "k", "--queue", "2")
    args = ["msg", "tail", topic, "--from", "earliest", "--max", "1", "-o"]
    line = cli.ok(*args, "table").out
    assert line.endswith(" broker-a/2@0 tags=t keys=k one\\ntwo \\x1b[31m\n")
    assert cli.ok(*args, "json").json["body"] == "one\ntwo \x1b[31m"
    assert yaml.safe_load(cli.ok(*args, "yaml").out)["body"] == "one\ntwo \x1b[31m"
    [row] = csv.DictReader(io.StringIO(cli.ok(*args, "csv").out))
    assert (row["queueId"], row["body"], row["bodyBase64"]) == ("2", "one\ntwo \x1b[31m", "")


def test_only_messages_go_to_stdout(cli: Cli, topic: str) -> None:
    cli.ok("msg", "send", topic, "x")
    ended = cli.ok("msg", "tail", topic, "--from", "earliest", "--max", "1", "-o", "json")
    assert len(ended.out.splitlines()) == 1
    assert ended.err == f"following {topic}: 4 queues, Ctrl-C to stop\n"


def test_tail_of_what_cannot_be_followed(cli: Cli, topic: str) -> None:
    assert cli("msg", "tail", topic).status == ExitCode.NOT_FOUND
    bad_time = cli("msg", "tail", topic, "--from", "yesterday")
    assert bad_time.status == ExitCode.USAGE
    assert "'yesterday' is not a time" in bad_time.err
    cli.ok("topic", "update", topic, "--perm", "w")
    ended = cli("msg", "tail", topic)
    assert ended.status == ExitCode.REFUSED
    assert f"no queue of topic {topic} can be read" in ended.err


def test_tail_prints_what_arrives_until_ctrl_c(cli: Cli, broker: OurBroker, topic: str, tmp_path: Path) -> None:
    cli.ok("topic", "update", topic)
    cli.ok("msg", "send", topic, "before")
    with program("msg", "tail", topic, "-n", broker.namesrv, cwd=tmp_path) as following:
        assert following.err_line().startswith(f"following {topic}: 8 queues")
        for number in range(3):
            cli.ok("msg", "send", topic, f"message {number}")
            assert following.line().endswith(f" message {number}")
        ended = following.end(signal.SIGINT)
    assert (ended.status, ended.out, ended.err) == (0, "", "")


def test_tail_outlives_a_restart_of_the_broker(tmp_path: Path) -> None:
    with OurNamesrv(tmp_path / "ns") as namesrv, OurBroker(tmp_path / "b", namesrv.address) as broker:
        cli = Cli({"NAMESRV_ADDR": namesrv.address})
        cli.ok("topic", "update", "survivor", "-w", "1", "-r", "1")
        with program("msg", "tail", "survivor", "-n", namesrv.address, cwd=tmp_path) as following:
            following.err_line()
            broker.stop()
            assert following.err_line().endswith("; trying again")
            broker.start()
            cli.ok("msg", "send", "survivor", "back again")
            assert following.line().endswith(" back again")
