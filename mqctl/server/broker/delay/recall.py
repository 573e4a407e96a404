"""Taking a delayed message back before it is delivered: RECALL_MESSAGE of RocketMQ 5.

A producer that sent a message with a delivery time got a handle along with the answer, and returns it here. The broker
leaves a message about it among the waiting ones, so that a restart does not forget it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import TIMER_TOPIC
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import RecallMessageHeader
from mqctl.remoting.recallhandle import RecallHandle, recall_key
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.topics import Topics
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable
from mqctl.store import record
from mqctl.store.properties import (
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
    join_properties,
)
from mqctl.store.schedule import timer_code
from mqctl.store.store import MessageStore, NewMessage

RECALL_TAG: Final = "_RECALL_TAG_"


class Recalling:
    """Loop only."""

    def __init__(self, config: BrokerConfig, topics: Topics, store: MessageStore, acks: Acks, clock: Clock) -> None:
        self._config = config
        self._topics = topics
        self._store = store
        self._acks = acks
        self._clock = clock

    def handlers(self) -> HandlerTable:
        return {RequestCode.RECALL_MESSAGE: (RecallMessageHeader, self.on_recall)}

    async def on_recall(self, connection: Connection, request: Command, header: RecallMessageHeader) -> Command:
        """Whether there is such a message is not looked at, as in RocketMQ 5; that it may still be there is."""
        handle = self._check(header)
        if self._store.refusing:
            raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, self._store.refusing)
        self._topics.ensure(TIMER_TOPIC, 1)
        try:
            self._store.put(self._tombstone(connection, handle, header.producer_group))
            await asyncio.shield(self._acks.stored())
        except StoreError as error:
            raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, error.message) from None
        return request.reply(ext={"msgId": handle.unique_key, "MSG_REGION": self._config.region_id})

    def _check(self, header: RecallMessageHeader) -> RecallHandle:
        if self._topics.get(header.topic) is None:
            raise RequestFailed(ResponseCode.TOPIC_NOT_EXIST, f"the topic {header.topic!r} does not exist")
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except ValueError as error:
            raise RequestFailed(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        if (handle.topic, handle.broker_name) != (header.topic, self._config.broker_name):
            raise RequestFailed(
                ResponseCode.ILLEGAL_OPERATION,
                f"the handle belongs to a message of topic {handle.topic!r} on broker {handle.broker_name!r}",
            )
        left_ms = (
            int(handle.due_ms) - self._clock.now_ms() if handle.due_ms.isdecimal() and len(handle.due_ms) < 20 else 0
        )
        if not 0 < left_ms <= self._config.timer_max_delay_sec * 1000:
            raise RequestFailed(
                ResponseCode.ILLEGAL_OPERATION, "the message is delivered already, or never was delayed"
            )
        return handle

    def _tombstone(self, connection: Connection, handle: RecallHandle, producer_group: str) -> NewMessage:
        """What RocketMQ 5 stores about it, so that its broker could go on with our store."""
        properties = join_properties(
            {
                TAGS: RECALL_TAG,
                TIMER_DEL_UNIQKEY: recall_key(handle.topic, handle.unique_key),
                UNIQ_KEY: handle.unique_key,
                TIMER_DELIVER_MS: handle.due_ms,
                TIMER_OUT_MS: handle.due_ms,
                PGROUP: producer_group,
                REAL_TOPIC: handle.topic,
                REAL_QID: "0",
            }
        )
        if len(properties.encode()) > record.MAX_PROPERTIES:
            raise RequestFailed(ResponseCode.ILLEGAL_OPERATION, "the recall handle is too long")
        return NewMessage(
            topic=TIMER_TOPIC,
            queue_id=0,
            body=b"0",
            properties=properties.encode(),
            tags_code=timer_code(int(handle.due_ms), properties),
            flag=0,
            sys_flag=0,
            born_timestamp=self._clock.now_ms(),
            born_host=record.pack_host(*connection.peer),
        )
