"""The producer: `async with Producer("group", namesrv="host:9876") as p: await p.send(Message("topic", b"..."))`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from mqctl.client.asking import Asking, answer_to
from mqctl.client.delivery import Delivery
from mqctl.client.engine import Engine
from mqctl.client.faults import FaultTable
from mqctl.client.namesrv import default_name_servers
from mqctl.client.naming import check_group
from mqctl.client.outgoing import COMPRESS_OVER, MAX_MESSAGE_SIZE, Encoder, Outgoing
from mqctl.client.recalling import recall
from mqctl.client.results import SendResult
from mqctl.client.spool import MAX_SPOOL_BYTES, Spool
from mqctl.client.spooling import Spooling
from mqctl.client.tracing import Tracer
from mqctl.errors import ConfigError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.compression import Compression
from mqctl.remoting.message import Message, ReceivedMessage
from mqctl.remoting.signing import Credentials

TIMEOUT_S: Final = 3.0
RETRIES: Final = 2
MAX_IN_FLIGHT: Final = 512
# Compressing so much takes about a millisecond.
COMPRESS_IN_THREAD_OVER: Final = 64 * 1024


class Producer:
    """Loop only; use it with `async with`, or `start` and `close` it.

    Sends raise MqError and its classes: ConnectionFailed, RequestTimeout, NoBroker and RetriableResponse when all
    attempts failed (`error.retriable` is true: try again later), NotFound for a topic that neither exists nor
    is created on first use, ResponseError when a broker refuses the message itself.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
        max_in_flight: int = MAX_IN_FLIGHT,
        avoid_slow_brokers: bool = False,
        compress_over: int = COMPRESS_OVER,
        compression: Compression = Compression.ZLIB,
        max_message_size: int = MAX_MESSAGE_SIZE,
        trace: bool = False,
        spool: str | Path | None = None,
        max_spool_bytes: int = MAX_SPOOL_BYTES,
        client_id: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """`namesrv`: `host:port`, several with `;` between; without it NAMESRV_ADDR. `timeout`: of a send with all
        its attempts, in s. `avoid_slow_brokers`: RocketMQ's sendLatencyFaultEnable. `trace`: tell
        RMQ_SYS_TRACE_TOPIC about each message. `spool`: a file for messages that no broker could be reached for.
        `credentials`: who one is, for brokers with access control.
        Raises ConfigError."""
        check_group(group)
        if timeout <= 0 or retries < 0 or max_in_flight < 1:
            raise ConfigError("timeout and max_in_flight must be above 0, retries must not be below")
        self.group = group
        self._timeout = timeout
        self._engine = Engine(namesrv or default_name_servers(), client_id=client_id, credentials=credentials)
        self._encoder = Encoder(group, compress_over=compress_over, kind=compression, max_message_size=max_message_size)
        faults = FaultTable() if avoid_slow_brokers else None
        self._delivery = Delivery(self._engine, self._encoder, retries=retries, faults=faults)
        self._asking = Asking(self._engine)
        self._tracer = Tracer(self._engine, group) if trace else None
        self._spooling: Spooling | None = None
        if spool is not None:
            self._spooling = Spooling(Spool(Path(spool), max_spool_bytes), self._delivery, self._engine)
        self._max_in_flight = max_in_flight
        self._in_flight: set[asyncio.Future[SendResult]] = set()
        self._room = asyncio.Event()

    @property
    def client_id(self) -> str:
        return self._engine.client_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group!r}, client_id={self.client_id!r})"

    # -- life -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Asks nobody yet: a producer may start before the cluster does. Raises MqError when it was started before."""
        self._engine.must_be_new()
        self._engine.add_producer(self.group)
        if self._spooling is not None:
            await self._spooling.start()
        if self._tracer is not None:
            self._delivery.on_stored = self._tracer.stored
            self._tracer.start()
        await self._engine.start()

    async def close(self) -> None:
        """Waits for what `submit` has under way, at most its time-out."""
        await asyncio.gather(*self._in_flight, return_exceptions=True)
        if self._tracer is not None:
            await self._tracer.close()
        await self._engine.close()
        if self._spooling is not None:
            await self._spooling.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- sending ----------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Returns when a broker has stored it. Messages with the same `order_key` go to the same queue, where they
        stay in order; `queue` names one itself."""
        return await self._hand_over(await self._encode(message, order_key), queue, timeout)

    async def submit(
        self,
        message: Message,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """As `send`, but returns at once with a future to await later. With `max_in_flight` of them under way it waits
        for one to end first. Leaving the producer waits for all."""
        outgoing = await self._encode(message, order_key)
        while len(self._in_flight) >= self._max_in_flight:
            self._room.clear()
            await self._room.wait()
        future = self._hand_over(outgoing, queue, timeout)
        self._in_flight.add(future)
        future.add_done_callback(self._landed)
        return future

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """All in one request, side by side in one queue, all or none. They need the same topic and no delay; together
        they may be as large as one message. The ids in the result have commas between."""
        return await self._hand_over(self._encoder.batch(messages, order_key), queue, timeout)

    async def send_oneway(
        self, message: Message, *, order_key: str | None = None, queue: MessageQueue | None = None
    ) -> str:
        """Returns the message's id once it is on its way; nobody says whether it arrived."""
        outgoing = await self._encode(message, order_key)
        await self._delivery.deliver_oneway(outgoing, self._timeout, queue)
        return outgoing.msg_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of the topic may go to."""
        return await self._delivery.queues(topic, self._timeout)

    async def _encode(self, message: Message, order_key: str | None) -> Outgoing:
        """A large body is compressed in a thread: the time that takes belongs to everybody on the loop."""
        if isinstance(message.body, bytes) and len(message.body) > COMPRESS_IN_THREAD_OVER:
            return await asyncio.to_thread(self._encoder.single, message, order_key)
        return self._encoder.single(message, order_key)

    def _hand_over(
        self, outgoing: Outgoing, queue: MessageQueue | None, timeout: float | None
    ) -> asyncio.Future[SendResult]:
        seconds = self._timeout if timeout is None else timeout
        if self._spooling is not None:
            return asyncio.ensure_future(self._spooling.deliver(outgoing, seconds, queue))
        return self._delivery.begin(outgoing, seconds, queue)

    def _landed(self, future: asyncio.Future[SendResult]) -> None:
        self._in_flight.discard(future)
        self._room.set()

    async def recall(self, recall_handle: str, *, timeout: float | None = None) -> str:
        """Takes a delayed message back: `recall_handle` is that of its SendResult. Returns the message's id. Raises
        ResponseError when it is delivered already."""
        return await recall(self._engine, self.group, recall_handle, self._timeout if timeout is None else timeout)

    # -- asking and answering ---------------------------------------------------------------------------

    async def request(self, message: Message, *, timeout: float | None = None) -> ReceivedMessage:
        """Sends a question and returns the answer that some consumer gave with `reply`. Raises RequestTimeout."""
        seconds = self._timeout if timeout is None else timeout

        async def send(own: Mapping[str, str]) -> None:
            await self._delivery.deliver(self._encoder.single(message, own=own), seconds)

        return await self._asking.ask(message.topic, send, seconds)

    async def reply(self, question: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        """Answers a message that came from somebody's `request`. Raises MqError for any other message."""
        topic, properties = answer_to(question)
        outgoing = self._encoder.reply(topic, body, properties)
        return await self._delivery.deliver(outgoing, self._timeout if timeout is None else timeout)
