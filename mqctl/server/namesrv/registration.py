"""Requests from brokers: registration, heartbeats, leaving."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from typing import Final

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies, register_body
from mqctl.remoting.bodies import DataVersion, KVTable, TopicConfig, TopicConfigTable, TopicRouteData
from mqctl.remoting.codes import VERSION_3_0_11, VERSION_5_0_0, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_namesrv import (
    BrokerHeader,
    BrokerHeartbeatHeader,
    RegisterBrokerHeader,
    TopicHeader,
)
from mqctl.server.namesrv.kvconfig import ORDER_TOPIC_CONFIG, KvConfig
from mqctl.server.namesrv.routes import Master, RouteTable

log = logging.getLogger(__name__)

# Java keeps CRCs in a signed int and clears the sign.
CRC_MASK: Final = 0x7FFFFFFF

# Every broker of every release creates this topic at start and lets nobody change or delete it.
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"

# What zlib streams begin with, and JSON never does.
ZLIB_FIRST_BYTE: Final = b"x"


class RegistrationHandlers:
    def __init__(self, routes: RouteTable, kv: KvConfig) -> None:
        self._routes = routes
        self._kv = kv

    def register(self, connection: Connection, request: Command, header: RegisterBrokerHeader) -> Command:
        """REGISTER_BROKER. The answer tells a slave its master, and everybody which topics are ordered."""
        if header.body_crc32 and header.body_crc32 != zlib.crc32(request.body) & CRC_MASK:
            log.warning("%s: registration of %s: CRC mismatch", connection.peer_text, header.broker_addr)
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, "the CRC32 of the body does not match bodyCrc32")
        topics = _topics_in(request, header.compressed)
        complete = _lists_all(topics.topic_config_table, request.version)
        master = self._routes.register(header, topics, connection, complete=complete)
        order = self._kv.namespace(ORDER_TOPIC_CONFIG)
        body = b"" if order is None else bodies.encode(KVTable(table=order))
        return request.reply(ext=_master_fields(master), body=body)

    def query_data_version(self, connection: Connection, request: Command, header: BrokerHeader) -> Command:
        """QUERY_DATA_VERSION: the cheap heartbeat of brokers that register only when something changed.

        Also what 5.x brokers in "slave acting master" mode send every second, oneway. It proves life whether
        or not the version is the known one.
        """
        asked = bodies.decode(DataVersion, request.body)
        live = self._routes.touch(header.broker_addr)
        if live is None:
            return request.reply(ext={"changed": "true"})
        changed = "false" if live.is_at(asked) else "true"
        return request.reply(ext={"changed": changed}, body=bodies.encode(live.data_version))

    def heartbeat(self, connection: Connection, request: Command, header: BrokerHeartbeatHeader) -> Command:
        """BROKER_HEARTBEAT: the same from 5.x brokers that were told the name server is 5.x."""
        self._routes.touch(header.broker_addr)
        return request.reply()

    def register_topic(self, connection: Connection, request: Command, header: TopicHeader) -> Command:
        """REGISTER_TOPIC_IN_NAMESRV: one topic, from 5.x brokers with enableSingleTopicRegister."""
        queue_datas = bodies.decode(TopicRouteData, request.body).queue_datas
        unknown = self._routes.register_topic(header.topic, queue_datas)
        if unknown:
            # 5.x answers success all the same; its broker only logs the code, so the truth does no harm.
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"broker {unknown[0]} is not registered")
        return request.reply()

    def unregister(self, connection: Connection, request: Command, header: BrokerHeader) -> Command:
        """UNREGISTER_BROKER. By address alone: 4.9.7 goes by broker id, and an old master that stops late
        takes the new one off the routes."""
        self._routes.unregister(header.broker_addr)
        return request.reply()


def _topics_in(request: Command, compressed: bool) -> TopicConfigTable:
    """The topics of a registration; none, at version 0, without a body. Raises BodyError."""
    body = request.body
    if not body:
        return TopicConfigTable()
    if request.version < VERSION_3_0_11:
        return bodies.decode(TopicConfigTable, body)
    # A 5.x broker with compressedRegister compresses the body and forgets to say so.
    compressed = compressed or body.startswith(ZLIB_FIRST_BYTE)
    return register_body.decode(body, compressed=compressed).topic_config_serialize_wrapper


def _lists_all(topics: Mapping[str, TopicConfig], broker_version: int) -> bool:
    """Whether a topic that is not in this registration is gone from the broker.

    Nothing on the wire tells a complete registration from registerIncrementBrokerData, which sends changed
    topics only and under a new data version as well. But SELF_TEST_TOPIC is part of every complete one, and
    changed topics never include it, since UPDATE_AND_CREATE_TOPIC refuses system topics; 4.x sends them one at
    a time besides. From 5.x on a complete registration may be split into many (enableSplitRegistration), one
    of which has that topic: there nothing is removed, as 5.x itself does not by default.
    """
    return broker_version < VERSION_5_0_0 and len(topics) > 1 and SELF_TEST_TOPIC in topics


def _master_fields(master: Master | None) -> dict[str, str]:
    return {} if master is None else {"masterAddr": master.addr, "haServerAddr": master.ha_server_addr}
