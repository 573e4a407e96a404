"""Which queues there are and which is next."""

from __future__ import annotations

from mqctl.client.faults import FaultTable
from mqctl.client.queues import QueueChooser, writable_queues
from mqctl.remoting.bodies import BrokerData, MessageQueue, QueueData, TopicRouteData


def route(order: str | None = None) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name="b", broker_addrs={0: "b:1"}),
            BrokerData(broker_name="a", broker_addrs={0: "a:1", 1: "a:2"}),
            BrokerData(broker_name="slave-only", broker_addrs={1: "s:1"}),
            BrokerData(broker_name="read-only", broker_addrs={0: "r:1"}),
        ],
        queue_datas=[
            QueueData(broker_name="b", read_queue_nums=9, write_queue_nums=2, perm=6),
            QueueData(broker_name="a", read_queue_nums=9, write_queue_nums=3, perm=2),
            QueueData(broker_name="slave-only", read_queue_nums=1, write_queue_nums=1, perm=6),
            QueueData(broker_name="read-only", read_queue_nums=1, write_queue_nums=1, perm=4),
        ],
        order_topic_conf=order,
    )


def places(queues: list[MessageQueue]) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_writable_queues_stand_in_javas_order() -> None:
    assert places(writable_queues(route(), "t")) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert places(writable_queues(route(), "t", at_most=1)) == [("a", 0), ("b", 0)]


def test_an_ordered_topic_keeps_the_queues_of_a_broker_that_is_away() -> None:
    assert places(writable_queues(route("gone:2;b:1;;nonsense"), "t")) == [("gone", 0), ("gone", 1), ("b", 0)]


def test_queues_take_turns_and_a_failed_broker_is_avoided() -> None:
    chooser = QueueChooser(writable_queues(route(), "t"))
    assert len({chooser.in_turn() for _ in range(5)}) == 5
    assert {chooser.in_turn("a").broker_name for _ in range(10)} == {"b"}
    alone = QueueChooser([MessageQueue("t", "a", 0)])
    assert alone.in_turn("a").broker_name == "a", "the only one there is"


def test_slow_brokers_are_left_out_while_there_are_others() -> None:
    chooser = QueueChooser(writable_queues(route(), "t"))
    faults = FaultTable()
    faults.update("a", 5000)
    assert {chooser.at_good_broker(faults).broker_name for _ in range(10)} == {"b"}
    faults.update("b", 16_000)
    assert {chooser.at_good_broker(faults).broker_name for _ in range(10)} == {"a"}


def test_a_key_chooses_the_queue_that_java_would() -> None:
    chooser = QueueChooser([MessageQueue("t", "a", number) for number in range(3)])
    # "hello".hashCode() is 99162322; that of the other word is Integer.MIN_VALUE, which has no absolute value.
    assert chooser.by_key("hello").queue_id == 99162322 % 3
    assert chooser.by_key("polygenelubricants").queue_id == 2**31 % 3
