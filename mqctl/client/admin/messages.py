"""Finding single messages: by id, by key, by place. And having a consumer try one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.consumers import CLIENT_SECONDS
from mqctl.client.admin.everywhere import Answers, ask_all, ask_each
from mqctl.client.admin.scanning import pull_request
from mqctl.client.admin.tailing import GO_ON, decode_messages, served_queues
from mqctl.client.admin.topics import user_topics
from mqctl.client.clusters import readable_address
from mqctl.errors import ConnectionFailed, MqError, NotFound, RequestTimeout, ResponseError
from mqctl.remoting.bodies import ClusterInfo, MessageQueue
from mqctl.remoting.bodies_admin import ConsumeQueueEntries
from mqctl.remoting.bodies_consumer import ConsumeDirectlyResult
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import QueryMessageHeader
from mqctl.remoting.headers_admin import ConsumeQueueHeader
from mqctl.remoting.headers_consumer import ConsumeDirectlyHeader
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import UNIQ_KEY
from mqctl.store.record import decode_msg_id

MAX_FOUND: Final = 64  # what a broker gives out for one key, if it is not configured otherwise
END_OF_TIME: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Period:
    """Store times in ms."""

    since: int = 0
    until: int = END_OF_TIME


ALL_TIME: Final = Period()


# -- by key ---------------------------------------------------------------------------------------------


async def by_key(
    admin: Admin, topic: str, key: str, *, maximum: int = MAX_FOUND, period: Period = ALL_TIME, unique: bool = False
) -> Answers[list[ReceivedMessage]]:
    """By broker the messages with the key, or with `unique` those whose producer gave them this id."""
    brokers = await brokers_of_topic(admin, topic)
    fields = header_fields(QueryMessageHeader(topic, key, maximum, period.since, period.until, unique))

    async def ask(address: str) -> list[ReceivedMessage]:
        answer = await admin.request(address, Command(RequestCode.QUERY_MESSAGE, ext=fields))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise ResponseError(answer.code, answer.remark, address)
        # Apache's brokers look at hashes only.
        return [message for message in decode_messages(answer.body) if _has_key(message, key, unique)]

    answers = await ask_all(brokers, ask)
    for name, messages in answers.given.items():
        for message in messages:
            message.broker_name = name
    return answers


def _has_key(message: ReceivedMessage, key: str, unique: bool) -> bool:
    return message.properties.get(UNIQ_KEY) == key if unique else key in message.keys


async def brokers_of_topic(admin: Admin, topic: str) -> dict[str, str]:
    """By name the address to read from. Raises NotFound."""
    route = await admin.topic_route(topic)
    found = {broker.broker_name: readable_address(broker.broker_addrs) for broker in route.broker_datas}
    return {name: address for name, address in found.items() if address is not None}


# -- by id ----------------------------------------------------------------------------------------------


async def by_id(admin: Admin, msg_id: str, topic: str | None = None) -> ReceivedMessage:
    """An id of either kind: the one that says where the message lies, or the one its producer gave it. Both look alike.

    The second kind is looked up in the topic, or in all that people made. Raises NotFound.
    """
    names = _broker_names(await admin.cluster_info())
    try:
        (host, port), phys_offset = decode_msg_id(msg_id)
    except ValueError as error:
        raise NotFound(f"{msg_id!r} is no message id: {error}") from None
    address = f"{host}:{port}"
    if address in names:
        message = await _at(admin, address, phys_offset, msg_id)
        message.broker_name = names[address]
        return message
    if topic is not None:
        await admin.topic_route(topic)
    topics = [topic] if topic is not None else await _topics(admin)
    answers = await ask_each(topics, lambda each: _by_unique_id(admin, each, msg_id))
    found = [answer for answer in answers if isinstance(answer, ReceivedMessage)]
    if found:
        return _oldest(found)
    for answer in answers:
        if isinstance(answer, MqError):
            raise answer
    raise NotFound(
        f"there is no message {msg_id} in {topic or 'any topic'}",
        hint=f"if it says where the message lies, that is at {address}, which is no broker of this cluster",
    )


async def _topics(admin: Admin) -> list[str]:
    """Those that people made; all while the broker is away that could tell them apart."""
    topics = await admin.topic_list()
    try:
        return await user_topics(admin, topics)
    except (ConnectionFailed, RequestTimeout):
        return topics


def _broker_names(info: ClusterInfo) -> dict[str, str]:
    """By address."""
    return {
        address: name for name, broker in info.broker_addr_table.items() for address in broker.broker_addrs.values()
    }


async def _at(admin: Admin, address: str, phys_offset: int, msg_id: str) -> ReceivedMessage:
    answer = await admin.request(address, Command(RequestCode.VIEW_MESSAGE_BY_ID, ext={"offset": str(phys_offset)}))
    if answer.code == ResponseCode.SYSTEM_ERROR:
        raise NotFound(f"{address} has no message {msg_id}: it was deleted, or never there")
    if answer.code != ResponseCode.SUCCESS:
        raise ResponseError(answer.code, answer.remark, address)
    messages = decode_messages(answer.body)
    if len(messages) != 1:
        raise MqError(f"{address} answered with {len(messages)} messages instead of one")
    return messages[0]


async def _by_unique_id(admin: Admin, topic: str, msg_id: str) -> ReceivedMessage | MqError | None:
    """Of several with the same id, such as one that its producer sent twice, the oldest, as mqadmin has it. None also
    for a topic that is gone; the error when a broker that may have it does not answer: it may as well be in another
    topic."""
    try:
        answers = await by_key(admin, topic, msg_id, unique=True)
    except NotFound:
        return None
    except MqError as error:
        return error
    found = [message for messages in answers.given.values() for message in messages]
    return _oldest(found) if found else next(iter(answers.failed.values()), None)


def _oldest(messages: Iterable[ReceivedMessage]) -> ReceivedMessage:
    return min(messages, key=lambda message: (message.store_timestamp, message.phys_offset))


# -- by place -------------------------------------------------------------------------------------------


async def by_place(admin: Admin, queue: MessageQueue, queue_offset: int) -> ReceivedMessage:
    """Raises NotFound."""
    queues = dict(served_queues(await admin.topic_route(queue.topic), queue.topic))
    if queue not in queues:
        known = ", ".join(f"{each.broker_name}:{each.queue_id}" for each in queues)
        raise NotFound(f"the topic {queue.topic} has no such queue", hint=f"those that can be read: {known or 'none'}")
    address = queues[queue]
    answer = await admin.request(address, pull_request(queue, queue_offset, count=1))
    if answer.code not in GO_ON:
        raise ResponseError(answer.code, answer.remark, address)
    for message in decode_messages(answer.body) if answer.code == ResponseCode.SUCCESS else []:
        if message.queue_offset == queue_offset:
            message.broker_name = queue.broker_name
            return message
    fields = answer.fields()
    place = f"{queue.topic}/{queue.queue_id} at {queue.broker_name}"
    raise NotFound(
        f"{place} has no message {queue_offset}",
        hint=f"it has those from {fields.get('minOffset')} to before {fields.get('maxOffset')}",
    )


async def queue_entries(
    admin: Admin, address: str, topic: str, queue_id: int, index: int, count: int, group: str | None
) -> ConsumeQueueEntries:
    """What the consume queue itself holds."""
    header = ConsumeQueueHeader(topic, queue_id, index, count, group)
    answer = await admin.call(address, Command(RequestCode.QUERY_CONSUME_QUEUE, ext=header_fields(header)))
    return admin.decode(ConsumeQueueEntries, answer)


# -- trying it out --------------------------------------------------------------------------------------


async def consume_directly(
    admin: Admin, brokers: Mapping[str, str], message: ReceivedMessage, group: str, client_id: str
) -> ConsumeDirectlyResult:
    """Has this client handle the message now, whatever its offsets say. Only the broker that has it can ask."""
    header = ConsumeDirectlyHeader(group, client_id, message.offset_msg_id, message.broker_name)
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext=header_fields(header))
    answer = await admin.call(brokers[message.broker_name], command, max(admin.timeout, CLIENT_SECONDS))
    return admin.decode(ConsumeDirectlyResult, answer)
