"""The engine against servers that behave, misbehave, move and vanish."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from msgspec import Struct

from mqctl.client.engine import Engine
from mqctl.client.identity import new_client_id
from mqctl.errors import ConfigError, ConnectionFailed, MqError, NotFound, RequestFailed, RequestTimeout
from mqctl.remoting.bodies import ConsumerData
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from tests.aio import in_loop, until
from tests.unit.client.fakes import FakeNamesrv, cluster


def send_request() -> Command:
    fields = {"a": "g", "b": "t", "e": "0", "i": "UNIQ_KEY\x01K"}
    return Command(310, ext=fields, body=b"x")


def test_client_ids_look_like_javas_and_differ() -> None:
    ids = {new_client_id() for _ in range(100)}
    assert len(ids) == 100
    for each in ids:
        ip, _, instance = each.partition("@")
        assert ip.count(".") == 3
        assert instance.partition("#")[0].isdecimal()


def test_a_client_needs_a_name_server() -> None:
    with pytest.raises(ConfigError, match="no name server"):
        Engine(" ; ")


@in_loop
async def test_the_first_thing_a_broker_hears_is_who_we_are() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address, client_id="me") as engine:
        engine.add_producer("p")
        engine.add_consumer("c", lambda: ConsumerData(group_name="c", consume_type="CONSUME_PASSIVELY"))
        await engine.routes.find("t")
        heard_first: list[int] = []
        broker.behaviour = lambda connection, request: (
            heard_first.append(len(broker.heartbeats)) or broker.take(request)
        )
        assert (await engine.request(broker.address, send_request())).code == 0
        assert heard_first == [1]
        (heartbeat,) = broker.heartbeats
        assert heartbeat.client_id == "me"
        assert [each.group_name for each in heartbeat.producer_data_set] == ["p"]
        assert [each.group_name for each in heartbeat.consumer_data_set] == ["c"]
    assert broker.unregistered == [
        {"clientID": "me", "producerGroup": "p"},
        {"clientID": "me", "consumerGroup": "c"},
    ]


@in_loop
async def test_every_broker_is_told_that_we_leave() -> None:
    async with cluster("broker-a", "broker-b") as (namesrv, brokers):
        async with Engine(namesrv.address, client_id="me") as engine:
            engine.add_consumer("c", lambda: ConsumerData(group_name="c"))
            await engine.routes.find("t")
            await engine.heartbeat()
        assert [broker.unregistered for broker in brokers] == [[{"clientID": "me", "consumerGroup": "c"}]] * 2


@in_loop
async def test_heartbeats_and_routes_are_repeated() -> None:
    async with cluster() as (namesrv, (broker,)):
        engine = Engine(namesrv.address, refresh_seconds=0.01, heartbeat_seconds=0.01)
        engine.add_producer("p")
        async with engine:
            await engine.routes.find("t")
            await until(lambda: len(broker.heartbeats) > 3 and len(namesrv.asked) > 3)
        assert len(broker.connections) == 1


@in_loop
async def test_a_lost_connection_is_remade_and_introduced_again() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        engine.add_producer("p")
        await engine.routes.find("t")
        await engine.heartbeat()
        (connection,) = broker.connections
        connection.abort()
        await until(lambda: engine._pool.standing(broker.address) is None)
        assert (await engine.request(broker.address, send_request())).code == 0
        assert len(broker.heartbeats) == 2


@in_loop
async def test_an_unreachable_broker_fails_at_once_and_is_found_again() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        await broker.stop()
        for _ in range(3):
            with pytest.raises(ConnectionFailed):
                await engine.request(broker.address, send_request())
        await broker.start()

        async def answered() -> bool:
            try:
                return (await engine.request(broker.address, send_request())).code == 0
            except ConnectionFailed:
                return False

        while not await answered():
            await asyncio.sleep(0.01)


@in_loop
async def test_a_broker_that_never_answers_is_a_time_out_and_a_new_connection() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        assert (await engine.request(broker.address, send_request())).code == 0
        broker.behaviour = lambda connection, request: None
        with pytest.raises(RequestTimeout, match=r"SEND_MESSAGE_V2 within 1 s"):
            await engine.request(broker.address, send_request(), 1.0)
        await until(lambda: not broker.server.connections)
        broker.behaviour = None
        assert (await engine.request(broker.address, send_request())).code == 0


@in_loop
async def test_a_caller_in_a_hurry_does_not_end_the_connection_of_others() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        asked: list[tuple[Connection, Command]] = []
        broker.behaviour = lambda connection, request: asked.append((connection, request))
        patient = asyncio.create_task(engine.request(broker.address, send_request()))
        await until(lambda: asked)
        with pytest.raises(RequestTimeout):
            await engine.request(broker.address, send_request(), 0.01)
        connection, request = asked[0]
        connection.send(broker.take(request))
        assert (await patient).code == 0


@in_loop
async def test_a_name_server_that_hangs_is_asked_again_on_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster() as (namesrv, _), Engine(namesrv.address) as engine:
        monkeypatch.setattr(engine.name_servers, "_timeout", 0.1)
        namesrv.silent = True
        with pytest.raises(RequestTimeout):
            await engine.routes.find("t")
        await until(lambda: not namesrv.server.connections)
        namesrv.silent = False
        assert await engine.routes.find("t")


@in_loop
async def test_a_connection_that_still_talks_is_kept_after_a_time_out() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        ignored: list[Command] = []
        broker.behaviour = lambda connection, request: ignored.append(request)
        waiting = asyncio.create_task(engine.request(broker.address, send_request(), 0.2))
        await until(lambda: ignored)
        broker.behaviour = None
        assert (await engine.request(broker.address, send_request())).code == 0
        with pytest.raises(RequestTimeout):
            await waiting
        assert len(broker.server.connections) == 1


@in_loop
async def test_answers_out_of_order_find_their_requests() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        held: list[tuple[Connection, Command]] = []

        def hold(connection: Connection, request: Command) -> None:
            held.append((connection, request))
            if len(held) == 5:
                for each, command in reversed(held):
                    each.send(command.reply(body=command.body))

        broker.behaviour = hold
        requests = [Command(310, ext={}, body=b"%d" % number) for number in range(5)]
        answers = await asyncio.gather(*(engine.request(broker.address, request) for request in requests))
        assert [answer.body for answer in answers] == [b"0", b"1", b"2", b"3", b"4"]


@in_loop
async def test_half_a_frame_and_then_silence_is_a_time_out() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x00\x00\x01\x00\x00\x00\x00")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(half, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Engine("127.0.0.1:1") as engine:
        with pytest.raises(RequestTimeout):
            await engine.request(f"127.0.0.1:{port}", send_request(), 0.05)
    server.close()


@in_loop
async def test_after_half_a_frame_and_silence_there_is_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqctl.remoting.connection.SILENCE_SECONDS", 0.01)

    def half(connection: Connection, request: Command) -> None:
        broker.behaviour = lambda connection, request: None
        assert connection._transport is not None
        connection._transport.write(b"\x00\x00\x01\x00\x00\x00\x00")

    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:
        broker.behaviour = half
        for _ in range(2):  # after the first one could think that the rest is on its way
            with pytest.raises(RequestTimeout):
                await engine.request(broker.address, send_request(), 0.05)
        await until(lambda: not broker.server.connections)
        broker.behaviour = None
        assert (await engine.request(broker.address, send_request())).code == 0


@in_loop
async def test_a_connection_that_does_not_come_about_counts_as_well() -> None:
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):  # with its queue full, Linux drops what else knocks
            one = sockets.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        async with Engine("127.0.0.1:1") as engine:
            with pytest.raises(ConnectionFailed, match=r"no connection to .* within 0\.1 s"):
                await engine.request(f"127.0.0.1:{listener.getsockname()[1]}", send_request(), 0.1)


@in_loop
async def test_the_next_name_server_is_asked_when_one_is_gone() -> None:
    async with cluster() as (namesrv, (broker,)):
        dead = FakeNamesrv()
        await dead.start()
        await dead.stop()
        for _ in range(5):  # the first one is chosen at random
            async with Engine([dead.address, namesrv.address]) as engine:
                assert (await engine.routes.find("t")).broker_datas[0].broker_name == broker.name
        async with Engine([dead.address]) as engine:
            with pytest.raises(ConnectionFailed):
                await engine.routes.find("t")
        async with Engine(namesrv.address) as engine:
            with pytest.raises(NotFound, match="the topic unknown does not exist"):
                await engine.routes.find("unknown")


@in_loop
async def test_brokers_that_no_route_names_are_forgotten() -> None:
    async with cluster("broker-a", "broker-b") as (namesrv, (first, second)), Engine(namesrv.address) as engine:
        engine.add_producer("p")
        await engine.routes.find("t")
        await engine.heartbeat()
        assert len(second.server.connections) == 1
        namesrv.route("t", first)
        await engine.routes.refresh("t")
        await until(lambda: not second.server.connections)
        await engine.heartbeat()
        assert (len(first.heartbeats), len(second.heartbeats)) == (2, 1)


class Question(Struct):
    number: int


@in_loop
async def test_brokers_ask_and_handlers_answer() -> None:
    async with cluster() as (namesrv, (broker,)), Engine(namesrv.address) as engine:

        def plain(connection: Connection, request: Command, header: Question) -> Command:
            return request.reply(body=b"%d" % header.number)

        async def slow(connection: Connection, request: Command, header: None) -> Command:
            await asyncio.sleep(0)
            raise RequestFailed(13, "no")

        async def broken(connection: Connection, request: Command, header: None) -> Command:
            raise RuntimeError("a bug")

        engine.serve(307, Question, plain)
        engine.serve(309, None, slow)
        engine.serve(221, None, broken)
        engine.add_producer("p")
        await engine.routes.find("t")
        await engine.heartbeat()
        (connection,) = broker.connections
        answers = [
            await connection.request(Command(code, ext=ext), 5)
            for code, ext in ((307, {"number": "7"}), (307, {"number": "x"}), (309, {}), (221, {}), (9999, {}))
        ]
        assert [answer.code for answer in answers] == [0, 1, 13, 1, 3]
        assert answers[0].body == b"7"
        assert "a bug" in (answers[3].remark or "")


@in_loop
async def test_a_closed_engine_says_so() -> None:
    async with cluster() as (namesrv, (broker,)):
        engine = Engine(namesrv.address)
        await engine.start()
        await engine.close()
        await engine.close()
        with pytest.raises(MqError, match="is closed"):
            await engine.request(broker.address, send_request())


@in_loop
async def test_closing_does_not_wait_for_a_broker_that_hangs() -> None:
    async with cluster() as (namesrv, (broker,)):
        engine = Engine(namesrv.address)
        engine.add_producer("p")
        await engine.start()
        await engine.routes.find("t")
        await engine.heartbeat()
        broker.server._handlers[35] = (None, lambda connection, request, header: None)
        async with asyncio.timeout(5):
            await engine.close()


@in_loop
async def test_oneway_commands_wait_for_a_broker_that_does_not_read() -> None:
    reading, finished = asyncio.Event(), asyncio.Event()

    async def read_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reading.wait()
        while await reader.read(1 << 20):
            pass
        writer.close()
        finished.set()

    server = await asyncio.start_server(read_later, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    sent = 0

    async def send_all(engine: Engine) -> None:
        nonlocal sent
        for _ in range(400):
            await engine.oneway(address, Command(310, ext={}, body=bytes(100_000)))
            sent += 1

    async with Engine("127.0.0.1:1") as engine:
        sending = asyncio.create_task(send_all(engine))
        before = -1
        while sent != before:  # until it stands still
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 400
        with pytest.raises(RequestTimeout, match="took nothing"):
            await engine.oneway(address, Command(310, ext={}), 0.05)
        reading.set()
        await sending
    await finished.wait()
    server.close()
