"""Typed headers of what operators' tools ask of brokers. How to read them: see headers.py."""

from __future__ import annotations

from msgspec import Struct

from mqctl.remoting.headers import Int32, Int64

# Where a tool means all queues of a topic, and where it leaves the offset to the timestamp (222 of 5.x).
ALL_QUEUES = -1
NO_OFFSET = -1
# The end of a queue, where a time is asked for.
LATEST = -1


class GroupHeader(Struct, rename="camel"):
    """GET_SUBSCRIPTIONGROUP_CONFIG, QUERY_TOPICS_BY_CONSUMER."""

    group: str


class GroupTopicHeader(GroupHeader, rename="camel"):
    """QUERY_CONSUME_TIME_SPAN, QUERY_SUBSCRIPTION_BY_CONSUMER."""

    topic: str


class DeleteGroupHeader(Struct, rename="camel"):
    """5.x calls `remove_offset` `clean_offset`."""

    group_name: str
    remove_offset: bool = False
    clean_offset: bool = False


class ConsumeStatsHeader(Struct, rename="camel"):
    """`topic_list` comes from 5.x tools: names separated by semicolons."""

    consumer_group: str
    topic: str = ""
    topic_list: str = ""


class BrokerConsumeStatsHeader(Struct, rename="camel"):
    is_order: bool = False


class InvokeResetHeader(GroupTopicHeader, rename="camel"):
    """INVOKE_BROKER_TO_RESET_OFFSET. One queue and an offset instead of a time come from 5.x tools."""

    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = ALL_QUEUES
    offset: Int64 = NO_OFFSET


class InvokeStatusHeader(GroupTopicHeader, rename="camel"):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS. `client_addr` is a client id, whatever its name says."""

    client_addr: str = ""


class CloneOffsetsHeader(Struct, rename="camel"):
    src_group: str
    dest_group: str
    topic: str = ""
    offline: bool = False


class CorrectionHeader(Struct, rename="camel"):
    """QUERY_CORRECTION_OFFSET. `filter_groups` are separated by commas."""

    topic: str
    compare_group: str
    filter_groups: str = ""


class StatsHeader(Struct, rename="camel"):
    """VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class ConsumeQueueHeader(Struct, rename="camel"):
    """QUERY_CONSUME_QUEUE."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class AccountHeader(Struct, rename="camel"):
    """UPDATE_AND_CREATE_ACL_CONFIG. Permissions are separated by commas; what is None stays as it is."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class AccessKeyHeader(Struct, rename="camel"):
    """DELETE_ACL_CONFIG."""

    access_key: str


class WhiteAddressesHeader(Struct, rename="camel"):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG. Addresses are separated by commas; without a file it is plain_acl.yml."""

    global_white_addrs: str
    acl_file_full_path: str | None = None
