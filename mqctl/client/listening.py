"""Calling listeners: coroutine functions on the loop, plain functions in threads, so many at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
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


class NotStarted(Exception):
    """The queue was dropped before it was the message's turn."""


class Workers(Protocol):
    """Loop only. Every message that is submitted is finished, unless the workers are stopped first."""

    def submit(self, held: HeldQueue, message: ReceivedMessage) -> None: ...

    async def stop(self, seconds: float) -> None:
        """Begins nothing new and waits so long for what runs."""


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

    def submit(self, held: HeldQueue, message: ReceivedMessage) -> None:
        self._waiting.append((held, message))
        if len(self._tasks) < self._concurrency:
            self._tasks.add(asyncio.get_running_loop().create_task(self._work()))

    async def stop(self, seconds: float) -> None:
        self._waiting.clear()
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

    async def _call(self, held: HeldQueue, message: ReceivedMessage) -> Exception | None:
        if held.dropped:
            return NotStarted()
        message.properties[CONSUME_START_TIME] = str(time.time_ns() // 1_000_000)
        try:
            await self._listener(message)
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
        self._under_way += 1
        self._waiting.put((held, message))
        if self._under_way > len(self._threads) < self._concurrency:
            thread = threading.Thread(target=self._work, name=f"listener-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    async def stop(self, seconds: float) -> None:
        self._stopping = True
        for _ in self._threads:
            self._waiting.put(None)
        end = self._loop.time() + seconds
        for thread in self._threads:
            await asyncio.to_thread(thread.join, max(0.0, end - self._loop.time()))
        self._report()

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            if self._stopping:
                continue
            held, message = item
            self._done.append((held, message, self._call(held, message)))
            # Cleared on the loop before it looks what is done: who appends after that look finds it cleared.
            if not (self._reporting or self._stopping):
                self._reporting = True
                self._loop.call_soon_threadsafe(self._report)

    def _call(self, held: HeldQueue, message: ReceivedMessage) -> BaseException | None:
        if held.dropped:
            return NotStarted()
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
