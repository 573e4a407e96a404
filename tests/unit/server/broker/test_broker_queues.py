"""Entries of consume queues, for whoever looks for a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqctl.store.javahash import java_hash
from tests.aio import in_loop
from tests.unit.server.broker.harness import serving

QUERY = 321


def ask(**fields: Any) -> dict[str, Any]:
    return {"topic": "t", "queueId": 0, "index": 0, "count": 10, **fields}


@in_loop
async def test_entries_as_they_are(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        for tags in ("a", "b", "a"):
            await client.sent(properties={"TAGS": tags})
        found = await client.json(QUERY, ask(index=1))
        size = house.broker.store.log.end // 3
        assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 3)
        assert [(row["physicOffset"], row["physicSize"], row["tagsCode"]) for row in found["queueData"]] == [
            (size, size, java_hash("b")),
            (2 * size, size, java_hash("a")),
        ]
        assert len((await client.json(QUERY, ask(count=1)))["queueData"]) == 1


@in_loop
async def test_entries_across_files_and_those_still_in_memory(tmp_path: Path) -> None:
    async with serving(tmp_path, mapped_file_size_consume_queue=2 * 20) as (house, client):
        for _ in range(5):
            await client.sent()
        house.broker.store.flush_queues()
        await client.sent()
        found = await client.json(QUERY, ask(index=1))
        size = house.broker.store.log.end // 6
        assert [row["physicOffset"] for row in found["queueData"]] == [number * size for number in range(1, 6)]


@pytest.mark.parametrize("fields", [{"index": 1}, {"index": -1}, {"index": 2**63 - 1}, {"count": 0}, {"count": -5}])
@in_loop
async def test_none_outside_the_queue(tmp_path: Path, fields: dict[str, int]) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        found = await client.json(QUERY, ask(**fields))
        assert (found["queueData"], found["maxQueueIndex"]) == ([], 1)


@in_loop
async def test_with_the_subscription_of_a_group(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        offline = await client.json(QUERY, ask(consumerGroup="g"))
        assert offline["filterData"] == "g@t is not online!"
        await client.heartbeat("g")
        online = await client.json(QUERY, ask(consumerGroup="g"))
        assert online["subscriptionData"]["topic"] == "t"
        assert "filterData" not in online


@in_loop
async def test_a_queue_that_does_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.ask(QUERY, ask(queueId=7))).code == 1
        assert (await client.ask(QUERY, ask(topic="none"))).code == 1
        assert (await client.ask(QUERY, {"topic": "t"})).code == 1
