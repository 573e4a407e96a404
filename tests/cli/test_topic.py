"""`mqctl topic` against a real name server and broker."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.exit import ExitCode
from mqctl.remoting import register_body
from mqctl.remoting.bodies import RegisterBrokerBody, TopicConfig, TopicConfigTable
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.topicbits import PERM_READ, PERM_WRITE
from tests.cli.running import Cli
from tests.peers.ours import OurBroker, OurNamesrv
from tests.peers.process import free_port

NEW = {"writeQueueNums": 8, "readQueueNums": 8, "perm": "rw", "order": False}


def test_update_creates_with_rocketmqs_defaults_and_reads_back(cli: Cli, broker: OurBroker, topic: str) -> None:
    rows = cli.ok("topic", "update", topic, "-o", "json").json
    expected = {"brokerName": broker.name, "brokerAddr": broker.address, "before": None, "after": NEW, "error": None}
    assert rows == [expected]


def test_update_keeps_what_is_not_given(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "4", "-r", "6", "--perm", "r")
    [row] = cli.ok("topic", "update", topic, "-w", "5", "-o", "json").json
    assert row["before"] == {"writeQueueNums": 4, "readQueueNums": 6, "perm": "r", "order": False}
    assert row["after"] == {"writeQueueNums": 5, "readQueueNums": 6, "perm": "r", "order": False}


def test_update_prints_before_and_after_for_people(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("topic", "update", topic)
    ended = cli.ok("topic", "update", topic, "-w", "4", "--perm", "6", "--yes")
    head, line = ended.out.splitlines()
    assert head.split() == ["BROKER", "ADDRESS", "BEFORE", "AFTER"]
    assert line.split() == [broker.name, broker.address, "w8", "r8", "rw", "w4", "r8", "rw"]
    assert ended.err == ""


def test_update_warns_of_queues_that_nobody_reads(cli: Cli, topic: str) -> None:
    ended = cli.ok("topic", "update", topic, "-w", "8", "-r", "4")
    assert ended.err == "warning: broker-a: messages go to queues 4 to 7, which no consumer reads\n"


def test_dry_run_changes_nothing(cli: Cli, topic: str) -> None:
    [row] = cli.ok("topic", "update", topic, "--dry-run", "-o", "json").json
    assert row["after"] == NEW
    assert cli("topic", "route", topic).status == ExitCode.NOT_FOUND


def test_update_of_one_broker_by_address(cli: Cli, broker: OurBroker, topic: str) -> None:
    [row] = cli.ok("topic", "update", topic, "-b", broker.address, "-w", "2", "-o", "json").json
    assert row["brokerName"] == broker.name
    assert row["after"]["writeQueueNums"] == 2


def test_order_is_switched_on_kept_and_off(cli: Cli, topic: str) -> None:
    orders = []
    for option in (["--order"], [], ["--no-order"]):
        [row] = cli.ok("topic", "update", topic, *option, "-o", "json").json
        orders.append(row["after"]["order"])
    assert orders == [True, True, False]


def test_a_topic_of_the_broker_is_refused_with_its_reason(cli: Cli) -> None:
    ended = cli("topic", "update", "SCHEDULE_TOPIC_XXXX")
    assert ended.status == ExitCode.REFUSED
    assert "SYSTEM_ERROR: the topic 'SCHEDULE_TOPIC_XXXX' belongs to the broker" in ended.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--perm", "rz"], "'rz' is not a permission: write r, w or rw, or 4, 2 or 6"),
        (["-c", "a", "-b", "b:1"], "give -c or -b, not both"),
        (["-w", "-1"], "-1 is not in the range"),
    ],
)
def test_options_that_cannot_be(cli: Cli, options: list[str], complaint: str) -> None:
    ended = cli("topic", "update", "t", *options)
    assert ended.status == ExitCode.USAGE
    assert complaint in ended.err
    assert ended.out == ""


# -- list, route, stats ---------------------------------------------------------------------------------


def test_list(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    lines = cli.ok("topic", "list").out.splitlines()
    assert lines[0] == "TOPIC"
    assert {topic, "TBW102", "broker-a", "DefaultCluster"} <= set(lines[1:])
    assert lines[1:] == sorted(lines[1:])


def test_list_without_the_servers_own_topics(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    cli.ok("topic", "update", "%RETRY%some-group")
    topics = {row["topic"] for row in cli.ok("topic", "list", "--no-system", "-o", "json").json}
    assert topic in topics
    assert not topics & {"TBW102", "broker-a", "DefaultCluster", "BenchmarkTest", "%RETRY%some-group"}


def test_list_of_a_cluster(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic)
    assert {"topic": topic} in cli.ok("topic", "list", "-c", "DefaultCluster", "-o", "json").json
    ended = cli("topic", "list", "-c", "nowhere")
    assert ended.status == ExitCode.NOT_FOUND
    assert ended.err == "error: there is no cluster nowhere\nhint: known: DefaultCluster\n"


def test_route(cli: Cli, broker: OurBroker, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "3", "-r", "5")
    assert cli.ok("topic", "route", topic, "-o", "json").json == [
        {
            "cluster": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerAddrs": {"0": broker.address},
            "readQueueNums": 5,
            "writeQueueNums": 3,
            "perm": "rw",
        }
    ]


def test_route_of_a_topic_that_does_not_exist(cli: Cli) -> None:
    ended = cli("topic", "route", "missing")
    assert ended.status == ExitCode.NOT_FOUND
    assert ended.out == ""
    assert ended.err == ("error: the topic missing does not exist\nhint: create it with `mqctl topic update missing`\n")


def test_stats(cli: Cli, topic: str) -> None:
    cli.ok("topic", "update", topic, "-w", "2", "-r", "2")
    cli.ok("msg", "send", topic, "x", "--queue", "1", "--count", "3")
    empty, full = cli.ok("topic", "stats", topic, "-o", "json").json
    assert (empty["queueId"], empty["minOffset"], empty["maxOffset"]) == (0, 0, 0)
    assert (full["queueId"], full["minOffset"], full["maxOffset"]) == (1, 0, 3)
    assert full["lastUpdateTimestamp"] > 1_700_000_000_000
    assert cli.ok("topic", "stats", topic).out.splitlines()[1].split() == ["broker-a", "0", "0", "0", "-"]


# -- where the name server is ---------------------------------------------------------------------------


def test_the_innermost_name_server_wins(offline: Cli, broker: OurBroker) -> None:
    assert offline("topic", "list").status == ExitCode.UNREACHABLE
    for args in (
        ["-n", broker.namesrv, "topic", "list"],
        ["topic", "-n", broker.namesrv, "list"],
        ["topic", "list", "--namesrv", broker.namesrv],
        ["-n", "127.0.0.1:2", "topic", "list", "-n", broker.namesrv],
    ):
        offline.ok(*args)


def test_the_next_name_server_is_asked_when_one_is_down(offline: Cli, broker: OurBroker) -> None:
    offline.ok("topic", "list", "-n", f"127.0.0.1:1;{broker.namesrv}")


def test_no_name_server_at_all(offline: Cli) -> None:
    ended = offline("topic", "list")
    assert ended.status == ExitCode.UNREACHABLE
    assert ended.err == (
        "error: cannot connect to 127.0.0.1:1: Connection refused\n"
        "hint: start one with `mqctl standalone`, or say where it is with -n host:port or NAMESRV_ADDR\n"
    )


def test_an_address_that_is_none(offline: Cli) -> None:
    ended = offline("topic", "list", "-n", "localhost")
    assert ended.status == ExitCode.USAGE
    assert ended.err == "error: 'localhost' is not an address\nhint: write it as host:port, such as 127.0.0.1:9876\n"


# -- several brokers ------------------------------------------------------------------------------------


@pytest.fixture
def lonely_namesrv(tmp_path: Path) -> Iterator[OurNamesrv]:
    with OurNamesrv(tmp_path / "namesrv") as server:
        yield server


@contextlib.contextmanager
def registered_but_gone(
    namesrv: OurNamesrv, name: str, cluster: str, *topics: str, broker_id: int = 0
) -> Iterator[str]:
    """A broker, with these topics, that name servers believe in although nobody listens at its address."""
    address = f"127.0.0.1:{free_port()}"
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=PERM_READ | PERM_WRITE)
        for topic in topics
    }
    wrapper = TopicConfigTable(topic_config_table=table)
    who = {"brokerName": name, "brokerAddr": address, "clusterName": cluster}
    command = Command(
        RequestCode.REGISTER_BROKER,
        ext={**who, "brokerId": str(broker_id), "haServerAddr": ""},
        body=register_body.encode(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper), compressed=False),
        opaque=1,
    )
    with socket.create_connection(("127.0.0.1", namesrv.port), timeout=10) as sock:
        sock.sendall(command.encode())
        assert sock.recv(4)  # an answer; the broker stays registered while the connection is open
        yield address


def test_no_broker_yet(lonely_namesrv: OurNamesrv) -> None:
    ended = Cli({})("-n", lonely_namesrv.address, "topic", "update", "t")
    assert ended.status == ExitCode.NOT_FOUND
    assert "no broker has registered" in ended.err


def test_one_of_several_clusters_must_be_chosen(lonely_namesrv: OurNamesrv) -> None:
    with registered_but_gone(lonely_namesrv, "a", "one"), registered_but_gone(lonely_namesrv, "b", "two"):
        ended = Cli({})("-n", lonely_namesrv.address, "topic", "update", "t")
    assert ended.status == ExitCode.USAGE
    assert ended.err == "error: there are several clusters: one, two\nhint: choose one with -c\n"


def test_a_broker_that_cannot_be_reached_does_not_hide_the_others(lonely_namesrv: OurNamesrv, tmp_path: Path) -> None:
    cli = Cli({"NAMESRV_ADDR": lonely_namesrv.address})
    with (
        OurBroker(tmp_path / "broker", lonely_namesrv.address),
        registered_but_gone(lonely_namesrv, "gone", "DefaultCluster") as address,
    ):
        ended = cli("topic", "update", "t", "-o", "json")
    assert ended.status == ExitCode.PARTIAL
    done, failed = ended.json
    assert (done["brokerName"], done["after"], done["error"]) == ("broker-a", NEW, None)
    assert (failed["brokerName"], failed["after"]) == ("gone", None)
    assert failed["error"] == f"cannot connect to {address}: Connection refused"


def test_the_only_broker_cannot_be_reached(lonely_namesrv: OurNamesrv) -> None:
    with registered_but_gone(lonely_namesrv, "gone", "DefaultCluster") as address:
        ended = Cli({})("-n", lonely_namesrv.address, "topic", "update", "t")
    assert ended.status == ExitCode.UNREACHABLE
    assert f"error: cannot connect to {address}: Connection refused" in ended.err
    assert "set brokerIP1 in its configuration" in ended.err
