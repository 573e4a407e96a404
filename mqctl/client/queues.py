"""Where messages of a topic may go, and which queue is next."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mqctl.client.clusters import master_of
from mqctl.client.faults import FaultTable
from mqctl.remoting.bodies import MessageQueue, TopicRouteData
from mqctl.remoting.topicbits import PERM_WRITE
from mqctl.store.javahash import java_hash


def writable_queues(route: TopicRouteData, topic: str, at_most: int | None = None) -> list[MessageQueue]:
    """In Java's order, so that a key chooses the same queue from here as from there. `at_most` per broker."""
    if route.order_topic_conf:
        return _ordered_queues(route.order_topic_conf, topic)
    masters = {data.broker_name for data in route.broker_datas if master_of(data.broker_addrs) is not None}
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & PERM_WRITE and data.broker_name in masters
        for queue_id in range(data.write_queue_nums if at_most is None else min(data.write_queue_nums, at_most))
    ]


def _ordered_queues(order_topic_conf: str, topic: str) -> list[MessageQueue]:
    """`broker-a:8;broker-b:4`. These queues exist whether or not their broker runs: a key must not move."""
    found = []
    for entry in order_topic_conf.split(";"):
        broker_name, _, count = entry.rpartition(":")
        if broker_name and count.isdecimal():
            found += [MessageQueue(topic, broker_name, queue_id) for queue_id in range(int(count))]
    return found


class QueueChooser:
    """Goes through the queues in turn, from a random one on, so that many producers spread."""

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self.queues = queues
        self._turn = random.randrange(2**16)

    def in_turn(self, avoid: str | None = None) -> MessageQueue:
        """The next queue, if possible not at the broker to `avoid`."""
        queues = self.queues
        for _ in queues:
            self._turn += 1
            queue = queues[self._turn % len(queues)]
            if queue.broker_name != avoid:
                break
        return queue

    def at_good_broker(self, faults: FaultTable) -> MessageQueue:
        """The next queue of a broker that is not left alone; if all are, one of the least bad."""
        for _ in self.queues:
            queue = self.in_turn()
            if faults.available(queue.broker_name):
                return queue
        best = faults.least_bad()
        for _ in self.queues:
            queue = self.in_turn()
            if queue.broker_name == best:
                break
        return queue

    def by_key(self, key: str) -> MessageQueue:
        """The same queue for the same key as long as their number does not change: Java's SelectMessageQueueByHash."""
        return self.queues[abs(java_hash(key)) % len(self.queues)]
