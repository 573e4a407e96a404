"""Sending one message after another: route, queue, request. The producer proper is another module's business."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import AUTO_CREATE_TOPIC, Admin
from mqctl.client.clusters import master_of
from mqctl.client.topics import PERM_WRITE
from mqctl.errors import MqError, NotFound, ResponseError
from mqctl.remoting.bodies import MessageQueue, TopicRouteData
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import SendMessageHeader
from mqctl.remoting.message import Message
from mqctl.remoting.unique_id import UniqueIdGenerator
from mqctl.store.properties import UNIQ_KEY, format_properties

# What RocketMQ's own tools call themselves; a broker needs no configuration for producers.
PRODUCER_GROUP: Final = "TOOLS_PRODUCER"

# How many queues a client asks for when its first message creates the topic, as Java clients do.
NEW_TOPIC_QUEUES: Final = 4

# Codes after which the message is in the log, and what Java's SendStatus calls them.
_STORED: Final = {
    ResponseCode.SUCCESS.value: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT.value: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT.value: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE.value: "SLAVE_NOT_AVAILABLE",
}


@dataclass(frozen=True, slots=True)
class SendResult:
    """`offset_msg_id` says where the record lies; `msg_id` is the one its producer gave it."""

    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    status: str


@dataclass(frozen=True, slots=True)
class _Targets:
    """Where messages of a topic may go: every writable queue with its master's address."""

    queues: list[tuple[MessageQueue, str]]


class Sender:
    """Loop only. Goes through the queues in turn, from a random one on, so that many short runs spread too."""

    def __init__(self, admin: Admin, *, clock: Callable[[], float] = time.time) -> None:
        self._admin = admin
        self._clock = clock
        self._new_id = UniqueIdGenerator()
        self._targets: dict[str, _Targets] = {}
        self._turn = random.randrange(2**16)

    async def send(self, message: Message, *, queue_id: int | None = None) -> SendResult:
        """Raises NotFound for a topic that does not exist and is not created on first use, ResponseError when
        the broker refuses the message. It is sent once: whoever repeats a send may store it twice."""
        targets = self._targets.get(message.topic)
        if targets is None:
            targets = self._targets[message.topic] = await self._find_targets(message.topic)
        queue, address = self._choose(targets, message.topic, queue_id)
        msg_id = self._new_id()
        answer = await self._admin.request(address, self._request(message, queue.queue_id, msg_id))
        status = _STORED.get(answer.code)
        if status is None:
            raise ResponseError(answer.code, answer.remark, address)
        fields = answer.fields()
        return SendResult(msg_id, fields.get("msgId", ""), queue, int(fields.get("queueOffset", -1)), status)

    def _choose(self, targets: _Targets, topic: str, queue_id: int | None) -> tuple[MessageQueue, str]:
        queues = [item for item in targets.queues if queue_id is None or item[0].queue_id == queue_id]
        if not queues:
            count = max(queue.queue_id for queue, _ in targets.queues) + 1
            raise NotFound(f"the topic {topic} has no writable queue {queue_id}: they are numbered 0 to {count - 1}")
        self._turn += 1
        return queues[self._turn % len(queues)]

    async def _find_targets(self, topic: str) -> _Targets:
        try:
            queues = _writable(await self._admin.topic_route(topic), topic)
        except NotFound as missing:
            queues = await self._targets_of_new(topic, missing)
        if not queues:
            raise MqError(
                f"no queue of topic {topic} can be written to",
                hint=f"see `mqctl topic route {topic}`: it needs perm w and a running master",
            )
        return _Targets(queues)

    async def _targets_of_new(self, topic: str, missing: NotFound) -> list[tuple[MessageQueue, str]]:
        """The brokers that create topics on first use are those that have TBW102."""
        try:
            route = await self._admin.topic_route(AUTO_CREATE_TOPIC)
        except NotFound:
            raise missing from None
        return _writable(route, topic, at_most=NEW_TOPIC_QUEUES)

    def _request(self, message: Message, queue_id: int, msg_id: str) -> Command:
        properties = {**message.wire_properties(), UNIQ_KEY: msg_id}
        try:
            text = format_properties(properties)
        except ValueError as error:
            raise MqError(str(error)) from None
        header = SendMessageHeader(
            producer_group=PRODUCER_GROUP,
            topic=message.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=NEW_TOPIC_QUEUES,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=int(self._clock() * 1000),
            flag=message.flag,
            properties=text,
        )
        return Command(RequestCode.SEND_MESSAGE_V2, ext=header_fields(header), body=message.body)


def _writable(route: TopicRouteData, topic: str, at_most: int | None = None) -> list[tuple[MessageQueue, str]]:
    addresses = {broker.broker_name: master_of(broker.broker_addrs) for broker in route.broker_datas}
    found = []
    for data in route.queue_datas:
        address = addresses.get(data.broker_name)
        if address is None or not data.perm & PERM_WRITE:
            continue
        count = data.write_queue_nums if at_most is None else min(data.write_queue_nums, at_most)
        found += [(MessageQueue(topic, data.broker_name, queue_id), address) for queue_id in range(count)]
    return found
