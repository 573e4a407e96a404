"""Running asynchronous tests without a plugin."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

import uvloop

# A scenario that takes longer hangs.
LIMIT_SECONDS: Final = 30.0


def in_loop(test: Callable[..., Awaitable[None]], limit_seconds: float = LIMIT_SECONDS) -> Callable[..., None]:
    """Runs a coroutine function as a test: on the loop the servers use, or on the one its `loop_factory` makes.

    What asyncio would only log (an exception in a callback or in a protocol, a task nobody asked about) fails
    the test.
    """

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        problems: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
            async with asyncio.timeout(limit_seconds):
                await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=kwargs.get("loop_factory", uvloop.new_event_loop)) as runner:
            runner.run(watched())
        assert not problems, problems

    return run


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """For what no event announces: looks again at every turn of the loop until it is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)
