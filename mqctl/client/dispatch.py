"""What brokers ask of a client: a table from request code to handler, as the servers have."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mqctl.errors import RequestFailed
from mqctl.remoting.codes import ResponseCode, request_name
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection

log = logging.getLogger(__name__)

# Gets the connection, the request and its typed header; returns the answer, or None for none.
Handler = Callable[[Connection, Command, Any], "Command | Awaitable[Command | None] | None"]
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Dispatcher:
    """Loop only. A handler that raises answers with an error and ends nothing else."""

    def __init__(self, spawn: Spawn) -> None:
        """`spawn` runs the coroutines of asynchronous handlers until they end or the client does."""
        self._spawn = spawn
        self._handlers: dict[int, tuple[type | None, Handler]] = {}

    def serve(self, code: int, header: type | None, handler: Handler) -> None:
        self._handlers[int(code)] = (header, handler)

    def dispatch(self, connection: Connection, request: Command) -> None:
        try:
            header_type, handler = self._handlers[request.code]
        except KeyError:
            remark = f"this client does not serve {request_name(request.code)}"
            _send(connection, request, request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
            return
        try:
            answer = handler(connection, request, None if header_type is None else request.header(header_type))
        except Exception as error:
            answer = _failure(connection, request, error)
        if inspect.isawaitable(answer):
            self._spawn(_finish(connection, request, answer))
        else:
            _send(connection, request, answer)


async def _finish(connection: Connection, request: Command, answer: Awaitable[Command | None]) -> None:
    try:
        _send(connection, request, await answer)
    except Exception as error:
        _send(connection, request, _failure(connection, request, error))


def _send(connection: Connection, request: Command, answer: Command | None) -> None:
    if answer is not None and not request.is_oneway:
        connection.send(answer)


def _failure(connection: Connection, request: Command, error: Exception) -> Command:
    if isinstance(error, RequestFailed):
        return request.reply(error.code, remark=error.message)
    name = request_name(request.code)
    # A ValueError comes from the readers of headers and bodies: the broker is at fault, our code is not.
    log.warning("%s: %s failed: %s", connection.peer_text, name, error, exc_info=not isinstance(error, ValueError))
    return request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {type(error).__name__}: {error}")
