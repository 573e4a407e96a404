"""Messages that consumers return: the retry topic, its delays, the dead letters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqctl.remoting.bodies import SubscriptionGroupConfig
from mqctl.remoting.command import Command
from mqctl.remoting.message import ReceivedMessage
from tests.aio import in_loop
from tests.unit.server.broker.harness import SECONDS, Client, House, send_ext, serving

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
# Delays that the tests wait for; the others they look up in the schedule topic.
AT_ONCE = "1s 1s 1s 1s 1s"


async def original(client: Client, topic: str = "t", body: bytes = b"body", **fields: Any) -> int:
    """Sends a message; its place in the log."""
    answer = await client.send(body, topic=topic, **fields)
    assert answer.code == 0, answer.remark
    return int(answer.fields()["msgId"][-16:], 16)


async def send_back(client: Client, offset: int, group: str = "g", level: int = 0, **fields: Any) -> Command:
    return await client.ask(36, {"offset": offset, "group": group, "delayLevel": level, **fields})


async def waiting(client: Client, level: int) -> list[ReceivedMessage]:
    """What is in the queue of a delay level."""
    return (await client.pull(topic=SCHEDULE, queue_id=level - 1)).messages


async def delivered(client: Client, topic: str, queue_offset: int = 0) -> ReceivedMessage:
    async with asyncio.timeout(SECONDS):
        while await client.max_offset(topic) <= queue_offset:
            await asyncio.sleep(0.01)
    return (await client.pull(queue_offset, topic=topic)).messages[0]


def place(message: ReceivedMessage) -> int:
    return int(message.offset_msg_id[-16:], 16)


def regroup(house: House, **settings: Any) -> None:
    house.broker.groups.put(SubscriptionGroupConfig(group_name="g", **settings))


# -- CONSUMER_SEND_MSG_BACK -----------------------------------------------------------------------------


@in_loop
async def test_it_comes_again_as_it_was(tmp_path: Path) -> None:
    async with serving(tmp_path, message_delay_level=AT_ONCE) as (house, client):
        properties = {"TAGS": "tag", "KEYS": "key", "UNIQ_KEY": "unique", "own": "1"}
        first = await original(client, body=b"\x00\xff", properties=properties, h=7, g=1234)
        assert (await send_back(client, first)).code == 0
        again = await delivered(client, "%RETRY%g")
        assert (again.body, again.tags, again.keys, again.flag, again.born_timestamp) == (
            b"\x00\xff",
            "tag",
            ["key"],
            7,
            1234,
        )
        assert again.reconsume_times == 1
        assert again.properties.items() >= {**properties, "RETRY_TOPIC": "t"}.items()
        sent_id = house.broker.store.store_host.hex().upper() + f"{first:016X}"
        assert again.properties["ORIGIN_MESSAGE_ID"] == sent_id

        assert (await send_back(client, place(again))).code == 0
        third = await delivered(client, "%RETRY%g", 1)
        assert third.reconsume_times == 2
        assert (third.properties["RETRY_TOPIC"], third.properties["ORIGIN_MESSAGE_ID"]) == ("t", sent_id)


@in_loop
async def test_tags_still_select(tmp_path: Path) -> None:
    async with serving(tmp_path, message_delay_level=AT_ONCE) as (_, client):
        for tag in ("a", "b"):
            await send_back(client, await original(client, body=tag.encode(), properties={"TAGS": tag}))
        await delivered(client, "%RETRY%g", 1)
        assert (await client.pull(topic="%RETRY%g", tags="b")).bodies == [b"b"]


@pytest.mark.parametrize(("asked", "level"), [(0, 3), (1, 1), (5, 5), (99, 18)])
@in_loop
async def test_the_delay_of_the_first_retry(tmp_path: Path, asked: int, level: int) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await send_back(client, await original(client), level=asked)).code == 0
        (message,) = await waiting(client, level)
        assert (message.properties["REAL_TOPIC"], message.properties["DELAY"]) == ("%RETRY%g", str(level))


@in_loop
async def test_each_retry_waits_a_level_longer(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await send_back(client, await original(client, j=4))).code == 0
        (message,) = await waiting(client, 7)
        assert message.reconsume_times == 5


@pytest.mark.parametrize(
    ("tried", "asked", "level"),
    [(16, {}, 0), (2, {"maxReconsumeTimes": 2}, 0), (0, {"maxReconsumeTimes": 0}, 5), (0, {}, -1), (20, {}, -9)],
)
@in_loop
async def test_dead_letters(tmp_path: Path, tried: int, asked: dict[str, Any], level: int) -> None:
    async with serving(tmp_path) as (house, client):
        assert (await send_back(client, await original(client, j=tried), level=level, **asked)).code == 0
        letter = await delivered(client, "%DLQ%g")
        assert letter.reconsume_times == tried + 1
        assert letter.properties["RETRY_TOPIC"] == "t"
        topic = house.broker.topics.get("%DLQ%g")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
        assert await client.max_offset("%RETRY%g") == 0


@pytest.mark.parametrize(("tried", "dead"), [(1, False), (2, True)])
@in_loop
async def test_the_group_says_how_often_if_the_consumer_does_not(tmp_path: Path, tried: int, dead: bool) -> None:
    async with serving(tmp_path) as (house, client):
        regroup(house, retry_max_times=2)
        assert (await send_back(client, await original(client, j=tried))).code == 0
        assert (house.broker.topics.get("%DLQ%g") is not None) == dead


@in_loop
async def test_the_retry_topic_has_the_groups_number_of_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        regroup(house, retry_queue_nums=3)
        assert (await send_back(client, await original(client))).code == 0
        topic = house.broker.topics.get("%RETRY%g")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums) == (3, 3)


@in_loop
async def test_more_queues_than_the_topic_has_are_not_written_to(tmp_path: Path) -> None:
    """Apache's broker would write to queues that no consumer reads."""
    async with serving(tmp_path, message_delay_level=AT_ONCE) as (house, client):
        regroup(house, retry_queue_nums=1)
        await send_back(client, await original(client))
        regroup(house, retry_queue_nums=100)
        for number in range(5):
            await send_back(client, await original(client, body=b"%d" % number))
        await delivered(client, "%RETRY%g", 5)
        assert {queue_id for topic, queue_id in house.broker.store.queues if topic == "%RETRY%g"} == {0}


