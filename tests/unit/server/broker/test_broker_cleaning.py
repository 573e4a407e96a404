"""Cleaning in a running broker: rounds, requests, and a disk that is really full."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl import config as properties
from mqctl.errors import ConfigError, StoreError
from mqctl.server.broker.cleaning import Cleaning, rules_of
from mqctl.server.broker.config import BrokerConfig
from mqctl.store.clean import is_outlived
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import Client, House, running, serving

FILE = 64 * 1024
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE,
    "flush_interval_commit_log": 5,
    "delete_commit_log_files_interval": 1,
}
# Four such messages to a log file.
BODY = bytes(15_000)


class Disk:
    """As full as one says, and deleting only when one lets it."""

    def __init__(self) -> None:
        self.used = 0.1
        self.refuses = False
        self.may_delete = threading.Event()
        self.may_delete.set()
        self.deleted: list[int] = []

    def usage(self, path: Path) -> float:
        return self.used

    def delete(self, path: Path) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.may_delete.wait(5)
        if self.refuses:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        path.unlink()
        self.deleted.append(int(path.name) // FILE)


def cleaning(house: House, disk: Disk) -> Cleaning:
    """One whose rounds the test starts; the broker's own are ten seconds away."""
    broker = house.broker
    return Cleaning(broker.config, broker.topics, broker.store, disk_usage=disk.usage, delete=disk.delete)


async def fill(house: House, client: Client, files: int) -> None:
    """As many log files as asked for, all but the last full and on disk."""
    log = house.broker.store.log
    while log.end < (files - 1) * FILE:
        await client.sent(BODY)
    await until(lambda: log.flushed == log.end)


def log_files(house: House) -> list[int]:
    return [start // FILE for start in house.broker.store.log.segments.starts]


# -- configuration --------------------------------------------------------------------------------------


def test_the_defaults_are_apaches() -> None:
    rules = rules_of(BrokerConfig())
    assert (rules.reserved_seconds, rules.hours, rules.max_used) == (72 * 3600, {4}, 0.75)
    assert (rules.forcible_used, rules.may_force, rules.warning_used) == (0.85, True, 0.90)


def test_settings() -> None:
    text = {"deleteWhen": "04;16;", "fileReservedTime": "48", "diskMaxUsedSpaceRatio": "100"}
    config, warnings = properties.bind(BrokerConfig, {**text, "diskSpaceWarningLevelRatio": "0.5"}, "test")
    assert not warnings
    rules = rules_of(config)
    assert (rules.hours, rules.reserved_seconds, rules.max_used) == ({4, 16}, 48 * 3600, 0.95)
    assert rules.warning_used == 0.5


@pytest.mark.parametrize("hours", ["", "24", "four", "4,5", "-1"])
def test_hours_that_are_none(hours: str) -> None:
    with pytest.raises(ConfigError, match="deleteWhen"):
        properties.bind(BrokerConfig, {"deleteWhen": hours}, "test")


# -- rounds ---------------------------------------------------------------------------------------------


@in_loop
async def test_sends_are_refused_while_the_disk_is_too_full(tmp_path: Path) -> None:
    async with serving(tmp_path, **SMALL) as (house, client):
        disk = Disk()
        rounds = cleaning(house, disk)
        await client.sent(b"before")
        disk.used = 0.93
        await rounds.round()
        for topic in ("t", "new"):
            answer = await client.send(b"refused", topic=topic)
            assert (answer.code, answer.remark) == (14, "the disk is 93% full, messages are accepted up to 90%")
        assert house.broker.topics.get("new") is None
        assert (await client.pull()).bodies == [b"before"]
        disk.used = 0.90
        await rounds.round()
        assert await client.sent(b"after") == 1


@in_loop
async def test_a_round_deletes_at_most_ten_files(tmp_path: Path) -> None:
    async with serving(tmp_path, **SMALL) as (house, client):
        await fill(house, client, 14)
        disk = Disk()
        disk.used = 0.87
        rounds = cleaning(house, disk)
        await rounds.round()
        assert disk.deleted == list(range(10))
        first = (await client.pull()).min_offset
        assert first > 0
        assert (await client.pull(first)).bodies[0] == BODY
        await rounds.round()
        assert disk.deleted == list(range(13))
        assert log_files(house)[0] == 13


@in_loop
async def test_the_index_hears_where_the_log_begins(tmp_path: Path) -> None:
    async with serving(tmp_path, **SMALL) as (house, client):
        await fill(house, client, 4)
        disk = Disk()
        rounds = cleaning(house, disk)
        heard: list[int] = []
        rounds.on_log_begin = heard.append
        await rounds.round()
        await rounds.round()
        disk.used = 0.87
        await rounds.round()
        assert heard == [0, 3 * FILE]


@in_loop
async def test_the_broker_serves_while_a_file_is_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, **SMALL) as (house, client):
        await fill(house, client, 4)
        disk = Disk()
        disk.used = 0.87
        disk.may_delete.clear()
        running = asyncio.create_task(cleaning(house, disk).round())
        await until(lambda: log_files(house)[0] == 1)
        await client.sent(b"meanwhile")
        pulled = await client.pull(0, maxMsgNums=1)
        assert pulled.code in (20, 21)  # removed a moment ago: try again, or go to where the queue begins
        assert (await client.pull(8, maxMsgNums=1)).bodies == [BODY]
        disk.may_delete.set()
        await running


