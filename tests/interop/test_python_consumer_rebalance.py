"""Each strategy gives every client of any group just what Java's class of that name gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqctl.client import rebalance
from mqctl.client.rebalance import Strategy
from mqctl.remoting.bodies import MessageQueue
from tests.peers.driver import ClientDriver

pytestmark = pytest.mark.interop

# By the name of the driver: our strategy, and what Java's is made with.
STRATEGIES: Final[Mapping[str, tuple[Strategy, dict[str, Any]]]] = {
    "averagely": (rebalance.averagely, {}),
    "circle": (rebalance.circle, {}),
    "consistent_hash": (rebalance.consistent_hash(), {}),
    "by_machine_room": (rebalance.by_machine_room({"a", "b"}), {"rooms": "a,b"}),
    "machine_room_nearby": (rebalance.machine_room_nearby(lambda queue: queue.broker_name[0], lambda id_: id_[0]), {}),
}

BROKERS: Final = st.sampled_from(["a@1", "a@2", "b@1", "b@", "a@1@", "c@x", "c", "a@1@2", "ä@1"])
QUEUES: Final = st.lists(
    st.builds(MessageQueue, topic=st.just("t"), broker_name=BROKERS, queue_id=st.integers(0, 9)),
    min_size=1,
    max_size=24,
    unique=True,
)
CLIENTS: Final = st.lists(
    st.builds("{}-192.168.0.1@{}".format, st.sampled_from("abcd"), st.integers(1, 99)),
    min_size=1,
    max_size=12,
    unique=True,
)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_same_parts_as_java(java49: ClientDriver, name: str) -> None:
    ours, options = STRATEGIES[name]

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(QUEUES, CLIENTS)
    def check(queues: list[MessageQueue], clients: list[str]) -> None:
        queues.sort()
        clients.sort()
        assert [ours(client, queues, clients) for client in clients] == ask(java49, name, queues, clients, **options)

    check()


def ask(
    java: ClientDriver, strategy: str, queues: list[MessageQueue], clients: list[str], **options: Any
) -> list[list[MessageQueue]]:
    described = [{"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id} for queue in queues]
    answer = java.call("allocate", strategy=strategy, queues=described, clients=clients, **options)
    return [[queues[index] for index in part] for part in answer["parts"]]


def test_config_is_taken_as_it_is(java49: ClientDriver) -> None:
    queues = [MessageQueue("t", "a", number) for number in range(4)]
    ours = rebalance.by_config(queues[:1])
    clients = ["x", "y"]
    assert [ours(client, queues, clients) for client in clients] == ask(java49, "by_config", queues, clients)


@pytest.mark.parametrize("nodes", [0, 1, 3, 100])
def test_consistent_hash_with_other_numbers_of_virtual_nodes(java49: ClientDriver, nodes: int) -> None:
    queues = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in range(16)]
    clients = [f"10.0.0.{number}@{number}" for number in range(7)]
    ours = rebalance.consistent_hash(nodes)
    parts = ask(java49, "consistent_hash", queues, clients, virtualNodes=nodes)
    assert [ours(client, queues, clients) for client in clients] == parts
