"""The broker as a server: unknown codes, both codecs, broken handlers, garbage, slow readers, stop and start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from mqctl.errors import ConfigError, ConnectionFailed
from mqctl.remoting.command import BINARY, JSON, Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.frames import FrameSplitter, join_frame
from mqctl.server.broker import app as app_module
from mqctl.server.broker.app import Broker
from mqctl.server.broker.checkpoints import Checkpoints
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import Client, broker_config, heartbeat, pull_ext, running, send_ext, serving


@pytest.mark.parametrize("code", [0, 13, 27, 301, 4242, -5, 200_050, 2**31 - 1])
@in_loop
async def test_unknown_codes(tmp_path: Path, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.ask(code)
        assert (answer.code, answer.body) == (3, b"")
        assert str(code) in (answer.remark or "")


REQUESTS: list[tuple[int, dict[str, Any], bytes]] = [
    (310, send_ext(), b"body"),
    (11, pull_ext(), b""),
    (11, pull_ext(queueOffset=9), b""),
    (30, {"topic": "t", "queueId": 0}, b""),
    (34, {}, heartbeat("me", ["g"])),
    (17, {}, b""),
    (4242, {}, b""),
    (28, {}, b""),
    (26, {}, b""),
]


@pytest.mark.parametrize(
    ("code", "ext", "body"), REQUESTS, ids=lambda value: str(value) if isinstance(value, int) else ""
)
@in_loop
async def test_binary_requests_are_answered_in_binary(
    tmp_path: Path, code: int, ext: dict[str, Any], body: bytes
) -> None:
    async with serving(tmp_path) as (_, client):
        one = await client.ask(code, ext, body, JSON)
        two = await client.ask(code, ext, body, BINARY)
        assert (one.codec, two.codec) == (JSON, BINARY)
        assert one.code == two.code
        assert one.fields().keys() == two.fields().keys()


@in_loop
async def test_a_handler_that_raises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(connection: Connection, request: Command, _: object) -> Command:
        raise ZeroDivisionError("surprise")

    async with serving(tmp_path) as (house, client):
        house.broker.server._handlers[30] = (None, broken)
        for codec in (JSON, BINARY):
            answer = await client.ask(30, {"topic": "t", "queueId": 0}, codec=codec)
            assert (answer.code, answer.codec) == (1, codec)
            assert "ZeroDivisionError: surprise" in (answer.remark or "")
        await client.oneway(30, {"topic": "t", "queueId": 0})
        assert await client.sent() == 0
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 3
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in errors)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 8,
        b"GET / HTTP/1.0\r\n\r\n",
        join_frame(9, b"", b""),
        join_frame(0, b"{", b""),
        join_frame(1, b"", b""),
    ],
)
@in_loop
async def test_a_frame_error_closes_only_that_connection(tmp_path: Path, garbage: bytes) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent()
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(garbage)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert await client.sent() == 1
        assert (await client.pool.connect(client.address)).is_open


@in_loop
async def test_a_frame_over_the_maximum(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        with pytest.raises(ConnectionFailed):
            await client.ask(310, send_ext(), bytes(16 * 1024 * 1024))
        assert await client.sent() == 0


@in_loop
async def test_the_largest_message_there_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        body = bytes(4 * 1024 * 1024)
        assert await client.sent(body) == 0
        assert (await client.send(body + b"x")).code == 13
        assert (await client.pull()).bodies == [body]


# -- clients that do not read ---------------------------------------------------------------------------


def queued_bytes(connection: Connection) -> int:
    transport = connection._transport
    return (transport.get_write_buffer_size() if transport is not None else 0) + sum(map(len, connection._out))


@in_loop
async def test_a_client_that_never_reads(tmp_path: Path) -> None:
    """It pulls a quarter of a MiB at a time, again and again. At some point nothing more is taken from it; the
    others do not notice, and when it reads at last it gets all its answers."""
    async with serving(tmp_path) as (house, client):
        for _ in range(4):
            await client.sent(bytes(60_000))
        (other,) = house.broker.server.connections
        request = Command(11, ext={name: str(value) for name, value in pull_ext().items()}).encode()
        loop = asyncio.get_running_loop()
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            lazy.setblocking(False)
            await loop.sock_connect(lazy, ("127.0.0.1", house.port))
            await until(lambda: len(house.broker.server.connections) == 2)
            (greedy,) = house.broker.server.connections - {other}
            most = sent = 0
            while greedy._transport is None or greedy._transport.is_reading():
                await loop.sock_sendall(lazy, request)
                sent += 1
                assert await client.max_offset() == 4
                most = max(most, queued_bytes(greedy))
                assert sent < 500
            assert most < 16 * 1024 * 1024
            assert await client.sent(b"others go on") == 4
            splitter, answers = FrameSplitter(), 0
            while answers < sent:
                answers += len(splitter.feed(await loop.sock_recv(lazy, 1 << 20)))


@in_loop
async def test_a_client_that_asks_for_much_at_once_and_never_reads(tmp_path: Path) -> None:
    """Two hundred KiB of requests are 200 MiB of answers."""
    async with serving(tmp_path) as (house, client):
        for _ in range(4):
            await client.sent(bytes(60_000))
        (other,) = house.broker.server.connections
        ext = {name: str(value) for name, value in pull_ext().items()}
        requests = b"".join(Command(11, ext=ext, opaque=number).encode() for number in range(800))
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port, limit=1024)
        await until(lambda: len(house.broker.server.connections) == 2)
        (greedy,) = house.broker.server.connections - {other}
        writer.write(requests)
        most = 0
        for _ in range(50):
            await client.max_offset()
            most = max(most, queued_bytes(greedy))
        writer.transport.abort()
        await until(lambda: len(house.broker.server.connections) == 1)
        assert most < 64 * 1024 * 1024
        with contextlib.suppress(OSError):
            await reader.read(1)


# -- about itself ---------------------------------------------------------------------------------------


@in_loop
async def test_runtime_info(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for _ in range(3):
            await client.sent(b"body")
        await client.pull()
        table = (await client.json(28))["table"]
        assert all(isinstance(value, str) for value in table.values())
        assert (table["brokerVersion"], table["brokerVersionDesc"]) == ("407", "V4_9_7")
        assert table["putMessageTimesTotal"] == "3"
        assert int(table["commitLogMaxOffset"]) == int(table["putMessageSizeTotal"]) > 0
        assert table["commitLogMinOffset"] == "0"
        assert len(table["putTps"].split()) == len(table["getTotalTps"].split()) == 3
        assert float(table["putTps"].split()[0]) > 0
        assert int(table["earliestMessageTimeStamp"]) > 0


@in_loop
async def test_runtime_info_of_an_empty_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        table = (await house.client().json(28))["table"]
        assert table["earliestMessageTimeStamp"] == "-1"
        assert table["putMessageAverageSize"] == "0.0"


@in_loop
async def test_configuration(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        answer = await client.ok(26)
        lines = answer.body.decode().splitlines()
        assert "brokerName=broker-a" in lines
        assert f"listenPort={house.port}" in lines
        assert "autoCreateTopicEnable=true" in lines
        assert json.loads(answer.fields()["version"])["counter"] == 0


# -- starting and stopping ------------------------------------------------------------------------------


@in_loop
async def test_nothing_is_lost_by_a_stop_in_the_middle(tmp_path: Path) -> None:
    """Every message that was acknowledged is there afterwards, in the order of the answers."""
    async with running(tmp_path / "store") as house:
        client = house.client()
        await client.create_topic("t")
        sends = [asyncio.create_task(client.send(b"%d" % number)) for number in range(300)]
        await until(lambda: house.broker.store.messages_put > 50)
        await house.broker.stop()
        answers = await asyncio.gather(*sends, return_exceptions=True)
        house.broker.stop = _nothing  # type: ignore[method-assign]
    accepted = {
        int(answer.fields()["queueOffset"]): b"%d" % number
        for number, answer in enumerate(answers)
        if isinstance(answer, Command) and answer.code == 0
    }
    assert len(accepted) > 50
    assert not (tmp_path / "store/abort").exists()
    async with running(tmp_path / "store") as house:
        client = house.client()
        for queue_offset, body in accepted.items():
            (first, *_) = (await client.pull(queue_offset)).messages
            assert (first.queue_offset, first.body) == (queue_offset, body)


async def _nothing() -> None:
    pass


@in_loop
async def test_a_stop_right_after_changes(tmp_path: Path) -> None:
    """Tables may be on their way to the disk at that moment. The last state wins, and the store is closed."""
    for number in range(10):
        root = tmp_path / str(number)
        async with running(root) as house:
            client = house.client()
            await client.heartbeat("g1")
            await client.ok(15, {"consumerGroup": "g1", "topic": "t", "queueId": 0, "commitOffset": number})
            house.broker.offsets.save_soon()
            await client.heartbeat("g2")
            await client.ok(15, {"consumerGroup": "g1", "topic": "t", "queueId": 0, "commitOffset": number + 1})
        assert not (root / "abort").exists()
        topics = json.loads((root / "config/topics.json").read_text())["topicConfigTable"]
        groups = json.loads((root / "config/subscriptionGroup.json").read_text())["subscriptionGroupTable"]
        offsets = json.loads((root / "config/consumerOffset.json").read_text())["offsetTable"]
        assert {"%RETRY%g1", "%RETRY%g2"} <= topics.keys()
        assert {"g1", "g2"} <= groups.keys()
        assert offsets == {"t@g1": {"0": number + 1}}
        assert not list((root / "config").glob("*.tmp"))


@in_loop
async def test_a_stop_on_a_disk_that_refuses_still_closes_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that cannot be saved is said, and does not keep the rest from being."""

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    house = None
    with contextlib.suppress(Exception):
        async with running(tmp_path) as house:
            client = house.client()
            await client.create_topic("t")
            await client.sent()
            monkeypatch.setattr("os.fsync", no_space)
    monkeypatch.undo()
    assert house is not None
    assert not house.broker.store.log._handles._open


