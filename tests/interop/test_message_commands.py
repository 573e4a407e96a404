"""`mqctl msg`, `dlq` and `replay` on Apache's broker and ours, with what Java clients did and mqadmin says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.running import Cli
from tests.interop.acting import make_topic, start_consumer, start_producer, wait_for_topic
from tests.peers.apache import ApacheBroker, mqadmin
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
Broker = ApacheBroker | OurBroker


@pytest.fixture(params=["apache_broker", "our_broker"])
def broker(request: pytest.FixtureRequest) -> Broker:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, (ApacheBroker, OurBroker))
    return found


@pytest.fixture
def cli(broker: Broker) -> Cli:
    return Cli({"NAMESRV_ADDR": broker.namesrv})


def until(question: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first answer that is something."""
    end = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.1)
    return answer


def test_a_java_message_by_every_way(cli: Cli, broker: Broker, java49: ClientDriver, unique: Unique) -> None:
    topic = unique("topic")
    make_topic(broker, topic, 2)
    wait_for_topic(broker, topic)
    start_producer(java49, broker, unique("producers"))
    sent = java49.call(
        "send", name="p", topic=topic, body=b"x" * 5000, tags="tag", keys="a b", properties={"own": "1"}, queueId=1
    )
    place = ["-t", topic, "--at", f"{broker.name}:1:0"]
    rows = [
        cli.ok("msg", "get", *way, "-o", "json").json
        for way in ([sent["offsetMsgId"]], [sent["msgId"], "-t", topic], place)
    ]
    assert all(row == rows[0] for row in rows)
    row = rows[0]
    assert (row["body"], row["tags"], row["keys"], row["properties"]["own"]) == ("x" * 5000, "tag", ["a", "b"], "1")
    [found] = until(lambda: cli("msg", "query", topic, "--key", "b", "-o", "json").json_lines)
    assert found == row
    text = mqadmin("4.9.7", broker.namesrv, "queryMsgById", "-i", sent["offsetMsgId"]).stdout
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith(" "))
    for name, value in (
        ("Queue Offset", row["queueOffset"]),
        ("CommitLog Offset", row["commitLogOffset"]),
        ("Tags", "[tag]"),
        ("Topic", topic),
    ):
        assert facts[name].strip() == str(value)


def test_consumed_tracked_traced_and_pushed(cli: Cli, broker: Broker, java49: ClientDriver, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, 1)
    wait_for_topic(broker, topic)
    start_producer(java49, broker, unique("producers"), trace=True)
    start_consumer(java49, broker, topic, group, trace=True)
    sent = java49.call("send", name="p", topic=topic, body=b"traced")
    java49.wait_messages("c", 1)

    def track() -> bool:
        rows = cli.ok("msg", "track", sent["msgId"], "-t", topic, "-o", "json").json
        return [(row["group"], row["trackType"]) for row in rows] == [(group, "CONSUMED")]

    until(track)
    [row] = cli.ok("msg", "push", sent["offsetMsgId"], "-g", group, "-o", "json").json
    assert row["consumeResult"] == "CR_SUCCESS"
    assert len(java49.wait_messages("c", 2)) == 2

    def traces() -> list[dict[str, Any]] | None:
        ended = cli("msg", "trace", sent["msgId"], "-o", "json")
        rows = ended.json if ended.status == 0 else []
        return rows if {row["kind"] for row in rows} == {"Pub", "Sub"} else None

    sub = next(row for row in until(traces) if row["kind"] == "Sub")
    assert sub["group"] == group


def test_dead_letters_of_a_java_consumer(cli: Cli, broker: Broker, java49: ClientDriver, unique: Unique) -> None:
    """They are sent again once, and the consumer, which has learned better, gets them."""
    topic, group = unique("topic"), unique("group")
    make_topic(broker, topic, 1)
    make_topic(broker, f"%RETRY%{group}", 1)
    wait_for_topic(broker, f"%RETRY%{group}")
    start_producer(java49, broker, unique("producers"))
    start_consumer(java49, broker, topic, group, maxReconsumeTimes=0, failFirst=1)
    for number in range(3):
        java49.call(
            "send", name="p", topic=topic, body=b"m%d" % number, keys=f"k{number}", properties={"n": str(number)}
        )
    java49.wait_messages("c", 3)
    wait_for_topic(broker, f"%DLQ%{group}", 60)
    letters = until(lambda: (rows := cli("dlq", "show", group, "-o", "json").json_lines) and len(rows) == 3 and rows)
    assert {row["originTopic"] for row in letters} == {topic}
    java49.call("consumer_stop", name="c")
    outcomes = cli.ok("dlq", "resend", group, "--sql", "n > 0", "--yes", "-o", "json").json_lines
    assert [row["outcome"] for row in outcomes] == ["sent", "sent"]
    start_consumer(java49, broker, topic, group, name="better")
    again = java49.wait_messages("better", 2)
    assert sorted((message.body, message.keys) for message in again) == [(b"m1", "k1"), (b"m2", "k2")]

    def second() -> list[str]:
        rows = cli.ok("dlq", "resend", group, "--dry-run", "-o", "json").json_lines
        return [row["outcome"] for row in rows]

    assert sorted(second()) == ["already sent", "already sent", "would be sent"]


def test_replay_keeps_what_matters(cli: Cli, broker: Broker, java49: ClientDriver, unique: Unique) -> None:
    topic, copy = unique("topic"), unique("copy")
    for name in (topic, copy):
        make_topic(broker, name, 2)
        wait_for_topic(broker, name)
    start_producer(java49, broker, unique("producers"))
    java49.call("send_many", name="p", count=100, template={"topic": topic, "body": b"body", "tags": "t", "keys": "k"})
    cli.ok("replay", topic, "--into", copy, "--yes")
    start_consumer(java49, broker, copy, unique("readers"))
    received = java49.wait_messages("c", 100)
    assert {(message.tags, message.keys) for message in received} == {("t", "k")}
    originals = cli.ok("msg", "print", topic, "-o", "json").json_lines
    assert sorted(message.body.decode() for message in received) == sorted(row["body"] for row in originals)
