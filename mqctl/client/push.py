"""The consumer most programs want: it calls a function for every message.

    async def handle(message: ReceivedMessage) -> None: ...

    async with PushConsumer("billing", handle, {"orders": "paid || shipped"}, namesrv="127.0.0.1:9876"):
        await asyncio.Event().wait()

Underneath it pulls: the broker holds the request until there is something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from mqctl.client.concurrently import Concurrently
from mqctl.client.consumer import PULL_BATCH, GroupConsumer
from mqctl.client.held import DEFAULT_LIMITS, HeldQueue, Limits
from mqctl.client.inspecting import ConsumingDirectly
from mqctl.client.listening import CONCURRENCY, Listener
from mqctl.client.offsets import ConsumeFrom, Start
from mqctl.client.orderly import Orderly
from mqctl.client.rebalance import Strategy, averagely
from mqctl.client.sendback import MAX_RECONSUME_TIMES, SendBack
from mqctl.client.subscriptions import Filter, retry_topic, subscription, subscriptions
from mqctl.client.traced import traced
from mqctl.client.tracing import Tracer
from mqctl.errors import ConfigError
from mqctl.remoting.message import ReceivedMessage
from mqctl.remoting.signing import Credentials

FINISH_SECONDS: Final = 10.0
CONSUME_TIMEOUT_S: Final = 15 * 60.0
STUCK_CHECK_SECONDS: Final = 60.0


class PushConsumer(GroupConsumer):
    """Loop only. `start`, `close`; or `async with`.

    A message is consumed when the listener returns. When it raises, a concurrent consumer gives the message back to
    the broker, which delivers it again after a while that grows with each attempt, and makes it a dead letter of the
    group after `max_reconsume_times` (16). An orderly one tries again after a second, before anything else of that
    queue; without `max_reconsume_times`, until it succeeds. Delivery is at least once: the same message may come
    twice, and `mqctl.client.idempotence` helps with that.
    """

    consume_type: ClassVar[str] = "CONSUME_PASSIVELY"
    states_filter: ClassVar[bool] = False

    def __init__(
        self,
        group: str,
        listener: Listener,
        subscribe: Mapping[str, Filter] | str,
        namesrv: str | Sequence[str] | None = None,
        *,
        orderly: bool = False,
        broadcast: bool = False,
        start: Start = ConsumeFrom.LAST,
        concurrency: int = CONCURRENCY,
        batch: int | None = None,
        max_reconsume_times: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        strategy: Strategy = averagely,
        pull_batch: int = PULL_BATCH,
        instance: str | None = None,
        offsets_dir: Path | None = None,
        credentials: Credentials | None = None,
        consume_timeout: float = CONSUME_TIMEOUT_S,
        finish_seconds: float = FINISH_SECONDS,
        trace: bool = False,
    ) -> None:
        """`namesrv`: as with `Producer`. `listener`: a coroutine function, or a plain one, which runs in a thread;
        so many at a time as `concurrency` says. `batch`: it takes lists of up to so many messages of one queue, and
        when it raises, all of them failed (Java's consumeMessageBatchMaxSize). `subscribe`: a topic, or topics and
        their filters: tags, as `a || b`, or `Sql`. `start`: where the group begins in queues that it never consumed
        from. `broadcast`: every consumer gets every message and keeps its positions in a file below `offsets_dir`
        (`~/.rocketmq_offsets`). `instance` names this consumer, for broadcasting over restarts. `consume_timeout`: a
        message that a concurrent listener has had for so many seconds is delivered again, whatever becomes of the
        listener. `finish_seconds`: how long `close` waits for listeners that are at work; their messages come again
        if it is too short. `trace`: tell RMQ_SYS_TRACE_TOPIC about each message. `credentials`: as with `Producer`.
        Raises ConfigError."""
        if not callable(listener):
            raise ConfigError(f"the listener is {listener!r}, which cannot be called", hint="pass a function")
        if batch is not None and batch < 1:
            raise ConfigError(
                f"batch is {batch}", hint="a list has at least one message; without it there are no lists"
            )
        wanted = subscriptions(subscribe)
        if not broadcast:
            wanted[retry_topic(group)] = subscription(retry_topic(group))
        super().__init__(
            group,
            wanted,
            namesrv=namesrv,
            broadcast=broadcast,
            start=start,
            strategy=strategy,
            limits=limits,
            pull_batch=pull_batch,
            instance=instance,
            offsets_dir=offsets_dir,
            credentials=credentials,
        )
        self.listener = listener
        self.orderly = orderly
        self.concurrency = concurrency
        self.batch = batch
        self._max_reconsume_times = max_reconsume_times
        self._consume_timeout = consume_timeout
        self._finish_seconds = finish_seconds
        self._tracer = Tracer(self._engine, group, consumes=True) if trace else None

    async def start(self) -> None:
        self._engine.must_be_new()
        self._delivery = self._new_delivery()
        self._directly = ConsumingDirectly(self, self._engine)
        await super().start()
        if self._tracer is not None:
            self._tracer.start()
        if isinstance(self._delivery, Concurrently):
            self._engine.every(min(self._consume_timeout, STUCK_CHECK_SECONDS), self._give_back_stuck)

    def _new_delivery(self) -> Concurrently | Orderly:
        listener = self.listener if self._tracer is None else traced(self.listener, self._tracer, self.group)
        limit = self._max_reconsume_times
        send_back = (
            None
            if self._broadcast
            else SendBack(self._engine, self.group, MAX_RECONSUME_TIMES if limit is None else limit)
        )
        if self.orderly:
            return Orderly(
                self._engine, self.group, listener, self.concurrency, send_back, limit, self.meter, self.batch
            )
        return Concurrently(self._engine, self.group, listener, self.concurrency, send_back, self.meter, self.batch)

    async def _give_back_stuck(self) -> None:
        if isinstance(self._delivery, Concurrently):
            await self._delivery.give_back_stuck(self.held_queues(), self._consume_timeout)

    def _arrived(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        self._delivery.arrived(held, messages)

    async def _may_take(self, held: HeldQueue) -> bool:
        return await self._delivery.may_take(held)

    async def _settle(self, held: HeldQueue) -> None:
        await self._delivery.settle(held)

    async def _released(self, held: HeldQueue) -> None:
        await self._delivery.released(held)

    async def _finish_work(self) -> None:
        await self._delivery.stop(self._finish_seconds)

    async def _say_last(self) -> None:
        if self._tracer is not None:
            await self._tracer.close()
