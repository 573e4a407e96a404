"""How far groups have read, and which groups read what: the figures behind consumerProgress and its kin."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Final

import msgspec

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import ConsumeStats, MessageQueue, OffsetWrapper, TopicConfig, TopicList
from mqctl.remoting.bodies_admin import ConsumeTimeSpans, GroupList, QuerySubscriptionResult, QueueTimeSpan
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import TopicHeader
from mqctl.remoting.headers_admin import BrokerConsumeStatsHeader, ConsumeStatsHeader, GroupHeader, GroupTopicHeader
from mqctl.server.broker.clients import Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.groups import Groups
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.topics import Topics
from mqctl.server.broker.traffic import Traffic
from mqctl.server.loop import HandlerTable
from mqctl.store.fetch import stored_at
from mqctl.store.store import MessageStore

# How many topics of a group are looked at before other work gets its turn: each queue takes a read or two.
SLICE: Final = 16
# What separates names in GET_CONSUME_STATS of 5.x tools.
LIST_SEPARATOR: Final = ";"


class ProgressAdmin:
    """Loop only."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        clients: Clients,
        store: MessageStore,
        traffic: Traffic,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._store = store
        self._traffic = traffic

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_CONSUME_STATS: (ConsumeStatsHeader, self.on_group_stats),
            RequestCode.GET_BROKER_CONSUME_STATS: (BrokerConsumeStatsHeader, self.on_broker_stats),
            RequestCode.QUERY_CONSUME_TIME_SPAN: (GroupTopicHeader, self.on_time_span),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (TopicHeader, self.on_groups_of_topic),
            RequestCode.QUERY_TOPICS_BY_CONSUMER: (GroupHeader, self.on_topics_of_group),
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: (GroupTopicHeader, self.on_subscription),
        }

    # -- offsets ------------------------------------------------------------------------------------

    async def on_group_stats(self, connection: Connection, request: Command, header: ConsumeStatsHeader) -> Command:
        """All topics the group has offsets for, or those that are named. A group that nobody knows has none."""
        group = header.consumer_group
        named = [name for name in (header.topic, *header.topic_list.split(LIST_SEPARATOR)) if name.strip()]
        stats = ConsumeStats(offset_table={})
        for number, topic in enumerate(self._consumed(group, named or self._offsets.topics_of(group)), 1):
            stats.offset_table.update(self._progress(group, topic, topic.read_queue_nums))
            stats.consume_tps += self._traffic.consume_tps(topic.topic_name, group)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return request.reply(body=bodies.encode(stats))

    async def on_broker_stats(
        self, connection: Connection, request: Command, header: BrokerConsumeStatsHeader
    ) -> Command:
        """All groups; one without offsets has an empty list. Written down group by group, since thousands of tables
        take seconds."""
        topics_of: defaultdict[str, list[str]] = defaultdict(list)
        for topic, group in self._offsets.pairs():
            topics_of[group].append(topic)
        pieces, behind = [], 0
        for group in list(self._groups.snapshot().subscription_group_table):
            tables = []
            async for table in self._tables(group, topics_of[group], ordered_only=header.is_order):
                tables.append(bodies.encode(table))
                behind += sum(queue.broker_offset - queue.consumer_offset for queue in table.offset_table.values())
            pieces.append(b"{%s:[%s]}" % (msgspec.json.encode(group), b",".join(tables)))
            await asyncio.sleep(0)
        address = msgspec.json.encode(self._config.address)
        body = b'{"brokerAddr":%s,"consumeStatsList":[%s],"totalDiff":%d}' % (address, b",".join(pieces), behind)
        return request.reply(body=body)

    async def _tables(self, group: str, topics: Iterable[str], *, ordered_only: bool) -> AsyncIterator[ConsumeStats]:
        """As Apache's broker does it, over the queues that are written."""
        for number, topic in enumerate(self._consumed(group, topics), 1):
            if topic.order or not ordered_only:
                progress = self._progress(group, topic, topic.write_queue_nums)
                tps = self._traffic.consume_tps(topic.topic_name, group)
                yield ConsumeStats(consume_tps=tps, offset_table=progress)
            if number % SLICE == 0:
                await asyncio.sleep(0)

    def _consumed(self, group: str, topics: Iterable[str]) -> Iterable[TopicConfig]:
        """Those of the topics that exist and that the group still reads, as far as its members tell."""
        online = self._clients.consumers.get(group)
        for name in topics:
            topic = self._topics.get(name)
            if topic is not None and (online is None or not online.subscriptions or name in online.subscriptions):
                yield topic

    def _progress(self, group: str, topic: TopicConfig, queues: int) -> dict[MessageQueue, OffsetWrapper]:
        name = topic.topic_name
        committed = self._offsets.of(group, name)
        table = {}
        for queue_id in range(queues):
            queue = self._store.queues.get((name, queue_id))
            consumed = max(0, committed.get(queue_id, 0))
            last = stored_at(self._store, queue, consumed - 1) if queue is not None and consumed else None
            table[MessageQueue(name, self._config.broker_name, queue_id)] = OffsetWrapper(
                broker_offset=queue.max_offset if queue is not None else 0,
                consumer_offset=consumed,
                pull_offset=max(consumed, self._offsets.pulled(group, name, queue_id)),
                last_timestamp=last or 0,
            )
        return table

    # -- times --------------------------------------------------------------------------------------

    def on_time_span(self, connection: Connection, request: Command, header: GroupTopicHeader) -> Command:
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestFailed(ResponseCode.TOPIC_NOT_EXIST, f"the topic {header.topic!r} does not exist")
        spans = [self._time_span(header.topic, queue_id, header.group) for queue_id in range(topic.write_queue_nums)]
        return request.reply(body=bodies.encode(ConsumeTimeSpans(consume_time_span_set=spans)))

    def _time_span(self, topic: str, queue_id: int, group: str) -> QueueTimeSpan:
        """-1 where there is no message to take the time from."""
        queue = self._store.queues.get((topic, queue_id))
        consumed = self._offsets.get(group, topic, queue_id) or 0
        oldest = newest = last = -1
        delay_ms = 0
        if queue is not None:
            oldest = _time_or_none(stored_at(self._store, queue, queue.min_offset))
            newest = _time_or_none(stored_at(self._store, queue, queue.max_offset - 1))
            last = _time_or_none(stored_at(self._store, queue, consumed - 1)) if consumed else oldest
            if consumed < queue.max_offset:
                waiting = stored_at(self._store, queue, max(consumed, queue.min_offset))
                delay_ms = max(0, self._store.now_ms() - waiting) if waiting is not None else 0
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._config.broker_name, queue_id),
            min_time_stamp=oldest,
            max_time_stamp=newest,
            consume_time_stamp=last,
            delay_time=delay_ms,
            min_time_stamp_str=time_text(oldest),
            max_time_stamp_str=time_text(newest),
            consume_time_stamp_str=time_text(last),
        )

    # -- who reads what -----------------------------------------------------------------------------

    def on_groups_of_topic(self, connection: Connection, request: Command, header: TopicHeader) -> Command:
        online = [group.name for group in self._clients.consumers.values() if header.topic in group.subscriptions]
        groups = sorted({*online, *self._offsets.groups_of(header.topic)})
        return request.reply(body=bodies.encode(GroupList(group_list=groups)))

    def on_topics_of_group(self, connection: Connection, request: Command, header: GroupHeader) -> Command:
        topics = sorted(self._offsets.topics_of(header.group))
        return request.reply(body=bodies.encode(TopicList(topic_list=topics, broker_addr=self._config.address)))

    def on_subscription(self, connection: Connection, request: Command, header: GroupTopicHeader) -> Command:
        """Without subscription data when no member of the group is connected."""
        online = self._clients.consumers.get(header.group)
        found = online.subscriptions.get(header.topic) if online is not None else None
        result = QuerySubscriptionResult(group=header.group, topic=header.topic, subscription_data=found)
        return request.reply(body=bodies.encode(result))


def _time_or_none(timestamp_ms: int | None) -> int:
    return -1 if timestamp_ms is None else timestamp_ms


def time_text(timestamp_ms: int) -> str:
    """As Java's UtilAll writes it, in the broker's time zone."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{timestamp_ms % 1000:03d}"
