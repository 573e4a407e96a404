"""Messages outlive the cluster in a file: in order, none lost, marked when they may come twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqctl.client import Message, Producer, SendStatus
from mqctl.client.spool import Spool
from mqctl.errors import SpoolFull
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from tests.aio import in_loop, until
from tests.unit.client.fakes import FakeNamesrv, cluster


@in_loop
async def test_messages_wait_for_the_cluster_and_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with cluster() as (namesrv, (broker,)):
        async with Producer("g", namesrv.address, spool=path) as producer:
            assert (await producer.send(Message("t", b"0"))).status is SendStatus.SEND_OK
            await broker.stop()
            results = [await producer.send(Message("t", b"%d" % number)) for number in range(1, 6)]
            results += await asyncio.gather(*(producer.send(Message("t", b"%d" % number)) for number in range(6, 50)))
            assert {result.status for result in results} == {SendStatus.SPOOLED}
            await broker.start()
            await producer.send(Message("t", b"50"))
            await until(lambda: len(broker.bodies) == 51 and path.stat().st_size == 0, 10)
        assert broker.bodies == [b"%d" % number for number in range(51)]
        assert broker.unique_keys[1:50] == [result.msg_id for result in results]


@in_loop
async def test_a_producer_may_start_before_any_cluster_and_its_successor_delivers(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    namesrv = FakeNamesrv()
    await namesrv.start()
    async with Producer("g", namesrv.address, spool=path) as producer:
        results = [await producer.send(Message("t", b"%d" % number), order_key="k") for number in range(10)]
    await namesrv.stop()
    async with cluster(queues=4) as (namesrv, (broker,)), Producer("g", namesrv.address, spool=path):
        await until(lambda: path.stat().st_size == 0)
        assert broker.bodies == [b"%d" % number for number in range(10)]
        assert broker.unique_keys == [result.msg_id for result in results]
        assert len(set(broker.queue_ids)) == 1, "the order key is kept"


@in_loop
async def test_a_full_spool_is_an_error_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with Producer("g", "127.0.0.1:1", spool=path, max_spool_bytes=5000, compress_over=10**6) as producer:
        for _ in range(4):
            await producer.send(Message("t", bytes(1000)))
        with pytest.raises(SpoolFull, match="5000 bytes"):
            await producer.send(Message("t", bytes(1000)))
        with pytest.raises(SpoolFull):
            await asyncio.gather(*(producer.send(Message("t", bytes(900))) for _ in range(9)))
    spool = Spool(path)
    spool.open()
    assert [len(entry.outgoing.body) for entry in spool.peek(9)] == [1000] * 4
    spool.close()


@in_loop
async def test_a_message_that_is_refused_later_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with cluster() as (namesrv, (broker,)):

        def refuse_first(connection: Connection, request: Command) -> Command:
            return request.reply(13, remark="illegal") if request.body == b"bad" else broker.take(request)

        broker.behaviour = refuse_first
        await broker.stop()
        async with Producer("g", namesrv.address, spool=path) as producer:
            for body in (b"bad", b"good"):
                await producer.send(Message("t", body))
            await broker.start()
            await until(lambda: broker.bodies, 10)
    assert broker.bodies == [b"good"]
    refused = Spool(tmp_path / "spool.refused")
    refused.open()
    assert [entry.outgoing.body for entry in refused.peek(9)] == [b"bad"]
    refused.close()


@in_loop
async def test_a_disk_that_refuses_a_mark_does_not_end_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(spool: Spool, count: int) -> None:
        monkeypatch.undo()
        with monkeypatch.context() as disk:
            disk.setattr("os.ftruncate", refuse)
            spool.mark_sent(count)

    def refuse(*_: int) -> None:
        raise OSError(28, "No space left on device")

    async with cluster() as (namesrv, (broker,)):
        await broker.stop()
        async with Producer("g", namesrv.address, spool=tmp_path / "spool") as producer:
            await producer.send(Message("t", b"0"))
            monkeypatch.setattr(Spool, "mark_sent", full)
            await broker.start()
            await until(lambda: len(broker.bodies) == 1)
            await producer.send(Message("t", b"1"))
            await until(lambda: len(broker.bodies) == 2)
            await producer.send(Message("t", b"2"))
            await until(lambda: len(broker.bodies) == 3)
        assert broker.bodies == [b"0", b"1", b"2"]


@in_loop
async def test_a_cancelled_send_leaves_nothing_behind_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()
    append = Spool.append

    def slow(spool: Spool, packed: Sequence[bytes]) -> None:
        began.set()
        go_on.wait(10)
        append(spool, packed)

    monkeypatch.setattr(Spool, "append", slow)
    async with cluster() as (namesrv, (broker,)):
        await broker.stop()
        async with Producer("g", namesrv.address, spool=tmp_path / "spool") as producer:
            sending = asyncio.create_task(producer.send(Message("t", b"0")))
            await asyncio.to_thread(began.wait)
            sending.cancel()
            await asyncio.sleep(0.1)
            go_on.set()
            await broker.start()
            await until(lambda: broker.bodies)
    assert broker.bodies == [b"0"]
