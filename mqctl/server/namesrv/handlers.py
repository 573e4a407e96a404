"""What a name server answers: one line per request code."""

from __future__ import annotations

from mqctl.remoting.codes import RequestCode
from mqctl.remoting.headers_namesrv import (
    BrokerHeader,
    BrokerHeartbeatHeader,
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicHeader,
    KvKeyHeader,
    MemberGroupHeader,
    NamespaceHeader,
    PutKvConfigHeader,
    RegisterBrokerHeader,
    TopicHeader,
)
from mqctl.server.loop import HandlerTable
from mqctl.server.namesrv.config import Settings
from mqctl.server.namesrv.kvconfig import KvConfig
from mqctl.server.namesrv.lookup import LookupHandlers
from mqctl.server.namesrv.registration import RegistrationHandlers
from mqctl.server.namesrv.routes import RouteTable
from mqctl.server.namesrv.settings import ConfigHandlers, KvHandlers


def handler_table(routes: RouteTable, kv: KvConfig, settings: Settings) -> HandlerTable:
    """All that 4.9.7's name server answers, and what 5.x brokers need besides (the last three).

    Other codes are answered REQUEST_CODE_NOT_SUPPORTED by the server loop, where 4.9.7 keeps silent.
    """
    brokers = RegistrationHandlers(routes, kv)
    lookup = LookupHandlers(routes, kv, settings)
    keys = KvHandlers(kv)
    config = ConfigHandlers(settings)
    return {
        RequestCode.PUT_KV_CONFIG: (PutKvConfigHeader, keys.put),
        RequestCode.GET_KV_CONFIG: (KvKeyHeader, keys.get),
        RequestCode.DELETE_KV_CONFIG: (KvKeyHeader, keys.delete),
        RequestCode.GET_KVLIST_BY_NAMESPACE: (NamespaceHeader, keys.namespace),
        RequestCode.REGISTER_BROKER: (RegisterBrokerHeader, brokers.register),
        RequestCode.UNREGISTER_BROKER: (BrokerHeader, brokers.unregister),
        RequestCode.QUERY_DATA_VERSION: (BrokerHeader, brokers.query_data_version),
        RequestCode.GET_ROUTEINFO_BY_TOPIC: (TopicHeader, lookup.route),
        RequestCode.GET_BROKER_CLUSTER_INFO: (None, lookup.cluster_info),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: (BrokerNameHeader, lookup.wipe_write_perm),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: (BrokerNameHeader, lookup.add_write_perm),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: (DeleteTopicHeader, lookup.delete_topic),
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (None, lookup.all_topics),
        RequestCode.GET_TOPICS_BY_CLUSTER: (ClusterHeader, lookup.topics_by_cluster),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (None, lookup.system_topics),
        RequestCode.GET_UNIT_TOPIC_LIST: (None, lookup.unit_topics),
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (None, lookup.unit_sub_topics),
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (None, lookup.unit_sub_ununit_topics),
        RequestCode.UPDATE_NAMESRV_CONFIG: (None, config.update),
        RequestCode.GET_NAMESRV_CONFIG: (None, config.get),
        RequestCode.BROKER_HEARTBEAT: (BrokerHeartbeatHeader, brokers.heartbeat),
        RequestCode.GET_BROKER_MEMBER_GROUP: (MemberGroupHeader, lookup.member_group),
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: (TopicHeader, brokers.register_topic),
    }
