"""Apache's own mqadmin against our servers: the commands an operator tries first, and what they print."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqctl.remoting import fastjson
from tests.interop.acting import mqadmin_in, start_producer
from tests.peers import wire
from tests.peers.apache import mqadmin
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201


@pytest.fixture(params=["java49", "java55"])
def tool(request: pytest.FixtureRequest) -> ClientDriver:
    driver = request.getfixturevalue(request.param)
    assert isinstance(driver, ClientDriver)
    return driver


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_cluster_list(version: str, our_broker: OurBroker) -> None:
    """In a process of its own, as operators run it."""
    done = mqadmin(version, our_broker.namesrv, "clusterList")
    assert "Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
    (row,) = [row for row in rows(done.stdout) if our_broker.address in row]
    assert row[:4] == [our_broker.cluster, our_broker.name, "0", our_broker.address]
    assert row[4] == "V4_9_7"


def test_update_topic_route_status_and_list(
    tool: ClientDriver, java55: ClientDriver, our_broker: OurBroker, unique: Unique
) -> None:
    topic = unique("admin")
    mqadmin_in(tool, our_broker, "updateTopic", "-c", our_broker.cluster, "-t", topic, "-w", "8", "-r", "4", "-p", "6")

    route = fastjson.loads(mqadmin_in(tool, our_broker, "topicRoute", "-t", topic).encode())
    (queues,) = route["queueDatas"]
    assert (queues["writeQueueNums"], queues["readQueueNums"], queues["perm"]) == (8, 4, 6)
    (broker,) = route["brokerDatas"]
    assert (broker["brokerName"], list(broker["brokerAddrs"].values())) == (our_broker.name, [our_broker.address])

    start_producer(java55, our_broker, unique("pg"))
    for number in range(3):
        java55.call("send", name="p", topic=topic, body=b"m-%d" % number, queueId=5)
    status = {
        row[1]: row
        for row in rows(mqadmin_in(tool, our_broker, "topicStatus", "-t", topic))
        if row[0] == our_broker.name
    }
    assert sorted(status, key=int) == [str(queue) for queue in range(8)]
    assert status["5"][2:4] == ["0", "3"]
    assert status["0"][2:4] == ["0", "0"]

    names = mqadmin_in(tool, our_broker, "topicList").split()
    assert topic in names
    assert {"TBW102", "SELF_TEST_TOPIC", our_broker.cluster, our_broker.name} <= set(names)


def test_update_sub_group(tool: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    group = unique("group")
    settings = ("-q", "3", "-r", "5", "-d", "false")
    mqadmin_in(tool, our_broker, "updateSubGroup", "-b", our_broker.address, "-g", group, *settings)
    listed = fastjson.loads(wire.request(our_broker.address, GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    stored = listed["subscriptionGroupTable"][group]
    assert (stored["retryQueueNums"], stored["retryMaxTimes"], stored["consumeBroadcastEnable"]) == (3, 5, False)
    assert stored["consumeEnable"] is True
