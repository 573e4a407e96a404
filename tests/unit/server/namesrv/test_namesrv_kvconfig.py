"""The KV table and its file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.server.namesrv.kvconfig import KvConfig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


async def loaded(path: Path) -> KvConfig:
    kv = KvConfig(path)
    await kv.load()
    return kv


def backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def test_what_is_put_is_there_after_a_restart(path: Path) -> None:
    async def play() -> None:
        kv = await loaded(path)
        assert kv.namespace("ns") is None
        await kv.put("ns", "k", "v")
        await kv.put("ns", "é", "")
        again = await loaded(path)
        assert again.namespace("ns") == {"k": "v", "é": ""}
        assert (again.get("ns", "k"), again.get("ns", "x"), again.get("x", "k")) == ("v", None, None)

    asyncio.run(play())
    assert path.read_bytes() == '{"configTable":{"ns":{"k":"v","é":""}}}'.encode()


def test_an_emptied_namespace_still_exists(path: Path) -> None:
    async def play() -> None:
        kv = await loaded(path)
        await kv.put("ns", "k", "v")
        await kv.delete("ns", "k")
        await kv.delete("ns", "k")
        await kv.delete("other", "k")
        assert (kv.namespace("ns"), kv.namespace("other")) == ({}, None)
        assert (await loaded(path)).namespace("ns") == {}

    asyncio.run(play())
    assert json.loads(backup(path).read_bytes()) == {"configTable": {"ns": {"k": "v"}}}


def test_puts_at_the_same_time_lose_nothing(path: Path) -> None:
    async def play() -> None:
        kv = await loaded(path)
        await asyncio.gather(*(kv.put("ns", str(i), str(i)) for i in range(50)))
        assert len((await loaded(path)).namespace("ns") or {}) == 50

    asyncio.run(play())


def test_a_file_that_java_wrote_with_a_null(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"a:4","u":null}},"extra":1}')

    async def play() -> None:
        assert (await loaded(path)).namespace("ORDER_TOPIC_CONFIG") == {"t": "a:4"}

    asyncio.run(play())


def test_a_damaged_file_is_replaced_by_its_backup(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"configTable":{"ns":{"k":"ne')
    backup(path).write_bytes(b'{"configTable":{"ns":{"k":"old"}}}')

    async def play() -> None:
        assert (await loaded(path)).get("ns", "k") == "old"

    asyncio.run(play())


def test_a_damaged_file_without_backup_stops_the_start(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"[]")
    with pytest.raises(StoreError, match=r"kvConfig\.json cannot be used"):
        asyncio.run(loaded(path))


def test_what_cannot_be_written_does_not_happen(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def play() -> None:
        kv = KvConfig(tmp_path / "file" / "kvConfig.json")  # a file where a directory is needed
        with pytest.raises(StoreError, match="cannot write"):
            await kv.put("ns", "k", "v")
        assert kv.namespace("ns") is None

    asyncio.run(play())
