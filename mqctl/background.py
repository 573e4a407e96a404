"""An event loop in a thread of its own, for callers that have none: tests, scripts, the blocking client."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs from its making until `stop`. Any thread may call, except the loop's own, which would wait for itself."""

    def __init__(self, name: str) -> None:
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._pid = os.getpid()
        # A daemon, so that a program which forgets to stop it can end.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self.loop, self._stop_asked = self._started.result()

    @property
    def was_forked(self) -> bool:
        """This is a child of the process that made it, and threads do not survive a fork."""
        return os.getpid() != self._pid

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises. An interrupt of the waiting thread cancels it."""
        if self.was_forked:
            work.close()
            raise RuntimeError("this was made before the process forked: make a new one in the child")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself: inside the loop, await the asynchronous method")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """What a plain function returns that must run on the loop."""

        async def work() -> T:
            return function()

        return self.run(work())

    def stop(self) -> None:
        """Ends when the thread has. Stopping twice is harmless."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop_asked.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        stop_asked = asyncio.Event()
        self._started.set_result((asyncio.get_running_loop(), stop_asked))
        await stop_asked.wait()


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
