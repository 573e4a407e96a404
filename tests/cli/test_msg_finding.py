"""`mqctl msg get`, `query`, `print` and others that look for messages, against a real name server and broker."""

from __future__ import annotations

import queue
import time
from typing import Any

import pytest

from mqctl.client.blocking import PushConsumer
from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.peers.ours import OurBroker


def send(cli: Cli, topic: str, body: str, *options: str) -> dict[str, Any]:
    [sent] = cli.ok("msg", "send", topic, body, *options, "-o", "json").json_lines
    return dict(sent)


@pytest.fixture
def sent(cli: Cli, topic: str) -> dict[str, Any]:
    cli.ok("topic", "update", topic, "-w", "4", "-r", "4")
    return send(cli, topic, "hello", "--tag", "paid", "--key", "k1", "--property", "region=eu", "--queue", "2")


# -- one message ----------------------------------------------------------------------------------------


def test_by_either_id_and_by_place(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    ways = [
        ["msg", "get", sent["offsetMsgId"]],
        ["msg", "get", sent["msgId"], "-t", topic],
        ["msg", "get", sent["msgId"]],
        ["msg", "get", "-t", topic, "--at", f"{sent['brokerName']}:2:0"],
    ]
    found = [cli.ok(*way, "-o", "json").json for way in ways]
    assert all(row == found[0] for row in found)
    row = found[0]
    assert (row["topic"], row["queueId"], row["queueOffset"], row["brokerName"]) == (topic, 2, 0, "broker-a")
    assert (row["body"], row["tags"], row["keys"], row["properties"]["region"]) == ("hello", "paid", ["k1"], "eu")
    assert (row["msgId"], row["offsetMsgId"]) == (sent["msgId"], sent["offsetMsgId"])


def test_a_message_for_people(cli: Cli, sent: dict[str, Any]) -> None:
    lines = dict(line.split(maxsplit=1) for line in cli.ok("msg", "get", sent["offsetMsgId"]).out.splitlines())
    assert (lines["body"], lines["tags"], lines["msgId"]) == ("hello", "paid", sent["msgId"])
    assert "bodyBase64" not in lines


@pytest.mark.parametrize(
    ("args", "status", "complaint"),
    [
        (["get", "xyz"], ExitCode.NOT_FOUND, "'xyz' is no message id"),
        (["get", "F" * 32], ExitCode.NOT_FOUND, f"there is no message {'F' * 32} in any topic"),
        (["get", "F" * 32, "-t", "nothing-here"], ExitCode.NOT_FOUND, "the topic nothing-here does not exist"),
        (["get"], ExitCode.USAGE, "give ids, or --at with -t"),
        (["get", "--at", "broker-a:0:1"], ExitCode.USAGE, "is not BROKER:QUEUE:OFFSET of a topic"),
        (["decode-id", "12"], ExitCode.USAGE, "'12' is no message id"),
        (["trace", "F" * 32], ExitCode.NOT_FOUND, ""),
    ],
)
def test_what_is_not_there(cli: Cli, args: list[str], status: int, complaint: str) -> None:
    ended = cli("msg", *args)
    assert ended.status == status
    assert complaint in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ["msg", "tail", "TOPIC"],
        ["msg", "print", "TOPIC"],
        ["msg", "query", "TOPIC", "--key", "k"],
        ["msg", "get", "F" * 32, "-t", "TOPIC"],
        ["msg", "get", "-t", "TOPIC", "--at", "broker-a:0:0"],
        ["offset", "reset", "GROUP", "-t", "TOPIC", "--to", "latest"],
        ["replay", "TOPIC", "--into", "x", "--dry-run"],
        ["producer", "connections", "g", "-t", "TOPIC"],
    ],
    ids=" ".join,
)
def test_a_name_that_is_nearly_right(cli: Cli, words: list[str]) -> None:
    cli.ok("topic", "update", "nearly-right")
    cli.ok("consumer", "update", "nearly-right-group")
    ended = cli(*({"TOPIC": "neraly-right", "GROUP": "nearly-right-group"}.get(word, word) for word in words))
    assert ended.status == ExitCode.NOT_FOUND
    assert "error: the topic neraly-right does not exist\nhint: did you mean nearly-right?" in ended.err


