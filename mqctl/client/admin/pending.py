"""Delayed messages that wait at a broker: finding them, and taking them back.

Both kinds lie in topics of the broker's own and are read from there as a consumer would: those with a delay level also
at Apache's brokers, those with a time of their own also at Apache's from 5.0 on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from mqctl.client.admin import Admin
from mqctl.client.admin.scanning import pull_request
from mqctl.client.admin.tailing import GO_ON, decode_messages
from mqctl.errors import MqError, NotFound, ResponseError
from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.properties import parse_properties
from mqctl.remoting import bodies
from mqctl.remoting.bodies import DelayOffsetTable, MessageQueue
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import RecallMessageHeader, TopicQueueHeader
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.recallhandle import RecallHandle, recall_key
from mqctl.store.properties import REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, UNIQ_KEY
from mqctl.store.schedule import DEFAULT_LEVELS, parse_levels

PRODUCER_GROUP: Final = "TOOLS_PRODUCER"


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that waits. Without its body: there may be a million of them."""

    broker_name: str
    address: str
    level: int | None  # None: it has a time of its own
    due_ms: int
    topic: str
    queue_id: int
    msg_id: str
    unique_key: str | None
    tags: str
    keys: list[str]
    store_timestamp: int
    waits_at: tuple[str, int, int]  # topic, queue id and queue offset


class Waiting:
    """What waits at one broker. All methods raise what Admin's do."""

    def __init__(self, admin: Admin, broker_name: str, address: str) -> None:
        self._admin = admin
        self._broker_name = broker_name
        self._address = address

    async def find(self, now_ms: int, topic: str | None = None, msg_id: str | None = None) -> list[Pending]:
        """The next one first; all, or those of a topic, or those with an id."""
        taken_back: set[str] = set()
        found = [
            pending
            async for pending in self._all(now_ms, taken_back)
            if topic in (None, pending.topic) and msg_id in (None, pending.msg_id)
        ]
        left = [pending for pending in found if not _is_among(pending, taken_back)]
        return sorted(left, key=lambda pending: pending.due_ms)

    async def read(self, pending: Pending) -> ReceivedMessage:
        """The message itself. Raises NotFound if its record is gone."""
        async for message in self._messages(*pending.waits_at):
            if message.queue_offset == pending.waits_at[2]:
                return message
            break
        raise NotFound(f"the message {pending.msg_id} is not there any more")

    async def take_back(self, pending: Pending) -> None:
        """Raises MqError where the broker cannot do that."""
        if pending.unique_key is None:
            raise MqError(
                "the message has no UNIQ_KEY, so it cannot be named", hint="its producer is no RocketMQ client"
            )
        if pending.level is not None:
            await self._check_levels_can_be_taken_back()
        # RocketMQ 5 rounds times down, to the second before if there is nothing to round: hence one more.
        handle = RecallHandle(pending.topic, self._broker_name, str(pending.due_ms + 1), pending.unique_key)
        header = RecallMessageHeader(topic=pending.topic, recall_handle=handle.encode(), producer_group=PRODUCER_GROUP)
        try:
            await self._admin.call(self._address, Command(RequestCode.RECALL_MESSAGE, ext=header_fields(header)))
        except ResponseError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                error.hint = (
                    "brokers of RocketMQ 4 cannot take a delayed message back; mqctl's and those of 5.3 and later can"
                )
            raise

    async def _check_levels_can_be_taken_back(self) -> None:
        """A 5.x broker says that it has done so, and delivers the message all the same."""
        version = (await self._admin.runtime_info(self._address)).get("brokerVersionDesc", "")
        if version.startswith("V5"):
            raise MqError(
                f"{self._broker_name} runs RocketMQ {version}, which cannot take back a message with a delay level",
                hint="mqctl's broker can; RocketMQ's only those with a delivery time of their own",
            )

    # -- reading ------------------------------------------------------------------------------------

    async def _all(self, now_ms: int, taken_back: set[str]) -> AsyncIterator[Pending]:
        """Fills `taken_back` on the way."""
        levels_ms = await self._levels()
        offsets = await self._delay_offsets()
        for level, delay_ms in enumerate(levels_ms, 1):
            async for message in self._messages(SCHEDULE_TOPIC, level - 1, offsets.get(level, 0)):
                yield self._pending(message, level, message.store_timestamp + delay_ms)
        async for message in self._messages(TIMER_TOPIC, 0, await self._first_timer()):
            due_ms = _number(message.properties.get(TIMER_OUT_MS))
            if TIMER_DEL_UNIQKEY in message.properties:
                taken_back.add(message.properties[TIMER_DEL_UNIQKEY])
            elif due_ms > now_ms:
                yield self._pending(message, None, due_ms)

    def _pending(self, message: ReceivedMessage, level: int | None, due_ms: int) -> Pending:
        return Pending(
            broker_name=self._broker_name,
            address=self._address,
            level=level,
            due_ms=due_ms,
            topic=message.properties.get(REAL_TOPIC, ""),
            queue_id=_number(message.properties.get(REAL_QID)),
            msg_id=message.msg_id,
            unique_key=message.properties.get(UNIQ_KEY),
            tags=message.tags,
            keys=message.keys,
            store_timestamp=message.store_timestamp,
            waits_at=(message.topic, message.queue_id, message.queue_offset),
        )

    async def _levels(self) -> tuple[int, ...]:
        answer = await self._admin.call(self._address, Command(RequestCode.GET_BROKER_CONFIG))
        text = parse_properties(answer.body.decode()).get("messageDelayLevel", DEFAULT_LEVELS)
        try:
            return parse_levels(text)
        except ValueError as error:
            raise MqError(f"messageDelayLevel of {self._broker_name}: {error}") from None

    async def _delay_offsets(self) -> dict[int, int]:
        answer = await self._admin.call(self._address, Command(RequestCode.GET_ALL_DELAY_OFFSET))
        return bodies.decode(DelayOffsetTable, answer.body).offset_table

    async def _first_timer(self) -> int:
        header = TopicQueueHeader(topic=TIMER_TOPIC, queue_id=0)
        answer = await self._admin.call(self._address, Command(RequestCode.GET_MIN_OFFSET, ext=header_fields(header)))
        return max(0, _number(answer.fields().get("offset")))

    async def _messages(self, topic: str, queue_id: int, queue_offset: int) -> AsyncIterator[ReceivedMessage]:
        """From some offset to the end; none if there is no such topic, or queue."""
        queue = MessageQueue(topic, self._broker_name, queue_id)
        while True:
            answer = await self._admin.request(self._address, pull_request(queue, queue_offset))
            if answer.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR):
                return
            if answer.code not in GO_ON:
                raise ResponseError(answer.code, answer.remark, self._address)
            following = _number(answer.fields().get("nextBeginOffset"))
            if answer.code == ResponseCode.SUCCESS:
                for message in decode_messages(answer.body):
                    yield message
            if following <= queue_offset:
                return
            queue_offset = following


def _is_among(pending: Pending, taken_back: set[str]) -> bool:
    key = pending.unique_key
    return key is not None and (recall_key(pending.topic, key) in taken_back or key in taken_back)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else 0
