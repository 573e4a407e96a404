"""`mqctl cluster export` and `import`, `broker ha`, `monitor` and the topic commands against Apache's brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.interop.acting import mqadmin_in
from tests.peers.apache import ApacheBroker
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]
AnyBroker = OurBroker | ApacheBroker


def cli_of(broker: AnyBroker, home: Path) -> Cli:
    return Cli({"NAMESRV_ADDR": broker.namesrv, "HOME": str(home)})


def test_mqadmin_exports_the_same(
    java49: ClientDriver, apache_broker: ApacheBroker, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique("topic"), unique("group")
    cli = cli_of(apache_broker, tmp_path)
    cli.ok("topic", "update", topic, "-w", "3", "-r", "5")
    cli.ok("consumer", "update", group, "--retry-max", "4")
    for what in ("Metadata", "Configs", "Metrics"):
        mqadmin_in(java49, apache_broker, f"export{what}", "-c", apache_broker.cluster, "-f", str(tmp_path / "theirs"))
        cli.ok(f"export{what}", "-c", apache_broker.cluster, "-f", str(tmp_path / "ours"))

    def both(name: str) -> list[Any]:
        return [json.loads((tmp_path / whose / name).read_text()) for whose in ("theirs", "ours")]

    theirs, ours = both("metadata.json")
    for table in ("topicConfigTable", "subscriptionGroupTable"):
        assert ours[table] == theirs[table]
    again = cli.ok("cluster", "import", str(tmp_path / "theirs/metadata.json"), "--yes")
    assert "nothing differs" in again.err
    theirs, ours = both("configs.json")
    assert ours["clusterScale"] == theirs["clusterScale"]
    assert theirs["brokerConfigs"][apache_broker.name].items() <= ours["brokerConfigs"][apache_broker.name].items()
    theirs, ours = both("metrics.json")
    for part in ("runtimeEnv", "runtimeQuota", "runtimeVersion"):
        a, b = (report["evaluateReport"][apache_broker.name][part] for report in (theirs, ours))
        assert a.keys() == {name for name, value in b.items() if value is not None}
    assert ours["totalData"].keys() == theirs["totalData"].keys()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("apache_broker", "our_broker"),
        ("apache55_broker", "apache_broker"),
        pytest.param("our_broker", "apache55_broker", marks=pytest.mark.long),
    ],
)
def test_from_one_cluster_into_another(
    source: str, target: str, request: pytest.FixtureRequest, unique: Unique, tmp_path: Path
) -> None:
    here, there = (cli_of(request.getfixturevalue(name), tmp_path) for name in (source, target))
    topic, group = unique("topic"), unique("group")
    here.ok("topic", "update", topic, "-w", "3", "-r", "5", "--perm", "r")
    here.ok("consumer", "update", group, "--retry-max", "4", "--broadcast")
    document = here.ok("cluster", "export", "metadata").json
    # The brokers are shared with other tests, whose topics stay where they are.
    for tables in (document, *document["brokers"].values()):
        tables["topicConfigTable"] = {topic: tables["topicConfigTable"][topic]}
        tables["subscriptionGroupTable"] = {group: tables["subscriptionGroupTable"][group]}
    document["orderTopicConfig"] = {}
    data = json.dumps(document).encode()
    there.ok("cluster", "import", "-", "--yes", stdin=data)
    copied = there.ok("cluster", "export", "metadata").json
    for table in ("topicConfigTable", "subscriptionGroupTable"):
        for name, config in document[table].items():
            known = config.keys() & copied[table][name].keys()  # a release knows what another does not
            assert {key: copied[table][name][key] for key in known} == {key: config[key] for key in known}
    assert "nothing differs" in there.ok("cluster", "import", "-", "--yes", stdin=data).err


def test_replicas_and_monitor(any_broker: AnyBroker, tmp_path: Path) -> None:
    cli = cli_of(any_broker, tmp_path)
    (row,) = [row for row in cli.ok("broker", "ha", "-o", "json").json if row["brokerAddr"] == any_broker.address]
    assert (row["brokerId"], row["behindBytes"]) == (0, 0)
    told_by_master = not (isinstance(any_broker, ApacheBroker) and any_broker.version == "4.9.7")
    assert row["slaves"] == (0 if told_by_master else None)
    ended = cli("monitor", "--once", "--max-lag", "1000000", "--max-seconds", "1000000")
    assert ended.status in (ExitCode.DONE, ExitCode.ALERT), "nobody else's clients trouble us"
    assert not ended.err


def test_topic_commands_at_5_5(apache55_broker: ApacheBroker, unique: Unique, tmp_path: Path) -> None:
    topic = unique("topic")
    cli = cli_of(apache55_broker, tmp_path)

    def config() -> tuple[object, ...]:
        [row] = cli.ok("topic", "route", topic, "-o", "json").json
        return row["writeQueueNums"], row["readQueueNums"], row["perm"]

    cli.ok("topic", "update", topic, "-w", "8", "-r", "4")
    assert config() == (8, 4, "rw")
    cli.ok("topic", "update", topic, "-r", "8")
    cli.ok("topic", "perm", topic, "r", "--yes")
    assert config() == (8, 8, "r")
    cli.ok("undo", "--yes")
    assert config() == (8, 8, "rw")
    cli.ok("msg", "send", topic, "hello", "--count", "3")
    assert sum(row["maxOffset"] for row in cli.ok("topic", "stats", topic, "-o", "json").json) == 3
    assert topic in cli.ok("topic", "list").out
    assert cli.ok("topic", "clusters", topic, "-o", "json").json == [{"cluster": apache55_broker.cluster}]
    file = tmp_path / "topics.json"
    file.write_text(json.dumps([{"topicName": topic, "writeQueueNums": 9, "readQueueNums": 9}]))
    cli.ok("topic", "apply", "-f", str(file), "--yes")
    assert config() == (9, 9, "rw")
    cli.ok("topic", "delete", topic, "--yes")
    assert cli("topic", "route", topic).status == ExitCode.NOT_FOUND
