"""Name servers and brokers of both makes, mixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.acting import make_topic, mqadmin_in, start_consumer, start_producer
from tests.peers import wire
from tests.peers.apache import ApacheBroker, ApacheNamesrv
from tests.peers.cache import require
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

GET_ROUTEINFO_BY_TOPIC = 105


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Servers started by a test; stopped at its end, the last first."""
    with ExitStack() as stack:
        yield stack


def exchange(client: ClientDriver, namesrv: str, topic: str, group: str, count: int = 10) -> None:
    """Sends and consumes through whatever brokers serve the topic."""

    class There:
        pass

    there = There()
    there.namesrv = namesrv  # type: ignore[attr-defined]
    start_producer(client, there, group + "_p", name=group)  # type: ignore[arg-type]
    report = client.call("send_many", name=group, count=count, template={"topic": topic, "body": b"m-"})
    assert report["errors"] == []
    start_consumer(client, there, topic, group, name=group + "_c")  # type: ignore[arg-type]
    got = client.wait_messages(group + "_c", count)
    assert sorted(each.body for each in got) == sorted(b"m-%d" % number for number in range(count))


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_apaches_broker_registers_with_our_name_server(
    version: str, java55: ClientDriver, servers: ExitStack, tmp_path: Path, unique: Unique
) -> None:
    namesrv = servers.enter_context(OurNamesrv(tmp_path / "ns"))
    servers.enter_context(require(ApacheBroker, version, tmp_path / "broker", namesrv.address))
    exchange(java55, namesrv.address, unique("theirs"), unique("cg"))


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_our_broker_registers_with_apaches_name_server(
    version: str, java49: ClientDriver, servers: ExitStack, tmp_path: Path, unique: Unique
) -> None:
    namesrv = servers.enter_context(require(ApacheNamesrv, version, tmp_path / "ns"))
    name = unique("mixed")
    broker = servers.enter_context(OurBroker(tmp_path / "broker", namesrv.address, name=name, cluster=f"c-{name}"))
    topic, deleted = unique("ours"), unique("deleted")
    make_topic(broker, topic, 4)
    exchange(java49, namesrv.address, topic, unique("cg"))
    listed = mqadmin_in(java49, broker, "clusterList")
    assert name in listed
    assert broker.address in listed
    make_topic(broker, deleted, 1)
    mqadmin_in(java49, broker, "deleteTopic", "-c", f"c-{name}", "-t", deleted)
    assert wire.request(namesrv.address, GET_ROUTEINFO_BY_TOPIC, topic=deleted).code == 17
    assert wire.request(namesrv.address, GET_ROUTEINFO_BY_TOPIC, topic=topic).code == 0
    broker.stop()
    reply = wire.request(namesrv.address, GET_ROUTEINFO_BY_TOPIC, topic=topic)
    assert reply.code == 17, "a broker that stops takes its routes with it"


def test_a_broker_with_two_name_servers_survives_the_loss_of_one(
    java55: ClientDriver, servers: ExitStack, tmp_path: Path, unique: Unique
) -> None:
    first = servers.enter_context(OurNamesrv(tmp_path / "ns1"))
    second = servers.enter_context(OurNamesrv(tmp_path / "ns2"))
    both = f"{first.address};{second.address}"
    broker = servers.enter_context(OurBroker(tmp_path / "broker", both))
    before, after = unique("before"), unique("after")
    make_topic(broker, before, 2)
    for namesrv in (first, second):
        reply = wire.request(namesrv.address, GET_ROUTEINFO_BY_TOPIC, topic=before)
        route = json.loads(reply.body)
        assert [each["brokerAddrs"] for each in route["brokerDatas"]] == [{"0": broker.address}]
    first.kill()
    make_topic(broker, after, 2)
    exchange(java55, second.address, after, unique("cg"))
    exchange(java55, second.address, before, unique("cg"))


def test_a_broker_that_dies_leaves_the_routes_at_once(servers: ExitStack, tmp_path: Path, unique: Unique) -> None:
    namesrv = servers.enter_context(OurNamesrv(tmp_path / "ns"))
    broker = servers.enter_context(OurBroker(tmp_path / "broker", namesrv.address))
    topic = unique("routed")
    make_topic(broker, topic, 2)
    assert wire.request(namesrv.address, GET_ROUTEINFO_BY_TOPIC, topic=topic).code == 0
    broker.kill()
    # The connection's end reaches the name server with the process's end; it only has to take its turn.
    for _ in range(50):
        if wire.request(namesrv.address, GET_ROUTEINFO_BY_TOPIC, topic=topic).code == 17:
            return
    raise AssertionError("the route stayed")
