"""What interop tests do over and over: start a producer, start a consumer, make a topic."""

from __future__ import annotations

from typing import Protocol

from tests.peers import wire
from tests.peers.driver import ClientDriver

UPDATE_AND_CREATE_TOPIC = 17


class Broker(Protocol):
    namesrv: str

    @property
    def address(self) -> str: ...


def start_producer(client: ClientDriver, broker: Broker, group: str, **options: object) -> None:
    client.call("producer_start", **{"name": "p", "group": group, "namesrv": broker.namesrv, **options})


def start_consumer(client: ClientDriver, broker: Broker, topic: str, group: str, **options: object) -> None:
    fields = {"name": "c", "group": group, "topic": topic, "namesrv": broker.namesrv, "from": "first", **options}
    client.call("consumer_start", **fields)


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
