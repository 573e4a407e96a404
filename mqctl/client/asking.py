"""Request and reply: a question travels as a message, the answer comes back through the broker.

The asker names itself in the question; whoever consumes it sends the answer to a topic of the cluster, and the
broker that takes it pushes it to the asker's connection. Only a client that heartbeats there can be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from mqctl.client.engine import Engine
from mqctl.errors import MqError, NotFound, RequestTimeout
from mqctl.names import AUTO_CREATE_TOPIC
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.headers import Int32, Int64
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import (
    ARRIVE_TIME,
    CLUSTER,
    CORRELATION_ID,
    IS_REPLY,
    MSG_TYPE,
    REPLY_TO_CLIENT,
    TTL,
)

REPLY_TOPIC: Final = "REPLY_TOPIC"  # behind the name of the cluster
# How long a question waits for brokers to know who asks, if half of its own time is not less.
INTRODUCTION_SECONDS: Final = 1.0


class PushReplyHeader(Struct, rename="camel"):
    """PUSH_REPLY_MESSAGE_TO_CLIENT: the fields of an answer that a record would have."""

    topic: str
    queue_id: Int32 = 0
    flag: Int32 = 0
    sys_flag: Int32 = 0
    born_timestamp: Int64 = 0
    store_timestamp: Int64 = 0
    reconsume_times: Int32 | None = None
    properties: str = ""
    born_host: str = ""
    store_host: str = ""


class Asking:
    """Loop only. Questions under way, by correlation id."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._expected: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self._introducing: set[str] = set()
        engine.serve(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, PushReplyHeader, self._on_reply)

    async def ask(
        self, topic: str, send: Callable[[Mapping[str, str]], Awaitable[None]], timeout: float
    ) -> ReceivedMessage:
        """`send` gets the properties that make a message a question. Raises RequestTimeout without an answer."""
        correlation_id = str(uuid.uuid4())
        properties = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: self._engine.client_id,
            TTL: str(int(timeout * 1000)),
        }
        future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._expected[correlation_id] = future
        fate = "could not be sent"
        try:
            async with asyncio.timeout(timeout):
                await self._introduce_ourselves(topic, min(INTRODUCTION_SECONDS, timeout / 2))
                await send(properties)
                fate = "was sent, and not answered"
                return await future
        except TimeoutError:
            raise RequestTimeout(f"the question {fate} within {timeout:g} s") from None
        finally:
            del self._expected[correlation_id]

    async def _introduce_ourselves(self, topic: str, seconds: float) -> None:
        """The answer may come through any broker of the topic: all should know us before the question leaves. One that
        hangs could not pass it on either, so it is not waited for a second time."""
        await self._find_brokers(topic)
        strangers = self._engine.strangers() - self._introducing
        if strangers:
            await asyncio.wait([self._engine.spawn(self._introduce(address)) for address in strangers], timeout=seconds)

    async def _find_brokers(self, topic: str) -> None:
        try:
            await self._engine.routes.find(topic)
        except NotFound:
            with contextlib.suppress(NotFound):  # sending creates the topic at one of these, or says why not
                await self._engine.routes.find(AUTO_CREATE_TOPIC)

    async def _introduce(self, address: str) -> None:
        self._introducing.add(address)
        try:
            await self._engine.heartbeat_at(address)
        finally:
            self._introducing.discard(address)

    def _on_reply(self, connection: Connection, request: Command, header: PushReplyHeader) -> Command:
        """An answer that nobody waits for any more is no fault of the broker's."""
        message = _received(header, request.body)
        future = self._expected.get(message.properties.get(CORRELATION_ID, ""))
        if future is not None and not future.done():
            future.set_result(message)
        return request.reply()


def answer_to(question: ReceivedMessage) -> tuple[str, dict[str, str]]:
    """Topic and properties of the answer. Raises MqError when the message asks nothing."""
    asked = question.properties
    missing = [name for name in (CLUSTER, CORRELATION_ID, REPLY_TO_CLIENT) if name not in asked]
    if missing:
        raise MqError(f"the message {question.msg_id} is no question: it lacks {', '.join(missing)}")
    kept = {name: asked[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if name in asked}
    return f"{asked[CLUSTER]}_{REPLY_TOPIC}", {**kept, MSG_TYPE: IS_REPLY}


def _received(header: PushReplyHeader, body: bytes) -> ReceivedMessage:
    """What is only known of a stored record is 0."""
    message = ReceivedMessage(
        topic=header.topic,
        stored_body=body,
        stored_properties=header.properties,
        flag=header.flag,
        sys_flag=header.sys_flag,
        queue_id=header.queue_id,
        queue_offset=0,
        phys_offset=0,
        size_bytes=0,
        body_crc=0,
        born_timestamp=header.born_timestamp,
        born_host=_host(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_offset=0,
    )
    message.properties[ARRIVE_TIME] = str(time.time_ns() // 1_000_000)
    return message


def _host(text: str) -> tuple[str, int]:
    """Java prints `/10.0.0.1:1234`, with a host name before the slash if it knows one."""
    host, _, port = text.rpartition(":")
    return host.rpartition("/")[2] or "0.0.0.0", int(port) if port.isdecimal() else 0
