"""Consuming in order: one message of a queue at a time, by one consumer of the group, which holds the queue's lock.

A message that fails is tried again before the ones behind it. The lock is the broker's; it lasts 60 s there, and a
holder that could not renew it for 30 s stops by itself, so that two never overlap.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mqctl.client.engine import Engine
from mqctl.client.held import HeldQueue
from mqctl.client.listening import Abandoned, Listener, Portion, RetryLater, describe, workers
from mqctl.client.metering import Meter
from mqctl.client.sendback import SendBack
from mqctl.errors import MqError
from mqctl.remoting import bodies
from mqctl.remoting.bodies import LockBatchBody, LockBatchResult, MessageQueue
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.message import ReceivedMessage

log = logging.getLogger(__name__)

RENEW_SECONDS: Final = 20.0
# After a renewal that did not get all: a broker that was away has forgotten them, and nothing is consumed meanwhile.
AGAIN_SECONDS: Final = 1.0
LOCK_SECONDS: Final = 30.0
LOCK_TIMEOUT_S: Final = 1.0
SUSPEND_SECONDS: Final = 1.0


@dataclass(eq=False, slots=True)
class _Turn:
    """Whose turn it is in one queue."""

    locked_until: float
    busy: asyncio.Future[None] | None = None  # while the listener has a message of it
    rests: bool = False  # after a failure


class Orderly:
    """Loop only."""

    def __init__(
        self,
        engine: Engine,
        group: str,
        listener: Listener,
        concurrency: int,
        send_back: SendBack | None,
        max_reconsume_times: int | None,
        meter: Meter,
        batch: int | None = None,
    ) -> None:
        """Without `send_back` every consumer has all queues for itself, and nothing is locked: broadcasting.
        Without `max_reconsume_times` a message is tried until it succeeds. With `batch` the listener takes lists of up
        to so many."""
        self._engine = engine
        self._group = group
        self._send_back = send_back
        self._max_reconsume_times = max_reconsume_times
        self._meter = meter
        self._portion = batch or 1
        self._workers = workers(listener, concurrency, self._finished, batches=batch is not None)
        self._turns: dict[HeldQueue, _Turn] = {}
        self._loop = asyncio.get_running_loop()
        if send_back is not None:
            engine.spawn(self._keep_locks())

    # -- the queue comes and goes -----------------------------------------------------------------------

    async def may_take(self, held: HeldQueue) -> bool:
        """Whether the lock is ours. Until then nothing may be known about the queue: its last owner may still
        be moving the position."""
        if self._send_back is not None:
            answers = await self._ask(RequestCode.LOCK_BATCH_MQ, [held.queue])
            if not answers.get(held.queue):
                return False
        self._turns[held] = _Turn(self._loop.time() + LOCK_SECONDS)
        return True

    async def settle(self, held: HeldQueue) -> None:
        """Waits for the message that the listener has: then the position is final."""
        turn = self._turns.get(held)
        if turn is not None and turn.busy is not None:
            await turn.busy

    async def released(self, held: HeldQueue) -> None:
        """The position is saved: the next one may have it."""
        if self._turns.pop(held, None) is not None and self._send_back is not None:
            await self._ask(RequestCode.UNLOCK_BATCH_MQ, [held.queue])

    async def stop(self, seconds: float) -> None:
        await self._workers.stop(seconds)

    # -- messages ---------------------------------------------------------------------------------------

    def arrived(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        self._go_on(held)

    def _go_on(self, held: HeldQueue) -> None:
        turn = self._turns.get(held)
        if turn is None or turn.busy is not None or turn.rests or held.first is None or held.dropped:
            return
        if self._send_back is not None and self._loop.time() >= turn.locked_until:
            return  # goes on when the lock is renewed
        turn.busy = self._loop.create_future()
        self._workers.submit(held, held.head(self._portion))

    def _finished(self, held: HeldQueue, portion: Portion, error: BaseException | None) -> None:
        if isinstance(error, Abandoned):
            self._turn_over(held)
            return
        self._meter.consumed(held, len(portion), portion[0].consume_started_ms, failed=error is not None)
        if error is None:
            held.finish(portion)
            self._turn_over(held)
            self._go_on(held)
        else:
            if not isinstance(error, RetryLater):
                log.warning("%s: %s failed, its queue waits", self._group, describe(portion), exc_info=error)
            self._engine.spawn(self._retry(held, portion, error))

    def _turn_over(self, held: HeldQueue) -> None:
        turn = self._turns[held]
        if turn.busy is not None:
            turn.busy.set_result(None)
            turn.busy = None

    async def _retry(self, held: HeldQueue, portion: Portion, error: BaseException) -> None:
        limit = self._max_reconsume_times
        counts = not isinstance(error, RetryLater) or error.counts
        rests = False
        for message in portion:
            is_last = counts and limit is not None and message.reconsume_times >= limit
            if is_last and await self._gave_up(message):
                held.finish([message])
            else:
                message.reconsume_times += counts
                rests = True
        turn = self._turns[held]
        turn.rests = rests
        self._turn_over(held)
        if rests:
            suspend = error.suspend if isinstance(error, RetryLater) else None
            await asyncio.sleep(SUSPEND_SECONDS if suspend is None else suspend)
            turn.rests = False
        self._go_on(held)

    async def _gave_up(self, message: ReceivedMessage) -> bool:
        """Tried often enough: the broker makes it a dead letter. Whether it has it now."""
        if self._send_back is None:
            log.warning("%s: broadcast message %s failed and is dropped", self._group, message.msg_id)
            return True
        try:
            await self._send_back.copy(message, message.reconsume_times)
        except MqError as error:
            log.warning("%s: message %s is no dead letter yet: %s", self._group, message.msg_id, error.message)
            return False
        return True

    # -- locks ------------------------------------------------------------------------------------------

    async def _keep_locks(self) -> None:
        ours = True
        while True:
            await asyncio.sleep(RENEW_SECONDS if ours else AGAIN_SECONDS)
            ours = await self._renew()

    async def _renew(self) -> bool:
        """Whether all are ours for another while."""
        turns = {held.queue: (held, turn) for held, turn in self._turns.items()}
        begin = self._loop.time()
        answers = await self._ask(RequestCode.LOCK_BATCH_MQ, turns)
        for queue, is_ours in answers.items():
            held, turn = turns[queue]
            # Refused is not the same as not answered: somebody else has it already, after the broker forgot ours.
            turn.locked_until = begin + LOCK_SECONDS if is_ours else begin
            self._go_on(held)
        return all(answers.get(queue) for queue in turns)

    async def _ask(self, code: RequestCode, queues: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        """Whether the broker agreed, for the queues of those that answered."""
        by_broker = defaultdict(list)
        for queue in queues:
            by_broker[queue.broker_name].append(queue)
        answers = await asyncio.gather(*(self._ask_broker(code, name, mine) for name, mine in by_broker.items()))
        return {queue: agreed for answer in answers for queue, agreed in answer.items()}

    async def _ask_broker(
        self, code: RequestCode, broker_name: str, queues: list[MessageQueue]
    ) -> dict[MessageQueue, bool]:
        address = self._engine.routes.master(broker_name)
        if address is None:
            return {}
        body = LockBatchBody(consumer_group=self._group, client_id=self._engine.client_id, mq_set=queues)
        try:
            answer = await self._engine.call(address, Command(code, body=bodies.encode(body)), LOCK_TIMEOUT_S)
            agreed = bodies.decode(LockBatchResult, answer.body).lock_ok_mq_set if answer.body else ()
        except (MqError, bodies.BodyError) as error:
            log.warning("%s: locks at %s: %s", self._group, broker_name, error)
            return {}
        return {queue: queue in agreed for queue in queues}
