"""A remoting server with a table of its own: who is answered, with what, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from mqctl.errors import ConfigError, ConnectionFailed, RequestFailed, StoreError
from mqctl.remoting.command import BINARY, JSON, Command, decode_frame
from mqctl.remoting.connection import Connection
from mqctl.remoting.frames import FrameSplitter
from mqctl.server import loop as loop_module
from mqctl.server.loop import HandlerTable, RemotingServer
from tests.aio import in_loop, until

ECHO, SLOW, SILENT, REFUSE, WRONG, BROKEN, SLOW_REFUSE, SLOW_BROKEN, DISK = range(1, 10)


class EchoHeader(msgspec.Struct):
    word: str
    times: int = 1


class Table:
    """Handlers of every kind. Slow ones wait for `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.seen: list[Command] = []
        self.cancelled = 0

    def handlers(self) -> HandlerTable:
        return {
            ECHO: (EchoHeader, self.echo),
            SLOW: (None, self.slow),
            SILENT: (None, self.silent),
            REFUSE: (None, self.refuse),
            WRONG: (None, self.wrong),
            BROKEN: (None, self.broken),
            SLOW_REFUSE: (None, self.slow_refuse),
            SLOW_BROKEN: (None, self.slow_broken),
            DISK: (None, self.disk),
        }

    def echo(self, connection: Connection, request: Command, header: EchoHeader) -> Command:
        self.seen.append(request)
        return request.reply(ext={"word": header.word * header.times}, body=request.body)

    async def slow(self, connection: Connection, request: Command, _: None) -> Command:
        self.seen.append(request)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return request.reply(body=b"slow")

    def silent(self, connection: Connection, request: Command, _: None) -> None:
        self.seen.append(request)

    def refuse(self, connection: Connection, request: Command, _: None) -> Command:
        self.seen.append(request)
        raise RequestFailed(17, "no such thing")

    def wrong(self, connection: Connection, request: Command, _: None) -> Command:
        self.seen.append(request)
        raise ValueError("not a number")

    def broken(self, connection: Connection, request: Command, _: None) -> Command:
        self.seen.append(request)
        raise KeyError("surprise")

    async def slow_refuse(self, connection: Connection, request: Command, _: None) -> Command:
        return self.refuse(connection, request, None)

    async def slow_broken(self, connection: Connection, request: Command, _: None) -> Command:
        return self.broken(connection, request, None)

    def disk(self, connection: Connection, request: Command, _: None) -> Command:
        raise StoreError("cannot read the file: Input/output error")


class House:
    def __init__(self, **options: Any) -> None:
        self.table = Table()
        self.closed: list[Connection] = []
        self.server = RemotingServer(self.table.handlers(), on_close=self.closed.append, **options)
        self.port = 0


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[House]:
    house = House(**options)
    house.port = await house.server.listen("127.0.0.1", 0)
    try:
        yield house
    finally:
        await house.server.stop()
        assert not house.server.connections


@contextlib.asynccontextmanager
async def client(house: House) -> AsyncIterator[Connection]:
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(lambda *_: None), "127.0.0.1", house.port
    )
    try:
        yield connection
    finally:
        connection.abort()
        await asyncio.sleep(0)


async def ask(connection: Connection, code: int, codec: int = JSON, **ext: str) -> tuple[int, str | None]:
    answer = await connection.request(Command(code, ext=ext, codec=codec), 5)
    assert answer.codec == codec
    return answer.code, answer.remark


# -- answers --------------------------------------------------------------------------------------------


@in_loop
async def test_the_handler_of_the_code_answers() -> None:
    async with serving() as house, client(house) as peer:
        answer = await peer.request(Command(ECHO, ext={"word": "ab", "times": "2"}, body=b"body"), 5)
        assert (answer.code, answer.fields(), answer.body) == (0, {"word": "abab"}, b"body")


@in_loop
async def test_answers_use_the_codec_of_the_request() -> None:
    async with serving() as house, client(house) as peer:
        for codec in (JSON, BINARY):
            for code in (REFUSE, WRONG, SLOW_REFUSE, 4242):
                await ask(peer, code, codec)


@in_loop
async def test_an_unknown_code() -> None:
    async with serving() as house, client(house) as peer:
        assert await ask(peer, 4242) == (3, "request code 4242 is not supported")


@pytest.mark.parametrize("code", [REFUSE, SLOW_REFUSE])
@in_loop
async def test_a_refusal_has_its_own_code(code: int) -> None:
    async with serving() as house, client(house) as peer:
        assert await ask(peer, code) == (17, "no such thing")


@in_loop
async def test_a_bad_header_names_the_field(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as house, client(house) as peer:
        assert await ask(peer, ECHO) == (1, f"{ECHO}: Object missing required field `word`")
        assert await ask(peer, ECHO, word="w", times="x") == (1, f"{ECHO}: Expected `int`, got `str` - at `$.times`")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@in_loop
async def test_a_value_error_is_the_requests_fault(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as house, client(house) as peer:
        assert await ask(peer, WRONG) == (1, f"{WRONG}: not a number")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("code", [BROKEN, SLOW_BROKEN])
@in_loop
async def test_a_broken_handler_is_ours(code: int, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as house, client(house) as peer:
        assert await ask(peer, code) == (1, f"{code}: KeyError: 'surprise'")
        assert await ask(peer, ECHO, word="alive") == (0, None)
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.levelno == logging.ERROR
    assert line.exc_info is not None and line.exc_info[0] is KeyError


@in_loop
async def test_a_slow_handler_holds_nobody_up() -> None:
    async with serving() as house, client(house) as peer:
        slow = asyncio.create_task(peer.request(Command(SLOW), 5))
        await until(lambda: house.table.seen)
        assert await ask(peer, ECHO, word="quick") == (0, None)
        house.table.go.set()
        assert (await slow).body == b"slow"


@in_loop
async def test_none_means_no_answer() -> None:
    async with serving() as house, client(house) as peer:
        silent = asyncio.create_task(peer.request(Command(SILENT), 5))
        await until(lambda: house.table.seen)
        await ask(peer, ECHO, word="after")
        assert not silent.done()
        silent.cancel()
        await asyncio.gather(silent, return_exceptions=True)


@in_loop
async def test_oneway_requests_are_never_answered() -> None:
    """Not with success, not with an error, not for an unknown code: the next answer is the echo's."""
    async with serving() as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        codes = [ECHO, SLOW, REFUSE, WRONG, BROKEN, SLOW_REFUSE, SLOW_BROKEN, DISK, 4242]
        house.table.go.set()
        for number, code in enumerate(codes):
            writer.write(Command(code, ext={"word": "w"}, flag=2, opaque=number).encode())
        writer.write(Command(ECHO, flag=2, opaque=90).encode())  # and this one lacks its field
        await until(lambda: len(house.table.seen) == 7)
        writer.write(Command(ECHO, ext={"word": "w"}, opaque=99).encode())
        frames = FrameSplitter().feed(await reader.read(65536))
        assert [decode_frame(frame).opaque for frame in frames] == [99]
        writer.close()
        await writer.wait_closed()


@in_loop
async def test_responses_nobody_waits_for_are_dropped() -> None:
    async with serving() as house, client(house) as peer:
        peer.send(Command(0, flag=1, opaque=12345))
        assert await ask(peer, ECHO, word="w") == (0, None)
        assert len(house.table.seen) == 1


@in_loop
async def test_an_answer_too_large_for_a_frame() -> None:
    """A remark that repeats what the peer sent, escaped, can outgrow a frame; the connection survives that."""

    def repeat(connection: Connection, request: Command, _: None) -> Command:
        raise RequestFailed(1, f"unknown: {request.fields()['word']!r}")

    async with serving() as house, client(house) as peer:
        house.server._handlers[REFUSE] = (None, repeat)
        answer = await peer.request(Command(REFUSE, ext={"word": "\x7f" * 4_000_000}), 5)
        remark_size = len(answer.remark or "")
        assert (answer.code, remark_size < 65_536) == (1, True)
        assert await ask(peer, ECHO, word="alive") == (0, None)


# -- listeners and connections --------------------------------------------------------------------------


@in_loop
async def test_a_port_in_use_is_said_plainly() -> None:
    async with serving() as house:
        other = RemotingServer({})
        with pytest.raises(ConfigError, match=f"port {house.port} on 127.0.0.1 is already in use") as caught:
            await other.listen("127.0.0.1", house.port)
        assert caught.value.hint == "stop what listens there, or choose another listenPort"
        await other.stop()


@in_loop
async def test_an_address_that_is_not_ours() -> None:
    server = RemotingServer({})
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        await server.listen("192.0.2.1", 0)
    await server.stop()


@in_loop
async def test_two_listeners_one_table() -> None:
    async with serving() as house:
        second = await house.server.listen("127.0.0.1", 0)
        assert second != house.port
        house.port = second
        async with client(house) as peer:
            assert await ask(peer, ECHO, word="w") == (0, None)


@in_loop
async def test_frames_over_this_servers_maximum() -> None:
    async with serving(max_frame=1000) as house, client(house) as peer, client(house) as other:
        with pytest.raises(ConnectionFailed):
            await peer.request(Command(ECHO, ext={"word": "w"}, body=bytes(1000)), 5)
        assert await ask(other, ECHO, word="w") == (0, None)


@in_loop
async def test_closed_connections_are_forgotten_and_told() -> None:
    async with serving() as house:
        async with client(house) as peer:
            await ask(peer, ECHO, word="w")
            assert len(house.server.connections) == 1
        await until(lambda: house.closed)
        assert not house.server.connections


@in_loop
async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "IDLE_SCAN_SECONDS", 0.02)
    monkeypatch.setattr(loop_module, "IDLE_SECONDS", 0.3)
    async with serving() as house, client(house) as idle, client(house) as busy:
        while idle.is_open:
            assert await ask(busy, ECHO, word="w") == (0, None)
            await asyncio.sleep(0.01)
        assert busy.is_open


# -- stop -----------------------------------------------------------------------------------------------


@in_loop
async def test_stop_closes_everything() -> None:
    async with serving() as house, client(house) as peer:
        await ask(peer, ECHO, word="w")
        slow = asyncio.create_task(peer.request(Command(SLOW), 5))
        await until(lambda: len(house.table.seen) == 2)
        await house.server.stop()
        with pytest.raises(ConnectionFailed):
            await slow
        assert house.table.cancelled == 1
        assert len(house.closed) == 1
        with pytest.raises(OSError, match="refused"):
            await asyncio.open_connection("127.0.0.1", house.port)


@in_loop
async def test_stop_sends_what_is_answered_already() -> None:
    async with serving() as house, client(house) as peer:
        answers = [asyncio.create_task(peer.request(Command(ECHO, ext={"word": str(n)}), 5)) for n in range(50)]
        await until(lambda: len(house.table.seen) == 50)
        await house.server.stop()
        assert [(await answer).fields()["word"] for answer in answers] == [str(n) for n in range(50)]


@in_loop
async def test_stop_does_not_wait_for_a_peer_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "STOP_SECONDS", 0.1)
    async with serving() as house:
        with socket.create_connection(("127.0.0.1", house.port)) as peer:
            peer.setblocking(False)
            await until(lambda: house.server.connections)
            (connection,) = house.server.connections
            request = Command(ECHO, ext={"word": "w"}, body=bytes(1_000_000)).encode()
            unsent = memoryview(request * 50)
            await until(lambda: connection._transport is not None)
            while connection._transport is not None and connection._transport.is_reading():
                with contextlib.suppress(BlockingIOError):
                    unsent = unsent[peer.send(unsent) :]
                await asyncio.sleep(0)
            await asyncio.wait_for(house.server.stop(), 2)
            assert house.closed == [connection]


@in_loop
async def test_stop_right_after_an_accept() -> None:
    async with serving() as house:
        with contextlib.ExitStack() as peers:
            for _ in range(20):
                peers.enter_context(socket.create_connection(("127.0.0.1", house.port)))
            await asyncio.sleep(0)
            await asyncio.wait_for(house.server.stop(), 2)
            assert not house.server.connections


@in_loop
async def test_work_of_the_server_that_fails_is_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    """A spawned job that dies has to be heard of when it dies, not when the server stops."""

    async def job() -> None:
        raise KeyError("surprise")

    async with serving() as house:
        task = house.server.spawn(job())
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert [record for record in caplog.records if record.levelno == logging.ERROR]
