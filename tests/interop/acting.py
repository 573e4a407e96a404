"""What interop tests do over and over: start a producer, start a consumer, make a topic."""

from __future__ import annotations

import time
from typing import Any, Protocol

from tests.peers import wire
from tests.peers.driver import ClientDriver

UPDATE_AND_CREATE_TOPIC = 17
GET_ROUTEINFO_BY_TOPIC = 105
GET_PRODUCER_CONNECTION_LIST = 204


class Broker(Protocol):
    namesrv: str

    @property
    def address(self) -> str: ...


def start_producer(client: ClientDriver, broker: Broker, group: str, **options: object) -> dict[str, Any]:
    """What the driver says of it, such as its clientId."""
    # Three seconds, the clients' default, are not enough for a JVM that shares two cores with five others.
    fields = {"name": "p", "group": group, "namesrv": broker.namesrv, "sendTimeoutMs": 15_000, **options}
    return client.call("producer_start", **fields)


def start_consumer(client: ClientDriver, broker: Broker, topic: str, group: str, **options: object) -> dict[str, Any]:
    fields = {"name": "c", "group": group, "topic": topic, "namesrv": broker.namesrv, "from": "first", **options}
    return client.call("consumer_start", **fields)


def make_topic(broker: Broker, topic: str, queues: int, *, read: int | None = None, perm: int = 6) -> None:
    """Creates or changes a topic over the wire, as mqadmin does; `read` queues if they differ."""
    reply = wire.request(
        broker.address,
        UPDATE_AND_CREATE_TOPIC,
        topic=topic,
        defaultTopic="TBW102",
        readQueueNums=str(read or queues),
        writeQueueNums=str(queues),
        perm=str(perm),
        topicFilterType="SINGLE_TAG",
        topicSysFlag="0",
        order="false",
    )
    assert reply.code == 0, reply.remark


def wait_for_topic(broker: Broker, topic: str, seconds: float = 20.0) -> None:
    """Until the name server knows a topic that the broker makes by itself: a client that asks earlier would ask again
    only after 30 s."""
    end = time.monotonic() + seconds
    while wire.request(broker.namesrv, GET_ROUTEINFO_BY_TOPIC, topic=topic).code != wire.SUCCESS:
        assert time.monotonic() < end, f"no route to {topic} after {seconds} s"
        time.sleep(0.05)


def wait_for_producer(broker: Broker, group: str, seconds: float = 20.0) -> None:
    """A producer learns its broker with the first send; the heartbeat comes a moment later."""
    end = time.monotonic() + seconds
    while wire.request(broker.address, GET_PRODUCER_CONNECTION_LIST, producerGroup=group).code != wire.SUCCESS:
        assert time.monotonic() < end, f"no producer of {group} is known after {seconds} s"
        time.sleep(0.05)


def mqadmin_in(client: ClientDriver, broker: Broker, *words: str) -> str:
    """What a command of Apache's tool prints, run in the process of a Java client, which takes milliseconds with 4.9.7
    and up to three seconds with 5.5.0. It must succeed."""
    printed = client.call("mqadmin", args=[*words, "-n", broker.namesrv])
    assert "Exception" not in printed["stdout"], printed
    assert "SubCommandException" not in printed["stderr"], printed
    return str(printed["stdout"])
