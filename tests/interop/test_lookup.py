"""Real clients and tools that look messages up by key, unique key and place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.acting import make_topic, start_producer
from tests.peers.apache import mqadmin
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]


@pytest.fixture(params=["java49", "java55"])
def java_client(request: pytest.FixtureRequest) -> ClientDriver:
    driver = request.getfixturevalue(request.param)
    assert isinstance(driver, ClientDriver)
    return driver


def test_by_key_and_by_unique_key(java_client: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("keys")
    make_topic(our_broker, topic, 4)
    start_producer(java_client, our_broker, unique("pg"))
    sent = [
        java_client.call("send", name="p", topic=topic, body=b"m-%d" % number, keys=f"order-{number // 2} all")
        for number in range(10)
    ]
    where = {"namesrv": our_broker.namesrv, "topic": topic}

    found = java_client.call("query_key", key="order-3", **where)["messages"]
    assert sorted(each["msgId"] for each in found) == sorted(sent[number]["msgId"] for number in (6, 7))
    found = java_client.call("query_key", key="all", **where)["messages"]
    assert {each["msgId"] for each in found} == {each["msgId"] for each in sent}
    by_unique_key = java_client.call("view_message", msgId=sent[5]["msgId"], **where)["message"]
    by_place = java_client.call("view_message", msgId=sent[5]["offsetMsgId"], **where)["message"]
    assert by_unique_key["body"] == by_place["body"]
    assert by_unique_key["queueOffset"] == sent[5]["queueOffset"]


def test_keys_survive_a_kill(java55: ClientDriver, own_broker: OurBroker, unique: Unique) -> None:
    """Apache's broker throws its current index file away after an unclean end."""
    topic = unique("killed")
    make_topic(own_broker, topic, 2)
    start_producer(java55, own_broker, unique("pg"))
    sent = [java55.call("send", name="p", topic=topic, body=b"m", keys=f"k{number}") for number in range(20)]
    own_broker.kill()
    own_broker.start()
    for number in (0, 10, 19):
        (found,) = java55.call("query_key", namesrv=own_broker.namesrv, topic=topic, key=f"k{number}")["messages"]
        assert found["msgId"] == sent[number]["msgId"]


def test_mqadmin_query_by_key(java49: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    topic = unique("admin_keys")
    make_topic(our_broker, topic, 2)
    start_producer(java49, our_broker, unique("pg"))
    sent = java49.call("send", name="p", topic=topic, body=b"m", keys="only-this")
    done = mqadmin("4.9.7", our_broker.namesrv, "queryMsgByKey", "-t", topic, "-k", "only-this")
    assert sent["msgId"] in done.stdout
