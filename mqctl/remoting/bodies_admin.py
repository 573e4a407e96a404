"""What brokers tell operators' tools: bodies of requests that clients never make. How to read them: see bodies.py."""

from __future__ import annotations

from typing import Any

from msgspec import field

from mqctl.remoting.bodies import (
    Body,
    ConsumeStats,
    Int,
    Long,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
    TableBody,
    TopicConfig,
)


class TopicConfigList(Body):
    """UPDATE_AND_CREATE_TOPIC_LIST (5.x)."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


class GroupConfigList(Body):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (5.x)."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


class GroupList(Body):
    """Reply to QUERY_TOPIC_CONSUME_BY_WHO."""

    group_list: list[str] = field(default_factory=list)


class QuerySubscriptionResult(Body, kw_only=True):
    """Reply to QUERY_SUBSCRIPTION_BY_CONSUMER (5.x)."""

    group: str = ""
    topic: str = ""
    subscription_data: SubscriptionData | None = None


class ProducerInfo(Body, kw_only=True):
    client_id: str = ""
    remote_ip: str = field(default="", name="remoteIP")  # with Java's slash before it and the port behind
    language: str = ""
    version: Int = 0
    last_update_timestamp: Long = 0


class ProducerTable(Body):
    """Reply to GET_ALL_PRODUCER_INFO: by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class ConsumeStatsList(TableBody, kw_only=True):
    """Reply to GET_BROKER_CONSUME_STATS: for each group one table with one member, its statistics topic by topic."""

    broker_addr: str = ""
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    total_diff: Long = 0


class QueueTimeSpan(Body, kw_only=True):
    """Store times: of the queue's ends, of what the group consumed last. `delay_time` is how long its next message
    waits. The texts repeat the numbers; old consoles show them."""

    message_queue: MessageQueue = MessageQueue()
    min_time_stamp: Long = 0
    max_time_stamp: Long = 0
    consume_time_stamp: Long = 0
    delay_time: Long = 0
    min_time_stamp_str: str = ""
    max_time_stamp_str: str = ""
    consume_time_stamp_str: str = ""


class ConsumeTimeSpans(Body):
    """Reply to QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class CorrectionOffsets(TableBody):
    """Reply to QUERY_CORRECTION_OFFSET: by queue id."""

    correction_offsets: dict[Int, Long] = field(default_factory=dict)


class StatsItem(Body, kw_only=True):
    """Over one window: how much, how much a second, and how much each time something was counted."""

    sum: Long = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsData(Body, kw_only=True):
    """Reply to VIEW_BROKER_STATS_DATA."""

    stats_minute: StatsItem = field(default_factory=StatsItem)
    stats_hour: StatsItem = field(default_factory=StatsItem)
    stats_day: StatsItem = field(default_factory=StatsItem)


class ConsumeQueueEntry(Body, kw_only=True):
    physic_offset: Long = 0
    physic_size: Int = 0
    tags_code: Long = 0
    eval: bool = False
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


class ConsumeQueueEntries(Body, kw_only=True):
    """Reply to QUERY_CONSUME_QUEUE."""

    min_queue_index: Long = 0
    max_queue_index: Long = 0
    queue_data: list[ConsumeQueueEntry] = field(default_factory=list)
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class HaRuntimeInfo(Body, kw_only=True):
    """Reply to GET_BROKER_HA_STATUS (5.x), as far as a master says it."""

    master: bool = True
    master_commit_log_max_offset: Long = 0
    in_sync_slave_nums: Int = 0
    ha_connection_info: list[dict[str, Any]] = field(default_factory=list)
