"""A connection: moves bytes between a socket and commands, matches answers to requests, and owns back-pressure.

Servers and clients use the same class, since either side of a RocketMQ connection may send requests.
Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, cast

from mqctl.errors import ConnectionFailed, RequestTimeout
from mqctl.remoting.codes import request_name
from mqctl.remoting.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_frame
from mqctl.remoting.frames import MAX_FRAME, Frame, FrameError, FrameSplitter

log = logging.getLogger(__name__)

# opaque is a Java int; staying positive keeps it readable in logs.
OPAQUE_MASK: Final = 0x7FFFFFFF

# What may be queued before it is handed to the transport, which then tells whether the peer keeps up.
EARLY_FLUSH: Final = 1024 * 1024
# Of requests less: the peer works on the first of many while the others are still being written.
EARLY_REQUESTS: Final = 32 * 1024

# A shorter silence says nothing about a peer: the caller was in a hurry, and others wait on the same connection.
SILENCE_SECONDS: Final = 1.0
# uvloop's timers count whole ms and may be early by one.
TIMER_SLACK: Final = 0.001


class Encodable(Protocol):
    def encode(self) -> bytes:
        """The whole frame."""
        ...


class Request(Encodable, Protocol):
    code: int
    flag: int
    opaque: int

    def as_command(self) -> Command:
        """The same, in the form that all requests have."""
        ...


Sign = Callable[[Request], Encodable]

# Gets the peer's answer, whatever its code, or the reason why there is none.
Answered = Callable[["Command | ConnectionFailed | RequestTimeout"], None]


class Expected(NamedTuple):
    """An answer that is waited for."""

    answered: Answered
    asked_at: float
    timeout: float
    code: int

    @property
    def deadline(self) -> float:
        return self.asked_at + self.timeout


RequestSink = Callable[["Connection", Command], None]
CloseSink = Callable[["Connection"], None]


class Connection(asyncio.Protocol):
    """`on_request` gets every request and oneway command that arrives; `on_close` is called once.

    With `throttle` a peer that does not read its answers is served no further requests until it does. Only
    servers may do that: if both sides did, each could wait for the other.

    `sign` makes of each request of ours the one that is sent.

    With `ends_silence` a request that times out without a byte from the peer all the while ends the connection: the
    peer hangs, or its machine is gone and TCP would take a quarter of an hour to say so.
    """

    def __init__(
        self,
        on_request: RequestSink,
        on_close: CloseSink | None = None,
        *,
        max_frame: int = MAX_FRAME,
        throttle: bool = False,
        ends_silence: bool = False,
        sign: Sign | None = None,
    ) -> None:
        self._sign = sign
        self._throttle = throttle
        self._ends_silence = ends_silence
        self._paused = False
        self._backlog: deque[Frame] = deque()
        self._close_asked = False
        self._on_request = on_request
        self._on_close = on_close
        self._splitter = FrameSplitter(max_frame)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_size = 0
        self._flush_scheduled = False
        self._next_opaque = 0
        self._expected: dict[int, Expected] = {}
        # One timer for all of them: one each would take longer than the encoding of most commands.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._keeping_up: asyncio.Future[None] | None = None
        self.peer: tuple[str, int] = ("", 0)
        self.last_active = self.last_heard = self._loop.time()
        # Where a server keeps what it derives from the peer once per connection.
        self.attachment: Any = None

    # -- life ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.peer = (name[0], name[1])
        if self._close_asked:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._out.clear()
        self._backlog.clear()
        self._caught_up()
        if self._timer is not None:
            self._timer.cancel()
        expected, self._expected = self._expected, {}
        for each in expected.values():
            each.answered(ConnectionFailed(f"the connection to {self.peer_text} was lost"))
        if self._on_close is not None:
            self._on_close(self)

    def close(self) -> None:
        """Sends what is buffered, then closes. Closing twice, or before the connection stands, is harmless."""
        self._close_asked = True
        if self._transport is not None:
            self.flush()
            self._transport.close()

    def abort(self) -> None:
        self._close_asked = True
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
        self.last_active = self.last_heard = self._loop.time()
        try:
            frames = self._splitter.feed(data)
            if self._backlog:
                self._backlog.extend(frames)
            else:
                self._handle(frames)
        except FrameError as error:
            self._refuse(error)

    def _handle(self, frames: Iterable[Frame]) -> None:
        """Serves frames until the peer falls behind with reading; the rest waits in the backlog."""
        remaining = iter(frames)
        for frame in remaining:
            command = decode_frame(frame)
            if command.flag & RESPONSE_FLAG:
                self._resolve(command)
            else:
                self._on_request(self, command)
            if self._paused:
                self._backlog.extend(remaining)

    def _refuse(self, error: FrameError) -> None:
        log.warning("%s: closed, %s", self.peer_text, error)
        self.abort()

    def _resolve(self, response: Command) -> None:
        expected = self._expected.pop(response.opaque, None)
        if expected is not None:  # else its request timed out: nothing to do
            expected.answered(response)

    # -- out ----------------------------------------------------------------------------------------

    def send(self, command: Encodable) -> None:
        """Queues the command; all that is queued within one turn of the loop leaves in one write."""
        self.queue(command)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self.flush)

    def queue(self, command: Encodable) -> None:
        """For a caller that will flush by itself, after more."""
        data = command.encode()
        self._out.append(data)
        self._out_size += len(data)
        if self._out_size > EARLY_FLUSH:
            self._write()

    def flush(self) -> None:
        self._flush_scheduled = False
        self._write()

    def _write(self) -> None:
        if self._out and self._transport is not None:
            self.last_active = self._loop.time()
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()
        self._out_size = 0

    def pause_writing(self) -> None:
        self._keeping_up = self._loop.create_future()
        if self._throttle and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._caught_up()
        if not self._paused:
            return
        self._paused = False
        backlog, self._backlog = self._backlog, deque()
        try:
            self._handle(backlog)
        except FrameError as error:
            self._refuse(error)
        if not self._paused and self._transport is not None:
            self._transport.resume_reading()

    def _caught_up(self) -> None:
        keeping_up, self._keeping_up = self._keeping_up, None
        if keeping_up is not None and not keeping_up.done():
            keeping_up.set_result(None)

    async def drain(self) -> None:
        """For a caller that sends without waiting for answers: returns when the peer keeps up, or is gone."""
        if self._keeping_up is not None:
            await asyncio.shield(self._keeping_up)

    def oneway(self, command: Request) -> None:
        command.flag |= ONEWAY_FLAG
        command.opaque = self._new_opaque()
        self.send(command if self._sign is None else self._sign(command))

    async def request(self, command: Request, timeout: float) -> Command:
        """The peer's answer, whatever its code. Raises ConnectionFailed or RequestTimeout."""
        future: asyncio.Future[Command] = self._loop.create_future()

        def answered(answer: Command | ConnectionFailed | RequestTimeout) -> None:
            if future.done():
                return  # cancelled
            if isinstance(answer, Command):
                future.set_result(answer)
            else:
                future.set_exception(answer)

        opaque = self.ask(command, timeout, answered)  # not command.opaque: others may send the same command elsewhere
        try:
            return await future
        finally:
            self._expected.pop(opaque, None)

    def ask(self, command: Request, timeout: float, answered: Answered) -> int:
        """As `request`, for callers that have no task to wait in: `answered` is called once, later. Returns the opaque
        of the request. Raises ConnectionFailed."""
        if self._transport is None:
            raise ConnectionFailed(f"not connected to {self.peer_text}")
        command.opaque = opaque = self._new_opaque()
        self.send(command if self._sign is None else self._sign(command))
        asked_at = self._loop.time()
        self._expected[opaque] = Expected(answered, asked_at, timeout, command.code)
        if self._timer is None or asked_at + timeout < self._timer_at:
            self._look_at(asked_at + timeout)
        if self._out_size > EARLY_REQUESTS:
            self._write()
        return opaque

    def _look_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Tells those that waited too long, and looks again when the next one has."""
        self._timer = None
        now = self._loop.time() + TIMER_SLACK
        due = [opaque for opaque, expected in self._expected.items() if expected.deadline <= now]
        for opaque in due:
            if (expected := self._expected.pop(opaque, None)) is not None:
                self._timed_out(expected)
        if self._expected and self._timer is None:
            self._look_at(min(expected.deadline for expected in self._expected.values()))

    def _timed_out(self, expected: Expected) -> None:
        if self._ends_silence and expected.timeout >= SILENCE_SECONDS and self.last_heard <= expected.asked_at:
            self.abort()
        name = request_name(expected.code)
        expected.answered(RequestTimeout(f"{self.peer_text} did not answer {name} within {expected.timeout:g} s"))

    def _new_opaque(self) -> int:
        self._next_opaque = (self._next_opaque + 1) & OPAQUE_MASK
        return self._next_opaque
