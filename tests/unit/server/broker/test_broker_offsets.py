"""Where queues begin and end, what lies at a time, how far groups have read, and single messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.command import BINARY, JSON
from mqctl.remoting.message import Message, decode_records
from mqctl.store import record
from tests.aio import in_loop
from tests.unit.server.broker.harness import Client, running, serving

QUEUE = {"topic": "t", "queueId": 0}


async def number(client: Client, code: int, name: str = "offset", **ext: Any) -> int:
    return int((await client.ok(code, {**QUEUE, **ext})).fields()[name])


async def query(client: Client, group: str = "g", **ext: Any) -> int | str:
    answer = await client.ask(14, {"consumerGroup": group, **QUEUE, **ext})
    assert answer.code in (0, 22)
    return int(answer.fields()["offset"]) if answer.code == 0 else "not found"


async def commit(client: Client, queue_offset: int, group: str = "g", **ext: Any) -> None:
    await client.ok(15, {"consumerGroup": group, **QUEUE, "commitOffset": queue_offset, **ext})


# -- queues ---------------------------------------------------------------------------------------------


@in_loop
async def test_minimum_and_maximum(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        assert (await number(client, 30), await number(client, 31)) == (0, 0)
        for _ in range(3):
            await client.sent()
        assert (await number(client, 30), await number(client, 31)) == (3, 0)
        house.broker.store.queues["t", 0].min_offset = 2
        assert await number(client, 31) == 2


@pytest.mark.parametrize("ext", [{"topic": "nowhere"}, {"queueId": 99}, {"queueId": -1}])
@in_loop
async def test_queues_nobody_knows(tmp_path: Path, ext: dict[str, Any]) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await number(client, 30, **ext), await number(client, 31, **ext)) == (0, 0)
        assert await number(client, 29, timestamp=5, **ext) == 0
        assert await number(client, 32, "timestamp", **ext) == -1


@in_loop
async def test_by_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        for seconds in (1000.0, 2000.0, 4000.0):
            house.broker.store._clock = lambda now=seconds: now  # type: ignore[misc]
            await client.sent()
        times = [0, 1_000_000, 1_500_000, 1_500_001, 2_000_000, 2_999_999, 3_000_001, 4_000_000, 2**62, -(2**63)]
        found = [await number(client, 29, timestamp=time) for time in times]
        assert found == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0]
        assert await number(client, 32, "timestamp") == 1_000_000


# -- groups ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])
@in_loop
async def test_what_is_committed_is_returned(tmp_path: Path, codec: int) -> None:
    async with serving(tmp_path) as (_, client):
        ext = {"consumerGroup": "g", **QUEUE, "commitOffset": 42}
        answer = await client.ok(15, ext, codec=codec)
        assert (answer.fields(), answer.codec) == ({}, codec)
        assert await query(client) == 42
        await commit(client, 7)  # backwards is how a reset works
        assert await query(client) == 7
        assert await query(client, "other") == 0
        assert await query(client, queueId=1) == 0


@in_loop
async def test_commits_are_mostly_oneway(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.oneway(15, {"consumerGroup": "g", **QUEUE, "commitOffset": 5})
        assert await query(client) == 5


@pytest.mark.parametrize("ext", [{"commitOffset": -1}, {"queueId": -1}, {"commitOffset": 2**63}, {"commitOffset": "x"}])
@in_loop
async def test_commits_that_are_none(tmp_path: Path, ext: dict[str, Any]) -> None:
    async with serving(tmp_path) as (house, client):
        answer = await client.ask(15, {"consumerGroup": "g", **QUEUE, "commitOffset": 5, **ext})
        assert answer.code == 1
        assert house.broker.offsets._table == {}


@in_loop
async def test_a_group_without_an_offset(tmp_path: Path) -> None:
    """0 while the whole queue is young; otherwise the client decides where to begin."""
    async with serving(tmp_path) as (house, client):
        assert await query(client) == 0  # no such queue yet
        assert await query(client, topic="nowhere") == 0
        await client.sent()
        assert await query(client) == 0
        assert await query(client, setZeroIfNotFound="true") == 0
        assert await query(client, setZeroIfNotFound="false") == "not found"
        house.broker.store.queues["t", 0].min_offset = 1
        assert await query(client) == "not found"


@in_loop
async def test_a_group_without_an_offset_on_an_old_queue(tmp_path: Path) -> None:
    async with serving(tmp_path, access_message_in_memory_max_ratio=0) as (_, client):
        assert await query(client) == 0
        await client.sent()
        assert await query(client) == "not found"
        await commit(client, 0)
        assert await query(client) == 0


@in_loop
async def test_all_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await commit(client, 5)
        await commit(client, 6, queueId=3)
        await commit(client, 7, group="h")
        table = json.loads((await client.ok(43)).body)
        assert table == {"offsetTable": {"t@g": {"0": 5, "3": 6}, "t@h": {"0": 7}}}


@in_loop
async def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await commit(client, 5)
        await commit(client, 6, group="h", queueId=2)
    async with running(tmp_path) as house:
        client = house.client()
        assert await query(client) == 5
        assert await query(client, "h", queueId=2) == 6


@in_loop
async def test_offsets_reach_the_disk_by_themselves(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await commit(client, 5)
        saved = house.broker.offsets.save_soon()
        assert saved is not None
        await saved
        assert house.broker.offsets.save_soon() is None  # nothing new
        assert json.loads((tmp_path / "config/consumerOffset.json").read_text()) == {"offsetTable": {"t@g": {"0": 5}}}


@in_loop
async def test_a_file_written_by_java_is_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir(parents=True)
    (tmp_path / "config/consumerOffset.json").write_text('{\n\t"offsetTable":{"t@g":{0:4,1:2\n\t\t}\n\t}\n}')
    async with serving(tmp_path) as (_, client):
        assert await query(client) == 4
        assert await query(client, queueId=1) == 2


# -- single messages ------------------------------------------------------------------------------------


@in_loop
async def test_view_by_offset(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent(b"first")
        answer = await client.send(b"second")
        _, phys_offset = record.decode_msg_id(answer.fields()["msgId"])
        (message,) = decode_records((await client.ok(33, {"offset": phys_offset})).body, check_crc=True)
        assert (message.body, message.offset_msg_id) == (b"second", answer.fields()["msgId"])


@pytest.mark.parametrize("offset", [-1, 1, 50, 10**6, 2**62, -(2**63)])
@in_loop
async def test_nothing_begins_there(tmp_path: Path, offset: int) -> None:
    async with serving(tmp_path) as (_, client):
        await client.send_batch([Message("t", bytes(100)), Message("t", bytes(100))])
        assert (await client.ask(33, {"offset": offset})).code == 1
