"""Outgoing connections: shared, remade when lost, refused, closed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from mqctl.errors import ConnectionFailed, MqError, ResponseError
from mqctl.remoting import pool as pool_module
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.pool import ConnectionPool, split_address, split_addresses
from tests.aio import in_loop, until

Serve = Callable[[Connection, Command], None]


def echo(connection: Connection, request: Command) -> None:
    connection.send(request.reply(request.code % 100, body=request.body, remark="as asked"))


class Peer:
    def __init__(self) -> None:
        self.accepted: list[Connection] = []
        self.lost: list[Connection] = []
        self.address = ""


@contextlib.asynccontextmanager
async def peer(serve: Serve = echo) -> AsyncIterator[Peer]:
    it = Peer()

    def accept() -> Connection:
        it.accepted.append(Connection(serve, it.lost.append))
        return it.accepted[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    it.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield it
    finally:
        server.close()
        for connection in it.accepted:
            connection.abort()
        await until(lambda: len(it.lost) == len(it.accepted))


@contextlib.asynccontextmanager
async def pooled(serve: Serve | None = None) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(serve)
    try:
        yield pool
    finally:
        await pool.close()


@contextlib.contextmanager
def unused_address() -> object:
    """An address where nobody listens and nobody else can start to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" broker-a:10911 ", ("broker-a", 10911)),
        ("[::1]:10911", ("::1", 10911)),
        ("::1:10911", ("::1", 10911)),
        ("h:65535", ("h", 65535)),
    ],
)
def test_addresses(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "host", "host:", ":9876", "host:x", "host:0", "host:65536", "host:-1", "h:1 2"])
def test_not_an_address(text: str) -> None:
    with pytest.raises(MqError, match="is not an address") as caught:
        split_address(text)
    assert caught.value.hint == "write it as host:port, such as 127.0.0.1:9876"


def test_lists_of_addresses() -> None:
    assert split_addresses(" a:1; b:2 ;;c:3,d:4; ") == ["a:1", "b:2", "c:3", "d:4"]
    assert split_addresses("") == []


@in_loop
async def test_one_connection_per_address() -> None:
    async with peer() as it, pooled() as pool:
        answers = await asyncio.gather(*(pool.request(it.address, Command(0, body=b"%d" % n), 5) for n in range(5)))
        assert [answer.body for answer in answers] == [b"0", b"1", b"2", b"3", b"4"]
        assert await pool.connect(it.address) is await pool.connect(it.address)
        assert len(it.accepted) == 1


@in_loop
async def test_two_addresses_two_connections() -> None:
    async with peer() as one, peer() as two, pooled() as pool:
        assert await pool.connect(one.address) is not await pool.connect(two.address)


@in_loop
async def test_a_lost_connection_is_made_again() -> None:
    async with peer() as it, pooled() as pool:
        first = await pool.connect(it.address)
        it.accepted[0].abort()
        await until(lambda: not first.is_open)
        assert (await pool.request(it.address, Command(0, body=b"again"), 5)).body == b"again"
        assert len(it.accepted) == 2


@in_loop
async def test_nobody_listens() -> None:
    async with pooled() as pool:
        with unused_address() as address:
            for _ in range(2):  # the failed attempt must not stay in the way of the next
                with pytest.raises(ConnectionFailed, match=rf"cannot connect to {address}: ") as caught:
                    await pool.request(address, Command(0), 5)
                assert caught.value.retriable


@in_loop
async def test_a_name_that_does_not_resolve() -> None:
    async with pooled() as pool:
        with pytest.raises(ConnectionFailed, match=r"cannot connect to no-such-host\.invalid:9876: "):
            await pool.connect("no-such-host.invalid:9876")


@in_loop
async def test_a_peer_that_does_not_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CONNECT_SECONDS", 0.05)
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):  # more than the kernel keeps for a backlog of none: from now on it drops them
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        async with pooled() as pool:
            with pytest.raises(ConnectionFailed, match="no answer"):
                await pool.connect(f"127.0.0.1:{listener.getsockname()[1]}")


@in_loop
async def test_not_an_address_is_said_to_the_caller() -> None:
    async with pooled() as pool:
        with pytest.raises(MqError, match="is not an address"):
            await pool.connect("nonsense")


@in_loop
async def test_call_wants_success() -> None:
    async with peer() as it, pooled() as pool:
        assert (await pool.call(it.address, Command(100, body=b"b"), 5)).body == b"b"
        with pytest.raises(ResponseError, match=f"{it.address} answered TOPIC_NOT_EXIST: as asked") as caught:
            await pool.call(it.address, Command(117), 5)
        assert (caught.value.code, caught.value.remark) == (17, "as asked")
        assert (await pool.request(it.address, Command(117), 5)).code == 17


@in_loop
async def test_one_caller_giving_up_does_not_harm_the_other() -> None:
    async with peer() as it, pooled() as pool:
        impatient = asyncio.create_task(pool.connect(it.address))
        patient = asyncio.create_task(pool.connect(it.address))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).is_open
        assert len(it.accepted) == 1


@in_loop
async def test_what_the_peer_asks_of_us() -> None:
    asked: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

    def serve(connection: Connection, request: Command) -> None:
        asked.set_result(request)

    async with peer() as it, pooled(serve) as pool:
        await pool.request(it.address, Command(0), 5)
        it.accepted[0].oneway(Command(40, ext={"consumerGroup": "g"}))
        assert (await asked).fields() == {"consumerGroup": "g"}


@in_loop
async def test_a_pool_that_serves_nothing_ignores_requests() -> None:
    async with peer() as it, pooled() as pool:
        await pool.connect(it.address)
        await until(lambda: it.accepted)
        it.accepted[0].oneway(Command(40))
        assert (await pool.request(it.address, Command(0), 5)).code == 0


@in_loop
async def test_close_ends_connections_and_attempts() -> None:
    async with peer() as it:
        pool = ConnectionPool()
        connection = await pool.connect(it.address)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            attempt = asyncio.create_task(pool.connect(f"127.0.0.1:{listener.getsockname()[1]}"))
            await asyncio.sleep(0)
            await pool.close()
            results = await asyncio.gather(attempt, return_exceptions=True)
        assert not connection.is_open
        assert not isinstance(results[0], Connection)
        await until(lambda: len(it.lost) == 1)
