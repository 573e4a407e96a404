"""Consuming without order: messages of a queue go to the listener side by side, failures come again later."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Final

from mqctl.client.engine import Engine
from mqctl.client.held import HeldQueue
from mqctl.client.listening import Abandoned, Listener, Portion, RetryLater, describe, workers
from mqctl.client.metering import Meter
from mqctl.client.sendback import SendBack
from mqctl.errors import MqError
from mqctl.remoting.message import ReceivedMessage

log = logging.getLogger(__name__)

# When no broker takes a message back, the listener gets it again after this time.
LOCAL_RETRY_SECONDS: Final = 5.0
STUCK_LEVEL: Final = 3


class Concurrently:
    """Loop only."""

    def __init__(
        self,
        engine: Engine,
        group: str,
        listener: Listener,
        concurrency: int,
        send_back: SendBack | None,
        meter: Meter,
        batch: int | None = None,
    ) -> None:
        """Without `send_back` a message that fails is dropped, as in broadcasting. With `batch` the listener takes
        lists of up to so many."""
        self._engine = engine
        self._group = group
        self._send_back = send_back
        self._meter = meter
        self._portion = batch or 1
        self._workers = workers(listener, concurrency, self._finished, batches=batch is not None)

    def arrived(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        for begin in range(0, len(messages), self._portion):
            self._workers.submit(held, messages[begin : begin + self._portion])

    async def may_take(self, held: HeldQueue) -> bool:
        return True

    async def settle(self, held: HeldQueue) -> None:
        """What is under way ends when it ends; the next owner gets it too."""

    async def released(self, held: HeldQueue) -> None:
        """Nothing to give back."""

    async def stop(self, seconds: float) -> None:
        await self._workers.stop(seconds)

    def _finished(self, held: HeldQueue, portion: Portion, error: BaseException | None) -> None:
        if held.dropped or isinstance(error, Abandoned):
            return
        if error is None:
            consumed = held.finish(portion)
            self._meter.consumed(held, consumed, portion[0].consume_started_ms, failed=False)
        elif left := [message for message in portion if message in held]:
            self._meter.consumed(held, len(left), left[0].consume_started_ms, failed=True)
            self._failed(held, left, error)

    def _failed(self, held: HeldQueue, portion: Portion, error: BaseException) -> None:
        named = describe(portion)
        if self._send_back is None:
            log.warning("%s: broadcast %s failed and is dropped", self._group, named, exc_info=error)
            held.finish(portion)
            return
        if not isinstance(error, RetryLater):
            log.warning("%s: %s failed, it comes again", self._group, named, exc_info=error)
        level = error.delay_level if isinstance(error, RetryLater) else 0
        for message in portion:
            self._engine.spawn(self._return(self._send_back, held, message, level))

    async def give_back_stuck(self, queues: Iterable[HeldQueue], seconds: float) -> None:
        """A listener that has had a message for so long may never come back; the message goes to the broker, so that
        the queue's position can move on. What the listener makes of it counts no more."""
        if self._send_back is None:
            return
        oldest_ms = time.time_ns() // 1_000_000 - int(seconds * 1000)
        for held in queues:
            message = held.first
            if message is not None and 0 < message.consume_started_ms < oldest_ms:
                log.warning("%s: message %s is at work for over %g s", self._group, message.msg_id, seconds)
                self._engine.spawn(self._return(self._send_back, held, message, STUCK_LEVEL))

    async def _return(self, send_back: SendBack, held: HeldQueue, message: ReceivedMessage, level: int) -> None:
        """The position stays before the message until a broker has it: killed now, we get it again."""
        try:
            await send_back.to_broker(message, level)
        except MqError as error:
            log.warning("%s: message %s is retried here: %s", self._group, message.msg_id, error.message)
            await asyncio.sleep(LOCAL_RETRY_SECONDS)
            message.reconsume_times += 1
            if not held.dropped:
                self._workers.submit(held, [message])
        else:
            held.finish([message])
