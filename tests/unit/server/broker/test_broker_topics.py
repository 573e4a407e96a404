"""Topics: made, changed, deleted, described, and on disk before anybody is told."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting import bodies
from mqctl.remoting.bodies import MessageQueue, TopicStatsTable
from tests.aio import in_loop
from tests.unit.server.broker.harness import running, serving, topic_ext


def saved_topics(root: Path) -> dict[str, Any]:
    table = json.loads((root / "config/topics.json").read_text())["topicConfigTable"]
    assert isinstance(table, dict)
    return table


@in_loop
async def test_a_topic_is_on_disk_before_the_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        for number in range(5):
            answer = await client.ok(17, topic_ext(f"topic-{number}", 3, topicSysFlag=1))
            assert (answer.body, answer.remark) == (b"", None)
            assert saved_topics(tmp_path)[f"topic-{number}"] == {
                "order": False,
                "perm": 6,
                "readQueueNums": 3,
                "topicFilterType": "SINGLE_TAG",
                "topicName": f"topic-{number}",
                "topicSysFlag": 1,
                "writeQueueNums": 3,
            }


@in_loop
async def test_a_topic_can_be_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        before = house.broker.topics.data_version
        await client.ok(17, topic_ext("t", 5, 4, topicFilterType="MULTI_TAG"))
        topic = house.broker.topics.get("t")
        assert topic is not None
        assert (topic.read_queue_nums, topic.perm, topic.topic_filter_type) == (5, 4, "MULTI_TAG")
        assert house.broker.topics.data_version.counter == before.counter + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "a b"},
        {"topic": ""},
        {"topic": "x" * 128},
        {"topic": "../x"},
        {"topic": "SELF_TEST_TOPIC"},
        {"topic": "TBW102"},
        {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"},
        {"topic": "rmq_sys_anything"},
        {"topic": "DefaultCluster"},
        {"topic": "broker-a"},
        {"readQueueNums": -1},
        {"writeQueueNums": 1_000_000},
        {"perm": 8},
        {"perm": -1},
        {"topicFilterType": "NO_TAG"},
        {"readQueueNums": "x"},
    ],
    ids=str,
)
@in_loop
async def test_topics_that_are_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        before = house.broker.topics.data_version
        ext = {**topic_ext("fine"), **fields}
        answer = await client.ask(17, ext)
        assert answer.code == 1
        assert house.broker.topics.data_version == before
        assert house.broker.topics.get("fine") is None


@in_loop
async def test_a_disk_that_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", _no_space)
            answer = await client.ask(17, topic_ext("unsaved"))
            assert answer.code != 0
            assert "No space left" in (answer.remark or "")
        await client.create_topic("saved")
        assert "saved" in saved_topics(tmp_path)


def _no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@in_loop
async def test_topics_survive_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await house.client().create_topic("mine", queues=3)
        version = house.broker.topics.data_version
    async with running(tmp_path) as house:
        mine = house.broker.topics.get("mine")
        assert mine is not None and mine.read_queue_nums == 3
        assert house.broker.topics.data_version == version


# -- deleting -------------------------------------------------------------------------------------------


@in_loop
async def test_a_deleted_topic_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "u", auto_create_topic_enable=False) as (house, client):
        for topic in ("t", "u"):
            await client.sent(b"old", topic=topic)
        house.broker.store.flush_queues()
        await client.ok(215, {"topic": "t"})
        assert "t" not in saved_topics(tmp_path)
        assert not list((tmp_path / "consumequeue").glob("t/*/*"))
        assert (await client.send()).code == 17
        assert (await client.pull()).code == 17
        assert (await client.pull(topic="u")).bodies == [b"old"]
        await client.create_topic("t")
        assert await client.sent(b"new") == 0
        assert (await client.pull()).bodies == [b"new"]


@in_loop
async def test_deleting_what_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.ok(215, {"topic": "nowhere"})
        assert (await client.ask(215, {"topic": "SELF_TEST_TOPIC"})).code == 1
        assert (await client.ask(215, {"topic": "a b"})).code == 1
        assert (await client.ask(215)).code == 1


@in_loop
async def test_a_deleted_topic_stays_deleted_after_a_kill(tmp_path: Path) -> None:
    """Its messages are still in the log, from which the queues are rebuilt."""
    async with serving(tmp_path / "store") as (house, client):
        for _ in range(3):
            await client.sent(b"old")
        house.broker.store.flush_queues()
        await client.ok(215, {"topic": "t"})
        shutil.copytree(tmp_path / "store", tmp_path / "killed")
    async with serving(tmp_path / "killed") as (_, client):
        assert await client.max_offset() == 0
        assert await client.sent(b"new") == 0
        assert (await client.pull()).bodies == [b"new"]


# -- describing -----------------------------------------------------------------------------------------


@in_loop
async def test_stats_as_java_writes_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        house.broker.store._clock = lambda: 1234.5
        await client.sent()
        answer = await client.ok(202, {"topic": "t"})
        as_49, _, of_5x = answer.body.partition(b',"topicPutTps":')
        assert as_49 == (
            b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:'
            b'{"lastUpdateTimestamp":1234500,"maxOffset":1,"minOffset":0}}'
        )
        assert float(of_5x.rstrip(b"}")) > 0


@in_loop
async def test_stats_of_every_write_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", readQueueNums=5, writeQueueNums=3)
        for _ in range(2):
            await client.sent(queue_id=1)
        table = bodies.decode(TopicStatsTable, (await client.ok(202, {"topic": "t"})).body).offset_table
        assert [
            (table[MessageQueue("t", "broker-a", n)].min_offset, table[MessageQueue("t", "broker-a", n)].max_offset)
            for n in range(3)
        ] == [(0, 0), (0, 2), (0, 0)]
        assert len(table) == 3
        assert table[MessageQueue("t", "broker-a", 0)].last_update_timestamp == 0
        assert table[MessageQueue("t", "broker-a", 1)].last_update_timestamp > 0


@in_loop
async def test_stats_of_a_topic_nobody_knows(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.ask(202, {"topic": "nowhere"})).code == 17


@in_loop
async def test_all_topics(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        answer = await client.ok(21)
        table = json.loads(answer.body)
        assert answer.fields() == {}
        assert table["topicConfigTable"]["t"]["readQueueNums"] == 1
        assert table["topicConfigTable"]["TBW102"]["perm"] == 7
        assert table["topicConfigTable"]["TBW102"]["writeQueueNums"] == 8
        assert table["topicConfigTable"]["BenchmarkTest"]["writeQueueNums"] == 1024
        assert table["topicConfigTable"]["SCHEDULE_TOPIC_XXXX"]["writeQueueNums"] == 18
        assert table["dataVersion"]["counter"] == house.broker.topics.data_version.counter


@in_loop
async def test_system_topics(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        names = (await client.json(305))["topicList"]
        assert {"SELF_TEST_TOPIC", "TBW102", "OFFSET_MOVED_EVENT", "DefaultCluster", "broker-a"} < set(names)
        assert "t" not in names


@in_loop
async def test_without_auto_creation_there_is_no_pattern(tmp_path: Path) -> None:
    async with running(tmp_path, auto_create_topic_enable=False) as house:
        assert house.broker.topics.get("TBW102") is None


@in_loop
async def test_many_topics_at_once_or_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        before = house.broker.topics.data_version.counter
        many = [{"topicName": "a", "readQueueNums": 2, "writeQueueNums": 3, "perm": 4}, {"topicName": "b"}]
        await client.ok(18, body=json.dumps({"topicConfigList": many}).encode())
        saved = saved_topics(tmp_path)
        assert (saved["a"]["readQueueNums"], saved["a"]["writeQueueNums"], saved["a"]["perm"]) == (2, 3, 4)
        assert saved["b"]["readQueueNums"] == 16
        assert house.broker.topics.data_version.counter == before + 1
        for wrong in ({"topicName": "c d"}, {"topicName": "TBW102"}, {"topicName": "c", "perm": 9}, {}):
            body = json.dumps({"topicConfigList": [{"topicName": "fine"}, wrong]}).encode()
            assert (await client.ask(18, body=body)).code == 1
        assert house.broker.topics.get("fine") is None
        assert house.broker.topics.data_version.counter == before + 1
