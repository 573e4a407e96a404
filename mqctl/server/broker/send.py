"""Taking messages: SEND_MESSAGE in its three forms."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final, NoReturn

from mqctl.errors import RequestFailed, StoreError
from mqctl.names import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.remoting.bodies import TopicConfig
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import JSON, ONEWAY_FLAG, Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import SendMessageHeader, long_send_header
from mqctl.remoting.message import decode_batch
from mqctl.remoting.recallhandle import RecallHandle
from mqctl.remoting.sendreply import SendReply, reply_template
from mqctl.remoting.topicbits import PERM_WRITE
from mqctl.server.broker.acks import Acks, Answer
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.ratelimit import RateLimits
from mqctl.server.broker.topics import NOT_FOR_CLIENTS, Topics, check_topic_name
from mqctl.server.loop import HandlerTable, Spawn, failure
from mqctl.store import record
from mqctl.store.index import keys_among
from mqctl.store.javahash import java_hash
from mqctl.store.properties import (
    CLUSTER,
    DELAY,
    KEYS,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRAN_MSG,
    UNIQ_KEY,
    WAIT,
    drop_property,
    get_property,
    join_properties,
    join_texts,
    parse_properties,
)
from mqctl.store.store import MessageStore, NewMessage

# With one of these a detour may want the message: it is delayed, or part of a transaction.
SPECIAL: Final = frozenset({DELAY, TRAN_MSG, TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS})

# Where a message goes that may not simply go into its topic. Gets the message and its properties as text, returns
# it as it came or aimed elsewhere. Raises RequestFailed.
Detour = Callable[[NewMessage, str], NewMessage]
# The header of a message that a consumer sent to its group's retry topic, aimed where it belongs.
Returned = Callable[[SendMessageHeader], SendMessageHeader]


class Sending:
    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        store: MessageStore,
        acks: Acks,
        spawn: Spawn,
    ) -> None:
        self._config = config
        self._topics = topics
        self._store = store
        self._acks = acks
        self._spawn = spawn
        self._creating = topics.creating
        self._pressure = acks.pressure
        limits = (config.topic_send_rate_limit, config.client_send_rate_limit)
        self._limits = RateLimits(*limits) if any(limits) else None
        self._own_properties = join_properties({CLUSTER: config.broker_cluster_name}).encode()
        self._msg_id_prefix = store.store_host.hex().upper()
        self._own_ext = {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
        self._template = reply_template(self._msg_id_prefix, self._own_ext)
        self.detours: list[Detour] = []
        self.returned: Returned = lambda header: header

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.SEND_MESSAGE: (None, self.on_send_long),
            RequestCode.SEND_MESSAGE_V2: (SendMessageHeader, self.on_send),
            RequestCode.SEND_BATCH_MESSAGE: (SendMessageHeader, self.on_send),
        }

    def on_send_long(self, connection: Connection, request: Command, _: None) -> Command | None:
        return self.on_send(connection, request, long_send_header(request))

    def on_send(self, connection: Connection, request: Command, header: SendMessageHeader) -> Command | None:
        """Answers through `acks`, once the message is in the log; errors are answered at once."""
        if self._store.refusing:
            raise RequestFailed(ResponseCode.SERVICE_NOT_AVAILABLE, self._store.refusing)
        if self._pressure.refusing:
            self._pressure.check()
        if header.topic.startswith(RETRY_PREFIX):
            header = self.returned(header)
        topic = self._topics.get(header.topic)
        if topic is None or header.topic in self._creating:
            self._spawn(self._create_and_send(connection, request, header))
            return None
        self.check(header, topic)
        if self._limits is not None:
            self._limits.check(connection, header.topic, len(decode_batch(request.body)) if header.batch else 1)
        queue_id = header.queue_id if header.queue_id >= 0 else random.randrange(topic.write_queue_nums)
        born_host = connection.attachment
        if born_host is None:
            born_host = connection.attachment = record.pack_host(*connection.peer)
        if header.batch:
            answer = self._put_batch(request, header, queue_id, born_host)
        else:
            answer = self.put_one(request, header, queue_id, born_host)
        if request.flag & ONEWAY_FLAG:
            self._acks.schedule()
        elif self._acks.sync_flush and get_property(header.properties, WAIT) != "false":
            self._acks.answer_when_synced(connection, answer)
        else:
            self._acks.answer_when_written(connection, answer)
        return None

    async def _create_and_send(self, connection: Connection, request: Command, header: SendMessageHeader) -> None:
        """The first messages of a topic wait until the topic is on disk."""
        try:
            await asyncio.shield(self._creating.get(header.topic) or self._create(header))
            answer = self.on_send(connection, request, header)
        except Exception as error:
            answer = failure(connection, request, error)
        if answer is not None and not request.is_oneway:
            connection.send(answer)

    def _create(self, header: SendMessageHeader) -> asyncio.Future[None]:
        self._check_name(header.topic)
        saved = self._topics.create_on_send(header.topic, header.default_topic, header.default_topic_queue_nums)
        if saved is None:
            raise RequestFailed(
                ResponseCode.TOPIC_NOT_EXIST,
                f"the topic {header.topic!r} does not exist; create it with 'mqctl topic update {header.topic}', "
                "or let the broker do so with autoCreateTopicEnable",
            )
        return saved

    # -- checks -------------------------------------------------------------------------------------

    def _check_name(self, topic: str) -> None:
        check_topic_name(topic)
        if topic in NOT_FOR_CLIENTS:
            raise RequestFailed(
                ResponseCode.NO_PERMISSION,
                f"the topic {topic!r} belongs to the broker: sending to it is forbidden",
            )

    def check(self, header: SendMessageHeader, topic: TopicConfig) -> None:
        """Raises RequestFailed. Apache's 4.9.7 broker stores messages for a topic without write
        permission, counting on clients to look at the route; here the permission holds for everybody."""
        config = self._config
        start = config.start_accept_send_request_time_stamp
        if start and start > time.time() * 1000:
            raise RequestFailed(ResponseCode.SYSTEM_ERROR, "this broker does not accept messages yet")
        if topic.topic_name in NOT_FOR_CLIENTS:
            self._check_name(topic.topic_name)
        if not topic.perm & config.broker_permission & PERM_WRITE:
            raise RequestFailed(
                ResponseCode.NO_PERMISSION,
                f"sending to topic {topic.topic_name!r} on this broker is forbidden",
            )
        if header.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums) or not topic.write_queue_nums:
            raise RequestFailed(
                ResponseCode.SYSTEM_ERROR,
                f"queue {header.queue_id} of topic {topic.topic_name!r} does not exist: it has "
                f"{topic.write_queue_nums} write and {topic.read_queue_nums} read queues",
            )

    def _refuse_sizes(self, body: bytes, properties: bytes) -> NoReturn:
        if len(body) > self._config.max_message_size:
            raise RequestFailed(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message body has {len(body)} bytes, at most {self._config.max_message_size} are allowed",
            )
        raise RequestFailed(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message properties have {len(properties)} bytes, at most {record.MAX_PROPERTIES} fit",
        )

    # -- storing ------------------------------------------------------------------------------------

    def put_one(self, request: Command, header: SendMessageHeader, queue_id: int, born_host: bytes) -> Answer:
        """The answer is true once the message is written. Raises RequestFailed."""
        text = header.properties
        found = parse_properties(text)
        if WAIT in found:  # an instruction for this broker, not a part of the message
            text = drop_property(text, WAIT)
        properties = join_texts(text.encode(), self._own_properties)
        message = self._message(header, queue_id, request.body, properties, found, header.flag, born_host)
        if not SPECIAL.isdisjoint(found) or header.sys_flag & record.SYS_TRANSACTION_MASK:
            message = self.detoured(message)
        try:
            appended = self._store.put(message)
        except StoreError as error:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, error.message) from None
        reply = SendReply(self._template, appended.phys_offset, queue_id, appended.queue_offset, request.opaque)
        if message.topic == TIMER_TOPIC:
            return request.reply(ext={**reply.as_command().fields(), **self._recall_ext(header.topic, message)})
        return reply if request.codec == JSON else request.reply(ext=reply.as_command().fields())

    def _recall_ext(self, topic: str, message: NewMessage) -> dict[str, str]:
        """With this the sender can take a message back that waits for its time."""
        properties = parse_properties(message.properties.decode())
        if UNIQ_KEY not in properties or TIMER_DEL_UNIQKEY in properties:
            return {}
        handle = RecallHandle(topic, self._config.broker_name, properties[TIMER_OUT_MS], properties[UNIQ_KEY])
        return {"recallHandle": handle.encode()}

    def detoured(self, message: NewMessage) -> NewMessage:
        for detour in self.detours:
            message = detour(message, message.properties.decode(errors="replace"))
        return message

    def _put_batch(self, request: Command, header: SendMessageHeader, queue_id: int, born_host: bytes) -> Answer:
        """Each message keeps its own properties as they are and gets the batch's behind them."""
        body = request.body
        if len(body) > self._config.max_message_size:
            self._refuse_sizes(body, b"")
        if header.sys_flag & record.SYS_TRANSACTION_MASK:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be part of a transaction")
        shared = self._batch_properties(header)
        all_special = not SPECIAL.isdisjoint(parse_properties(header.properties))
        messages = []
        for item in decode_batch(body):
            properties = join_texts(item.properties, shared)
            found = parse_properties(item.properties.decode(errors="replace"))
            message = self._message(header, queue_id, item.body, properties, found, item.flag, born_host)
            if all_special or not SPECIAL.isdisjoint(found):
                self._refuse_delay(message)
            messages.append(message)
        if not messages:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, "the batch holds no message")
        try:
            appended = self._store.put_batch(messages)
        except StoreError as error:
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, error.message) from None
        ids = ",".join([f"{self._msg_id_prefix}{item.phys_offset:016X}" for item in appended])
        where = {"msgId": ids, "queueId": str(queue_id), "queueOffset": str(appended[0].queue_offset)}
        return request.reply(ext={**where, **self._own_ext})

    def _refuse_delay(self, message: NewMessage) -> None:
        """Apache's broker looks at the batch alone, and delivers at once what asks for a delay inside of it."""
        if self.detoured(message).topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
            raise RequestFailed(ResponseCode.MESSAGE_ILLEGAL, "a message of a batch cannot be delayed")

    def _batch_properties(self, header: SendMessageHeader) -> bytes:
        """5.x clients put a UNIQ_KEY of the batch itself here, and with autoBatch the KEYS of all its messages: they
        must not replace the messages' own."""
        text = drop_property(drop_property(header.properties, UNIQ_KEY), KEYS)
        return join_texts(text.encode(), self._own_properties)

    def _message(
        self,
        header: SendMessageHeader,
        queue_id: int,
        body: bytes,
        properties: bytes,
        found: dict[str, str],
        flag: int,
        born_host: bytes,
    ) -> NewMessage:
        """`found` is what the sender's properties say; `properties` is the text that will be stored."""
        if len(body) > self._config.max_message_size or len(properties) > record.MAX_PROPERTIES:
            self._refuse_sizes(body, properties)
        tags = found.get(TAGS)
        return NewMessage(
            header.topic,
            queue_id,
            body,
            properties,
            java_hash(tags) if tags else 0,
            flag,
            header.sys_flag,
            header.born_timestamp,
            born_host,
            header.reconsume_times,
            0,
            keys_among(found),
        )
