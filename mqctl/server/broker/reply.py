"""Replies: a consumer's answer to a message goes straight to the producer that waits for it.

The request is an ordinary message which names the client that asked, REPLY_TO_CLIENT. The reply comes here as
SEND_REPLY_MESSAGE, is pushed over the connection of that client, and with storeReplyMessageEnable is kept in the
cluster's reply topic as well.
"""

from __future__ import annotations

import logging
import random
from typing import Final

from mqctl.errors import ConnectionFailed, RequestFailed, RequestTimeout
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import SendMessageHeader, long_send_header
from mqctl.server.broker.acks import Acks, Answer
from mqctl.server.broker.clients import Clients
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.send import Sending
from mqctl.server.broker.topics import Topics
from mqctl.server.loop import HandlerTable
from mqctl.store import record
from mqctl.store.properties import PUSH_REPLY_TIME, REPLY_TO_CLIENT, join_properties, parse_properties
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# As long as Apache's broker waits for a client to take its reply.
PUSH_SECONDS: Final = 10.0


class Replying:
    """Loop only."""

    def __init__(
        self, config: BrokerConfig, topics: Topics, clients: Clients, store: MessageStore, acks: Acks, sending: Sending
    ) -> None:
        self._config = config
        self._topics = topics
        self._clients = clients
        self._store = store
        self._acks = acks
        self._sending = sending
        host, port = record.unpack_host(store.store_host)
        self._store_host = f"{host}:{port}"

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.SEND_REPLY_MESSAGE: (None, self.on_reply_long),
            RequestCode.SEND_REPLY_MESSAGE_V2: (SendMessageHeader, self.on_reply),
        }

    async def on_reply_long(self, connection: Connection, request: Command, _: None) -> Command | None:
        return await self.on_reply(connection, request, long_send_header(request))

    async def on_reply(self, connection: Connection, request: Command, header: SendMessageHeader) -> Command | None:
        """The answer tells whether the client that asked has the reply. Whether it is stored too changes nothing.
        Apache's broker also stores one that it could not deliver, and again for each of the sender's attempts."""
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestFailed(ResponseCode.TOPIC_NOT_EXIST, f"the topic {header.topic!r} does not exist")
        self._sending.check(header, topic)
        queue_id = header.queue_id if header.queue_id >= 0 else random.randrange(topic.write_queue_nums)
        await self._push(connection, request, header)
        answer = self._keep(connection, request, header, queue_id)
        if answer is None or request.is_oneway:
            return request.reply(ext={"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"})
        self._acks.answer_when_written(connection, answer)
        return None

    async def _push(self, connection: Connection, request: Command, header: SendMessageHeader) -> None:
        properties = parse_properties(header.properties)
        asker = properties.get(REPLY_TO_CLIENT)
        if asker is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"reply message properties[{REPLY_TO_CLIENT}] is null")
        way = self._clients.producer_connection(asker)
        if way is None:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"push reply message fail, channel of <{asker}> not found.")
        properties[PUSH_REPLY_TIME] = str(self._store.now_ms())
        ext = self._push_fields(connection, header, join_properties(properties))
        push = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=ext, body=request.body)
        try:
            answer = await way.request(push, PUSH_SECONDS)
        except (ConnectionFailed, RequestTimeout) as error:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"push reply message to {asker} fail: {error}") from None
        if answer.code != ResponseCode.SUCCESS:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, f"push reply message to {asker} fail: {answer.remark}")

    def _push_fields(self, connection: Connection, header: SendMessageHeader, properties: str) -> dict[str, str]:
        return {
            "producerGroup": header.producer_group,
            "topic": header.topic,
            "defaultTopic": header.default_topic,
            "defaultTopicQueueNums": str(header.default_topic_queue_nums),
            "queueId": str(header.queue_id),
            "sysFlag": str(header.sys_flag),
            "bornTimestamp": str(header.born_timestamp),
            "flag": str(header.flag),
            "properties": properties,
            "reconsumeTimes": str(header.reconsume_times),
            "unitMode": "true" if header.unit_mode else "false",
            "bornHost": connection.peer_text,
            "storeHost": self._store_host,
            "storeTimestamp": str(self._store.now_ms()),
        }

    def _keep(
        self, connection: Connection, request: Command, header: SendMessageHeader, queue_id: int
    ) -> Answer | None:
        """Puts the reply into its topic. None if it is not wanted there, or could not be put."""
        if not self._config.store_reply_message_enable:
            return None
        try:
            if self._store.refusing:
                raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, self._store.refusing)
            answer = self._sending.put_one(request, header, queue_id, record.pack_host(*connection.peer))
        except RequestFailed as error:
            log.warning("%s: reply to topic %s not stored: %s", connection.peer_text, header.topic, error)
            return None
        self._acks.schedule()
        return answer
