"""Running servers in this process: start them, say so, wait for a signal, stop them in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol


class Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def serve(make_servers: Callable[[], Sequence[Server]], on_started: Callable[[], None]) -> None:
    """Returns after SIGINT or SIGTERM, when everything has stopped. Raises what start-up raises."""
    raise_descriptor_limit()
    _run(_serve(make_servers, on_started))


async def _serve(make_servers: Callable[[], Sequence[Server]], on_started: Callable[[], None]) -> None:
    stop_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_asked.set)
    async with contextlib.AsyncExitStack() as started:
        for server in make_servers():
            await server.start()
            started.push_async_callback(server.stop)
        relax_collector()
        on_started()
        await stop_asked.wait()


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def relax_collector() -> None:
    """What exists now stays: the collector need not look at it again, nor run for every few hundred requests,
    whose objects reference counting frees anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def raise_descriptor_limit() -> None:
    """Every client takes a descriptor and the usual soft limit is 1024; take what the system grants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
