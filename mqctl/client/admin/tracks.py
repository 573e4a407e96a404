"""Which consumer groups are past a message, and which are not: what their offsets say of its queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import members
from mqctl.client.admin.everywhere import ask_all, ask_each
from mqctl.client.admin.progress import consume_stats
from mqctl.errors import MqError
from mqctl.remoting.bodies import ConsumerConnection, MessageQueue
from mqctl.remoting.bodies_admin import GroupList
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.message import ReceivedMessage


class TrackType(StrEnum):
    """RocketMQ's names."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"  # who pulls for itself need not tell how far it is
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Track:
    group: str
    type: TrackType
    why: str | None = None


async def track(admin: Admin, brokers: Mapping[str, str], message: ReceivedMessage) -> list[Track]:
    """Of every group that reads the topic, by name. `brokers` are the topic's."""
    groups = await topic_groups(admin, brokers, message.topic)
    return await ask_each(groups, lambda group: _track(admin, brokers, message, group))


async def topic_groups(admin: Admin, brokers: Mapping[str, str], topic: str) -> list[str]:
    async def ask(address: str) -> list[str]:
        command = Command(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ext={"topic": topic})
        return admin.decode(GroupList, await admin.call(address, command)).group_list

    answers = await ask_all(brokers, ask)
    return sorted({group for groups in answers.given.values() for group in groups})


async def _track(admin: Admin, brokers: Mapping[str, str], message: ReceivedMessage, group: str) -> Track:
    try:
        connection = await members(admin, brokers, group)
        if connection is None:
            return Track(group, TrackType.NOT_ONLINE)
        if connection.consume_type == "CONSUME_ACTIVELY":
            return Track(group, TrackType.PULL)
        if connection.message_model == "BROADCASTING":
            return Track(group, TrackType.CONSUME_BROADCASTING)
        stats = await consume_stats(admin, brokers[message.broker_name], group)
    except MqError as error:
        return Track(group, TrackType.UNKNOWN, error.message)
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    at = stats.offset_table.get(queue)
    if at is None or at.consumer_offset <= message.queue_offset:
        return Track(group, TrackType.NOT_CONSUME_YET)
    wanted = _wants(connection, message)
    return Track(group, TrackType.CONSUMED if wanted else TrackType.CONSUMED_BUT_FILTERED)


def _wants(connection: ConsumerConnection, message: ReceivedMessage) -> bool:
    """As far as tags say it; what an SQL92 filter let through is not known here."""
    subscription = connection.subscription_table.get(message.topic)
    tags = subscription.tags_set if subscription is not None else None
    return not tags or message.tags in tags