@in_loop
async def test_a_group_without_retries(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        regroup(house, retry_queue_nums=0)
        before = house.broker.store.log.end
        assert (await send_back(client, 12345)).code == 0
        assert house.broker.store.log.end == before
        assert house.broker.topics.get("%RETRY%g") is None


@in_loop
async def test_it_outlives_a_kill(tmp_path: Path) -> None:
    """What the answer promises is in the files: topic, group and message."""
    async with serving(tmp_path) as (house, client):
        assert (await send_back(client, await original(client), level=-1)).code == 0
        config = tmp_path / "config"
        assert b"%DLQ%g" in (config / "topics.json").read_bytes()
        assert house.broker.store.log.end > 0


# -- what cannot be done --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 1, 10**18, 2**63 - 1])
@in_loop
async def test_a_message_that_is_gone(tmp_path: Path, offset: int) -> None:
    async with serving(tmp_path) as (house, client):
        await original(client)
        before = house.broker.store.log.end
        answer = await send_back(client, offset)
        assert answer.code == 1
        assert f"look message by offset failed, {offset}" in str(answer.remark)
        assert house.broker.store.log.end == before


@in_loop
async def test_a_group_that_may_not_be_made(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_subscription_group=False) as (_, client):
        assert (await send_back(client, await original(client))).code == 26


@pytest.mark.parametrize("group", ["", "a/b", "../../etc", "g" * 121, "g" * 300])
@in_loop
async def test_a_group_that_no_topic_can_be_named_after(tmp_path: Path, group: str) -> None:
    async with serving(tmp_path) as (house, client):
        before = set(house.broker.topics.all())
        assert (await send_back(client, await original(client), group=group)).code == 1
        assert set(house.broker.topics.all()) == before


@in_loop
async def test_permissions(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "other") as (house, client):
        offset = await original(client)
        await client.create_topic("%RETRY%g", perm=4)
        assert (await send_back(client, offset)).code == 16
        house.broker.config.broker_permission = 4
        assert (await send_back(client, offset, group="free")).code == 16


@pytest.mark.parametrize("missing", ["offset", "group", "delayLevel"])
@in_loop
async def test_absent_fields(tmp_path: Path, missing: str) -> None:
    async with serving(tmp_path) as (_, client):
        fields = {"offset": 0, "group": "g", "delayLevel": 0}
        del fields[missing]
        answer = await client.ask(36, fields)
        assert (answer.code, missing in str(answer.remark)) == (1, True)


@in_loop
async def test_no_room_for_what_a_retry_adds(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        offset = await original(client, properties={"long": "x" * 32_700})
        before = house.broker.store.log.end
        answer = await send_back(client, offset)
        assert (answer.code, "properties" in str(answer.remark)) == (1, True)
        assert house.broker.store.log.end == before


# -- the client's own copy ------------------------------------------------------------------------------


@in_loop
async def test_a_copy_sent_to_the_retry_topic_waits_for_its_delay(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.send(b"copy", topic="%RETRY%g", properties={"DELAY": "4", "RETRY_TOPIC": "t"}, j=1, l=16)
        assert answer.code == 0
        (message,) = await waiting(client, 4)
        assert (message.body, message.reconsume_times) == (b"copy", 1)
        assert message.properties["REAL_TOPIC"] == "%RETRY%g"


@pytest.mark.parametrize(("fields", "dead"), [({"j": 3, "l": 3}, True), ({"j": 3}, False), ({"j": 16}, True)])
@in_loop
async def test_a_copy_that_was_tried_too_often(tmp_path: Path, fields: dict[str, int], dead: bool) -> None:
    async with serving(tmp_path) as (house, client):
        properties = {"DELAY": "6", "RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "id"}
        assert (await client.send(b"copy", topic="%RETRY%g", properties=properties, **fields)).code == 0
        if dead:
            letter = await delivered(client, "%DLQ%g")
            assert letter.properties.items() >= {"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "id"}.items()
            assert letter.reconsume_times == fields["j"]
            topic = house.broker.topics.get("%DLQ%g")
            assert topic is not None
            assert topic.write_queue_nums == 1
        else:
            assert len(await waiting(client, 6)) == 1


@in_loop
async def test_a_copy_for_a_group_that_may_not_be_made(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_subscription_group=False) as (_, client):
        assert (await client.send(topic="%RETRY%g")).code == 26


@in_loop
async def test_dead_letters_of_many_at_once_share_one_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        offsets = [await original(client, body=b"%d" % number) for number in range(20)]
        answers = await asyncio.gather(
            *(send_back(client, offset, level=-1) for offset in offsets),
            *(client.ask(310, send_ext("%RETRY%g", j=99), b"copy") for _ in offsets),
        )
        assert {answer.code for answer in answers} == {0}
        assert await client.max_offset("%DLQ%g") == 40
        assert msgspec.json.decode((tmp_path / "config" / "topics.json").read_bytes())["topicConfigTable"]["%DLQ%g"]


@in_loop
async def test_a_copy_makes_the_retry_topic_as_the_group_wants_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        regroup(house, retry_queue_nums=2)
        assert (await client.send(topic="%RETRY%g", queue_id=1)).code == 0
        topic = house.broker.topics.get("%RETRY%g")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums) == (2, 2)
        assert (await client.send(topic="%RETRY%" + "g" * 121)).code == 1


@pytest.mark.parametrize(
    ("claimed", "topic", "then"), [(2**31 - 1, "%DLQ%g", 2**31 - 1), (-(2**31), "%RETRY%g", 1 - 2**31)]
)
@in_loop
async def test_a_number_of_tries_that_cannot_be(tmp_path: Path, claimed: int, topic: str, then: int) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await send_back(client, await original(client, j=claimed))).code == 0
        assert (await delivered(client, topic)).reconsume_times == then
