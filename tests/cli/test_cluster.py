"""`mqctl cluster`, and the verbs of `mqctl broker` and `mqctl namesrv`, against real servers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli, program
from tests.cli.test_topic import registered_but_gone
from tests.peers.ours import OurBroker, OurNamesrv


@pytest.fixture
def cli(broker: OurBroker, tmp_path: Path) -> Cli:
    """mqctl with a home of its own, for the journal."""
    return Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Cli, OurNamesrv]]:
    """A name server and a broker that the test may change."""
    with (
        OurNamesrv(tmp_path / "namesrv") as namesrv,
        OurBroker(tmp_path / "broker", namesrv.address),
    ):
        yield Cli({"NAMESRV_ADDR": namesrv.address, "HOME": str(tmp_path)}), namesrv


def test_cluster_list(cli: Cli, broker: OurBroker) -> None:
    [row] = cli.ok("cluster", "list", "-o", "json").json
    assert (row["cluster"], row["brokerName"], row["brokerId"]) == ("DefaultCluster", "broker-a", 0)
    assert (row["brokerAddr"], row["version"]) == (broker.address, "V4_9_7")
    assert 0 < row["diskRatio"] < 1
    [totals] = cli.ok("cluster", "list", "--totals", "-o", "json").json
    assert totals["inToday"] >= 0
    assert "SENDS WAITING" in cli.ok("cluster", "list", "-o", "wide").out
    assert cli("cluster", "list", "-c", "nowhere").status == ExitCode.NOT_FOUND


def test_a_broker_that_is_gone_is_listed_and_marked(own: tuple[Cli, OurNamesrv]) -> None:
    cli, namesrv = own
    with registered_but_gone(namesrv, "gone", "DefaultCluster") as address:
        ended = cli("cluster", "list", "-o", "json")
        health = cli("cluster", "health", "-o", "json")
    assert ended.status == ExitCode.PARTIAL
    assert [(row["brokerName"], row["version"]) for row in ended.json] == [("broker-a", "V4_9_7"), ("gone", None)]
    assert f"warning: {address} is missing here" in ended.err
    assert health.status == ExitCode.ALERT
    assert [row["healthy"] for row in health.json] == [True, True, False]


def test_a_watched_list_goes_on_although_a_broker_is_gone(own: tuple[Cli, OurNamesrv], tmp_path: Path) -> None:
    cli, namesrv = own
    words = ("cluster", "list", "--totals", "--watch", "0.1", "-o", "csv")
    with (
        registered_but_gone(namesrv, "gone", "DefaultCluster"),
        program(*words, cwd=tmp_path, variables=cli.variables) as watching,
    ):
        lines = [watching.line() for _ in range(6)]
        assert lines[0] == lines[3] != ""
        assert watching.end(signal.SIGINT).status == ExitCode.DONE


def test_how_far_slaves_are_behind(cli: Cli, own: tuple[Cli, OurNamesrv], broker: OurBroker) -> None:
    [row] = cli.ok("broker", "ha", "-o", "json").json
    assert (row["brokerName"], row["brokerAddr"], row["behindBytes"]) == ("broker-a", broker.address, 0)
    assert (row["slaves"], row["inSync"]) == (0, 0)
    alone, namesrv = own
    with registered_but_gone(namesrv, "gone", "DefaultCluster") as address:
        ended = alone("haStatus", "-c", "DefaultCluster")
    assert (ended.status, f"{address} is missing here" in ended.err) == (ExitCode.PARTIAL, True)


def test_health(cli: Cli) -> None:
    assert all(row["healthy"] for row in cli.ok("cluster", "health", "--max-disk", "1", "-o", "json").json)
    ended = cli("cluster", "health", "--max-disk", "0")
    assert ended.status == ExitCode.ALERT
    assert "full" in ended.out


def test_response_times(cli: Cli) -> None:
    [row] = cli.ok("cluster", "rt", "--count", "5", "-o", "json").json
    assert (row["brokerName"], row["successCount"], row["failCount"]) == ("broker-a", 5, 0)
    assert 0 < row["averageMs"] <= row["worstMs"]
    lines = cli.ok("broker", "send-test", "broker-a", "--count", "3", "-o", "json").json_lines
    assert [line["sendResult"] for line in lines] == ["SEND_OK"] * 3


# -- broker ---------------------------------------------------------------------------------------------


def test_status_and_consume_stats(cli: Cli, broker: OurBroker, topic: str) -> None:
    rows = cli.ok("broker", "status", broker.address, "-o", "json").json
    assert {row["key"]: row["value"] for row in rows}["brokerVersionDesc"] == "V4_9_7"
    assert rows == sorted(rows, key=lambda row: row["key"])
    cli.ok("topic", "update", topic, "-w", "1", "-r", "1")
    cli.ok("consumer", "update", f"g-{topic}")
    cli.ok("msg", "send", topic, "x", "--count", "3")
    cli.ok("offset", "set", f"g-{topic}", "-t", topic, "-q", "0", "--to", "1", "--yes")
    found = cli.ok("broker", "consume-stats", "broker-a", "--min-diff", "1", "-o", "json").json
    [row] = [row for row in found if row["topic"] == topic]
    assert (row["group"], row["brokerOffset"], row["consumerOffset"], row["diff"]) == (f"g-{topic}", 3, 1, 2)


def test_config_is_changed_read_back_and_undone(own: tuple[Cli, OurNamesrv]) -> None:
    cli, _ = own

    def value() -> str:
        [row] = cli.ok("broker", "config", "get", "fileReservedTime", "-o", "json").json
        return str(row["value"])

    before = value()
    [row] = cli.ok("broker", "config", "set", "fileReservedTime=7", "--dry-run", "-o", "json").json
    assert (row["before"], row["after"], value()) == (before, "7", before)
    assert cli("broker", "config", "set", "fileReservedTime=7").status == ExitCode.USAGE  # nobody can be asked
    cli.ok("broker", "config", "set", "fileReservedTime=7", "-b", "broker-a", "--yes")
    assert value() == "7"
    cli.ok("undo", "--yes")
    assert value() == before


def test_config_that_cannot_be(cli: Cli) -> None:
    ended = cli("broker", "config", "set", "fileReservedTme=7", "--yes")
    assert ended.status == ExitCode.NOT_FOUND
    assert "did you mean fileReservedTime" in ended.err
    assert cli("broker", "config", "set", "fileReservedTime", "--yes").status == ExitCode.USAGE
    assert cli("broker", "config", "get", "nonsense").status == ExitCode.NOT_FOUND
    assert cli("broker", "config", "get", "-b", "broker-b").err == (
        "error: there is no broker broker-b\nhint: did you mean broker-a?\n"
    )


@pytest.mark.parametrize("verb", ["clean-expired-cq", "clean-unused-topics", "delete-expired-commitlog"])
def test_cleaning(cli: Cli, broker: OurBroker, verb: str) -> None:
    assert cli.ok("broker", verb, "--dry-run", "-o", "json").json == [{"brokerAddr": broker.address, "done": False}]
    assert cli.ok("broker", verb, "-b", "broker-a", "--yes", "-o", "json").json == [
        {"brokerAddr": broker.address, "done": True}
    ]


def test_drain_and_undrain(own: tuple[Cli, OurNamesrv]) -> None:
    cli, _ = own

    def perm() -> str:
        [row] = cli.ok("topic", "route", "t", "-o", "json").json
        return str(row["perm"])

    cli.ok("topic", "update", "t")
    cli.ok("broker", "drain", "broker-a", "--dry-run")
    assert perm() == "rw"
    [row] = cli.ok("broker", "drain", "broker-a", "--quiet", "0.1", "--yes", "-o", "json").json
    assert (row["safe"], row["behind"], perm()) == (True, 0, "r")
    cli.ok("broker", "undrain", "broker-a", "--yes")
    assert perm() == "rw"
    cli.ok("broker", "wipe-write-perm", "broker-a", "--yes")
    assert perm() == "r"
    cli.ok("broker", "add-write-perm", "broker-a", "--yes")
    assert perm() == "rw"
    assert cli("broker", "drain", "broker-b", "--yes").status == ExitCode.NOT_FOUND


# -- name server ----------------------------------------------------------------------------------------


def test_namesrv_config(own: tuple[Cli, OurNamesrv]) -> None:
    cli, _ = own
    key = "orderMessageEnable"
    [row] = cli.ok("namesrv", "config", "get", key, "-o", "json").json
    other = "false" if row["value"] == "true" else "true"
    cli.ok("namesrv", "config", "set", f"{key}={other}", "--yes")
    [changed] = cli.ok("namesrv", "config", "get", key, "-o", "json").json
    assert changed["value"] == other
    cli.ok("undo", "--yes")
    assert cli.ok("namesrv", "config", "get", key, "-o", "json").json == [row]


def test_kv(cli: Cli, topic: str) -> None:
    assert cli("namesrv", "kv", "get", topic, "k").status == ExitCode.NOT_FOUND
    assert cli.ok("namesrv", "kv", "list", topic, "-o", "json").json == []
    cli.ok("namesrv", "kv", "put", topic, "k", "v")
    entry = {"namespace": topic, "key": "k", "value": "v"}
    assert cli.ok("namesrv", "kv", "get", topic, "k", "-o", "json").json == [entry]
    assert cli.ok("namesrv", "kv", "list", topic, "-o", "json").json == [entry]
    cli.ok("namesrv", "kv", "delete", topic, "k", "--yes")
    assert cli.ok("namesrv", "kv", "list", topic, "-o", "json").json == []
    cli.ok("undo", "--yes")
    assert cli.ok("namesrv", "kv", "list", topic, "-o", "json").json == [entry]


def test_a_verb_that_is_none_starts_no_server(offline: Cli) -> None:
    for noun in ("broker", "namesrv"):
        assert offline(noun, "sttus").status == ExitCode.USAGE
