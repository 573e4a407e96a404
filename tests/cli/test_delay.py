"""`mqctl delay` against a real name server and broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.client import Message
from mqctl.client.blocking import Producer
from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.peers.ours import OurBroker, OurNamesrv

LEVELS = "1h 2s 1d"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    """With levels of its own, where nothing waits but what the test sent."""
    with OurNamesrv(tmp_path / "namesrv") as namesrv:
        conf = {"messageDelayLevel": LEVELS}
        with OurBroker(tmp_path / "broker", namesrv.address, conf=conf) as server:
            yield server


def send(broker: OurBroker, body: bytes, **delay: int) -> str:
    with Producer("g", broker.namesrv) as producer:
        return producer.send(Message("orders", body, tags="T", keys=["k1", "k2"], **delay)).msg_id


def test_listing_showing_and_taking_back(cli: Cli, broker: OurBroker) -> None:
    cli.ok("topic", "update", "orders", "-w", "1", "-r", "1")
    begun = time.time() * 1000
    day = send(broker, b"day", delay_level=9)
    hour = send(broker, b"hour", delay_level=1)
    half = send(broker, b"half an hour", delay_ms=1_800_000)
    minute = send(broker, b"a minute", deliver_at_ms=int(begun) + 60_000)
    soon = send(broker, b"soon", delay_level=2)

    found = cli.ok("delay", "ls", "-o", "json").json
    waiting = [(row["msgId"], row["delayLevel"]) for row in found if row["msgId"] != soon]
    assert waiting == [(minute, None), (half, None), (hour, 1), (day, 3)]
    assert {(row["topic"], row["queueId"], row["tags"]) for row in found} == {("orders", 0, "T")}
    for row in found[-4:]:
        due_s = {minute: 60, half: 1800, hour: 3600, day: 86_400}[row["msgId"]]
        assert due_s * 1000 <= row["dueTimestamp"] - begun + 1 < due_s * 1000 + 30_000
    short = cli.ok("delay", "ls", "orders", "--max", "1")
    assert len(short.out.splitlines()) == 2
    assert "more" in short.err
    assert cli.ok("delay", "ls", "other", "-o", "json").json == []

    [row] = cli.ok("delay", "show", half, "-o", "json").json
    assert (row["body"], row["properties"]["KEYS"], row["delayLevel"]) == ("half an hour", "k1 k2", None)
    assert len(cli.ok("delay", "cancel", hour, "--dry-run", "-o", "json").json) == 1
    assert hour in cli.ok("delay", "ls").out
    for taken in (hour, minute):
        assert len(cli.ok("delay", "cancel", taken, "--yes", "-o", "json").json) == 1
        again = cli("delay", "cancel", taken)
        assert (again.status, taken in again.err) == (ExitCode.NOT_FOUND, True)
    left = cli.ok("delay", "ls", "-o", "json").json
    assert [row["msgId"] for row in left if row["msgId"] != soon] == [half, day]
    [arrived] = cli.ok("msg", "tail", "orders", "--from", "earliest", "--max", "1", "-o", "json").json_lines
    assert arrived["body"] == "soon"


def test_nothing_waits(cli: Cli) -> None:
    assert cli.ok("delay", "ls", "-o", "json").json == []
    assert cli("delay", "show", "ABC").status == ExitCode.NOT_FOUND
