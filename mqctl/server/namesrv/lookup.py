"""Requests from clients and operators about routes, topics and clusters."""

from __future__ import annotations

import logging

from mqctl.errors import RequestFailed
from mqctl.remoting import bodies
from mqctl.remoting.bodies import BrokerMemberGroupBody, TopicList
from mqctl.remoting.codes import ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_namesrv import (
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicHeader,
    MemberGroupHeader,
    TopicHeader,
)
from mqctl.remoting.topicbits import UNIT, UNIT_SUB
from mqctl.server.namesrv.config import Settings
from mqctl.server.namesrv.kvconfig import ORDER_TOPIC_CONFIG, KvConfig
from mqctl.server.namesrv.routes import RouteTable

log = logging.getLogger(__name__)


class LookupHandlers:
    def __init__(self, routes: RouteTable, kv: KvConfig, settings: Settings) -> None:
        self._routes = routes
        self._kv = kv
        self._settings = settings

    def route(self, connection: Connection, request: Command, header: TopicHeader) -> Command:
        """GET_ROUTEINFO_BY_TOPIC. Broker ids are quoted for every client, so that the body is strict JSON:
        4.9.7 quotes them from client version 4.9.4 on, but the clients before read both forms."""
        route = self._routes.route(header.topic)
        if route is None:
            raise RequestFailed(ResponseCode.TOPIC_NOT_EXIST, f"no route for topic {header.topic}")
        if self._settings.now.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_CONFIG, header.topic)
        return request.reply(body=bodies.encode(route))

    def cluster_info(self, connection: Connection, request: Command, _: None) -> Command:
        return request.reply(body=bodies.encode(self._routes.cluster_info()))

    def member_group(self, connection: Connection, request: Command, header: MemberGroupHeader) -> Command:
        """GET_BROKER_MEMBER_GROUP, from 5.x brokers that were told the name server is 5.x."""
        members = self._routes.members(header.cluster_name, header.broker_name)
        return request.reply(body=bodies.encode(BrokerMemberGroupBody(members)))

    # -- lists of topics ----------------------------------------------------------------------------

    def all_topics(self, connection: Connection, request: Command, _: None) -> Command:
        return _topic_list(request, self._routes.queues.topics())

    def topics_by_cluster(self, connection: Connection, request: Command, header: ClusterHeader) -> Command:
        return _topic_list(request, self._routes.topics_of_cluster(header.cluster))

    def system_topics(self, connection: Connection, request: Command, _: None) -> Command:
        """The asker learns an address as well: there it can ask for the broker's part of the list."""
        return _topic_list(request, self._routes.system_topics(), self._routes.any_address())

    def unit_topics(self, connection: Connection, request: Command, _: None) -> Command:
        topics = self._routes.queues.with_flags(lambda flags: bool(flags & UNIT))
        return _topic_list(request, topics)

    def unit_sub_topics(self, connection: Connection, request: Command, _: None) -> Command:
        topics = self._routes.queues.with_flags(lambda flags: bool(flags & UNIT_SUB))
        return _topic_list(request, topics)

    def unit_sub_ununit_topics(self, connection: Connection, request: Command, _: None) -> Command:
        both = UNIT | UNIT_SUB
        topics = self._routes.queues.with_flags(lambda flags: flags & both == UNIT_SUB)
        return _topic_list(request, topics)

    # -- changes by operators -----------------------------------------------------------------------

    def delete_topic(self, connection: Connection, request: Command, header: DeleteTopicHeader) -> Command:
        log.info("%s: topic %s: delete from %s", *_who(connection, header.topic), header.cluster_name or "all")
        self._routes.delete_topic(header.topic, header.cluster_name)
        return request.reply()

    def wipe_write_perm(self, connection: Connection, request: Command, header: BrokerNameHeader) -> Command:
        count = self._routes.wipe_write_perm(header.broker_name)
        log.info("%s: broker %s: %d topics not writable", *_who(connection, header.broker_name), count)
        return request.reply(ext={"wipeTopicCount": str(count)})

    def add_write_perm(self, connection: Connection, request: Command, header: BrokerNameHeader) -> Command:
        count = self._routes.add_write_perm(header.broker_name)
        log.info("%s: broker %s: %d topics writable", *_who(connection, header.broker_name), count)
        return request.reply(ext={"addTopicCount": str(count)})


def _topic_list(request: Command, topics: list[str], broker_addr: str | None = None) -> Command:
    return request.reply(body=bodies.encode(TopicList(topic_list=topics, broker_addr=broker_addr)))


def _who(connection: Connection, subject: str) -> tuple[str, str]:
    return connection.peer_text, subject
