"""Moving groups: resetting the offsets of running consumers, asking them for theirs, copying one group's to another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from mqctl.errors import ConnectionFailed, RequestFailed, RequestTimeout
from mqctl.remoting import bodies
from mqctl.remoting.bodies import (
    GetConsumerStatusBody,
    MessageQueue,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    ResetOffsetEntry,
    TopicConfig,
)
from mqctl.remoting.bodies_admin import CorrectionOffsets
from mqctl.remoting.codes import VERSION_3_0_7_SNAPSHOT, LanguageCode, RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers_admin import (
    ALL_QUEUES,
    LATEST,
    NO_OFFSET,
    CloneOffsetsHeader,
    CorrectionHeader,
    InvokeResetHeader,
    InvokeStatusHeader,
)
from mqctl.server.broker.clients import Client, Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.offsets import ConsumerOffsets
from mqctl.server.broker.topics import Topics
from mqctl.server.loop import HandlerTable
from mqctl.store.fetch import search_by_time
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# As long as Apache's broker waits for each client.
CLIENT_SECONDS: Final = 5.0
# What QUERY_CORRECTION_OFFSET answers for a queue that needs no correction.
MAX_LONG: Final = 2**63 - 1


class OffsetAdmin:
    """Loop only."""

    def __init__(
        self, config: BrokerConfig, topics: Topics, offsets: ConsumerOffsets, clients: Clients, store: MessageStore
    ) -> None:
        self._config = config
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._store = store

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (InvokeResetHeader, self.on_reset),
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (InvokeStatusHeader, self.on_status),
            RequestCode.CLONE_GROUP_OFFSET: (CloneOffsetsHeader, self.on_clone),
            RequestCode.QUERY_CORRECTION_OFFSET: (CorrectionHeader, self.on_correction),
        }

    # -- resetting ----------------------------------------------------------------------------------

    def on_reset(self, connection: Connection, request: Command, header: InvokeResetHeader) -> Command:
        """The members of the group are told where to go on, and commit that by themselves. Apache's broker gives up
        if the group has no offset for one of the queues, such as one that nobody reads; here such a queue is reset
        by force, and otherwise left out."""
        topic = self._find_topic(header.topic)
        if not self._offsets.of(header.group, header.topic):
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR,
                f"the consumer group {header.group!r} has no offsets for topic {header.topic!r} to be reset",
            )
        table = {
            MessageQueue(header.topic, self._config.broker_name, queue_id): queue_offset
            for queue_id in _queues(topic, header.queue_id)
            if (queue_offset := self._target(header, queue_id)) is not None
        }
        members = self._members(header.group)
        if not members:
            raise RequestFailed(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"no consumer of group {header.group!r} is connected, so none can be told to reset its offsets",
            )
        log.info("%s: resets %s of %s to %s", connection.peer_text, header.group, header.topic, list(table.values()))
        for_c = request.language == LanguageCode.CPP
        fields = {
            "topic": header.topic,
            "group": header.group,
            "timestamp": str(header.timestamp),
            "isForce": "true" if header.is_force else "false",
        }
        push = bodies.encode(_for_c(table) if for_c else ResetOffsetBody(offset_table=table))
        for member in members:
            member.connection.oneway(Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=fields, body=push))
        return request.reply(body=bodies.encode(ResetOffsetBody(offset_table=table)))

    def _target(self, header: InvokeResetHeader, queue_id: int) -> int | None:
        """Where the group goes on: never forward unless by force."""
        queue = self._store.queues.get((header.topic, queue_id))
        if header.queue_id != ALL_QUEUES and header.offset != NO_OFFSET:
            wanted = header.offset
        elif queue is None:
            wanted = 0
        elif header.timestamp == LATEST:
            wanted = queue.max_offset
        else:
            wanted = search_by_time(self._store, queue, header.timestamp)
        stored = self._offsets.get(header.group, header.topic, queue_id)
        if header.is_force:
            return max(0, wanted)
        return None if stored is None else max(0, min(wanted, stored))

    # -- asking clients -----------------------------------------------------------------------------

    async def on_status(self, connection: Connection, request: Command, header: InvokeStatusHeader) -> Command:
        """What each member, or the one that is named, has consumed. A member that does not answer is left out."""
        members = [
            member
            for member in self._members(header.group)
            if not header.client_addr or member.client_id == header.client_addr
        ]
        if not members:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"no consumer of group {header.group!r} is connected")
        fields = {"topic": header.topic, "group": header.group}
        answers = await asyncio.gather(*(self._status_of(member, fields) for member in members))
        table = {
            member.client_id: status.message_queue_table
            for member, status in zip(members, answers, strict=True)
            if status is not None
        }
        return request.reply(body=bodies.encode(GetConsumerStatusBody(consumer_table=table)))

    async def _status_of(self, member: Client, fields: dict[str, str]) -> GetConsumerStatusBody | None:
        question = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext=dict(fields))
        try:
            answer = await member.connection.request(question, CLIENT_SECONDS)
            return bodies.decode(GetConsumerStatusBody, answer.body) if answer.body else None
        except (ConnectionFailed, RequestTimeout, bodies.BodyError) as error:
            log.warning("%s: no consumer status from %s: %s", member.connection.peer_text, member.client_id, error)
            return None

    def _members(self, group: str) -> list[Client]:
        online = self._clients.consumers.get(group)
        members = list(online.members.values()) if online is not None else []
        for member in members:
            if member.version < VERSION_3_0_7_SNAPSHOT:
                raise RequestFailed(
                    ResponseCode.SYSTEM_ERROR, f"the client {member.client_id} is too old to be asked for that"
                )
        return members

    # -- copying and comparing ----------------------------------------------------------------------

    async def on_clone(self, connection: Connection, request: Command, header: CloneOffsetsHeader) -> Command:
        """One topic's offsets, or all that the source has; Apache's broker does nothing in the second case."""
        topics = [header.topic] if header.topic.strip() else self._offsets.topics_of(header.src_group)
        online = self._clients.consumers.get(header.src_group)
        for topic in topics:
            unread = online is not None and bool(online.subscriptions) and topic not in online.subscriptions
            if self._topics.get(topic) is not None and (header.offline or not unread):
                self._offsets.clone(header.src_group, header.dest_group, topic)
        saving = self._offsets.save_soon()
        if saving is not None:
            await asyncio.shield(saving)
        return request.reply()

    def on_correction(self, connection: Connection, request: Command, header: CorrectionHeader) -> Command:
        """Per queue the least offset over all groups but the filtered; none where the group to compare with is not
        even there. Apache's broker deletes the filtered groups' offsets in passing, which nobody can have wanted."""
        filtered = set(header.filter_groups.split(","))
        least: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group not in filtered:
                for queue_id, queue_offset in self._offsets.of(group, header.topic).items():
                    queue = self._store.queues.get((header.topic, queue_id))
                    if queue_offset >= (queue.min_offset if queue is not None else 0):
                        least[queue_id] = min(queue_offset, least.get(queue_id, MAX_LONG))
        for queue_id, queue_offset in self._offsets.of(header.compare_group, header.topic).items():
            if least.get(queue_id, MAX_LONG) > queue_offset:
                least[queue_id] = MAX_LONG
        return request.reply(body=bodies.encode(CorrectionOffsets(correction_offsets=least)))

    def _find_topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"there is no topic {name!r} on this broker")
        return topic


def _queues(topic: TopicConfig, queue_id: int) -> Iterable[int]:
    """All that may hold messages: those to be read and those to be written differ while a topic shrinks or grows."""
    if queue_id == ALL_QUEUES:
        return range(max(topic.read_queue_nums, topic.write_queue_nums))
    if not 0 <= queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
        raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"the topic {topic.topic_name!r} has no queue {queue_id}")
    return (queue_id,)


def _for_c(table: dict[MessageQueue, int]) -> ResetOffsetBodyForC:
    return ResetOffsetBodyForC(
        offset_table=[
            ResetOffsetEntry(
                topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id, offset=queue_offset
            )
            for queue, queue_offset in table.items()
        ]
    )
