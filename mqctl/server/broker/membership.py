"""The requests by which clients come, stay, leave and learn about each other."""

from __future__ import annotations

from mqctl.errors import RequestFailed
from mqctl.names import RETRY_PREFIX
from mqctl.remoting import bodies
from mqctl.remoting.bodies import (
    CheckClientBody,
    ConsumerConnection,
    ConsumerList,
    HeartbeatData,
    ProducerConnection,
    QueryAssignmentBody,
)
from mqctl.remoting.codes import LanguageCode, RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import ConsumerGroupHeader, ProducerGroupHeader, UnregisterClientHeader
from mqctl.server.broker.assignment import assign
from mqctl.server.broker.clients import Client, Clients, ConsumerGroup
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.filterdata import FilterTable
from mqctl.server.broker.groups import Groups
from mqctl.server.broker.register import Registration
from mqctl.server.broker.subscribing import compile_subscription, is_tag_type
from mqctl.server.broker.topics import MAX_TOPIC_NAME, Topics
from mqctl.server.loop import HandlerTable


class Membership:
    def __init__(
        self, config: BrokerConfig, topics: Topics, groups: Groups, filters: FilterTable, registration: Registration
    ) -> None:
        self._config = config
        self._filters = filters
        self._registration = registration
        self._topics = topics
        self._groups = groups
        self.clients = Clients(self._notify)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.HEART_BEAT: (None, self.on_heartbeat),
            RequestCode.UNREGISTER_CLIENT: (UnregisterClientHeader, self.on_unregister),
            RequestCode.CHECK_CLIENT_CONFIG: (None, self.on_check_client),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: (ConsumerGroupHeader, self.on_consumer_list),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: (ConsumerGroupHeader, self.on_consumer_connections),
            RequestCode.GET_PRODUCER_CONNECTION_LIST: (ProducerGroupHeader, self.on_producer_connections),
            RequestCode.QUERY_ASSIGNMENT: (None, self.on_query_assignment),
        }

    def on_heartbeat(self, connection: Connection, request: Command, _: None) -> Command:
        heartbeat = bodies.decode(HeartbeatData, request.body)
        for consumer in heartbeat.consumer_data_set:
            group = self._groups.find(consumer.group_name)
            retry_topic = RETRY_PREFIX + group.group_name
            if group.retry_queue_nums > 0 and len(retry_topic) <= MAX_TOPIC_NAME:
                self._topics.ensure(retry_topic, group.retry_queue_nums)
            self.clients.heartbeat_consumer(
                connection, heartbeat.client_id, request.language, request.version, consumer
            )
            self._filters.register(consumer.group_name, consumer.subscription_data_set)
        for producer in heartbeat.producer_data_set:
            self.clients.heartbeat_producer(
                connection, heartbeat.client_id, request.language, request.version, producer.group_name
            )
        return request.reply()

    def on_unregister(self, connection: Connection, request: Command, header: UnregisterClientHeader) -> Command:
        self.clients.unregister(connection, header.producer_group, header.consumer_group)
        return request.reply(ext={})

    def on_check_client(self, connection: Connection, request: Command, _: None) -> Command:
        """Clients ask this before they subscribe with anything but tags."""
        subscription = bodies.decode(CheckClientBody, request.body).subscription_data
        if subscription is not None and not is_tag_type(subscription.expression_type):
            compile_subscription(
                self._config,
                subscription.expression_type,
                subscription.sub_string,
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            )
        return request.reply()

    def on_consumer_list(self, connection: Connection, request: Command, header: ConsumerGroupHeader) -> Command:
        group = self._online(header.consumer_group, ResponseCode.SYSTEM_ERROR)
        return request.reply(ext={}, body=bodies.encode(ConsumerList(consumer_id_list=group.client_ids())))

    def on_consumer_connections(self, connection: Connection, request: Command, header: ConsumerGroupHeader) -> Command:
        group = self._online(header.consumer_group, ResponseCode.CONSUMER_NOT_ONLINE)
        return request.reply(
            ext={},
            body=bodies.encode(
                ConsumerConnection(
                    connection_set=[_describe(member) for member in group.members.values()],
                    subscription_table=group.subscriptions,
                    consume_type=group.consume_type,
                    message_model=group.message_model,
                    consume_from_where=group.consume_from_where,
                )
            ),
        )

    def on_producer_connections(self, connection: Connection, request: Command, header: ProducerGroupHeader) -> Command:
        members = self.clients.producers.get(header.producer_group)
        if members is None:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR, f"no producer of group {header.producer_group!r} is connected"
            )
        connections = [_describe(member) for member in members.values()]
        return request.reply(ext={}, body=bodies.encode(ProducerConnection(connection_set=connections)))

    async def on_query_assignment(self, connection: Connection, request: Command, _: None) -> Command:
        """5.x consumers may leave rebalancing to the broker; they get queues to pull from."""
        wanted = bodies.decode(QueryAssignmentBody, request.body)
        queues = await self._registration.queues_of(wanted.topic)
        group = self.clients.consumers.get(wanted.consumer_group)
        members = group.client_ids() if group is not None else []
        return request.reply(body=bodies.encode(assign(wanted, queues, members)))

    def _online(self, group: str, code: ResponseCode) -> ConsumerGroup:
        found = self.clients.consumers.get(group)
        if found is None:
            raise RequestFailed(code, f"no consumer of group {group!r} is connected")
        return found

    def _notify(self, group: ConsumerGroup) -> None:
        """Every member rebalances at once instead of at its next round in up to 20 s."""
        if not group.members:
            self._filters.unregister(group.name)
        settings = self._groups.get(group.name)
        allowed = settings is None or settings.notify_consumer_ids_changed_enable
        if not (self._config.notify_consumer_ids_changed_enable and allowed):
            return
        for connection in group.members:
            connection.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": group.name}))


def _describe(member: Client) -> bodies.Connection:
    return bodies.Connection(
        client_id=member.client_id,
        client_addr=member.connection.peer_text,
        language=LanguageCode(member.language).name,
        version=member.version,
    )
