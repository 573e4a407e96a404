"""Clients that send more than they may, and what 5.x clients make of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker, OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

SYSTEM_BUSY = 2
LIMIT = 20


@pytest.fixture(scope="module")
def broker(our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    folder = tmp_path_factory.mktemp("flow")
    conf = {"topicSendRateLimit": LIMIT}
    with OurBroker(folder, our_namesrv.address, name="flow", cluster="flow", conf=conf) as server:
        yield server


@pytest.mark.parametrize("kind", ["java49", "java55"])
def test_the_rest_is_refused_as_busy(
    kind: str, broker: OurBroker, unique: Unique, request: pytest.FixtureRequest
) -> None:
    """What was refused is not there, what was not is, once."""
    client: ClientDriver = request.getfixturevalue(kind)
    topic = unique("topic")
    make_topic(broker, topic, 1)
    start_producer(client, broker, unique("producers"))
    report = client.call("send_many", name="p", count=20 * LIMIT, concurrency=8, template={"topic": topic, "body": b""})
    taken = {row[0] for row in report["results"]}
    refused = [row[1] for row in report["errors"]]
    assert len(taken) >= LIMIT
    assert len(taken) + len(refused) == 20 * LIMIT
    assert set(refused) == {SYSTEM_BUSY}
    start_consumer(client, broker, topic, unique("group"))
    bodies = [message.body for message in client.wait_messages("c", len(taken))]
    assert sorted(bodies) == sorted(str(index).encode() for index in taken)


def test_automatic_batches(java55: ClientDriver, our_broker: OurBroker, unique: Unique) -> None:
    """A 5.x producer with autoBatch collects single sends into batches. They arrive as single messages with ids of
    their own: batches that stay whole in the store are for topics that only 5.x brokers have."""
    topic = unique("topic")
    make_topic(our_broker, topic, 1)
    java = {"autoBatch": True}
    start_producer(java55, our_broker, unique("producers"), java=java)
    template = {"topic": topic, "body": b"", "keys": "key{i}"}
    report = java55.call("send_many", name="p", count=40, concurrency=20, template=template)
    assert (len(report["results"]), report["errors"]) == (40, [])
    start_consumer(java55, our_broker, topic, unique("group"))
    messages = java55.wait_messages("c", 40)
    assert sorted(message.body for message in messages) == sorted(str(index).encode() for index in range(40))
    assert {(message.body, message.keys) for message in messages} == {
        (str(index).encode(), f"key{index}") for index in range(40)
    }
    assert len({message.msg_id for message in messages}) == 40
    assert sorted(message.queue_offset for message in messages) == list(range(40))
