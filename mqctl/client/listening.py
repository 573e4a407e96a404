"""Calling listeners: coroutine functions on the loop, plain functions in threads, so many at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, cast

from mqctl.client.calling import is_coroutine_function
from mqctl.client.held import HeldQueue
from mqctl.remoting.message import ReceivedMessage
from mqctl.store.properties import CONSUME_START_TIME

CONCURRENCY: Final = 20  # Java's consumeThreadMax

# A coroutine that never waits keeps the loop for itself; everybody else gets a turn after so many messages.
TURN: Final = 32

# Gets a message; a coroutine function, or a plain one which runs in a thread. Returning is success.
Listener = Callable[[ReceivedMessage], object]
# Told on the loop how it ended: None for success.
Finished = Callable[[HeldQueue, ReceivedMessage, BaseException | None], None]


class RetryLater(Exception):
    """Raised by a listener to get the message again without a complaint in the log.

    `delay_level` is for concurrent listeners: one of the broker's, 0 lets it choose by the number of attempts, -1
    makes it a dead letter at once. `suspend` is for orderly ones: how many seconds the queue rests.
    """

    def __init__(self, *, delay_level: int = 0, suspend: float | None = None) -> None:
        super().__init__(f"delay_level={delay_level}, suspend={suspend}")
        self.delay_level = delay_level
        self.suspend = suspend


class Abandoned(Exception):
    """The message counts as never handed over: its queue was dropped before its turn, or the workers were stopped."""


class Workers(Protocol):
    """Loop only. Every message that is submitted is finished, unless its listener outlives `stop`."""

    def submit(self, held: HeldQueue, message: ReceivedMessage) -> None: ...

    async def stop(self, seconds: float) -> None:
        """Begins nothing new and waits so long for what runs. All else is abandoned, also what is submitted later."""


def workers(listener: Listener, concurrency: int, finished: Finished) -> Workers:
    if is_coroutine_function(listener):
        return TaskWorkers(listener, concurrency, finished)  # type: ignore[arg-type]
    return ThreadWorkers(listener, concurrency, finished)


class TaskWorkers:
    """A few tasks share what waits, rather than one task for each message."""

    def __init__(
        self, listener: Callable[[ReceivedMessage], Awaitable[Any]], concurrency: int, finished: Finished
    ) -> None:
        self._listener = listener
        self._concurrency = concurrency
        self._finished = finished
        self._waiting: deque[tuple[HeldQueue, ReceivedMessage]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def submit(self, held: HeldQueue, message: ReceivedMessage) -> None:
        if self._stopping:
            self._finished(held, message, Abandoned())
            return
        self._waiting.append((held, message))
        if len(self._tasks) < self._concurrency:
            self._tasks.add(asyncio.get_running_loop().create_task(self._work()))

    async def stop(self, seconds: float) -> None:
        self._stopping = True
        while self._waiting:
            self._finished(*self._waiting.popleft(), Abandoned())
        if self._tasks:
            _, running = await asyncio.wait(tuple(self._tasks), timeout=seconds)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _work(self) -> None:
        try:
            turn = TURN
            while self._waiting:
                held, message = self._waiting.popleft()
                self._finished(held, message, await self._call(held, message))
                turn -= 1
                if not turn:
                    turn = TURN
                    await asyncio.sleep(0)
        finally:
            # Here and not in a callback of the task: what is submitted from now on needs another one.
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _call(self, held: HeldQueue, message: ReceivedMessage) -> BaseException | None:
        if held.dropped:
            return Abandoned()
        message.properties[CONSUME_START_TIME] = str(time.time_ns() // 1_000_000)
        try:
            await self._listener(message)
        except asyncio.CancelledError as error:
            # Unless `stop` cancels us, it comes from something that the listener awaited: a failure like others.
            is_stopped = cast("asyncio.Task[None]", asyncio.current_task()).cancelling()
            return Abandoned() if is_stopped else error
        except Exception as error:
            return error
        return None


class ThreadWorkers:
    """Threads are started as they are needed. What they finished goes to the loop many at a time."""

    def __init__(self, listener: Listener, concurrency: int, finished: Finished) -> None:
        self._listener = listener
        self._concurrency = concurrency
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[tuple[HeldQueue, ReceivedMessage] | None] = SimpleQueue()
        self._done: deque[tuple[HeldQueue, ReceivedMessage, BaseException | None]] = deque()
        self._reporting = False
        self._stopping = False
        self._under_way = 0
        self._threads: list[threading.Thread] = []

    def submit(self, held: HeldQueue, message: ReceivedMessage) -> None:
        if self._stopping:
            self._finished(held, message, Abandoned())
            return
        self._under_way += 1
        self._waiting.put((held, message))
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
        self._report()

    def _abandon_waiting(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                if (item := self._waiting.get_nowait()) is not None:
                    self._done.append((*item, Abandoned()))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            held, message = item
            self._done.append((held, message, self._call(held, message)))
            # Cleared on the loop before it looks what is done: who appends after that look finds it cleared.
            if not (self._reporting or self._stopping):
                self._reporting = True
                self._loop.call_soon_threadsafe(self._report)

    def _call(self, held: HeldQueue, message: ReceivedMessage) -> BaseException | None:
        if held.dropped or self._stopping:
            return Abandoned()
        message.properties[CONSUME_START_TIME] = str(time.time_ns() // 1_000_000)
        try:
            self._listener(message)
        except BaseException as error:  # a SystemExit in a listener is its failure, not this thread's end
            return error
        return None

    def _report(self) -> None:
        self._reporting = False
        while self._done:
            held, message, error = self._done.popleft()
            self._under_way -= 1
            self._finished(held, message, error)
