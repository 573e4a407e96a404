"""One message on its way: its attempts, one after the other, until a broker has it or there is no hope or time left.

Answers move it on, not a task of its own: a task costs more than all else that is done for a message. Only what has
to be waited for, a route or a connection, is waited for in one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from mqctl.client.outgoing import Outgoing
from mqctl.client.results import STORED, SendResult, SendStatus, refusal
from mqctl.errors import ConnectionFailed, MqError, NoBroker, RequestTimeout
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.command import Command, HeaderError
from mqctl.remoting.connection import Connection

if TYPE_CHECKING:
    from mqctl.client.delivery import Delivery

# Before the same broker is asked again: it may be in the middle of a restart.
RETRY_PAUSE_S: Final = 0.1


class SendAnswer(Struct, rename="camel", gc=False):
    msg_id: str
    queue_id: int
    queue_offset: int
    recall_handle: str = ""
    region: str = field(name="MSG_REGION", default="")
    trace_on: bool = field(name="TRACE_ON", default=True)


class Sending:
    """Loop only. `done` gets the result, or what `Delivery` says it raises; who cancels it ends the attempts."""

    __slots__ = (
        "_address", "_attempts_left", "_began", "_chooser", "_deadline", "_delivery", "_failed_at", "_failure", "_loop",
        "_outgoing", "_queue", "_target", "_timeout", "done",
    )  # fmt: skip

    def __init__(self, delivery: Delivery, outgoing: Outgoing, timeout: float, queue: MessageQueue | None) -> None:
        """The time-out holds for all attempts together."""
        self._delivery = delivery
        self._outgoing = outgoing
        self._queue = queue
        self._timeout = timeout
        self._loop = loop = asyncio.get_running_loop()
        self._deadline = loop.time() + timeout
        self._chooser = delivery.known_chooser(outgoing.topic)
        self._attempts_left = delivery.retries + 1
        self._failed_at: str | None = None
        self._failure: MqError | None = None
        self._address = ""
        self._began = 0.0
        self.done: asyncio.Future[SendResult] = loop.create_future()

    # -- an attempt -------------------------------------------------------------------------------------

    def attempt(self) -> None:
        """The next one, or the first."""
        if self._chooser is None:
            self._wait_for(self._find_queues())
            return
        self._target = target = self._queue or self._delivery.choose(self._chooser, self._outgoing, self._failed_at)
        if target.broker_name == self._failed_at:
            self._loop.call_later(min(RETRY_PAUSE_S, max(0.0, self._left())), self._ask)
        else:
            self._ask()

    def _ask(self) -> None:
        if self.done.done():
            return
        if self._left() <= 0:
            self._give_up()
            return
        self._attempts_left -= 1
        self._began = time.time()
        try:
            self._address = self._delivery.address(self._target)
            connection = self._delivery.engine.standing(self._address)
            if connection is None:
                self._wait_for(self._connect())
            else:
                self._ask_on(connection)
        except MqError as error:
            self._failed(error)

    def _ask_on(self, connection: Connection) -> None:
        request = self._delivery.encoder.request(self._outgoing, self._target)
        connection.ask(request, self._left(), self._answered)

    def _answered(self, answer: Command | ConnectionFailed | RequestTimeout) -> None:
        if not isinstance(answer, Command):
            self._failed(answer)
        elif (status := STORED.get(answer.code)) is None:
            self._failed(refusal(answer.code, answer.remark, self._address))
        else:
            self._stored(answer, status)

    def _stored(self, answer: Command, status: SendStatus) -> None:
        self._delivery.note(self._target.broker_name, self._began, failed=False)
        try:
            fields = answer.header(SendAnswer)
        except HeaderError as error:
            self._end(MqError(f"the answer of {self._address} cannot be read: {error}"))
            return
        place = self._target
        if fields.queue_id != place.queue_id:
            place = MessageQueue(place.topic, place.broker_name, fields.queue_id)
        outgoing = self._outgoing
        result = SendResult(outgoing.msg_id, fields.msg_id, place, fields.queue_offset, status, fields.recall_handle)
        if self._delivery.on_stored is not None and fields.trace_on:
            self._delivery.on_stored(outgoing, result, self._address, self._began, fields.region)
        if not self.done.done():
            self.done.set_result(result)

    # -- failures ---------------------------------------------------------------------------------------

    def _failed(self, error: MqError) -> None:
        broker_name = self._target.broker_name
        self._delivery.note(broker_name, self._began, failed=True)
        if isinstance(error, (ConnectionFailed, NoBroker)):
            self._delivery.look_again(self._outgoing.topic)
        if not error.retriable:
            self._end(error)
            return
        self._failure, self._failed_at = error, broker_name
        if self._attempts_left:
            self._loop.call_soon(self.attempt)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._end(self._failure or RequestTimeout(f"no broker could be asked within {self._timeout:g} s"))

    def _end(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    # -- what has to be waited for ----------------------------------------------------------------------

    def _left(self) -> float:
        return self._deadline - self._loop.time()

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._delivery.engine.spawn(work)
        task.add_done_callback(self._waited)

    def _waited(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._end(MqError("the client is closed"))
        elif (error := task.exception()) is not None:
            self._end(error)

    async def _find_queues(self) -> None:
        try:
            self._chooser = await self._delivery.chooser(self._outgoing.topic, self._timeout)
        except MqError as error:
            self._end(error)
        else:
            self.attempt()

    async def _connect(self) -> None:
        try:
            connection, _ = await self._delivery.engine.connect_within(self._address, self._left())
            if not self.done.done():
                self._ask_on(connection)
        except MqError as error:
            self._failed(error)
