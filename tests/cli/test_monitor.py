"""`mqctl monitor`: troubles that begin and end."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.client.admin import Admin
from mqctl.client.admin.monitoring import Event, Limits, Monitor
from mqctl.client.blocking import PushConsumer
from mqctl.exit import ExitCode
from tests.cli.running import Cli, Program, program
from tests.cli.test_replay import stopped
from tests.cli.test_topic import registered_but_gone
from tests.peers import wire
from tests.peers.ours import OurBroker, OurNamesrv

PULL_MESSAGE = 11
PULL_BEYOND_THE_END = {
    "consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": "99", "maxMsgNums": "32", "sysFlag": "4",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*", "expressionType": "TAG",
}  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[OurNamesrv, OurBroker]]:
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address) as broker:
        yield namesrv, broker


def told(monitor: Program) -> tuple[str, ...]:
    row: dict[str, Any] = json.loads(monitor.line())
    return tuple(row[name] for name in ("event", "kind", "subject", "detail"))


def test_what_begins_and_ends(own: tuple[OurNamesrv, OurBroker], tmp_path: Path) -> None:
    namesrv, broker = own
    cli = Cli({"NAMESRV_ADDR": namesrv.address, "HOME": str(tmp_path)})
    cli.ok("topic", "update", "t", "-w", "1", "-r", "1")
    cli.ok("consumer", "update", "g")
    cli.ok("topic", "update", "%DLQ%g", "-w", "1", "-r", "1")
    cli.ok("msg", "send", "t", "x", "--count", "5")
    cli.ok("offset", "set", "g", "-t", "t", "-q", "0", "--to", "0", "--yes")
    options = ("--max-lag", "3", "-o", "json")
    with program("monitor", "--every", "0.1", *options, cwd=tmp_path, variables=cli.variables) as monitor:
        event, kind, subject, detail = told(monitor)
        assert (event, kind, subject) == ("begins", "lag", "g t")
        assert detail.startswith("5 messages, ")
        assert cli("monitor", "--once", *options).status == ExitCode.ALERT
        cli.ok("offset", "skip", "g", "-t", "t", "--yes")
        assert told(monitor)[:3] == ("ends", "lag", "g t")
        cli.ok("monitor", "--once", *options)
        cli.ok("msg", "send", "%DLQ%g", "x", "--count", "2")
        assert told(monitor) == ("once", "dead", "g", "2 more dead letters, 2 in all")
        wire.request(broker.address, PULL_MESSAGE, **PULL_BEYOND_THE_END)
        assert told(monitor) == ("once", "moved", "g t", "it asked for message 99 of queue broker-a:0, which ends at 5")
        with registered_but_gone(namesrv, "gone", "DefaultCluster"):
            assert told(monitor)[:3] == ("begins", "broker", "gone")
        assert told(monitor)[:3] == ("ends", "broker", "gone")
        broker.stop()
        namesrv.stop()
        assert told(monitor)[:2] in (("begins", "broker"), ("begins", "cluster"))
        assert monitor.end(signal.SIGINT).status == 0


def test_dead_letters_of_a_broker_that_is_back_are_no_news(own: tuple[OurNamesrv, OurBroker], tmp_path: Path) -> None:
    namesrv, broker = own
    cli = Cli({"NAMESRV_ADDR": namesrv.address})
    monitor = Monitor(Limits(10_000, 300))

    def look(timeout: float = 30) -> list[tuple[str, str, str]]:
        async def once() -> list[Event]:
            async with Admin(namesrv.address, timeout=timeout) as admin:
                return await monitor.round(admin, int(time.time() * 1000))

        return [(event.what, event.kind, event.subject) for event in asyncio.run(once())]

    with OurBroker(tmp_path / "second", namesrv.address, name="broker-b") as second:
        for one in (broker, second):
            cli.ok("topic", "update", "%DLQ%g", "-b", one.address, "-w", "1", "-r", "1")
            cli.ok("msg", "send", "%DLQ%g", "x", "--queue", f"{one.name}:0")
        assert look() == []
        with stopped(second):
            assert look(timeout=1) == [("begins", "broker", "broker-b")]
        assert look() == [("ends", "broker", "broker-b")]
        cli.ok("msg", "send", "%DLQ%g", "x")
        assert look() == [("once", "dead", "g")]


def test_clients_that_subscribe_otherwise_and_groups_that_are_not_there(
    cli: Cli, broker: OurBroker, topic: str
) -> None:
    cli.ok("topic", "update", topic)
    group = f"g-{topic}"
    with (
        PushConsumer(group, print, {topic: "a"}, namesrv=broker.namesrv, instance="one"),
        PushConsumer(group, print, {topic: "b"}, namesrv=broker.namesrv, instance="two"),
    ):
        ended = cli("monitor", group, "no-such-group", "--once", "-o", "json")
    assert ended.status == ExitCode.ALERT
    first, second = ended.json_lines
    assert (first["kind"], first["subject"], first["detail"]) == ("group", "no-such-group", "no broker has it")
    assert second["kind"] == "client"
    assert "does not subscribe to the same as" in second["detail"]
