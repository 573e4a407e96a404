"""A remoting server: listens, hands each request to its handler, answers, and stops cleanly.

Handlers form one table: request code -> (header type, handler). A handler is either a plain function that
returns the answer at once (or None, when it will answer later or not at all), or a coroutine function,
which runs as a task of its own.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from mqctl.errors import ConfigError, RequestFailed
from mqctl.remoting.codes import ResponseCode, request_name
from mqctl.remoting.command import ONEWAY_FLAG, Command, HeaderError
from mqctl.remoting.connection import Connection
from mqctl.remoting.frames import MAX_FRAME

log = logging.getLogger(__name__)

Handler = Callable[[Connection, Command, Any], "Command | None"]
AsyncHandler = Callable[[Connection, Command, Any], Awaitable["Command | None"]]
Spawn = Callable[[Coroutine[Any, Any, None]], object]
HandlerTable = Mapping[int, tuple[type | None, "Handler | AsyncHandler"]]

# A connection without traffic for this long is closed, as Netty's idle handler in Apache's servers does;
# clients send heartbeats every 30 s.
IDLE_SECONDS: Final = 120.0
IDLE_SCAN_SECONDS: Final = 10.0

# How long stop() waits for connections to drain and tasks to end before it cuts them.
STOP_SECONDS: Final = 3.0

# A remark may repeat what the peer sent, which may be megabytes.
MAX_REMARK: Final = 4096

# Accept queue: a restart of many clients at once must not be refused by the kernel.
BACKLOG: Final = 1024


class RemotingServer:
    """Owns listeners, connections and the tasks of asynchronous handlers. Loop only."""

    def __init__(
        self,
        handlers: HandlerTable,
        *,
        on_close: Callable[[Connection], None] | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._handlers = {
            int(code): (kind, self._as_task(handler) if inspect.iscoroutinefunction(handler) else handler)
            for code, (kind, handler) in handlers.items()
        }
        self._on_close = on_close
        self._max_frame = max_frame
        self._listeners: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_closed: asyncio.Future[None] | None = None
        self.connections: set[Connection] = set()

    async def listen(self, host: str, port: int) -> int:
        """Opens a listener and returns its port (useful with port 0)."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(self._accept, host, port, backlog=BACKLOG, reuse_address=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(
                    f"port {port} on {host} is already in use",
                    hint="stop what listens there, or choose another listenPort",
                ) from None
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
        self._listeners.append(server)
        if len(self._listeners) == 1:
            self.spawn(self._close_idle())
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listeners first, then connections get a moment to drain, then what is left is cut."""
        for server in self._listeners:
            server.close()
        for task in self._tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            await asyncio.wait((self._drained(),), timeout=STOP_SECONDS)
        for connection in list(self.connections):
            log.info("%s: cut at shutdown", connection.peer_text)
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a coroutine until it ends or the server stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the server failed", exc_info=error)

    # -- one request --------------------------------------------------------------------------------

    def dispatch(self, connection: Connection, request: Command) -> None:
        entry = self._handlers.get(request.code)
        try:
            if entry is None:
                raise RequestFailed(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {request.code} is not supported"
                )
            kind, handler = entry
            answer = handler(connection, request, None if kind is None else request.header(kind))
        except Exception as error:
            answer = failure(connection, request, error)
        if answer is not None and not request.flag & ONEWAY_FLAG:
            connection.send(answer)  # type: ignore[arg-type]  # coroutine handlers were wrapped

    def _as_task(self, handler: Handler | AsyncHandler) -> Handler:
        def start(connection: Connection, request: Command, header: Any) -> None:
            self.spawn(self._run(handler, connection, request, header))

        return start

    async def _run(self, handler: Any, connection: Connection, request: Command, header: Any) -> None:
        try:
            answer = await handler(connection, request, header)
        except Exception as error:
            answer = failure(connection, request, error)
        if answer is not None and not request.is_oneway:
            connection.send(answer)

    # -- connections --------------------------------------------------------------------------------

    def _accept(self) -> Connection:
        connection = Connection(self.dispatch, self._closed, max_frame=self._max_frame, throttle=True)
        self.connections.add(connection)
        return connection

    def _drained(self) -> asyncio.Future[None]:
        """Ends when the last connection is closed."""
        self._last_closed = asyncio.get_running_loop().create_future()
        return self._last_closed

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections and self._last_closed is not None and not self._last_closed.done():
            self._last_closed.set_result(None)
        if self._on_close is not None:
            self._on_close(connection)

    async def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(IDLE_SCAN_SECONDS)
            oldest = loop.time() - IDLE_SECONDS
            for connection in [c for c in self.connections if c.last_active < oldest]:
                log.info("%s: idle for %d s, closed", connection.peer_text, IDLE_SECONDS)
                connection.close()


def failure(connection: Connection, request: Command, error: Exception) -> Command:
    """The answer to a request whose handler raised: the sender learns why, the server goes on."""
    name = request_name(request.code)
    if isinstance(error, RequestFailed):
        return request.reply(error.code, remark=error.message[:MAX_REMARK])
    if isinstance(error, ValueError):
        # HeaderError and the parsers of bodies: the request is wrong, which is no news for our log.
        what = "header" if isinstance(error, HeaderError) else "body"
        log.debug("%s: %s: bad %s: %s", connection.peer_text, name, what, error)
        return request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {error}"[:MAX_REMARK])
    log.error("%s: %s failed", connection.peer_text, name, exc_info=error)
    remark = f"{name}: {type(error).__name__}: {error}"
    return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark[:MAX_REMARK])
