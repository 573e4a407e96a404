"""Connections over real sockets, on both event loops: matching answers, failing, closing, holding back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from mqctl.errors import ConnectionFailed, RequestTimeout
from mqctl.remoting.command import BINARY, JSON, Command, decode_frame
from mqctl.remoting.connection import Connection
from mqctl.remoting.frames import FrameSplitter, join_frame
from tests.aio import in_loop, until

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
Serve = Callable[[Connection, Command], None]


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    return request.param  # type: ignore[no-any-return]


def echo(connection: Connection, request: Command) -> None:
    if not request.is_oneway:
        connection.send(request.reply(ext=request.fields(), body=request.body))


def ignore(connection: Connection, request: Command) -> None:
    pass


class Side:
    """A listening side: remembers the connections it got and those it lost."""

    def __init__(self, serve: Serve, max_frame: int = 16 * 1024 * 1024) -> None:
        self._serve = serve
        self._max_frame = max_frame
        self.accepted: list[Connection] = []
        self.lost: list[Connection] = []
        self.port = 0

    def accept(self) -> Connection:
        connection = Connection(self._serve, self.lost.append, max_frame=self._max_frame, throttle=True)
        self.accepted.append(connection)
        return connection


@contextlib.asynccontextmanager
async def listening(serve: Serve, max_frame: int = 16 * 1024 * 1024) -> AsyncIterator[Side]:
    side = Side(serve, max_frame)
    server = await asyncio.get_running_loop().create_server(side.accept, "127.0.0.1", 0)
    side.port = server.sockets[0].getsockname()[1]
    try:
        yield side
    finally:
        server.close()
        for connection in side.accepted:
            connection.abort()
        await until(lambda: len(side.lost) == len(side.accepted))


@contextlib.asynccontextmanager
async def connected(side: Side, serve: Serve = ignore) -> AsyncIterator[Connection]:
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(serve), "127.0.0.1", side.port
    )
    try:
        yield connection
    finally:
        connection.abort()
        await until(lambda: not connection.is_open)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def raw(side: Side) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A peer that writes any bytes it likes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


# -- requests and answers -------------------------------------------------------------------------------


@in_loop
async def test_a_request_gets_its_answer(loop_factory: LoopFactory) -> None:
    async with listening(echo) as side, connected(side) as client:
        for codec in (JSON, BINARY):
            answer = await client.request(Command(105, ext={"topic": "t"}, body=b"b", codec=codec), 5)
            assert (answer.code, answer.fields(), answer.body, answer.codec) == (0, {"topic": "t"}, b"b", codec)


@in_loop
async def test_answers_in_another_order(loop_factory: LoopFactory) -> None:
    held: list[tuple[Connection, Command]] = []

    def hold(connection: Connection, request: Command) -> None:
        held.append((connection, request))
        if len(held) == 3:
            for waiting, late in reversed(held):
                waiting.send(late.reply(body=late.body))

    async with listening(hold) as side, connected(side) as client:
        bodies = [b"1", b"2", b"3"]
        answers = await asyncio.gather(*(client.request(Command(1, body=body), 5) for body in bodies))
        assert [answer.body for answer in answers] == bodies


@in_loop
async def test_opaques_of_the_two_directions_do_not_mix(loop_factory: LoopFactory) -> None:
    """Each side counts from 1, so the same number is under way in both directions."""

    def ask_back(connection: Connection, request: Command) -> None:
        async def answer_after_asking() -> None:
            theirs = await connection.request(Command(2, body=b"from server"), 5)
            connection.send(request.reply(body=theirs.body + b", " + request.body))

        tasks.append(asyncio.create_task(answer_after_asking()))

    def serve(connection: Connection, request: Command) -> None:
        opaques.append(request.opaque)
        connection.send(request.reply(body=request.body + b" and back"))

    tasks: list[asyncio.Task[None]] = []
    opaques: list[int] = []
    async with listening(ask_back) as side, connected(side, serve) as client:
        request = Command(1, body=b"from client")
        answer = await client.request(request, 5)
        assert answer.body == b"from server and back, from client"
        assert opaques == [request.opaque]


@in_loop
async def test_a_oneway_command_has_its_flag(loop_factory: LoopFactory) -> None:
    got: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    async with listening(lambda _, command: got.set_result(command)) as side, connected(side) as client:
        client.oneway(Command(40, ext={"consumerGroup": "g"}))
        command = await got
        assert (command.flag, command.code, command.fields()) == (2, 40, {"consumerGroup": "g"})


@in_loop
async def test_what_is_sent_in_one_turn_arrives_in_order(loop_factory: LoopFactory) -> None:
    bodies: list[bytes] = []
    async with listening(lambda _, command: bodies.append(command.body)) as side, connected(side) as client:
        for number in range(100):
            client.oneway(Command(1, body=b"%d" % number))
        await until(lambda: len(bodies) == 100)
        assert bodies == [b"%d" % number for number in range(100)]


# -- time-outs and losses -------------------------------------------------------------------------------


@in_loop
async def test_no_answer_in_time(loop_factory: LoopFactory) -> None:
    async with listening(ignore) as side, connected(side) as client:
        with pytest.raises(RequestTimeout, match=rf"127.0.0.1:{side.port} did not answer HEART_BEAT within 0.02 s"):
            await client.request(Command(34), 0.02)


@in_loop
async def test_each_request_has_its_own_time(loop_factory: LoopFactory) -> None:
    async with listening(ignore) as side, connected(side) as client:
        ended: list[float] = []

        async def ask(seconds: float) -> None:
            with pytest.raises(RequestTimeout, match=rf"within {seconds:g} s"):
                await client.request(Command(1), seconds)
            ended.append(seconds)

        patient = asyncio.create_task(client.request(Command(1), 30))
        await asyncio.gather(*(ask(seconds) for seconds in (0.06, 0.02, 0.04, 0.02)))
        assert sorted(ended) == [0.02, 0.02, 0.04, 0.06]
        assert not patient.done()
        client.abort()
        with pytest.raises(ConnectionFailed):
            await patient


@in_loop
async def test_who_asks_without_a_task_is_told_once(loop_factory: LoopFactory) -> None:
    told: list[object] = []
    async with listening(echo) as side, connected(side) as client:
        client.ask(Command(1, body=b"x"), 5, told.append)
        assert not told
        await until(lambda: told)
        side.accepted[0]._on_request = ignore
        client.ask(Command(1), 0.02, told.append)
        await until(lambda: len(told) == 2)
        client.ask(Command(1), 5, told.append)
        client.abort()
        await until(lambda: len(told) == 3)
        with pytest.raises(ConnectionFailed):
            client.ask(Command(1), 5, told.append)
    assert [type(each) for each in told] == [Command, RequestTimeout, ConnectionFailed]


@in_loop
async def test_a_late_answer_disturbs_nobody(loop_factory: LoopFactory) -> None:
    late: list[tuple[Connection, Command]] = []

    def serve(connection: Connection, request: Command) -> None:
        if request.body == b"slow":
            late.append((connection, request))
        else:
            for waiting, old in late:
                waiting.send(old.reply(body=b"late"))
            connection.send(request.reply(body=b"in time"))

    async with listening(serve) as side, connected(side) as client:
        with pytest.raises(RequestTimeout):
            await client.request(Command(1, body=b"slow"), 0.02)
        assert (await client.request(Command(1, body=b"quick"), 5)).body == b"in time"


@in_loop
async def test_a_cancelled_request_is_forgotten(loop_factory: LoopFactory) -> None:
    late: list[tuple[Connection, Command]] = []
    async with listening(lambda *both: late.append(both)) as side, connected(side) as client:
        task = asyncio.create_task(client.request(Command(1), 5))
        await until(lambda: late)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        connection, request = late[0]
        connection.send(request.reply())
        second = asyncio.create_task(client.request(Command(1), 5))
        await until(lambda: len(late) == 2)
        connection.send(late[1][1].reply(body=b"second"))
        assert (await second).body == b"second"


@in_loop
async def test_a_request_that_cannot_be_written_leaves_nothing_behind(loop_factory: LoopFactory) -> None:
    async with listening(echo) as side, connected(side) as client:
        with pytest.raises(ValueError, match="header field name"):
            await client.request(Command(1, ext={"k" * 40_000: "v"}, codec=BINARY), 5)
        assert not client._expected
        assert (await client.request(Command(1), 5)).code == 0


@in_loop
async def test_a_lost_connection_fails_all_that_wait(loop_factory: LoopFactory) -> None:
    async with listening(ignore) as side, connected(side) as client:
        waiting = [asyncio.create_task(client.request(Command(1), 5)) for _ in range(3)]
        await until(lambda: side.accepted and client._expected)
        side.accepted[0].abort()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, ConnectionFailed) for result in results)
        with pytest.raises(ConnectionFailed, match="not connected"):
            await client.request(Command(1), 5)
        assert not client.is_open


@in_loop
async def test_closing_sends_what_is_queued_and_tells_once(loop_factory: LoopFactory) -> None:
    bodies: list[bytes] = []
    async with listening(lambda _, command: bodies.append(command.body)) as side, connected(side) as client:
        client.oneway(Command(1, body=b"last words"))
        client.close()
        client.close()
        await until(lambda: side.lost)
        assert bodies == [b"last words"]
        assert side.lost == side.accepted
        client.oneway(Command(1, body=b"too late"))
    assert side.lost == side.accepted


# -- bytes that are no frames ---------------------------------------------------------------------------

NESTED = b'{"code":1,"extFields":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("ffffffff"),
        bytes.fromhex("00000401"),  # one more than this side allows
        bytes.fromhex("00000004 00000001"),
        join_frame(7, b"{}", b""),
        join_frame(0, b"not json", b""),
        join_frame(1, b"not binary", b""),
    ],
    ids=["http", "negative", "too long", "header length", "codec", "json", "binary"],
)
@in_loop
async def test_a_frame_error_closes_without_an_answer(loop_factory: LoopFactory, data: bytes) -> None:
    async with listening(echo, max_frame=1024) as side, connected(side) as other, raw(side) as (reader, writer):
        writer.write(data)
        assert await reader.read() == b""
        assert (await other.request(Command(1, body=b"alive"), 5)).body == b"alive"


@in_loop
async def test_a_nested_header_closes_without_an_answer(loop_factory: LoopFactory) -> None:
    async with listening(echo) as side, raw(side) as (reader, writer):
        writer.write(join_frame(0, NESTED, b""))
        assert await reader.read() == b""


@in_loop
async def test_what_came_before_a_frame_error_is_served(loop_factory: LoopFactory) -> None:
    """In a chunk of its own, that is; what shares a chunk with garbage is lost with the connection."""
    bodies: list[bytes] = []
    async with listening(lambda _, command: bodies.append(command.body)) as side, raw(side) as (reader, writer):
        writer.write(Command(1, body=b"good").encode())
        await until(lambda: bodies)
        writer.write(b"\xff" * 8)
        assert await reader.read() == b""
        assert bodies == [b"good"]


@in_loop
async def test_the_log_says_who_sent_garbage(loop_factory: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(echo) as side, raw(side) as (reader, writer):
        writer.write(b"\xff" * 8)
        await reader.read()
    (line,) = [record for record in caplog.records if record.name == "mqctl.remoting.connection"]
    assert line.levelno == logging.WARNING
    assert "closed, frame length -1" in line.getMessage()


@in_loop
async def test_a_frame_cut_into_single_bytes(loop_factory: LoopFactory) -> None:
    async with listening(echo) as side, raw(side) as (reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in Command(1, body=b"piecemeal", opaque=9).encode():
            writer.write(bytes((byte,)))
            await asyncio.sleep(0)
        (frame,) = FrameSplitter().feed(await reader.read(4096))
        answer = decode_frame(frame)
        assert (answer.opaque, answer.body) == (9, b"piecemeal")


# -- back-pressure --------------------------------------------------------------------------------------


def is_held_back(connection: Connection) -> bool:
    transport = connection._transport
    return transport is not None and not transport.is_reading()


def queued_bytes(connection: Connection) -> int:
    transport = connection._transport
    waiting = transport.get_write_buffer_size() if transport is not None else 0
    return waiting + sum(map(len, connection._out))


async def flood(writer: asyncio.StreamWriter, side: Side, data: bytes, limit: int) -> int:
    """Writes `data` again and again, reading nothing, until the other side stops reading."""
    sent = 0
    while not is_held_back(side.accepted[0]) and sent < limit:
        writer.write(data)
        sent += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await writer.drain()
    return sent


@in_loop
async def test_a_peer_that_does_not_read_is_not_read_from(loop_factory: LoopFactory) -> None:
    """...and is served on as soon as it reads, with nothing lost."""
    request = Command(1, body=bytes(200_000)).encode()
    async with listening(echo) as side, raw(side) as (reader, writer):
        await until(lambda: side.accepted)
        sent = await flood(writer, side, request, limit=500)
        assert is_held_back(side.accepted[0])
        assert queued_bytes(side.accepted[0]) < 4 * 1024 * 1024
        splitter, answers = FrameSplitter(), 0
        while answers < sent:
            answers += len(splitter.feed(await reader.read(1 << 20)))
        await until(lambda: not is_held_back(side.accepted[0]))


@in_loop
async def test_closing_a_connection_that_is_held_back(loop_factory: LoopFactory) -> None:
    request = Command(1, body=bytes(200_000)).encode()
    async with listening(echo) as side, raw(side) as (reader, writer):
        await until(lambda: side.accepted)
        await flood(writer, side, request, limit=500)
        side.accepted[0].close()
        with contextlib.suppress(OSError):  # what we wrote and nobody read may turn the end into a reset
            while await reader.read(1 << 20):
                pass
        await until(lambda: side.lost)


@in_loop
async def test_cutting_a_connection_that_is_held_back(loop_factory: LoopFactory) -> None:
    request = Command(1, body=bytes(200_000)).encode()
    async with listening(echo) as side, raw(side) as (_, writer):
        await until(lambda: side.accepted)
        await flood(writer, side, request, limit=500)
        side.accepted[0].abort()
        await until(lambda: side.lost)


@in_loop
async def test_many_small_requests_with_large_answers(loop_factory: LoopFactory) -> None:
    """One read may bring a thousand pulls. The answers to all of them at once would not fit into memory."""
    answer = bytes(256 * 1024)
    most = 0

    def serve(connection: Connection, request: Command) -> None:
        nonlocal most
        connection.send(request.reply(body=answer))
        most = max(most, queued_bytes(connection))

    async with listening(serve) as side, raw(side) as (reader, writer):
        writer.write(b"".join(Command(11, opaque=number).encode() for number in range(1000)))
        splitter, answers = FrameSplitter(), 0
        while answers < 1000:
            frames = splitter.feed(await reader.read(1 << 20))
            assert frames or splitter.pending
            answers += len(frames)
    assert most < 64 * 1024 * 1024


@in_loop
async def test_two_busy_sides_do_not_wait_for_each_other(loop_factory: LoopFactory) -> None:
    """A client with much to send must still read its answers: if both sides stop reading because the other
    one does, nothing moves any more."""
    async with listening(echo) as side, connected(side) as client:
        requests = [client.request(Command(1, body=bytes(500_000)), 4) for _ in range(120)]
        answers = await asyncio.gather(*requests)
        assert [len(answer.body) for answer in answers] == [500_000] * 120