def test_an_offset_beyond_the_end_names_the_range(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    ended = cli("msg", "get", "-t", topic, "--at", "broker-a:2:7")
    assert ended.status == ExitCode.NOT_FOUND
    assert "has no message 7\nhint: it has those from 0 to before 1" in ended.err
    ended = cli("msg", "get", "-t", topic, "--at", "broker-x:2:0")
    assert "those that can be read: broker-a:0" in ended.err


def test_an_id_says_where_and_when(cli: Cli, broker: OurBroker, sent: dict[str, Any]) -> None:
    place, made = cli.ok("msg", "decode-id", sent["offsetMsgId"], sent["msgId"], "-o", "json").json
    assert place["storeHost"] == broker.address
    assert abs(made["bornTimestamp"] - time.time() * 1000) < 60_000


# -- by key ---------------------------------------------------------------------------------------------


def test_query_by_key(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    other = send(cli, topic, "again", "--key", "k1", "--key", "k2", "--queue", "0")
    send(cli, topic, "no", "--key", "k3", "--queue", "0")
    found = cli.ok("msg", "query", topic, "--key", "k1", "-o", "json").json_lines
    assert [row["msgId"] for row in found] == [sent["msgId"], other["msgId"]]
    [row] = cli.ok("msg", "query", topic, "--key", sent["msgId"], "-o", "json").json_lines
    assert row["body"] == "hello"
    assert cli.ok("msg", "query", topic, "--key", "k1", "--format", "{queueId}:{body}").out == "2:hello\n0:again\n"


def test_query_within_a_time(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    assert cli.ok("msg", "query", topic, "--key", "k1", "--since", "1h", "-o", "json").json_lines
    ended = cli("msg", "query", topic, "--key", "k1", "--until", "1h")
    assert ended.status == ExitCode.NOT_FOUND
    assert f"the topic {topic} has no message with the key k1" in ended.err


# -- print ----------------------------------------------------------------------------------------------


def test_print_in_the_order_of_storing(cli: Cli, topic: str) -> None:
    """Over all queues, and over more messages than one pull brings."""
    cli.ok("topic", "update", topic, "-w", "3", "-r", "3")
    lines = "\n".join(str(number) for number in range(200)).encode()
    cli.ok("msg", "send", topic, "-", "--lines", stdin=lines)
    rows = cli.ok("msg", "print", topic, "-o", "json").json_lines
    assert sorted(int(row["body"]) for row in rows) == list(range(200))
    times = [row["storeTimestamp"] for row in rows]
    assert times == sorted(times)
    for number in range(3):
        offsets = [row["queueOffset"] for row in rows if row["queueId"] == number]
        assert offsets == list(range(len(offsets)))
    assert len(cli.ok("msg", "print", topic, "--max", "7", "-o", "json").json_lines) == 7
    only = cli.ok("msg", "print", topic, "--queue", "broker-a:1", "-o", "json").json_lines
    assert {row["queueId"] for row in only} == {1}


def test_print_what_fits(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    for number, tag in enumerate(("a", "b", "b")):
        send(cli, topic, f"body {number}", "--tag", tag, "--property", f"price={number}", "--key", f"k{number}")

    def bodies(*options: str) -> list[str]:
        return cli.ok("msg", "print", topic, *options, "--format", "{body}").out.splitlines()

    assert bodies("--tag", "b") == ["body 1", "body 2"]
    assert bodies("--sql", "price > 0 AND price < 2") == ["body 1"]
    assert bodies("--match", "y [02]") == ["body 0", "body 2"]
    assert bodies("--key", "k2") == ["body 2"]
    assert bodies("--since", "1h") == ["body 0", "body 1", "body 2"]
    assert bodies("--until", "1h") == []
    counted = cli.ok("msg", "print", topic, "--by-tag", "-o", "json").json
    assert counted == [{"tags": "b", "messages": 2}, {"tags": "a", "messages": 1}]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--sql", "price >"], "the filter is wrong"),
        (["--match", "("], "'(' is no regular expression"),
        (["--format", "{nothing}"], "there is no {nothing}"),
        (["--format", "{body.__class__}"], "there is no {body.__class__}"),
        (["--queue", "x"], "'x' is not [BROKER:]QUEUE"),
        (["--since", "soon"], "'soon' is not a time"),
    ],
)
def test_wrong_wishes(cli: Cli, topic: str, options: list[str], complaint: str) -> None:
    cli.ok("topic", "update", topic)
    ended = cli("msg", "print", topic, *options)
    assert ended.status in (ExitCode.USAGE, ExitCode.REFUSED)
    assert complaint in ended.err


# -- many at once ---------------------------------------------------------------------------------------


def test_from_one_topic_to_another_as_json_lines(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    cli.ok("topic", "update", f"{topic}-copy")
    text = cli.ok("msg", "print", topic, "-o", "json").out
    cli.ok("msg", "send", f"{topic}-copy", "-", "--json", stdin=text.encode())
    [row] = cli.ok("msg", "print", f"{topic}-copy", "-o", "json").json_lines
    assert (row["body"], row["tags"], row["keys"], row["properties"]["region"]) == ("hello", "paid", ["k1"], "eu")
    assert row["msgId"] != sent["msgId"]


def test_a_wrong_line_sends_nothing(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    ended = cli("msg", "send", topic, "-", "--json", stdin=b'{"body": "x"}\nnonsense\n')
    assert ended.status == ExitCode.USAGE
    assert "line 2 is no message" in ended.err
    assert cli.ok("msg", "print", topic).out == ""


def test_how_long_a_send_takes(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    ended = cli.ok("msg", "rt", topic, "--count", "3", "-o", "json")
    assert [row["sendStatus"] for row in ended.json_lines] == ["SEND_OK"] * 3
    assert all(row["rtMs"] > 0 for row in ended.json_lines)
    assert "3 messages: " in ended.err


def test_consume_queue_entries(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    [entry] = cli.ok("msg", "cq", topic, "--queue", "broker-a:2", "-o", "json").json
    assert entry["queueOffset"] == 0
    assert f"{entry['physicOffset']:016X}" == sent["offsetMsgId"][16:]


# -- with a consumer ------------------------------------------------------------------------------------


def test_track_and_push(cli: Cli, broker: OurBroker, topic: str, sent: dict[str, Any]) -> None:
    """The client handles the message once by itself, and again when it is told to."""
    group = "msg-finding-group"
    handled: queue.Queue[bytes] = queue.Queue()
    with PushConsumer(group, lambda message: handled.put(message.body), topic, broker.namesrv) as consumer:
        assert handled.get(timeout=30) == b"hello"
        consumer.commit()
        [row] = cli.ok("msg", "track", sent["msgId"], "-t", topic, "-o", "json").json
        assert (row["group"], row["trackType"]) == (group, "CONSUMED")
        [row] = cli.ok("msg", "push", sent["offsetMsgId"], "-g", group, "--dry-run", "-o", "json").json
        assert (row["clientId"], row["consumeResult"]) == (consumer.client_id, None)
        [row] = cli.ok("msg", "push", sent["offsetMsgId"], "-g", group, "-o", "json").json
        assert (row["clientId"], row["consumeResult"]) == (consumer.client_id, "CR_SUCCESS")
        assert handled.get(timeout=30) == b"hello"
    assert handled.empty()
    ended = cli("msg", "push", sent["offsetMsgId"], "-g", group)
    assert ended.status == ExitCode.NOT_FOUND
    assert f"no consumer of group {group} is connected" in ended.err


def test_resend(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    assert "nothing was sent" in cli.ok("msg", "resend", sent["msgId"], "-t", topic, "--dry-run").err
    [row] = cli.ok("msg", "resend", sent["msgId"], "-t", topic, "-o", "json").json
    copy = cli.ok("msg", "get", row["msgId"], "-t", topic, "-o", "json").json
    assert (copy["body"], copy["tags"], copy["keys"]) == ("hello", "paid", ["k1"])
    assert copy["properties"]["region"] == "eu"


# -- with mqadmin's names -------------------------------------------------------------------------------


def test_the_same_as_mqadmin_is_called(cli: Cli, topic: str, sent: dict[str, Any]) -> None:
    """Facts of one message by all the ways that mqadmin has."""
    ways = [
        ["queryMsgById", "-i", sent["offsetMsgId"]],
        ["queryMsgByUniqueKey", "-t", topic, "-i", sent["msgId"]],
        ["querymsgbyoffset", "-t", topic, "-b", "broker-a", "-i", "2", "-o", "0"],
        ["queryMsgByKey", "-t", topic, "-k", "k1"],
        ["queryMsgByKey", "-t", topic, "-k", "k1", "-b", "0"],
        ["printMsg", "-t", topic, "-s", "paid", "-d", "true"],
        ["printMsg", "-t", topic, "-b", "0"],
        ["printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "2", "-p", "true", "-d", "true"],
        ["consumeMessage", "-t", topic, "-b", "broker-a", "-i", "2", "-o", "0", "-c", "1"],
        ["consumeMessage", "-t", topic, "-b", "broker-a", "-i", "2", "-s", "0", "-c", "1"],
    ]
    for way in ways:
        text = cli.ok(*way).out
        assert "hello" in text, way
        assert "paid" in text, way
    cli.ok("sendMessage", "-t", topic, "-p", "-not an option", "-k", "k9", "-c", "tag", "-b", "broker-a", "-i", "1")
    [row] = cli.ok("msg", "query", topic, "--key", "k9", "-o", "json").json_lines
    assert (row["body"], row["tags"], row["queueId"]) == ("-not an option", "tag", 1)
    assert "SEND_OK" in cli.ok("checkMsgSendRT", "-t", topic, "-a", "2", "-s", "10").out
    head, entry = cli.ok("queryCq", "-t", topic, "-q", "2", "-i", "0", "-c", "1").out.splitlines()
    assert f"{int(entry.split()[1]):016X}" == sent["offsetMsgId"][16:], head
    assert cli.ok("queryMsgById", "-i", sent["offsetMsgId"], "-s", "true").out