@in_loop
async def test_a_busy_port_leaves_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path / "one") as (house, client):
        other = Broker(broker_config(tmp_path / "two", listen_port=house.port))
        with pytest.raises(ConfigError, match="already in use"):
            await other.start()
        assert not (tmp_path / "two/abort").exists()
        await other.server.stop()
        assert await client.sent() == 0


SECOND_BROKER = """
import asyncio, sys
from pathlib import Path
from mqctl.server.broker.app import Broker
from tests.unit.server.broker.harness import broker_config

async def main():
    await Broker(broker_config(Path(sys.argv[1]))).start()

asyncio.run(main())
"""


@in_loop
async def test_two_brokers_do_not_share_a_store(tmp_path: Path) -> None:
    """The second one would cut and overwrite what the first one writes."""
    async with serving(tmp_path) as (_, client):
        await client.sent()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SECOND_BROKER, str(tmp_path), stderr=asyncio.subprocess.PIPE
        )
        _, complaint = await process.communicate()
        assert process.returncode == 1
        assert b"StoreError" in complaint and b"in use by another broker" in complaint
        assert await client.sent() == 1


@in_loop
async def test_a_broker_known_by_a_name(tmp_path: Path) -> None:
    """brokerIP1 may be a host name, as it is in containers; Java resolves it."""
    async with serving(tmp_path, broker_ip1="localhost") as (_, client):
        assert await client.sent() == 0


# -- housekeeping ---------------------------------------------------------------------------------------


@in_loop
async def test_the_next_log_file_is_made_ahead_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        await until(lambda: len(list((tmp_path / "commitlog").iterdir())) == 2)
    assert len(list((tmp_path / "commitlog").iterdir())) == 1


@in_loop
async def test_housekeeping_survives_an_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bad round must not be the last one."""
    monkeypatch.setattr(app_module, "CHECKPOINT_SECONDS", 0.01)
    calls = 0

    async def fails_once(_: Checkpoints) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("surprise")

    monkeypatch.setattr(Checkpoints, "round", fails_once)
    async with serving(tmp_path):
        await until(lambda: calls > 1, 2)


@in_loop
async def test_a_disconnect_while_its_message_is_being_written(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        for _ in range(20):
            brief = Client(house.address)
            await brief.oneway(310, send_ext(), b"body")
            connection = await brief.pool.connect(house.address)
            connection.send(Command(310, ext={name: str(value) for name, value in send_ext().items()}, body=b"body"))
            await brief.close()
        await until(lambda: len(house.broker.server.connections) == 1)
        await until(lambda: house.broker.store.messages_put == 40)
        assert await client.sent() == 40
