"""The broker's topics: their queues and permissions, kept in config/topics.json."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mqctl.errors import RequestFailed
from mqctl.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    OFFSET_MOVED_EVENT,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_TOPIC,
)
from mqctl.remoting import bodies
from mqctl.remoting.bodies import DataVersion, TopicConfig, TopicConfigTable
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.topicbits import PERM_INHERIT, PERM_READ, PERM_WRITE
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.configfile import ConfigFile

BENCHMARK_TOPIC: Final = "BenchmarkTest"
SYSTEM_PREFIX: Final = "rmq_sys_"

SCHEDULE_QUEUES: Final = 18
MAX_TOPIC_NAME: Final = 127
# Java never bounds this. A request for a billion queues would make every route answer huge.
MAX_QUEUES: Final = 65_536

LEGAL_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+\Z")

# Written by the broker alone; a client's send is refused.
NOT_FOR_CLIENTS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_TOPIC,
        TRANS_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)


def check_topic_name(topic: str) -> None:
    """Raises RequestFailed for a name that RocketMQ would not take either."""
    if not topic.strip():
        raise RequestFailed(ResponseCode.SYSTEM_ERROR, "the topic name is blank")
    if not LEGAL_NAME.match(topic):
        raise RequestFailed(
            ResponseCode.SYSTEM_ERROR,
            f"the topic name {topic[:MAX_TOPIC_NAME]!r} has characters other than letters, digits, _ - % |",
        )
    if len(topic) > MAX_TOPIC_NAME:
        raise RequestFailed(
            ResponseCode.SYSTEM_ERROR,
            f"the topic name has {len(topic)} characters, at most {MAX_TOPIC_NAME} fit",
        )


class Topics:
    """Loop only. `on_change` hears of every topic that was created or changed, and of all when one was deleted: name
    servers know what is gone from a list of all."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._table: dict[str, TopicConfig] = {}
        self.data_version = DataVersion(counter=0, timestamp=self._now())
        self._file = ConfigFile(config.root / "config" / "topics.json", self._encode)
        self.on_change: Callable[[list[TopicConfig]], object] = lambda topics: None
        self.creating: dict[str, asyncio.Future[None]] = {}
        self._system = self._system_topics()
        self.was_stored = False

    def _now(self) -> int:
        return int(self._clock() * 1000)

    # -- life ---------------------------------------------------------------------------------------

    def load(self) -> None:
        stored = self._file.load(lambda data: bodies.decode(TopicConfigTable, data))
        self.was_stored = stored is not None
        if stored is not None:
            self._table.update(stored.topic_config_table)
            self.data_version = stored.data_version
        for topic in self._system.values():
            self._table.setdefault(topic.topic_name, topic)

    def save(self) -> None:
        self._file.save_now()

    async def save_last(self) -> None:
        await self._file.save_last()

    def _encode(self) -> bytes:
        return msgspec.json.format(bodies.encode(self.snapshot()), indent=2)

    def snapshot(self) -> TopicConfigTable:
        return TopicConfigTable(data_version=self.data_version, topic_config_table=self._table)

    def _system_topics(self) -> dict[str, TopicConfig]:
        config = self._config
        inherit = PERM_READ | PERM_WRITE | PERM_INHERIT
        wanted = [
            topic_config(SELF_TEST_TOPIC, 1),
            topic_config(BENCHMARK_TOPIC, 1024),
            topic_config(config.broker_cluster_name, 16, inherit if config.cluster_topic_enable else 6),
            topic_config(config.broker_name, 1, inherit if config.broker_topic_enable else 6),
            topic_config(OFFSET_MOVED_EVENT, 1),
            topic_config(SCHEDULE_TOPIC, max(SCHEDULE_QUEUES, len(config.message_delay_level.split()))),
            topic_config(f"{config.broker_cluster_name}_REPLY_TOPIC", 1),
        ]
        if config.auto_create_topic_enable:
            wanted.append(topic_config(AUTO_CREATE_TOPIC, config.default_topic_queue_nums, inherit))
        if config.trace_topic_enable:
            wanted.append(topic_config(config.msg_trace_topic_name, 1))
        return {topic.topic_name: topic for topic in wanted}

    # -- asking -------------------------------------------------------------------------------------

    def get(self, topic: str) -> TopicConfig | None:
        return self._table.get(topic)

    def is_known(self, topic: str) -> bool:
        return topic in self._table or self.is_system(topic)

    def all(self) -> Mapping[str, TopicConfig]:
        return self._table

    def is_system(self, topic: str) -> bool:
        return (
            topic in self._system
            or topic in (TRANS_HALF_TOPIC, TRANS_OP_TOPIC, TRANS_CHECK_MAX_TOPIC)
            or topic.startswith(SYSTEM_PREFIX)
        )

    def system_names(self) -> list[str]:
        always = {*self._system, TRANS_HALF_TOPIC, TRANS_OP_TOPIC, TRANS_CHECK_MAX_TOPIC}
        return sorted(always | {topic for topic in self._table if topic.startswith(SYSTEM_PREFIX)})

    # -- changing -----------------------------------------------------------------------------------

    def put(self, *topics: TopicConfig) -> asyncio.Future[None]:
        """Creates or replaces topics. They count at once; the future ends when they are on disk."""
        for topic in topics:
            self._table[topic.topic_name] = topic
        return self._changed(list(topics))

    def delete(self, topic: str) -> asyncio.Future[None]:
        self._table.pop(topic, None)
        return self._changed(list(self._table.values()))

    def _changed(self, topics: list[TopicConfig]) -> asyncio.Future[None]:
        self.data_version = self.data_version.next(self._now())
        self.on_change(topics)
        return self._file.save_soon()

    def create(self, topic: TopicConfig) -> asyncio.Future[None]:
        """A new topic, listed in `creating` until it is on disk, and forgotten if the disk refuses. Messages wait
        for that: after a crash they would otherwise be in the log and yet belong to a topic that nobody knows."""
        saved = self.put(topic)
        self.creating[topic.topic_name] = saved
        saved.add_done_callback(lambda saved: self._created(topic, saved))
        return saved

    def _created(self, topic: TopicConfig, saved: asyncio.Future[None]) -> None:
        self.creating.pop(topic.topic_name, None)
        refused = saved.cancelled() or saved.exception() is not None
        if refused and self._table.get(topic.topic_name) is topic:
            del self._table[topic.topic_name]

    def create_on_send(self, topic: str, default_topic: str, queue_nums: int) -> asyncio.Future[None] | None:
        """A producer sent to a topic that does not exist: made after the default topic's pattern if that
        one allows it. None if it may not be made."""
        pattern = self._table.get(default_topic)
        if default_topic == AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            pattern = None  # it may still be in topics.json from the time when creation was on
        if pattern is not None and pattern.perm & PERM_INHERIT:
            queues = max(1, min(queue_nums, pattern.write_queue_nums))
            return self.create(topic_config(topic, queues, pattern.perm & ~PERM_INHERIT))
        if topic.startswith(DLQ_PREFIX):
            return self.create(topic_config(topic, 1))
        return None

    def ensure(self, topic: str, queues: int) -> TopicConfig:
        """A topic the broker itself needs, such as a group's retry topic."""
        found = self._table.get(topic)
        if found is None:
            found = topic_config(topic, queues)
            self.create(found)
        return found

    def set_order_topics(self, ordered: Mapping[str, str]) -> None:
        """The name server's list of ordered topics decides the flag, as in Apache's broker."""
        changed = [
            msgspec.structs.replace(topic, order=topic.topic_name in ordered)
            for topic in self._table.values()
            if topic.order != (topic.topic_name in ordered)
        ]
        if changed:
            self.put(*changed)


def topic_config(name: str, queues: int, perm: int = PERM_READ | PERM_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
