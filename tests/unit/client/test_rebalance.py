"""Every strategy gives each queue to one client; that it is the choice of Java is tested with its classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.client import rebalance
from mqctl.client.rebalance import Strategy
from mqctl.remoting.bodies import MessageQueue

queues = st.integers(1, 40).map(lambda count: [MessageQueue("t", "a@1", number) for number in range(count)])
clients = st.sets(st.text("abcdef0123456789@#.", min_size=1, max_size=8), min_size=1, max_size=10).map(sorted)
DIVIDING = {
    "averagely": rebalance.averagely,
    "circle": rebalance.circle,
    "consistent_hash": rebalance.consistent_hash(),
    "by_machine_room": rebalance.by_machine_room({"a"}),
    "machine_room_nearby": rebalance.machine_room_nearby(lambda queue: queue.broker_name[0], lambda client: client[0]),
}


@pytest.mark.parametrize("strategy", DIVIDING.values(), ids=DIVIDING)
@given(queues, clients)
def test_each_queue_has_one_owner(strategy: Strategy, queues: list[MessageQueue], clients: list[str]) -> None:
    parts = [strategy(client, queues, clients) for client in clients]
    assert sorted(queue for part in parts for queue in part) == queues


@pytest.mark.parametrize("strategy", DIVIDING.values(), ids=DIVIDING)
def test_a_client_that_the_broker_does_not_know_yet_has_nothing(strategy: Strategy) -> None:
    assert strategy("new", [MessageQueue("t", "a@1", 0)], ["old"]) == []


@pytest.mark.parametrize("name", ["averagely", "circle", "by_machine_room"])
@given(queues, clients)
def test_parts_are_equal(name: str, queues: list[MessageQueue], clients: list[str]) -> None:
    sizes = [len(DIVIDING[name](client, queues, clients)) for client in clients]
    assert max(sizes) - min(sizes) <= 1


def test_consistent_hash_moves_little() -> None:
    strategy = rebalance.consistent_hash()
    queues = [MessageQueue("t", "a", number) for number in range(100)]
    three, four = ["c1", "c2", "c3"], ["c1", "c2", "c3", "c4"]
    for client in three:
        assert set(strategy(client, queues, four)) <= set(strategy(client, queues, three))


def test_by_config() -> None:
    own = [MessageQueue("t", "a", 3)]
    assert rebalance.by_config(own)("anyone", [], []) == own
