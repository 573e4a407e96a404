"""Typed headers of the requests a name server answers. How to read them: see headers.py."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mqctl.remoting.headers import Int32, Int64

# RocketMQ allows 127 characters for a topic and 255 in 5.x, and checks nothing at the name server. A name
# without bound would be kept, and repeated in every answer that lists it.
Name = Annotated[str, Meta(min_length=1, max_length=1024)]

# Every broker gets the whole namespace of ordered topics with each registration; one value that fills a frame
# would make that answer unreadable and keep all brokers from registering.
Value = Annotated[str, Meta(max_length=64 * 1024)]

BrokerId = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class KvKeyHeader(Struct, rename="camel"):
    """GET_KV_CONFIG, DELETE_KV_CONFIG."""

    namespace: Name
    key: Name


class PutKvConfigHeader(KvKeyHeader, rename="camel"):
    value: Value


class NamespaceHeader(Struct, rename="camel"):
    """GET_KVLIST_BY_NAMESPACE."""

    namespace: Name


class BrokerHeader(Struct, rename="camel"):
    """UNREGISTER_BROKER, QUERY_DATA_VERSION."""

    broker_name: Name
    broker_addr: Name
    cluster_name: Name
    broker_id: BrokerId


class RegisterBrokerHeader(BrokerHeader, rename="camel"):
    """REGISTER_BROKER. The last field comes from 5.x brokers in "slave acting master" mode only."""

    ha_server_addr: str = ""
    compressed: bool = False
    body_crc32: Int32 = 0  # 0 = not checked
    heartbeat_timeout_millis: Int64 | None = None


class BrokerHeartbeatHeader(Struct, rename="camel"):
    """BROKER_HEARTBEAT (5.x); cluster and broker name come along and are not needed."""

    broker_addr: Name


class BrokerNameHeader(Struct, rename="camel"):
    """WIPE_WRITE_PERM_OF_BROKER, ADD_WRITE_PERM_OF_BROKER."""

    broker_name: Name


class MemberGroupHeader(BrokerNameHeader, rename="camel"):
    """GET_BROKER_MEMBER_GROUP (5.x)."""

    cluster_name: Name


class TopicHeader(Struct, rename="camel"):
    """GET_ROUTEINFO_BY_TOPIC, REGISTER_TOPIC_IN_NAMESRV (5.x)."""

    topic: Name


class DeleteTopicHeader(TopicHeader, rename="camel"):
    """DELETE_TOPIC_IN_NAMESRV; no cluster means all clusters."""

    cluster_name: str | None = None


class ClusterHeader(Struct, rename="camel"):
    """GET_TOPICS_BY_CLUSTER."""

    cluster: Name
