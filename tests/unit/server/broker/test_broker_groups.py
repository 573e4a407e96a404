"""The settings of consumer groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.aio import in_loop
from tests.unit.server.broker.harness import heartbeat, pull_ext, running, serving

UPDATE, ALL, DELETE, UPDATE_LIST, GET = 200, 201, 207, 225, 352


def settings(group: str = "g", **changed: Any) -> bytes:
    return json.dumps({"groupName": group, **changed}).encode()


@in_loop
async def test_settings_are_taken_listed_and_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        before = (await client.json(ALL))["dataVersion"]["counter"]
        await client.ok(UPDATE, body=settings(retryQueueNums=2, retryMaxTimes=3, consumeBroadcastEnable=False))
        listed = await client.json(ALL)
        assert listed["dataVersion"]["counter"] == before + 1
        assert listed["subscriptionGroupTable"]["g"] == {
            "brokerId": 0,
            "consumeBroadcastEnable": False,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "groupName": "g",
            "notifyConsumerIdsChangedEnable": True,
            "retryMaxTimes": 3,
            "retryQueueNums": 2,
            "whichBrokerWhenConsumeSlowly": 1,
        }
        stored = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
        assert stored["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3
    async with running(tmp_path) as house:
        group = house.broker.groups.get("g")
        assert group is not None
        assert (group.retry_queue_nums, group.retry_max_times) == (2, 3)


@in_loop
async def test_the_first_member_brings_the_retry_topic_as_the_group_wants_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.ok(UPDATE, body=settings(retryQueueNums=5))
        await client.ok(UPDATE, body=settings("none", retryQueueNums=0))
        await client.heartbeat("g", "none")
        topic = house.broker.topics.get("%RETRY%g")
        assert topic is not None
        assert topic.read_queue_nums == 5
        assert house.broker.topics.get("%RETRY%none") is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        settings(""),
        settings("a/b"),
        settings("g" * 256),
        settings(retryQueueNums=10**6),
        settings(retryMaxTimes="x"),
    ],
)
@in_loop
async def test_settings_that_are_none(tmp_path: Path, body: bytes) -> None:
    async with serving(tmp_path) as (_, client):
        before = await client.json(ALL)
        assert (await client.ask(UPDATE, body=body)).code == 1
        assert await client.json(ALL) == before


@pytest.mark.parametrize(
    ("changed", "model", "code"),
    [
        ({"consumeEnable": False}, "CLUSTERING", 16),
        ({"consumeBroadcastEnable": False}, "BROADCASTING", 16),
        ({"consumeBroadcastEnable": False}, "CLUSTERING", 0),
        ({}, "BROADCASTING", 0),
    ],
)
@in_loop
async def test_who_may_consume(tmp_path: Path, changed: dict[str, Any], model: str, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        await client.ok(UPDATE, body=settings(**changed))
        await client.ok(34, body=heartbeat("me", ["g"], messageModel=model))
        assert (await client.ask(11, pull_ext(sysFlag=0))).code == code


@in_loop
async def test_many_at_once_or_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        many = {"groupConfigList": [{"groupName": "a", "retryMaxTimes": 5}, {"groupName": "b"}]}
        await client.ok(UPDATE_LIST, body=json.dumps(many).encode())
        assert (await client.json(GET, {"group": "a"}))["retryMaxTimes"] == 5
        many["groupConfigList"][0]["retryMaxTimes"] = 6
        many["groupConfigList"].append({"groupName": "a/b"})
        assert (await client.ask(UPDATE_LIST, body=json.dumps(many).encode())).code == 1
        assert (await client.json(GET, {"group": "a"}))["retryMaxTimes"] == 5
        await client.ok(UPDATE_LIST, body=b'{"groupConfigList":[]}')
        assert house.broker.groups.get("b") is not None
        assert (await client.ask(GET, {"group": "nobody"})).code == 26


@pytest.mark.parametrize("with_offsets", [True, False])
@in_loop
async def test_a_group_is_deleted(tmp_path: Path, with_offsets: bool) -> None:
    async with serving(tmp_path) as (house, client):
        await client.ok(UPDATE, body=settings())
        for group in ("g", "gg"):
            where = {"consumerGroup": group, "topic": "t", "queueId": 0, "commitOffset": 4}
            await client.ok(15, where)
        await client.ok(DELETE, {"groupName": "g", "removeOffset": str(with_offsets).lower()})
        assert "g" not in (await client.json(ALL))["subscriptionGroupTable"]
        assert house.broker.offsets.get("g", "t", 0) == (None if with_offsets else 4)
        assert house.broker.offsets.get("gg", "t", 0) == 4
        await client.ok(DELETE, {"groupName": "g"})  # again: nothing to do
    async with running(tmp_path) as house:
        assert house.broker.groups.get("g") is None
        assert house.broker.offsets.get("g", "t", 0) == (None if with_offsets else 4)
