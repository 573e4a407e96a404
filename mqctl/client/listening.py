"""Calling listeners: coroutine functions on the loop, plain functions in threads, so many at a time."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, cast

from mqctl.client.calling import is_coroutine_function
from mqctl.client.held import HeldQueue
from mqctl.remoting.message import ReceivedMessage

CONCURRENCY: Final = 20  # Java's consumeThreadMax

# A coroutine that never waits keeps the loop for itself; everybody else gets a turn after so many messages.
TURN: Final = 32

# Coroutine functions, or plain ones which run in a thread; if those return something to await, that is awaited.
# Returning is success.
MessageListener = Callable[[ReceivedMessage], object]
BatchListener = Callable[[list[ReceivedMessage]], object]  # where the consumer has a `batch`
Listener = MessageListener | BatchListener
# What a listener gets at a time.
Portion = list[ReceivedMessage]
# Told on the loop how it ended: None for success.
Finished = Callable[[HeldQueue, Portion, BaseException | None], None]


class RetryLater(Exception):
    """Raised by a listener to get the message again without a complaint in the log.

    `delay_level` is for concurrent listeners: one of the broker's, 0 lets it choose by the number of attempts, -1
    makes it a dead letter at once. `suspend` and `counts` are for orderly ones: how many seconds the queue rests, and
    whether this was one of the message's `max_reconsume_times`; brokers count those of concurrent ones.
    """

    def __init__(self, *, delay_level: int = 0, suspend: float | None = None, counts: bool = True) -> None:
        super().__init__(f"delay_level={delay_level}, suspend={suspend}")
        self.delay_level = delay_level
        self.suspend = suspend
        self.counts = counts


class Abandoned(Exception):
    """The message counts as never handed over: its queue was dropped before its turn, or the workers were stopped."""


class Workers(Protocol):
    """Loop only. Everything that is submitted is finished, unless its listener outlives `stop`."""

    def submit(self, held: HeldQueue, portion: Portion) -> None: ...

    async def stop(self, seconds: float) -> None:
        """Begins nothing new and waits so long for what runs. All else is abandoned, also what is submitted later."""


def workers(listener: Listener, concurrency: int, finished: Finished, *, batches: bool = False) -> Workers:
    """`batches`: the listener takes lists; otherwise portions hold one message."""
    takes: Callable[[Portion], Any] = listener if batches else _one_by_one(listener)  # type: ignore[assignment]
    kind = TaskWorkers if is_coroutine_function(listener) else ThreadWorkers
    return kind(takes, concurrency, finished)


def _one_by_one(listener: Listener) -> Callable[[Portion], Any]:
    def take(portion: Portion) -> Any:
        return listener(portion[0])  # type: ignore[arg-type]

    return take


def describe(portion: Portion) -> str:
    """What the log calls it."""
    first = portion[0].msg_id
    return f"message {first}" if len(portion) == 1 else f"a batch of {len(portion)}, from message {first} on,"


def _begin(portion: Portion) -> None:
    now_ms = time.time_ns() // 1_000_000
    for message in portion:
        message.consume_started_ms = now_ms


class TaskWorkers:
    """A few tasks share what waits, rather than one task for each message. There is another one only when those before
    wait for something: a listener that never does is served by one."""

    def __init__(self, listener: Callable[[Portion], Awaitable[Any]], concurrency: int, finished: Finished) -> None:
        self._listener = listener
        self._concurrency = concurrency
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[HeldQueue, Portion]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._hiring = False
        self._stopping = False

    def submit(self, held: HeldQueue, portion: Portion) -> None:
        if self._stopping:
            self._finished(held, portion, Abandoned())
            return
        self._waiting.append((held, portion))
        if not self._hiring:
            self._hiring = True
            self._loop.call_soon(self._hire)

    async def stop(self, seconds: float) -> None:
        self._stopping = True
        while self._waiting:
            self._finished(*self._waiting.popleft(), Abandoned())
        if self._tasks:
            _, running = await asyncio.wait(tuple(self._tasks), timeout=seconds)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _hire(self) -> None:
        """Comes after the worker before has had its turn: what is left by then waits for a listener that waits."""
        self._hiring = False
        if self._waiting and len(self._tasks) < self._concurrency:
            self._tasks.add(self._loop.create_task(self._work()))
            self._hiring = True
            self._loop.call_soon(self._hire)

    async def _work(self) -> None:
        try:
            turn = TURN
            while self._waiting:
                held, portion = self._waiting.popleft()
                self._finished(held, portion, await self._call(held, portion))
                turn -= len(portion)
                if turn <= 0:
                    turn = TURN
                    await asyncio.sleep(0)
        finally:
            # Here and not in a callback of the task: what is submitted from now on needs another one.
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _call(self, held: HeldQueue, portion: Portion) -> BaseException | None:
        if held.dropped:
            return Abandoned()
        _begin(portion)
        try:
            await self._listener(portion)
        except asyncio.CancelledError as error:
            # Unless `stop` cancels us, it comes from something that the listener awaited: a failure like others.
            is_stopped = cast("asyncio.Task[None]", asyncio.current_task()).cancelling()
            return Abandoned() if is_stopped else error
        except Exception as error:
            return error
        return None


class ThreadWorkers:
    """Threads are started as they are needed. What they finished goes to the loop many at a time."""

    def __init__(self, listener: Callable[[Portion], Any], concurrency: int, finished: Finished) -> None:
        self._listener = listener
        self._concurrency = concurrency
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[tuple[HeldQueue, Portion] | None] = SimpleQueue()
        self._done: deque[tuple[HeldQueue, Portion, BaseException | None]] = deque()
        self._reporting = False
        self._stopping = False
        self._under_way = 0
        self._threads: list[threading.Thread] = []
        self._awaited: set[Future[Any]] = set()

    def submit(self, held: HeldQueue, portion: Portion) -> None:
        if self._stopping:
            self._finished(held, portion, Abandoned())
            return
        self._under_way += 1
        self._waiting.put((held, portion))
        if self._under_way > len(self._threads) < self._concurrency:
            thread = threading.Thread(target=self._work, name=f"listener-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    async def stop(self, seconds: float) -> None:
        self._stopping = True
        self._abandon_waiting()
        for _ in self._threads:
            self._waiting.put(None)
        end = self._loop.time() + seconds
        for thread in self._threads:
            await asyncio.to_thread(thread.join, max(0.0, end - self._loop.time()))
        for awaited in tuple(self._awaited):
            awaited.cancel()
        self._report()

    def _abandon_waiting(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                if (item := self._waiting.get_nowait()) is not None:
                    self._done.append((*item, Abandoned()))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            held, portion = item
            self._done.append((held, portion, self._call(held, portion)))
            # Cleared on the loop before it looks what is done: who appends after that look finds it cleared.
            if not (self._reporting or self._stopping):
                self._reporting = True
                self._loop.call_soon_threadsafe(self._report)

    def _call(self, held: HeldQueue, portion: Portion) -> BaseException | None:
        if held.dropped or self._stopping:
            return Abandoned()
        _begin(portion)
        try:
            result = self._listener(portion)
            if result is not None and inspect.isawaitable(result):
                self._wait_for(result)
        except BaseException as error:  # a SystemExit in a listener is its failure, not this thread's end
            return error
        return None

    def _wait_for(self, work: Awaitable[Any]) -> None:
        """A lambda around a coroutine function is a plain one: what it returns has only begun to handle the message."""
        awaited = asyncio.run_coroutine_threadsafe(_result_of(work), self._loop)
        self._awaited.add(awaited)
        try:
            awaited.result()
        finally:
            self._awaited.discard(awaited)

    def _report(self) -> None:
        self._reporting = False
        while self._done:
            held, portion, error = self._done.popleft()
            self._under_way -= 1
            self._finished(held, portion, error)


async def _result_of(work: Awaitable[Any]) -> Any:
    return await work
