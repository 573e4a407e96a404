"""`mqctl cluster export` and `import`: topics and groups from one cluster into another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.cli.test_topic import registered_but_gone
from tests.peers.ours import OurBroker, OurNamesrv


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Cli]:
    """Another cluster, whose broker has another name."""
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address, name="broker-x") as broker:
        yield Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(tmp_path)})


def exported(cli: Cli, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = cli.ok("cluster", "export", "metadata", *options).json
    return found


def test_a_cluster_becomes_like_another(cli: Cli, other: Cli, topic: str, tmp_path: Path) -> None:
    cli.ok("topic", "update", topic, "-w", "4", "-r", "6", "--perm", "r", "--order")
    cli.ok("consumer", "update", f"{topic}-group", "--retry-max", "5", "--disable")
    cli.ok("cluster", "export", "metadata", "-f", str(tmp_path / "new"))
    file = tmp_path / "new/metadata.json"
    document = json.loads(file.read_text())
    assert document["topicConfigTable"][topic]["readQueueNums"] == 6
    assert document["subscriptionGroupTable"][f"{topic}-group"]["retryMaxTimes"] == 5
    assert not [name for name in document["topicConfigTable"] if name.startswith(("TBW102", "RMQ_SYS", "%"))]

    load = ("cluster", "import", str(file))
    would = other.ok(*load, "--dry-run", "-o", "json").json
    assert topic not in exported(other)["topicConfigTable"]
    assert other(*load).status == ExitCode.USAGE, "nobody agreed"
    done = other.ok(*load, "--yes", "-o", "json").json
    assert done == would
    assert {(row["kind"], row["brokerName"]) for row in done} == {
        ("topic", "broker-x"),
        ("group", "broker-x"),
        ("order", None),
    }
    copied = exported(other)
    for table in ("topicConfigTable", "subscriptionGroupTable"):
        assert copied[table] == document[table]
    assert copied["orderTopicConfig"] == {topic: "broker-x:4"}
    again = other.ok(*load, "--yes")
    assert "nothing differs" in again.err

    other.ok("topic", "update", topic, "-r", "4", "--yes")
    [changed] = other.ok(*load, "--topics", "--yes", "-o", "json").json
    assert (changed["name"], changed["changed"]) == (topic, ["readQueueNums 4 -> 6"])
    other.ok("undo", "--yes")
    assert exported(other, "--topics")["topicConfigTable"][topic]["readQueueNums"] == 4


def test_which_broker_becomes_like_which(cli: Cli, topic: str, tmp_path: Path) -> None:
    tables = {"topicConfigTable": {topic: {"readQueueNums": 3, "writeQueueNums": 3, "perm": 6}}}
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"brokers": {"one": tables, "two": {}}}))
    load = ("cluster", "import", str(file), "--dry-run", "-o", "json")
    ended = cli(*load)
    assert (ended.status, "--map broker-a=NAME" in ended.err) == (ExitCode.USAGE, True)
    assert cli.ok(*load, "--map", "broker-a=two").json == []
    [row] = cli.ok(*load, "--map", "broker-a=one").json
    assert (row["name"], row["changed"]) == (topic, ["new"])
    for wrong in ("broker-a", "broker-z=one", "broker-a=three"):
        assert cli(*load, "--map", wrong).status == ExitCode.USAGE


@pytest.mark.parametrize("text", ["", "[]", "{", '{"topicConfigTable": {"t": 1}}', "a: b", "\xff"])
def test_files_that_are_none(cli: Cli, text: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(text.encode("latin-1"))
    ended = cli("cluster", "import", str(file), "--yes")
    assert (ended.status, str(file) in ended.err) == (ExitCode.USAGE, True)
    assert cli("cluster", "import", str(tmp_path / "none"), "--yes").status == ExitCode.USAGE


@pytest.mark.parametrize("count", ["-1", "65537", "true", "2.5", '"8"'])
def test_numbers_of_queues_that_cannot_be(cli: Cli, count: str, tmp_path: Path) -> None:
    file = tmp_path / "metadata.json"
    file.write_text(f'{{"topicConfigTable": {{"t": {{"readQueueNums": 8, "writeQueueNums": {count}}}}}}}')
    ended = cli("cluster", "import", str(file), "--dry-run")
    assert (ended.status, ended.out) == (ExitCode.USAGE, "")
    assert ended.err.startswith(f"error: {file}")


def test_settings_and_figures(cli: Cli, broker: OurBroker, topic: str, tmp_path: Path) -> None:
    cli.ok("topic", "update", topic)
    cli.ok("exportConfigs", "-c", broker.cluster, "-f", str(tmp_path))
    configs = json.loads((tmp_path / "configs.json").read_text())
    assert configs["clusterScale"] == {"namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0}
    assert configs["brokerConfigs"][broker.name]["brokerClusterName"] == broker.cluster
    metrics = cli.ok("cluster", "export", "metrics").json
    quota = metrics["evaluateReport"][broker.name]["runtimeQuota"]
    assert quota["topicSize"] >= 1
    assert metrics["totalData"]["totalTps"].keys() == {f"total{n[0].upper()}{n[1:]}" for n in quota["tps"]}
    assert "brokers:" in cli.ok("cluster", "export", "metadata", "-o", "yaml").out


def test_what_lacks_a_broker_is_written_and_marked(topic: str, tmp_path: Path) -> None:
    with OurNamesrv(tmp_path / "n") as namesrv, OurBroker(tmp_path / "b", namesrv.address):
        cli = Cli({"NAMESRV_ADDR": namesrv.address})
        with registered_but_gone(namesrv, "gone", "DefaultCluster"):
            for what in ("metadata", "configs", "metrics"):
                ended = cli("cluster", "export", what)
                assert (ended.status, "gone is missing here" in ended.err) == (ExitCode.PARTIAL, True)
                assert "broker-a" in ended.out


def test_groups_from_a_list(cli: Cli, topic: str, tmp_path: Path) -> None:
    home = Cli({**cli.variables, "HOME": str(tmp_path)})
    file = tmp_path / "groups.yaml"
    file.write_text(f"- {{groupName: {topic}-1, retryMaxTimes: 3}}\n- {{groupName: {topic}-2}}\n")
    would = home.ok("consumer", "apply", "-f", str(file), "--dry-run", "-o", "json").json
    assert [(row["name"], row["changed"]) for row in would] == [(f"{topic}-1", ["new"]), (f"{topic}-2", ["new"])]
    home.ok("updateSubGroupList", "-c", "DefaultCluster", "-f", str(file))
    [config] = home.ok("consumer", "config", f"{topic}-1", "-o", "json").json
    assert (config["retryMaxTimes"], config["consumeBroadcastEnable"]) == (3, False)
    assert "nothing differs" in home.ok("consumer", "apply", "-f", str(file), "--yes").err
    home.ok("undo", "--yes")
    assert home("consumer", "config", f"{topic}-1").status == ExitCode.NOT_FOUND
    for wrong in ("{}", "[1]", "[{}]"):
        assert home("consumer", "apply", "-f", "-", "--yes", stdin=wrong.encode()).status == ExitCode.USAGE
