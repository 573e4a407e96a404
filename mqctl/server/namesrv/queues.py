"""Which broker offers how many queues of which topic.

Pure logic, loop only. Knows brokers by name and nothing of their addresses: see routes.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mqctl.remoting.bodies import QueueData, TopicConfig

log = logging.getLogger(__name__)


class QueueTable:
    """topic -> broker name -> QueueData. A topic without brokers does not exist."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}

    # -- what brokers say ---------------------------------------------------------------------------

    def take(self, broker_name: str, topics: Mapping[str, TopicConfig], *, overwrite: bool) -> None:
        """Adds the broker's topics; those it already has here change only with `overwrite`."""
        for topic, config in topics.items():
            brokers = self._topics.setdefault(topic, {})
            if overwrite or broker_name not in brokers:
                self._put(topic, brokers, _queue_data(broker_name, config))

    def put(self, topic: str, queues: QueueData) -> None:
        self._put(topic, self._topics.setdefault(topic, {}), queues)

    def keep_only(self, broker_name: str, topics: Iterable[str]) -> None:
        """Takes from the broker every topic that is not among `topics`."""
        for topic in self.of_brokers([broker_name]) - set(topics):
            self._remove(topic, broker_name)

    def drop_broker(self, broker_name: str) -> None:
        self.keep_only(broker_name, ())

    def _put(self, topic: str, brokers: dict[str, QueueData], queues: QueueData) -> None:
        old = brokers.get(queues.broker_name)
        if old != queues:
            brokers[queues.broker_name] = queues
            log.info("topic %s at %s: %s", topic, queues.broker_name, "changed" if old else "added")

    def _remove(self, topic: str, broker_name: str) -> None:
        brokers = self._topics.get(topic, {})
        if brokers.pop(broker_name, None) is not None:
            log.info("topic %s at %s: removed", topic, broker_name)
        if not brokers:
            self._topics.pop(topic, None)

    # -- what operators want ------------------------------------------------------------------------

    def delete(self, topic: str, broker_names: Iterable[str] | None = None) -> None:
        """Forgets the topic, or only what these brokers have of it."""
        for broker_name in list(self._topics.get(topic, ()) if broker_names is None else broker_names):
            self._remove(topic, broker_name)

    def change_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        """Applies `change` to the permission of all topics at the broker and returns how many there are."""
        topics = self.of_brokers([broker_name])
        for topic in topics:
            brokers = self._topics[topic]
            old = brokers[broker_name]
            brokers[broker_name] = msgspec.structs.replace(old, perm=change(old.perm))
        return len(topics)

    # -- what everybody asks ------------------------------------------------------------------------

    def of_topic(self, topic: str) -> list[QueueData]:
        """One entry per broker, sorted by name; empty for an unknown topic."""
        return [queues for _, queues in sorted(self._topics.get(topic, {}).items())]

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def of_brokers(self, broker_names: Iterable[str]) -> set[str]:
        names = frozenset(broker_names)
        return {topic for topic, brokers in self._topics.items() if not names.isdisjoint(brokers)}

    def with_flags(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics by sysFlag. All brokers should agree on it; as in RocketMQ, the first one is asked."""
        return sorted(
            topic for topic, brokers in self._topics.items() if wanted(next(iter(brokers.values())).topic_sys_flag)
        )


def _queue_data(broker_name: str, config: TopicConfig) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )
