"""`mqctl dlq` against a real name server and broker."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.peers import wire
from tests.peers.ours import OurBroker, OurNamesrv

CONSUMER_SEND_MSG_BACK = 36
AT_ONCE = "-1"  # the delay level that makes a message a dead letter


def bury(cli: Cli, broker: OurBroker, topic: str, group: str, body: str, *options: str) -> dict[str, Any]:
    """Sends a message and gives it back as a consumer that will never want it."""
    [sent] = cli.ok("msg", "send", topic, body, *options, "-o", "json").json_lines
    offset = str(int(sent["offsetMsgId"][16:], 16))
    fields = {"offset": offset, "group": group, "delayLevel": AT_ONCE, "originMsgId": sent["msgId"]}
    reply = wire.request(broker.address, CONSUMER_SEND_MSG_BACK, **fields)
    assert reply.code == wire.SUCCESS, reply.remark
    return dict(sent)


@pytest.fixture
def group(cli: Cli, broker: OurBroker, topic: str) -> str:
    """With three dead letters from `topic`."""
    name = f"{topic}-group"[:100]
    cli.ok("topic", "update", topic)
    for number, tag in enumerate(("paid", "paid", "sent")):
        bury(
            cli, broker, topic, name, f"body {number}", "--tag", tag, "--key", f"k{number}", "--property", f"n={number}"
        )
    return name


def outcomes(cli: Cli, *args: str) -> list[str]:
    return [row["outcome"] for row in cli("dlq", "resend", *args, "--yes", "-o", "json").json_lines]


def test_list_and_show(cli: Cli, topic: str, group: str) -> None:
    [listed] = [row for row in cli.ok("dlq", "list", "-o", "json").json if row["group"] == group]
    assert listed["messages"] == 3
    rows = cli.ok("dlq", "show", group, "-o", "json").json_lines
    assert [(row["originTopic"], row["tries"], row["body"], row["resent"]) for row in rows] == [
        (topic, 1, f"body {number}", False) for number in range(3)
    ]
    assert cli.ok("dlq", "show", group, "--tag", "sent", "--format", "{keys} {body}").out == "k2 body 2\n"
    assert cli.ok("dlq", "show", group, "--sql", "n = 1", "--format", "{body}").out == "body 1\n"
    assert cli.ok("dlq", "show", group, "--match", "0$", "--format", "{body}").out == "body 0\n"
    assert cli.ok("dlq", "show", group, "--min-tries", "2").out == ""
    assert cli.ok("dlq", "show", group, "-t", "another").out == ""


def test_each_is_sent_once(cli: Cli, topic: str, group: str) -> None:
    """Only the chosen ones, then the rest, then none; the copies have all that the messages had."""
    assert outcomes(cli, group, "--dry-run") == ["would be sent"] * 3
    assert outcomes(cli, group, "--tag", "sent") == ["sent"]
    assert outcomes(cli, group, "--max", "2", "--rate", "1000") == ["sent", "sent"]
    assert outcomes(cli, group) == ["already sent"] * 3
    rows = cli.ok("msg", "print", topic, "-o", "json").json_lines
    originals, copies = rows[:3], sorted(rows[3:], key=lambda row: str(row["body"]))
    assert len(copies) == 3
    for original, copy in zip(originals, copies, strict=True):
        for name in ("body", "tags", "keys", "flag"):
            assert copy[name] == original[name]
        assert copy["properties"]["n"] == original["properties"]["n"]
        assert copy["properties"]["ORIGIN_MESSAGE_ID"] == original["offsetMsgId"]
        assert copy["reconsumeTimes"] == 0
        assert "RETRY_TOPIC" not in copy["properties"]
    assert [row["resent"] for row in cli.ok("dlq", "show", group, "-o", "json").json_lines] == [True] * 3


def test_one_after_the_other(cli: Cli, group: str) -> None:
    """--max means those that are still to be sent."""
    for passed in range(3):
        assert outcomes(cli, group, "--max", "1") == ["already sent"] * passed + ["sent"]
    assert outcomes(cli, group, "--max", "1") == ["already sent"] * 3


def test_a_dry_run_does_not_wait(cli: Cli, group: str) -> None:
    """Nor does who is the only one to be sent."""
    assert outcomes(cli, group, "--rate", "0.01", "--dry-run") == ["would be sent"] * 3
    assert outcomes(cli, group, "--rate", "0.01", "--max", "1") == ["sent"]


def test_only_some(cli: Cli, group: str) -> None:
    first, second, _ = cli.ok("dlq", "show", group, "-o", "json").json_lines

    def bodies(*options: str, clock: float | None = None) -> list[str]:
        return cli.ok("dlq", "show", group, *options, "--format", "{body}", clock=clock).out.splitlines()

    assert bodies("--id", first["msgId"], "--id", second["offsetMsgId"]) == ["body 0", "body 1"]
    assert (bodies("--max-tries", "0"), len(bodies("--max-tries", "1"))) == ([], 3)
    stored = first["storeTimestamp"] / 1000
    assert (len(bodies("--since", "1h", clock=stored)), bodies("--since", "1h", clock=stored + 7200)) == (3, [])
    assert outcomes(cli, group, "--id", second["msgId"], "--max-tries", "1", "--since", "1h") == ["sent"]
    assert outcomes(cli, group, "--max-tries", "0") == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_was_interrupted_goes_on_and_nothing_comes_twice(
    broker: OurBroker, topic: str, tmp_path: Path, how: signal.Signals
) -> None:
    cli = Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})
    topic, group = f"{topic}-{how.name}", f"group-{how.name}"
    cli.ok("topic", "update", topic)
    for number in range(3):
        bury(cli, broker, topic, group, f"body {number}")
    words = ("dlq", "resend", group, "--rate", "0.01", "--yes")
    with program(*words, cwd=tmp_path, variables=cli.variables) as running:
        assert running.line().endswith("sent")
        ended = cli("dlq", "resend", group, "--yes")
        assert (ended.status, "are being sent elsewhere" in ended.err) == (ExitCode.USAGE, True)
        ended = running.end(how)
    if how == signal.SIGINT:
        assert (ended.status, "start it again to go on" in ended.err) == (ExitCode.PARTIAL, True)
    records = tmp_path / ".local/state/mqctl/resends"
    assert len(list(records.glob("*.json"))) == 1
    assert outcomes(cli, group) == ["already sent", "sent", "sent"]
    bodies = Counter(row["body"] for row in cli.ok("msg", "print", topic, "-o", "json").json_lines)
    assert bodies == {f"body {number}": 2 for number in range(3)}
    assert list(records.iterdir()) == []


def test_to_another_topic(cli: Cli, topic: str, group: str) -> None:
    """Where it was not sent to yet."""
    assert outcomes(cli, group) == ["sent"] * 3
    cli.ok("topic", "update", f"{topic}-other")
    assert outcomes(cli, group, "--to", f"{topic}-other") == ["sent"] * 3
    assert len(cli.ok("msg", "print", f"{topic}-other", "-o", "json").json_lines) == 3


def test_a_topic_that_takes_nothing(cli: Cli, topic: str, group: str) -> None:
    """No letter counts as sent, and the next run does it."""
    cli.ok("topic", "update", topic, "--perm", "r", "--yes")
    ended = cli("dlq", "resend", group, "--yes", "-o", "json")
    assert ended.status == ExitCode.REFUSED
    assert {row["outcome"] for row in ended.json_lines} <= {"failed", "unknown"}
    cli.ok("topic", "update", topic, "--perm", "rw")
    assert outcomes(cli, group) == ["sent"] * 3


def test_nobody_is_asked(cli: Cli, group: str) -> None:
    ended = cli("dlq", "resend", group)
    assert ended.status == ExitCode.USAGE
    assert "nobody is there to be asked" in ended.err


def test_a_group_without_dead_letters(cli: Cli, group: str) -> None:
    ended = cli("dlq", "show", group[:-1])
    assert ended.status == ExitCode.NOT_FOUND
    assert f"hint: did you mean {group}" in ended.err


def test_export(cli: Cli, group: str, tmp_path: Path) -> None:
    file = tmp_path / "letters"
    assert "3 messages" in cli.ok("dlq", "export", group, str(file)).err
    counted = cli.ok("store", "import", str(_empty(tmp_path)), str(file), "--dry-run", "-o", "json").json
    assert counted == [{"topic": f"%DLQ%{group}", "queueId": 0, "messages": 3}]
    assert cli("dlq", "export", group, str(file)).status == ExitCode.USAGE


def _empty(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def test_without_an_index_nothing_is_sent(tmp_path: Path) -> None:
    conf = {"messageIndexEnable": False}
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address, conf=conf) as broker:
        cli = Cli({"NAMESRV_ADDR": broker.namesrv})
        cli.ok("topic", "update", "t")
        bury(cli, broker, "t", "g", "x")
        ended = cli("dlq", "resend", "g", "--yes")
        assert ended.status == ExitCode.USAGE
        assert "keeps no index" in ended.err
        assert len(cli.ok("msg", "print", "t", "-o", "json").json_lines) == 1
