"""SYNC_FLUSH and ASYNC_FLUSH: what is answered and readable before, during and after a sync of the log."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.server.broker import flushing as flushing_module
from mqctl.server.broker.flushing import Flushing
from mqctl.store.commitlog import CommitLog
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import SUSPEND, running, send_ext, serving

SYNC = {"flush_disk_type": "SYNC_FLUSH"}


class Disk:
    """fdatasync that can be held and can refuse."""

    def __init__(self) -> None:
        self.real = os.fdatasync
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.refuses = False
        self.begun = 0

    def fdatasync(self, descriptor: int) -> None:
        self.begun += 1
        self.may_sync.wait(5)
        if self.refuses:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.real(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    yield disk
    disk.may_sync.set()


# -- SYNC_FLUSH -----------------------------------------------------------------------------------------


@in_loop
async def test_an_answer_waits_for_the_disk(tmp_path: Path, disk: Disk) -> None:
    async with serving(tmp_path, **SYNC) as (_, client):
        disk.may_sync.clear()
        send = asyncio.create_task(client.send(b"safe"))
        await until(lambda: disk.begun)
        assert await client.max_offset() == 0
        assert not send.done()
        disk.may_sync.set()
        assert (await send).code == 0
        assert (await client.pull()).bodies == [b"safe"]


@in_loop
async def test_what_is_not_safe_is_not_readable(tmp_path: Path, disk: Disk) -> None:
    async with serving(tmp_path, **SYNC) as (house, client):
        waiting = asyncio.create_task(client.pull(flags=SUSPEND))
        await until(lambda: house.parked == 1)
        disk.may_sync.clear()
        send = asyncio.create_task(client.send(b"safe"))
        await until(lambda: disk.begun)
        assert (await client.pull()).code == 19
        assert not waiting.done()
        disk.may_sync.set()
        assert (await waiting).bodies == [b"safe"]
        await send


@in_loop
async def test_those_who_come_meanwhile_share_one_sync(tmp_path: Path, disk: Disk) -> None:
    async with serving(tmp_path, **SYNC) as (_, client):
        await client.sent()
        disk.begun = 0
        disk.may_sync.clear()
        first = asyncio.create_task(client.sent())
        await until(lambda: disk.begun == 1)
        others = [asyncio.create_task(client.sent()) for _ in range(50)]
        await client.max_offset()
        disk.may_sync.set()
        assert [await first, *(await asyncio.gather(*others))] == list(range(1, 52))
        assert disk.begun == 2


@in_loop
async def test_a_sync_that_takes_too_long(tmp_path: Path, disk: Disk) -> None:
    """The message is stored and the client is told so, with where it went."""
    async with serving(tmp_path, **SYNC, sync_flush_timeout=1000) as (_, client):
        disk.may_sync.clear()
        answer = await client.send(b"slow")
        assert answer.code == 10
        assert answer.fields()["queueOffset"] == "0"
        assert await client.max_offset() == 0
        disk.may_sync.set()
        assert await client.sent(b"next") == 1
        assert (await client.pull()).bodies == [b"slow", b"next"]


@in_loop
async def test_a_disk_that_does_not_sync(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing_module, "RETRY_SECONDS", 0.02)
    async with serving(tmp_path, **SYNC) as (_, client):
        disk.refuses = True
        answer = await client.send(b"unsafe")
        assert answer.code == 10
        assert "Input/output error" in (answer.remark or "")
        assert (await client.pull()).code == 19
        disk.refuses = False
        await until(lambda: disk.begun > 1)
        assert await client.sent(b"next") == 1


@in_loop
async def test_whoever_does_not_want_to_wait_does_not(tmp_path: Path, disk: Disk) -> None:
    async with serving(tmp_path, **SYNC) as (_, client):
        disk.may_sync.clear()
        assert await client.sent(b"hasty", properties={"WAIT": "false"}) == 0
        disk.may_sync.set()


@in_loop
async def test_a_stop_waits_for_what_was_promised(tmp_path: Path, disk: Disk) -> None:
    async with running(tmp_path, **SYNC) as house:
        client = house.client()
        await client.create_topic("t")
        disk.may_sync.clear()
        await client.oneway(310, send_ext(), b"promised")
        await until(lambda: disk.begun)
        asyncio.get_running_loop().call_later(0.05, disk.may_sync.set)
    async with running(tmp_path) as house:
        assert (await house.client().pull()).bodies == [b"promised"]


@in_loop
async def test_a_topic_deleted_while_its_message_is_being_synced(tmp_path: Path, disk: Disk) -> None:
    async with serving(tmp_path, **SYNC) as (house, client):
        await client.sent(b"old")
        disk.may_sync.clear()
        send = asyncio.create_task(client.send(b"late"))
        await until(lambda: disk.begun == 2)
        await client.ok(215, {"topic": "t"})
        disk.may_sync.set()
        await send
        await client.create_topic("t")
        assert await client.sent(b"new") == 0
        house.broker.store.flush_queues()
        assert (await client.pull()).bodies == [b"new"]


# -- ASYNC_FLUSH ----------------------------------------------------------------------------------------


@in_loop
async def test_an_answer_does_not_wait_for_the_disk(tmp_path: Path, disk: Disk) -> None:
    async with serving(tmp_path) as (_, client):
        disk.may_sync.clear()
        assert await client.sent(b"quick") == 0
        assert (await client.pull()).bodies == [b"quick"]
        disk.may_sync.set()


@in_loop
async def test_the_log_reaches_the_disk_in_time(tmp_path: Path, disk: Disk) -> None:
    async with serving(
        tmp_path,
        flush_interval_commit_log=10,
        flush_commit_log_least_pages=4,
        flush_commit_log_thorough_interval=100_000,
    ) as (house, client):
        await client.sent(bytes(1000))
        log = house.broker.store.log
        assert log.flushed < log.end
        await client.sent(bytes(20_000))
        await until(lambda: log.flushed == log.end)


@in_loop
async def test_a_little_is_enough_after_a_while(tmp_path: Path, disk: Disk) -> None:
    async with serving(
        tmp_path, flush_interval_commit_log=10, flush_commit_log_least_pages=1000, flush_commit_log_thorough_interval=50
    ) as (house, client):
        await client.sent(b"x")
        log = house.broker.store.log
        await until(lambda: log.flushed == log.end)


# -- the part itself ------------------------------------------------------------------------------------


def a_log(root: Path) -> CommitLog:
    log = CommitLog(root, 1024)
    log.open_at(0)
    return log


def write(log: CommitLog, size: int = 100) -> None:
    log.place(size)
    log.append(bytes(size))
    log.write()


@in_loop
async def test_an_accident_of_a_listener_does_not_end_all_syncs(tmp_path: Path) -> None:
    ends: list[int] = []

    def listener(end: int) -> None:
        ends.append(end)
        if len(ends) == 1:
            raise RuntimeError("surprise")

    log = a_log(tmp_path)
    flushing = Flushing(log, listener, lambda error: None)
    write(log)
    flushing.request()
    task = flushing._running
    assert task is not None
    await asyncio.gather(task, return_exceptions=True)
    write(log)
    flushing.request()
    await until(lambda: ends == [100, 200], 1)
    log.close()


@in_loop
async def test_files_across_a_boundary_are_all_synced(tmp_path: Path, disk: Disk) -> None:
    log = a_log(tmp_path)
    flushing = Flushing(log, lambda end: None, lambda error: None)
    write(log, 900)
    write(log, 900)
    write(log, 900)
    await flushing.finish()
    assert (log.flushed, disk.begun) == (log.end, 3)
    write(log, 50)
    await flushing.finish()
    assert (log.flushed, disk.begun) == (log.end, 4)
    log.close()


# -- the broker's own messages --------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@in_loop
async def test_where_nothing_was_put_everything_is_stored(tmp_path: Path, flush: str) -> None:
    async with serving(tmp_path, flush_disk_type=flush) as (house, client):
        await client.sent(b"1")
        await house.broker.acks.stored()
        await house.broker.acks.stored()


@in_loop
async def test_who_does_not_wait_any_more_takes_nothing_from_others(tmp_path: Path) -> None:
    async with serving(tmp_path, **SYNC) as (house, _):
        gone, other = house.broker.acks.stored(), house.broker.acks.stored()
        gone.cancel()
        await other
