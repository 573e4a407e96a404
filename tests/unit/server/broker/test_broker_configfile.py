"""The tables in config/: many changes in one write, one write at a time, the last state wins."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.server.broker import configfile
from mqctl.server.broker.configfile import ConfigFile
from mqctl.store.smallfiles import replace_file
from tests.aio import in_loop, until


class SlowDisk:
    """Writes wait until they are let through."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.begun: list[bytes] = []

    def __call__(self, path: Path, data: bytes) -> None:
        self.begun.append(data)
        self.may_write.wait(5)
        replace_file(path, data)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    disk = SlowDisk()
    monkeypatch.setattr(configfile, "replace_file", disk)
    return disk


def table(path: Path) -> tuple[ConfigFile, Callable[[int], None]]:
    state = 0

    def set_state(value: int) -> None:
        nonlocal state
        state = value

    return ConfigFile(path, lambda: b"%d" % state), set_state


@in_loop
async def test_the_future_ends_when_it_is_on_disk(tmp_path: Path) -> None:
    file, set_state = table(tmp_path / "config/t.json")
    set_state(1)
    await file.save_soon()
    assert (tmp_path / "config/t.json").read_bytes() == b"1"
    set_state(2)
    await file.save_soon()
    assert (tmp_path / "config/t.json").read_bytes() == b"2"
    assert (tmp_path / "config/t.json.bak").read_bytes() == b"1"
    assert file.load(int) == 2


@in_loop
async def test_changes_during_a_write_share_the_next_one(tmp_path: Path, slow_disk: SlowDisk) -> None:
    file, set_state = table(tmp_path / "t.json")
    set_state(1)
    first = file.save_soon()
    await until(lambda: slow_disk.begun)
    later = []
    for number in (2, 3, 4):
        set_state(number)
        later.append(file.save_soon())
    assert not first.done()
    slow_disk.may_write.set()
    await asyncio.gather(first, *later)
    assert slow_disk.begun == [b"1", b"4"]
    assert (tmp_path / "t.json").read_bytes() == b"4"


@in_loop
async def test_the_last_write_is_the_last(tmp_path: Path, slow_disk: SlowDisk) -> None:
    """At shutdown an older picture may still be on its way to the disk. It must not arrive after the newer."""
    file, set_state = table(tmp_path / "t.json")
    set_state(1)
    older = file.save_soon()
    await until(lambda: slow_disk.begun)
    set_state(2)
    newer = file.save_soon()
    set_state(3)
    last = asyncio.create_task(file.save_last())
    await asyncio.sleep(0)
    slow_disk.may_write.set()
    await asyncio.gather(older, newer, last)
    assert slow_disk.begun[-1] == b"3"
    assert (tmp_path / "t.json").read_bytes() == b"3"


@in_loop
async def test_a_disk_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, set_state = table(tmp_path / "t.json")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", _no_space)
        with pytest.raises(StoreError, match="No space left"):
            await file.save_soon()
        ignored = file.save_soon()  # whose result nobody asks for
        await asyncio.wait([ignored])
    assert [record.levelno for record in caplog.records if "cannot write" in record.message] == [logging.ERROR] * 2
    set_state(5)
    await file.save_soon()
    assert (tmp_path / "t.json").read_bytes() == b"5"


def _no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@in_loop
async def test_a_table_that_cannot_be_written_down(tmp_path: Path) -> None:
    """An accident in one picture must not end all later writes, nor leave anybody waiting for ever."""
    accidents = [RuntimeError("surprise")]

    def encode() -> bytes:
        if accidents:
            raise accidents.pop()
        return b"fine"

    file = ConfigFile(tmp_path / "t.json", encode)
    first = file.save_soon()
    async with asyncio.timeout(2):
        await asyncio.wait([first])
        assert first.exception() is not None
        await file.save_soon()
    assert (tmp_path / "t.json").read_bytes() == b"fine"


@in_loop
async def test_the_last_save_follows_one_whose_waiter_was_cancelled(tmp_path: Path, slow_disk: SlowDisk) -> None:
    file, set_state = table(tmp_path / "t.json")

    async def save() -> None:
        await file.save_soon()

    waiter = asyncio.create_task(save())
    await until(lambda: slow_disk.begun)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    set_state(2)
    slow_disk.may_write.set()
    await file.save_last()
    assert (tmp_path / "t.json").read_bytes() == b"2"
