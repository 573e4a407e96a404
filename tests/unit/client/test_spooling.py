"""Messages outlive the cluster in a file: in order, none lost, marked when they may come twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqctl.client import Message, Producer, SendStatus, replay, spool, spooling
from mqctl.client.spool import Spool
from mqctl.errors import SpoolFull
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from tests.aio import in_loop, until
from tests.unit.client.fakes import Behaviour, FakeBroker, FakeNamesrv, cluster


def kept_in(path: Path) -> list[bytes]:
    opened = Spool(path)
    opened.open()
    try:
        return [entry.outgoing.body for entry in opened.peek(99)]
    finally:
        opened.close()


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "REFUSED_TRIES", 2)
    monkeypatch.setattr(replay, "PAUSE_SECONDS", 0.001)


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
    assert [len(body) for body in kept_in(path)] == [1000] * 4


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
    assert kept_in(tmp_path / "spool.refused") == [b"bad"]


def answers_of(broker: FakeBroker, topic: str, code: int) -> tuple[Behaviour, list[bytes]]:
    """A broker that answers so to messages of the topic and takes all others; what it was asked for the topic."""
    asked: list[bytes] = []

    def answer(connection: Connection, request: Command) -> Command:
        if request.fields()["b"] != topic:
            return broker.take(request)
        asked.append(request.body)
        return request.reply(code, remark="not here")

    return answer, asked


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize("code", [1, 16, 17])
@in_loop
async def test_a_topic_that_brokers_do_not_want_holds_up_the_others_for_a_while_only(tmp_path: Path, code: int) -> None:
    async with cluster() as (namesrv, (broker,)):
        namesrv.route("closed", broker)
        broker.behaviour, asked = answers_of(broker, "closed", code)
        await broker.stop()
        async with Producer("g", namesrv.address, spool=tmp_path / "spool", retries=0) as producer:
            for topic, body in (("closed", b"0"), ("t", b"1"), ("closed", b"2"), ("closed", b"3"), ("t", b"4")):
                await producer.send(Message(topic, body))
            await broker.start()
            await until(lambda: len(broker.bodies) == 2, 10)
    assert broker.bodies == [b"1", b"4"]
    assert asked == [b"0"] * 3 + [b"2", b"3"], "patience is spent once for a topic"
    assert kept_in(tmp_path / "spool.refused") == [b"0", b"2", b"3"]


@pytest.mark.usefixtures("few_tries")
@in_loop
async def test_a_topic_that_may_not_be_written_any_more_is_set_aside_as_well(tmp_path: Path) -> None:
    async with cluster() as (namesrv, (broker,)):
        namesrv.route("closed", broker)
        await broker.stop()
        async with Producer("g", namesrv.address, spool=tmp_path / "spool") as producer:
            for topic in ("closed", "t"):
                await producer.send(Message(topic, topic.encode()))
            namesrv.route("closed", broker, perm=4)
            await producer._engine.routes.refresh("closed")
            await broker.start()
            await until(lambda: broker.bodies, 10)
    assert broker.bodies == [b"t"]
    assert kept_in(tmp_path / "spool.refused") == [b"closed"]


@pytest.mark.usefixtures("few_tries")
@in_loop
async def test_a_busy_broker_is_waited_for_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster() as (namesrv, (broker,)):
        broker.behaviour, asked = answers_of(broker, "t", 14)
        await broker.stop()
        async with Producer("g", namesrv.address, spool=tmp_path / "spool", retries=0) as producer:
            await producer.send(Message("t", b"0"))
            await broker.start()
            await until(lambda: len(asked) > 2 * replay.REFUSED_TRIES, 10)
            broker.behaviour = None
            await until(lambda: broker.bodies, 10)
    assert sum("SERVICE_NOT_AVAILABLE: not here" in record.message for record in caplog.records) == 1


@in_loop
async def test_while_the_spool_empties_senders_leave_it_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "CUT_OVER", 10_000)
    monkeypatch.setattr(spooling, "REPLAY_STEP", 4)
    path = tmp_path / "spool"
    sent: list[int] = []

    async def send_many(producer: Producer) -> None:
        for _ in range(50):
            sent.append(len(sent))
            await producer.send(Message("t", b"%d" % sent[-1] + bytes(1000)))

    async with cluster() as (namesrv, (broker,)):
        await broker.stop()
        async with Producer("g", namesrv.address, spool=path, max_spool_bytes=150_000, timeout=60) as producer:
            for _ in range(50):
                sent.append(len(sent))
                await producer.send(Message("t", b"%d" % sent[-1] + bytes(1000)))
            await broker.start()
            await until(lambda: broker.bodies, 10)
            await asyncio.gather(*(send_many(producer) for _ in range(20)))
            await until(lambda: path.stat().st_size == 0, 10)
    assert [int(body.rstrip(bytes(1))) for body in broker.bodies] == sent


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
