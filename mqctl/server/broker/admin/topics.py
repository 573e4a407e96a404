"""The requests that create, change, delete and describe topics."""

from __future__ import annotations

import asyncio

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import MessageQueue, TopicConfig, TopicList, TopicOffset, TopicStatsTable
from mqctl.remoting.bodies_admin import TopicConfigList
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import CreateTopicHeader, TopicHeader
from mqctl.remoting.topicbits import PERM_INHERIT, PERM_READ, PERM_WRITE
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.register import Registration
from mqctl.server.broker.topics import MAX_QUEUES, Topics, check_topic_name
from mqctl.server.broker.traffic import Traffic
from mqctl.server.loop import HandlerTable
from mqctl.store.fetch import stored_at
from mqctl.store.store import MessageStore

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicAdmin:
    def __init__(
        self, config: BrokerConfig, topics: Topics, store: MessageStore, registration: Registration, traffic: Traffic
    ) -> None:
        self._config = config
        self._topics = topics
        self._store = store
        self._registration = registration
        self._traffic = traffic

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: (CreateTopicHeader, self.on_update),
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (None, self.on_update_list),
            RequestCode.DELETE_TOPIC_IN_BROKER: (TopicHeader, self.on_delete),
            RequestCode.GET_ALL_TOPIC_CONFIG: (None, self.on_all),
            RequestCode.GET_TOPIC_CONFIG: (TopicHeader, self.on_get),
            RequestCode.GET_TOPIC_STATS_INFO: (TopicHeader, self.on_stats),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (None, self.on_system_topics),
        }

    async def on_update(self, connection: Connection, request: Command, header: CreateTopicHeader) -> Command:
        """Answers when the topic is on disk and every reachable name server routes to it."""
        topic = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        await self._put([topic])
        return request.reply()

    async def on_update_list(self, connection: Connection, request: Command, _: None) -> Command:
        """5.x tools bring many at once: all of them or none."""
        await self._put(bodies.decode(TopicConfigList, request.body).topic_config_list)
        return request.reply()

    async def _put(self, topics: list[TopicConfig]) -> None:
        for topic in topics:
            self._check_changeable(topic.topic_name)
            _check_shape(topic)
            known = self._topics.get(topic.topic_name)
            if known is not None:
                topic.order = known.order  # the name servers' list of ordered topics decides that
        if topics:
            await asyncio.shield(self._topics.put(*topics))
            await asyncio.shield(self._registration.settled())

    async def on_delete(self, connection: Connection, request: Command, header: TopicHeader) -> Command:
        self._check_changeable(header.topic)
        saved = self._topics.delete(header.topic)
        self._store.drop_topic(header.topic)
        self._traffic.forget(header.topic)
        await asyncio.shield(saved)
        return request.reply()

    def on_all(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(ext={}, body=bodies.encode(self._topics.snapshot()))

    def on_get(self, connection: Connection, request: Command, header: TopicHeader) -> Command:
        """5.x tools ask for one topic; its queue mapping, which only static topics have, is left out."""
        return request.reply(ext={}, body=bodies.encode(self._find(header.topic)))

    def on_system_topics(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=bodies.encode(TopicList(topic_list=self._topics.system_names())))

    def on_stats(self, connection: Connection, request: Command, header: TopicHeader) -> Command:
        topic = self._find(header.topic)
        table = {}
        for queue_id in range(topic.write_queue_nums):
            key = MessageQueue(topic=header.topic, broker_name=self._config.broker_name, queue_id=queue_id)
            table[key] = self._queue_stats(header.topic, queue_id)
        return request.reply(
            body=bodies.encode(TopicStatsTable(offset_table=table, topic_put_tps=self._traffic.put_tps(header.topic)))
        )

    def _queue_stats(self, topic: str, queue_id: int) -> TopicOffset:
        queue = self._store.queues.get((topic, queue_id))
        if queue is None:
            return TopicOffset(min_offset=0, max_offset=0, last_update_timestamp=0)
        return TopicOffset(
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
            last_update_timestamp=stored_at(self._store, queue, queue.max_offset - 1) or 0,
        )

    def _find(self, topic: str) -> TopicConfig:
        found = self._topics.get(topic)
        if found is None:
            raise RequestFailed(ResponseCode.TOPIC_NOT_EXIST, f"the topic {topic!r} does not exist")
        return found

    def _check_changeable(self, topic: str) -> None:
        check_topic_name(topic)
        if self._topics.is_system(topic):
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"the topic {topic!r} belongs to the broker")


def _check_shape(topic: TopicConfig) -> None:
    """Java stores whatever it is sent; a topic without queues or with a perm that is none only breaks the
    clients that meet it later."""
    for name, count in (
        ("readQueueNums", topic.read_queue_nums),
        ("writeQueueNums", topic.write_queue_nums),
    ):
        if not 0 <= count <= MAX_QUEUES:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"{name} is {count}, it must be 0 to {MAX_QUEUES}")
    if topic.perm & ~(PERM_READ | PERM_WRITE | PERM_INHERIT):
        raise RequestFailed(
            ResponseCode.SYSTEM_ERROR,
            f"perm is {topic.perm}, it is a sum of 4 (read), 2 (write) and 1 (inherit)",
        )
    if topic.topic_filter_type not in FILTER_TYPES:
        raise RequestFailed(
            ResponseCode.SYSTEM_ERROR,
            f"topicFilterType is {topic.topic_filter_type!r}, not one of {FILTER_TYPES}",
        )
