"""Checkpoints while the broker runs, and starts after the end of one that was killed."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from mqctl.server.broker import app as app_module
from mqctl.server.broker import checkpoints as checkpoints_module
from mqctl.store.checkpoint import read_checkpoint
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import running, serving


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint as soon as there is anything new."""
    monkeypatch.setattr(app_module, "CHECKPOINT_SECONDS", 0.01)
    monkeypatch.setattr(checkpoints_module, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints_module, "INDEX_SECONDS", 0.0)


def safe_offset(root: Path) -> int | None:
    return read_checkpoint(root / "checkpoint").safe_offset


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@in_loop
async def test_a_start_goes_on_from_the_checkpoint(
    tmp_path: Path, flush: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    copy = tmp_path / "copy"
    async with serving(tmp_path / "store", flush_disk_type=flush) as (house, client):
        for number in range(5):
            await client.sent(b"%d" % number, properties={"KEYS": f"k{number}"})
        end = house.broker.store.log.end
        await until(lambda: safe_offset(tmp_path / "store") == end)
        shutil.copytree(tmp_path / "store", copy)
    async with running(copy) as house:
        assert f"0 entries rebuilt from {end} on" in caplog.text
        client = house.client()
        assert (await client.pull(0)).bodies == [b"0", b"1", b"2", b"3", b"4"]
        assert await client.sent() == 5


@pytest.mark.usefixtures("eager")
@in_loop
async def test_no_checkpoint_without_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that failed once may seem to succeed the next time: nothing is promised any more."""
    async with serving(tmp_path) as (house, client):
        await client.sent()
        end = house.broker.store.log.end
        await until(lambda: safe_offset(tmp_path) == end)
        real, refused = os.fdatasync, asyncio.Event()
        loop = asyncio.get_running_loop()

        def refuse_queues(descriptor: int) -> None:
            if "consumequeue" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
                loop.call_soon_threadsafe(refused.set)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(descriptor)

        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", refuse_queues)
            await client.sent()
            async with asyncio.timeout(5):
                await refused.wait()
        await client.sent()
        assert (await client.pull(0)).max_offset == 3
    assert safe_offset(tmp_path) == end
    assert (tmp_path / "abort").exists()
    async with running(tmp_path) as house:
        assert await house.client().max_offset() == 3


@in_loop
async def test_a_stop_leaves_a_checkpoint_of_everything(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent()
        end = house.broker.store.log.end
    assert safe_offset(tmp_path) == end


@in_loop
async def test_offsets_past_the_end_of_their_queue(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was lost with the cache of a disk may have been consumed before."""
    async with serving(tmp_path, "t", "other") as (_, client):
        for _ in range(3):
            await client.sent()
        for topic, group, queue_offset in (("t", "ahead", 7), ("t", "fine", 3), ("other", "ahead", 1)):
            await client.ok(15, {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": queue_offset})
    (tmp_path / "abort").touch()
    async with running(tmp_path) as house:
        offsets = house.broker.offsets
        assert [offsets.get("ahead", "t", 0), offsets.get("fine", "t", 0), offsets.get("ahead", "other", 0)] == [
            3,
            3,
            0,
        ]
        saved = json.loads((tmp_path / "config" / "consumerOffset.json").read_text())["offsetTable"]
        assert saved["t@ahead"] == {"0": 3}, "what takes the lost places must survive the next kill"
    complaints = [each.getMessage() for each in caplog.records if "past the queue's end" in each.getMessage()]
    assert complaints == [
        "group ahead: offset 7 of t-0 is past the queue's end, corrected to 3",
        "group ahead: offset 1 of other-0 is past the queue's end, corrected to 0",
    ]
