"""Sending messages that were stored once before: same body, keys, tags and properties, another place."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final, Self

from mqctl.client.admin import Admin
from mqctl.client.admin.messages import brokers_of_topic, by_key
from mqctl.client.delivery import Delivery
from mqctl.client.engine import Engine
from mqctl.client.outgoing import Encoder, Outgoing
from mqctl.client.results import SendResult
from mqctl.errors import ConfigError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.signing import Credentials
from mqctl.remoting.unique_id import UniqueIdGenerator
from mqctl.store.properties import (
    BUYER_ID,
    INSTANCE_ID,
    KEYS,
    RESERVED_NAMES,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    WAIT,
    join_properties,
)
from mqctl.store.record import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6, SYS_TRANSACTION_MASK

_DAY_MS: Final = 86_400_000

# What RocketMQ's own tools call themselves; a broker needs no configuration for producers.
PRODUCER_GROUP: Final = "TOOLS_PRODUCER"

# What belongs to one delivery of a message, not to the message: delays, attempts, transactions, who waits for a reply.
OF_ONE_DELIVERY: Final = (
    RESERVED_NAMES - {KEYS, TAGS, BUYER_ID, INSTANCE_ID}
) | {
    TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_ROLL_TIMES, TIMER_DEL_UNIQKEY,
    TRANSACTION_CHECK_TIMES, TRAN_PREPARED_QUEUE_OFFSET,
}  # fmt: skip

# The rest says how the body is compressed, which stays as it is.
_OF_ONE_RECORD: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6 | SYS_TRANSACTION_MASK


def copy_of(message: ReceivedMessage, topic: str, msg_id: str, also: dict[str, str] | None = None) -> Outgoing:
    """The message for another topic, or once more for its own. `also` are properties it gets besides."""
    kept = {name: value for name, value in message.properties.items() if name not in OF_ONE_DELIVERY}
    properties = join_properties({**kept, **(also or {}), WAIT: "true", UNIQ_KEY: msg_id})
    return Outgoing(
        int(RequestCode.SEND_MESSAGE_V2),
        topic,
        msg_id,
        message.stored_body,
        message.flag,
        message.sys_flag & ~_OF_ONE_RECORD,
        properties,
    )


def derived_id(message: ReceivedMessage, purpose: str) -> str:
    """The id of a message's copy, the same whoever makes it for the same purpose: so that a copy can be found.

    The time in it is one before the message was stored in any time zone: tools look for a message from that time on.
    """
    digest = hashlib.sha256(f"{purpose} {message.offset_msg_id}".encode()).digest()
    stored = datetime.fromtimestamp(message.store_timestamp / 1000, UTC)
    month = stored.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    elapsed = max(0, message.store_timestamp - int(month.timestamp()) * 1000 - _DAY_MS)
    return (digest[:10] + (elapsed & 0xFFFFFFFF).to_bytes(4, "big") + digest[10:12]).hex().upper()


async def is_stored(admin: Admin, topic: str, msg_id: str) -> bool:
    """Whether the topic has a message with this id. Raises MqError when a broker that may have it cannot be asked."""
    answers = await by_key(admin, topic, msg_id, maximum=1, unique=True)
    if any(answers.given.values()):
        return True
    for error in answers.failed.values():
        raise error
    return False


async def check_index(admin: Admin, topic: str) -> None:
    """Raises ConfigError for a broker without an index: there nobody can tell what was sent already."""
    for name, address in (await brokers_of_topic(admin, topic)).items():
        answer = await admin.call(address, Command(RequestCode.GET_BROKER_CONFIG))
        if "messageIndexEnable=false" in answer.body.decode(errors="replace").split():
            raise ConfigError(
                f"{name} keeps no index (messageIndexEnable), so messages could be sent twice",
                hint="send to a topic of another broker",
            )


class Copier:
    """Loop only; use it with `async with`. A send is tried once: whether a copy that got no answer was stored must be
    looked up before it is sent again."""

    def __init__(self, name_servers: str, *, timeout: float, credentials: Credentials | None) -> None:
        self._timeout = timeout
        self._engine = Engine(name_servers, credentials=credentials)
        self._engine.add_producer(PRODUCER_GROUP)
        self._delivery = Delivery(self._engine, Encoder(PRODUCER_GROUP), retries=0, faults=None)
        self.new_id = UniqueIdGenerator()

    async def __aenter__(self) -> Self:
        await self._engine.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._engine.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Where messages of the topic may go."""
        return await self._delivery.queues(topic, self._timeout)

    async def send(self, copy: Outgoing, queue: MessageQueue | None = None) -> SendResult:
        return await self._delivery.deliver(copy, self._timeout, queue)
