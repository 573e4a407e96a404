"""Returning a message that could not be consumed, so that the group gets it again later or it becomes a dead letter."""

from __future__ import annotations

import logging
from typing import Final

from mqctl.client.clusters import master_of
from mqctl.client.engine import Engine
from mqctl.client.subscriptions import retry_topic
from mqctl.errors import ConnectionFailed, MqError
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command, header_fields
from mqctl.remoting.headers import SendBackHeader, SendMessageHeader
from mqctl.remoting.message import ReceivedMessage
from mqctl.store import properties as names
from mqctl.store.properties import format_properties

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
MAX_RECONSUME_TIMES: Final = 16
# A copy that a consumer makes is to be delivered at the level which a broker would have chosen.
FIRST_RETRY_LEVEL: Final = 3
# Java's clients send such copies under this name.
PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"


class SendBack:
    """Loop only. Methods raise MqError when the message could not be returned; then it is still the consumer's."""

    def __init__(self, engine: Engine, group: str, max_reconsume_times: int) -> None:
        self._engine = engine
        self._group = group
        self._max_reconsume_times = max_reconsume_times

    async def to_broker(self, message: ReceivedMessage, delay_level: int) -> None:
        """The broker has the message and copies it by itself; if it cannot, it gets a copy."""
        header = SendBackHeader(
            offset=message.phys_offset,
            group=self._group,
            delay_level=delay_level,
            max_reconsume_times=self._max_reconsume_times,
        )
        fields = header_fields(header) | {"originMsgId": message.msg_id, "originTopic": message.topic}
        try:
            command = Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext=fields)
            await self._engine.call(self._master(message), command, TIMEOUT_S)
        except MqError as error:
            log.info("%s: message %s goes back as a copy: %s", self._group, message.msg_id, error.message)
            await self.copy(message, message.reconsume_times + 1)

    async def copy(self, message: ReceivedMessage, reconsume_times: int) -> None:
        """To the group's retry topic. The broker makes it a dead letter once it was consumed too often."""
        level = FIRST_RETRY_LEVEL + message.reconsume_times
        limit = self._max_reconsume_times
        properties = message.properties | {
            names.ORIGIN_MESSAGE_ID: message.properties.get(names.ORIGIN_MESSAGE_ID) or message.msg_id,
            names.RETRY_TOPIC: message.topic,
            names.DELAY: str(level),
        }
        properties.pop(names.TRAN_MSG, None)
        header = SendMessageHeader(
            producer_group=PRODUCER_GROUP,
            topic=retry_topic(self._group),
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=format_properties(properties),
            reconsume_times=reconsume_times,
            max_reconsume_times=limit,
        )
        command = Command(RequestCode.SEND_MESSAGE_V2, ext=header_fields(header), body=message.stored_body)
        await self._engine.call(self._master(message), command, TIMEOUT_S)

    def _master(self, message: ReceivedMessage) -> str:
        address = master_of(self._engine.routes.brokers.get(message.broker_name, {}))
        if address is None:
            raise ConnectionFailed(f"broker {message.broker_name} has no master now")
        return address
