"""A connection: moves bytes between a socket and commands, matches answers to requests, and owns back-pressure.

Servers and clients use the same class, since either side of a RocketMQ connection may send requests.
Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from mqctl.errors import ConnectionFailed, RequestTimeout
from mqctl.remoting.codes import request_name
from mqctl.remoting.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_frame
from mqctl.remoting.frames import MAX_FRAME, FrameError, FrameSplitter

log = logging.getLogger(__name__)

# opaque is a Java int; staying positive keeps it readable in logs.
OPAQUE_MASK: Final = 0x7FFFFFFF

RequestSink = Callable[["Connection", Command], None]
CloseSink = Callable[["Connection"], None]


class Connection(asyncio.Protocol):
    """`on_request` gets every request and oneway command that arrives; `on_close` is called once."""

    def __init__(
        self,
        on_request: RequestSink,
        on_close: CloseSink | None = None,
        *,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._on_request = on_request
        self._on_close = on_close
        self._splitter = FrameSplitter(max_frame)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._flush_scheduled = False
        self._next_opaque = 0
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self.peer: tuple[str, int] = ("", 0)
        self.last_active = self._loop.time()
        # Where a server keeps what it derives from the peer once per connection.
        self.attachment: Any = None

    # -- life ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.peer = (name[0], name[1])

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._out.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionFailed(f"the connection to {self.peer_text} was lost"))
        if self._on_close is not None:
            self._on_close(self)

    def close(self) -> None:
        """Sends what is buffered, then closes. Closing twice is harmless."""
        if self._transport is not None:
            self.flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def peer_text(self) -> str:
        return f"{self.peer[0]}:{self.peer[1]}"

    # -- in -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.last_active = self._loop.time()
        try:
            for frame in self._splitter.feed(data):
                command = decode_frame(frame)
                if command.flag & RESPONSE_FLAG:
                    self._resolve(command)
                else:
                    self._on_request(self, command)
        except FrameError as error:
            log.warning("%s: closed, %s", self.peer_text, error)
            self.abort()

    def _resolve(self, response: Command) -> None:
        future = self._waiting.pop(response.opaque, None)
        # An answer that nobody waits for is one whose request timed out: nothing to do.
        if future is not None and not future.done():
            future.set_result(response)

    # -- out ----------------------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Queues the command; all that is queued within one turn of the loop leaves in one write."""
        self.queue(command)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self.flush)

    def queue(self, command: Command) -> None:
        """For a caller that will flush by itself, after more."""
        self._out.append(command.encode())

    def flush(self) -> None:
        self._flush_scheduled = False
        if self._out and self._transport is not None:
            self.last_active = self._loop.time()
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()

    def pause_writing(self) -> None:
        """The peer does not read its answers: take no more requests from it until it does."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def oneway(self, command: Command) -> None:
        command.flag |= ONEWAY_FLAG
        command.opaque = self._new_opaque()
        self.send(command)

    async def request(self, command: Command, timeout: float) -> Command:
        """The peer's answer, whatever its code. Raises ConnectionFailed or RequestTimeout."""
        if self._transport is None:
            raise ConnectionFailed(f"not connected to {self.peer_text}")
        command.opaque = opaque = self._new_opaque()
        future: asyncio.Future[Command] = self._loop.create_future()
        self._waiting[opaque] = future
        self.send(command)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise RequestTimeout(
                f"{self.peer_text} did not answer {request_name(command.code)} within {timeout:g} s"
            ) from None
        finally:
            self._waiting.pop(opaque, None)

    def _new_opaque(self) -> int:
        self._next_opaque = (self._next_opaque + 1) & OPAQUE_MASK
        return self._next_opaque
