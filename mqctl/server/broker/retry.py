"""Messages that a consumer could not handle: delivered again later, and set aside when that did not help.

A consumer has two ways to return one. CONSUMER_SEND_MSG_BACK names the message's place in the log; when that fails,
Java's client sends a copy to its group's retry topic, like any producer. Either way it goes by the delay levels into
`%RETRY%group`, which the group's consumers subscribe to by themselves, or after too many attempts into `%DLQ%group`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import msgspec

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import DLQ_PREFIX, RETRY_PREFIX
from mqctl.remoting.bodies import SubscriptionGroupConfig, TopicConfig
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import SendBackHeader, SendMessageHeader
from mqctl.remoting.topicbits import PERM_WRITE
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.groups import Groups
from mqctl.server.broker.send import Sending
from mqctl.server.broker.topics import Topics, check_topic_name
from mqctl.server.loop import HandlerTable
from mqctl.store import record
from mqctl.store.javahash import java_hash
from mqctl.store.properties import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRAN_MSG,
    drop_property,
    get_property,
    join_properties,
    parse_properties,
)
from mqctl.store.record import Record
from mqctl.store.store import MessageStore, NewMessage

DLQ_QUEUES: Final = 1
# The delay level of the first attempt where the consumer leaves it to the broker; each further one waits a level
# longer.
FIRST_RETRY_LEVEL: Final = 3

MOST_TRIES: Final = 2**31 - 1  # what the field of a record holds; a producer may claim any number

# What was ordered for the first delivery is done, and must not happen to a later one.
_DONE_WITH: Final = (TRAN_MSG, TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS)


class Returning:
    """Loop only."""

    def __init__(
        self, config: BrokerConfig, topics: Topics, groups: Groups, store: MessageStore, acks: Acks, sending: Sending
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._store = store
        self._acks = acks
        self._sending = sending
        self.on_sent_back: Callable[[str, str], None] = lambda topic, group: None

    def handlers(self) -> HandlerTable:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: (SendBackHeader, self.on_send_back)}

    async def on_send_back(self, connection: Connection, request: Command, header: SendBackHeader) -> Command:
        """Answered when the message is as safe as a producer's would be: the consumer counts it as done then."""
        group = self._groups.find(header.group)
        if not self._config.broker_permission & PERM_WRITE:
            raise RequestFailed(ResponseCode.NO_PERMISSION, "sending to this broker is forbidden")
        if group.retry_queue_nums <= 0:
            return request.reply()  # a group without retries: what its consumers turn down is gone
        topic = await self._topic(RETRY_PREFIX + group.group_name, group.retry_queue_nums)
        original = self._original(header.offset)
        level = header.delay_level or FIRST_RETRY_LEVEL + original.reconsume_times
        if header.delay_level < 0 or original.reconsume_times >= _attempts(group, header.max_reconsume_times):
            topic = await self._topic(DLQ_PREFIX + group.group_name, DLQ_QUEUES)
            level = 0
        await self._put(again(original, topic, level))
        self.on_sent_back(get_property(original.properties, RETRY_TOPIC) or original.topic, group.group_name)
        return request.reply()

    def aim(self, header: SendMessageHeader) -> SendMessageHeader:
        """For a copy that the client itself sent to a retry topic. Apache's broker lets one that goes to the dead
        letters wait for its delay all the same; here it goes there at once."""
        group = self._groups.find(header.topic.removeprefix(RETRY_PREFIX))
        check_topic_name(header.topic)
        self._topics.ensure(header.topic, max(1, group.retry_queue_nums))
        if header.reconsume_times < _attempts(group, header.max_reconsume_times):
            return header
        return msgspec.structs.replace(
            header,
            topic=DLQ_PREFIX + group.group_name,
            queue_id=0,
            default_topic="",
            default_topic_queue_nums=DLQ_QUEUES,
            properties=drop_property(header.properties, DELAY),
        )

    async def _topic(self, name: str, queues: int) -> TopicConfig:
        """The group's topic, made if there is none, and on disk."""
        check_topic_name(name)
        topic = self._topics.ensure(name, queues)
        saving = self._topics.creating.get(name)
        if saving is not None:
            await asyncio.shield(saving)
        if not topic.perm & PERM_WRITE:
            raise RequestFailed(ResponseCode.NO_PERMISSION, f"sending to topic {name!r} is forbidden")
        return topic

    def _original(self, phys_offset: int) -> Record:
        found = self._store.log.read_record(phys_offset)
        if found is None:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {phys_offset}: no message begins there"
            )
        return record.parse(found, 0)

    async def _put(self, message: NewMessage) -> None:
        if self._store.refusing:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, self._store.refusing)
        if len(message.properties) > record.MAX_PROPERTIES:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR,
                f"with what a retry adds, the message properties have {len(message.properties)} bytes, "
                f"at most {record.MAX_PROPERTIES} fit",
            )
        try:
            self._store.put(self._sending.detoured(message))
            await self._acks.stored()
        except StoreError as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, error.message) from None


def _attempts(group: SubscriptionGroupConfig, asked: int | None) -> int:
    """How often a message is delivered again. Clients since 3.4.9 say so themselves."""
    return group.retry_max_times if asked is None else asked


def again(original: Record, topic: TopicConfig, level: int) -> NewMessage:
    """The message for another delivery. A consumer of the retry topic finds its first topic and id in it."""
    properties = parse_properties(original.properties)
    for name in _DONE_WITH:
        properties.pop(name, None)
    properties.setdefault(RETRY_TOPIC, original.topic)
    properties.setdefault(
        ORIGIN_MESSAGE_ID, record.encode_msg_id(record.pack_host(*original.store_host), original.phys_offset)
    )
    properties[DELAY] = str(level)
    tags = properties.get(TAGS)
    return NewMessage(
        topic.topic_name,
        random.randrange(max(1, topic.write_queue_nums)),
        original.body,
        join_properties(properties).encode(),
        java_hash(tags) if tags else 0,
        original.flag,
        original.sys_flag,
        original.born_timestamp,
        record.pack_host(*original.born_host),
        min(original.reconsume_times + 1, MOST_TRIES),
    )