@in_loop
async def test_a_file_that_cannot_be_deleted_comes_first_the_next_time(tmp_path: Path) -> None:
    async with serving(tmp_path, **SMALL) as (house, client):
        await fill(house, client, 4)
        disk = Disk()
        disk.used, disk.refuses = 0.87, True
        rounds = cleaning(house, disk)
        await rounds.round()
        disk.used = 0.95
        await rounds.round()
        assert (disk.deleted, log_files(house)[0]) == ([], 1)
        assert (await client.send()).code == 14
        assert (await client.pull(0)).min_offset == 4  # the queues followed all the same
        disk.refuses = False
        await rounds.round()
        assert disk.deleted == [0, 1, 2]


@in_loop
async def test_a_stop_waits_for_a_deletion(tmp_path: Path) -> None:
    async with serving(tmp_path, **SMALL, clean_resource_interval=600_000) as (house, client):
        await fill(house, client, 3)
        disk = Disk()
        disk.used = 0.87
        disk.may_delete.clear()
        house.broker.cleaning = rounds = cleaning(house, disk)
        house.broker.server.spawn(rounds.round())
        await until(lambda: log_files(house)[0] == 1)
        asyncio.get_running_loop().call_later(0.05, disk.may_delete.set)
    assert disk.deleted == [0]


@in_loop
async def test_a_disk_that_cannot_be_asked(tmp_path: Path) -> None:
    """The rounds go on, and so does everything else."""
    asked = []

    def refuse(path: Path) -> float:
        asked.append(path)
        raise StoreError("cannot ask")

    async with serving(tmp_path, **SMALL, clean_resource_interval=5) as (house, client):
        house.broker.cleaning._cleaner._disk_usage = refuse
        await until(lambda: len(asked) > 2)
        await client.sent()


# -- requests -------------------------------------------------------------------------------------------


def another_hour() -> str:
    return f"{(time.localtime().tm_hour + 12) % 24:02d}"


@in_loop
async def test_delete_expired_commitlog(tmp_path: Path) -> None:
    """Expired files go in the next rounds, and only those."""
    async with serving(tmp_path, **SMALL, clean_resource_interval=10, delete_when=another_hour()) as (house, client):
        await fill(house, client, 4)
        await client.ok(329)
        await until(lambda: house.broker.cleaning._cleaner._manual_rounds == 0)
        assert log_files(house)[0] == 0
        directory = house.broker.store.config.commitlog_dir
        for start in (0, FILE):
            os.utime(directory / f"{start:020d}", (0, 0))
        await client.ok(329)
        await until(lambda: not (directory / f"{FILE:020d}").exists())
        assert log_files(house)[0] == 2


@in_loop
async def test_clean_expired_consumequeue(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "old", **SMALL) as (house, client):
        await client.sent(topic="old")
        scheduled = house.broker.store.queue("SCHEDULE_TOPIC_XXXX", 0)
        scheduled.append(0, 100, 0)
        scheduled.next_offset = 1
        await fill(house, client, 4)
        await client.ok(306)
        assert await client.max_offset("old") == 1
        disk = Disk()
        disk.used = 0.87
        await cleaning(house, disk).round()
        assert await client.max_offset("old") == 1
        await client.ok(306)
        assert await client.max_offset("old") == 0
        assert is_outlived(scheduled) and not scheduled.dropped
        assert await client.max_offset("t") > 0
        assert await client.sent(topic="old") == 0
        assert (await client.pull(topic="old")).bodies == [b"body"]


@in_loop
async def test_clean_unused_topic(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "gone", **SMALL) as (house, client):
        store = house.broker.store
        await client.sent()
        await client.sent(topic="gone")
        kept = ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "%LMQ%light"]
        for topic in kept:
            store.queue(topic, 0)
        await house.broker.topics.delete("gone")
        await client.ok(316)
        assert {topic for topic, _ in store.queues} == {"t", *kept}
        assert not list(store.queue_root.glob("gone/0/*"))


