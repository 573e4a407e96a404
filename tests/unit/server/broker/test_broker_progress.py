"""How far groups have read, as tools ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting import bodies
from mqctl.remoting.bodies import ConsumeStats, MessageQueue, OffsetWrapper
from mqctl.remoting.bodies_admin import ConsumeStatsList
from tests.aio import in_loop
from tests.unit.server.broker.harness import Client, serving

STATS, BROKER_STATS, BY_WHO, TIME_SPAN, TOPICS_OF, SUBSCRIPTION = 208, 317, 300, 303, 343, 345


def queue(queue_id: int = 0, topic: str = "t") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


async def commit(client: Client, queue_offset: int, topic: str = "t", group: str = "g", queue_id: int = 0) -> None:
    where = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
    await client.ok(15, {**where, "commitOffset": queue_offset})


async def stats(client: Client, group: str = "g", **fields: Any) -> ConsumeStats:
    return bodies.decode(ConsumeStats, (await client.ok(STATS, {"consumerGroup": group, **fields})).body)


@in_loop
async def test_progress_of_a_group(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.create_topic("t", 2)
        for _ in range(3):
            await client.sent()
        await client.pull()
        await commit(client, 2)
        found = await stats(client)
        stored = house.broker.store.log.store_timestamp(house.broker.store.log.end // 3)
        assert found.offset_table == {
            queue(0): OffsetWrapper(broker_offset=3, consumer_offset=2, last_timestamp=stored or 0, pull_offset=3),
            queue(1): OffsetWrapper(pull_offset=0),
        }
        assert found.consume_tps > 0
        assert (await stats(client, "nobody")).offset_table == {}


@in_loop
async def test_progress_in_some_topics(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "u", "v") as (_, client):
        for topic in ("t", "u", "v", "gone"):
            await commit(client, 0, topic)
        assert set((await stats(client)).offset_table) == {queue(0, topic) for topic in ("t", "u", "v")}
        assert set((await stats(client, topic="u")).offset_table) == {queue(0, "u")}
        assert set((await stats(client, topicList="t;v;")).offset_table) == {queue(0, "t"), queue(0, "v")}


@in_loop
async def test_what_an_online_group_no_longer_reads_does_not_count(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "u") as (_, client):
        await commit(client, 0, "t")
        await commit(client, 0, "u")
        await client.heartbeat("g", topics=("u",))
        assert set((await stats(client)).offset_table) == {queue(0, "u")}


@in_loop
async def test_offsets_of_every_group(tmp_path: Path) -> None:
    """Write queues, as Apache's broker has it; with isOrder only topics that are ordered."""
    async with serving(tmp_path) as (house, client):
        await client.create_topic("t", 2, readQueueNums=1)
        await client.sent(queue_id=0)
        await client.sent(queue_id=1)
        await client.heartbeat("g", "h")
        await commit(client, 1, group="g")
        body = (await client.ok(BROKER_STATS, {"isOrder": "false"})).body
        found = bodies.decode(ConsumeStatsList, body)
        tables = {group: tables for entry in found.consume_stats_list for group, tables in entry.items()}
        assert set(tables) >= {"g", "h", "TOOLS_CONSUMER"}
        assert tables["h"] == []
        (table,) = tables["g"]
        offsets = {key.queue_id: (row.broker_offset, row.consumer_offset) for key, row in table.offset_table.items()}
        assert offsets == {0: (1, 1), 1: (1, 0)}
        assert (found.broker_addr, found.total_diff) == (house.broker.config.address, 1)
        ordered = bodies.decode(ConsumeStatsList, (await client.ok(BROKER_STATS, {"isOrder": "true"})).body)
        assert ordered.total_diff == 0
        assert {"g": []} in ordered.consume_stats_list


@in_loop
async def test_who_reads_a_topic_and_what_a_group_reads(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "u") as (house, client):
        await commit(client, 0, "t", "offline")
        await client.heartbeat("online", topics=("t",))
        assert (await client.json(BY_WHO, {"topic": "t"}))["groupList"] == ["offline", "online"]
        assert (await client.json(BY_WHO, {"topic": "u"}))["groupList"] == []
        topics = await client.json(TOPICS_OF, {"group": "offline"})
        assert topics == {"brokerAddr": house.broker.config.address, "topicList": ["t"]}
        subscribed = await client.json(SUBSCRIPTION, {"group": "online", "topic": "t"})
        assert (subscribed["group"], subscribed["topic"]) == ("online", "t")
        assert subscribed["subscriptionData"]["subString"] == "*"
        assert "subscriptionData" not in await client.json(SUBSCRIPTION, {"group": "offline", "topic": "t"})


@in_loop
async def test_time_span(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.create_topic("t", 2)
        await client.sent()
        await client.sent()
        await commit(client, 1)
        first, empty = (await client.json(TIME_SPAN, {"topic": "t", "group": "g"}))["consumeTimeSpanSet"]
        stored = house.broker.store.log.store_timestamp(0)
        assert first["minTimeStamp"] == first["consumeTimeStamp"] == stored
        assert first["maxTimeStamp"] >= first["minTimeStamp"]
        assert 0 <= first["delayTime"] < 60_000
        assert len(first["minTimeStampStr"]) == len("2026-11-18#05:57:23:624")
        assert (empty["minTimeStamp"], empty["maxTimeStamp"], empty["delayTime"]) == (-1, -1, 0)
        assert (await client.ask(TIME_SPAN, {"topic": "none", "group": "g"})).code == 17


@pytest.mark.parametrize("code", [STATS, BY_WHO, TIME_SPAN, TOPICS_OF, SUBSCRIPTION])
@in_loop
async def test_a_question_without_a_subject(tmp_path: Path, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.ask(code)
        assert answer.code == 1
        assert "required field" in (answer.remark or "")