# -- a disk that is really full -------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a file system takes root")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def send_until_refused(client: Client) -> int:
    """The code of the first refusal."""
    while True:
        answer = await client.send(BODY)
        if answer.code != 0:
            return answer.code


@in_loop
async def test_a_full_disk(small_disk: Path) -> None:
    """Filled to the last byte, as by somebody else's files; then cleaned by the broker itself."""
    async with serving(small_disk / "store", **SMALL, clean_resource_interval=600_000) as (house, client):
        await fill(house, client, 3)
        ballast = small_disk / "ballast"
        fill_up(ballast)
        assert await send_until_refused(client) == 14
        end = await client.max_offset()
        assert (await client.pull(end - 1)).bodies == [BODY]
        house.broker.store.flush_queues()
        await house.broker.cleaning.round()
        assert house.broker.store.refusing.startswith("the disk is ")
        assert log_files(house)[0] == 2
        answer = await client.send(BODY)
        assert (answer.code, answer.remark) == (14, house.broker.store.refusing)
        assert (await client.pull(end - 1)).bodies == [BODY]
        ballast.unlink()
        await house.broker.cleaning.round()
        assert await client.sent(BODY) == end
        assert (await client.pull(end)).bodies == [BODY]


@in_loop
async def test_a_small_message_finds_room_where_a_large_one_did_not(small_disk: Path) -> None:
    """Half of the large one is on the disk. Making that undone must not need the room it lacked."""
    ballast = small_disk / "ballast"
    large = bytes(range(256)) * 1024
    sizes = {"mapped_file_size_commit_log": 1024 * 1024, "clean_resource_interval": 600_000}
    async with serving(small_disk / "store", **sizes) as (house, client):
        await client.sent(BODY)
        fill_up(ballast)
        os.truncate(ballast, ballast.stat().st_size - 128 * 1024)
        assert (await client.send(large)).code == 14
        assert await client.sent(b"small") == 1
        house.broker.store.flush_queues()
        shutil.copytree(small_disk / "store", small_disk.parent / "killed")
    async with running(small_disk.parent / "killed", **sizes) as house:
        assert (await house.client().pull(0)).bodies == [BODY, b"small"]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@in_loop
async def test_a_start_on_a_full_disk(small_disk: Path, clean: bool) -> None:
    """Consumers get what there is, producers are refused until there is room."""
    root, ballast = small_disk / "store", small_disk / "ballast"
    async with serving(root, **SMALL) as (house, client):
        await fill(house, client, 2)
        end = await client.max_offset()
    if not clean:
        (root / "abort").touch()
        (root / "checkpoint").unlink()
        shutil.rmtree(root / "consumequeue")
    fill_up(ballast)
    async with running(root, **SMALL, clean_resource_interval=600_000) as house:
        client = house.client()
        pulled = await client.pull(0)
        assert pulled.bodies == [BODY] * len(pulled.bodies) != []
        assert (await client.pull(end - 1)).bodies == [BODY]
        assert await send_until_refused(client) == 14
        end = await client.max_offset()
        ballast.unlink()
        assert await client.sent(BODY) == end
    async with running(root, **SMALL) as house:
        assert await house.client().max_offset() == end + 1


@in_loop
async def test_nothing_is_noted_in_the_log_while_messages_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent()
        house.broker.store.refusing = "no room"
        assert (await client.pull(-5)).code == 21
        assert ("OFFSET_MOVED_EVENT", 0) not in house.broker.store.queues


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC
                return


@in_loop
async def test_a_broker_that_makes_its_own_room(small_disk: Path) -> None:
    """Twice the disk's size goes through it; what is refused on the way is accepted when tried again."""
    settings = {**SMALL, "clean_resource_interval": 20, "flush_consumer_offset_interval": 20}
    async with serving(small_disk / "store", **settings) as (house, client):
        accepted = refused = 0
        async with asyncio.timeout(20):
            while accepted * len(BODY) < 4 * 1024 * 1024:
                answer = await client.send(BODY)
                assert answer.code in (0, 14), (answer.code, answer.remark)
                if answer.code == 0:
                    accepted += 1
                else:
                    refused += 1
                    await asyncio.sleep(0.005)
        assert await client.max_offset() == accepted
        assert (await client.pull(accepted - 1)).bodies == [BODY]
        assert log_files(house)[0] > 0
    async with serving(small_disk / "store", **settings) as (_, client):
        assert await client.max_offset() == accepted
        assert (await client.pull(accepted - 1)).bodies == [BODY]
