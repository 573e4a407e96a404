"""What tools ask of clients through the broker, and the offsets they move."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting import bodies
from mqctl.remoting.bodies import GetConsumerStatusBody, MessageQueue, ResetOffsetBody, ResetOffsetBodyForC
from mqctl.remoting.codes import LanguageCode
from mqctl.remoting.command import Command
from mqctl.remoting.message import decode_records
from mqctl.server.broker.admin import clients as admin_clients
from tests.aio import in_loop
from tests.unit.server.broker.harness import SECONDS, Client, heartbeat, serving

RESET, STATUS, CLONE, CORRECTION = 222, 223, 314, 308
RUNNING_INFO, CONSUME_DIRECTLY, PRODUCERS = 307, 309, 328


async def pushed(client: Client, code: int) -> Command:
    """The next request of that kind which the broker sends to this client."""
    async with asyncio.timeout(SECONDS):
        while (push := await client.pushed.get()).code != code:
            pass
    return push


async def answer(client: Client, code: int, body: bytes, response_code: int = 0) -> Command:
    """Takes that request and answers it; what it was."""
    push = await pushed(client, code)
    (await client.pool.connect(client.address)).send(push.reply(response_code, body=body, remark="so be it"))
    return push


async def commit(client: Client, queue_offset: int, group: str = "g", topic: str = "t", queue_id: int = 0) -> None:
    where = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
    await client.ok(15, {**where, "commitOffset": queue_offset})


def queue(queue_id: int = 0) -> MessageQueue:
    return MessageQueue("t", "broker-a", queue_id)


# -- resetting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"timestamp": -1, "isForce": "true"}, {queue(0): 3, queue(1): 0}),
        ({"timestamp": 0, "isForce": "true"}, {queue(0): 0, queue(1): 0}),
        ({"timestamp": -1, "isForce": "false"}, {queue(0): 2}),  # never forward, and only where it has been
        ({"timestamp": 0, "isForce": "false"}, {queue(0): 0}),
        ({"timestamp": 0, "isForce": "true", "queueId": 0, "offset": 1}, {queue(0): 1}),
        ({"timestamp": 0, "isForce": "true", "queueId": 1, "offset": -1}, {queue(1): 0}),
    ],
)
@in_loop
async def test_running_consumers_are_told_where_to_go_on(
    tmp_path: Path, fields: dict[str, Any], expected: dict[MessageQueue, int]
) -> None:
    async with serving(tmp_path) as (house, client):
        await client.create_topic("t", 2)
        for _ in range(3):
            await client.sent()
        await commit(client, 2)
        members = [house.client("one"), house.client("two")]
        for member in members:
            await member.heartbeat("g")
        reply = await client.ok(RESET, {"topic": "t", "group": "g", **fields})
        assert bodies.decode(ResetOffsetBody, reply.body).offset_table == expected
        for member in members:
            push = await pushed(member, 220)
            assert push.is_oneway
            assert (push.fields()["topic"], push.fields()["group"]) == ("t", "g")
            assert push.fields()["timestamp"] == str(fields["timestamp"])
            assert bodies.decode(ResetOffsetBody, push.body).offset_table == expected
        assert house.broker.offsets.get("g", "t", 0) == 2  # the consumers commit, not the broker


@in_loop
async def test_a_list_for_tools_that_say_their_consumers_are_written_in_c(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        await commit(client, 1)
        await client.heartbeat("g")
        ext = {"topic": "t", "group": "g", "timestamp": "0", "isForce": "true"}
        connection = await client.pool.connect(client.address)
        await connection.request(Command(RESET, ext=ext, language=LanguageCode.CPP), SECONDS)
        (entry,) = bodies.decode(ResetOffsetBodyForC, (await pushed(client, 220)).body).offset_table
        assert (entry.topic, entry.broker_name, entry.queue_id, entry.offset) == ("t", "broker-a", 0, 0)


@in_loop
async def test_resets_that_cannot_be(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        ask = {"topic": "t", "group": "g", "timestamp": 0, "isForce": "true"}
        assert (await client.ask(RESET, {**ask, "topic": "none"})).code == 1
        assert (await client.ask(RESET, ask)).code == 1  # a group that never read the topic
        await commit(client, 0)
        assert (await client.ask(RESET, ask)).code == 206  # tools then do it without the consumers
        await client.heartbeat("g")
        assert (await client.ask(RESET, {**ask, "queueId": 5})).code == 1
        assert (await client.ask(RESET, {**ask, "timestamp": "soon"})).code == 1
        assert (await client.ask(RESET, {**ask, "timestamp": 2**63 - 1})).code == 0


# -- asking ---------------------------------------------------------------------------------------------


@in_loop
async def test_consumer_status(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        one, two = house.client("one"), house.client("two")
        for member in (one, two):
            await member.heartbeat("g")
        asked = asyncio.create_task(client.ok(STATUS, {"topic": "t", "group": "g"}))
        said = bodies.encode(GetConsumerStatusBody(message_queue_table={queue(0): 7}))
        push = await answer(one, 221, said)
        assert push.fields() == {"topic": "t", "group": "g"}
        await answer(two, 221, b"what?")
        assert bodies.decode(GetConsumerStatusBody, (await asked).body).consumer_table == {"one": {queue(0): 7}}

        asked = asyncio.create_task(client.ok(STATUS, {"topic": "t", "group": "g", "clientAddr": "two"}))
        await answer(two, 221, said)
        assert list(bodies.decode(GetConsumerStatusBody, (await asked).body).consumer_table) == ["two"]
        assert (await client.ask(STATUS, {"topic": "t", "group": "nobody"})).code == 1


@in_loop
async def test_running_info_is_passed_on_as_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        consumer = house.client("me")
        await consumer.heartbeat("g")
        ext = {"consumerGroup": "g", "clientId": "me", "jstackEnable": "true"}
        asked = asyncio.create_task(client.ask(RUNNING_INFO, ext))
        push = await answer(consumer, RUNNING_INFO, b'{"mqTable":{}}', 7)
        assert push.fields() == ext
        reply = await asked
        assert (reply.code, reply.remark, reply.body) == (7, "so be it", b'{"mqTable":{}}')


@in_loop
async def test_a_message_is_consumed_directly(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        sent = await client.send(b"this one", properties={"KEYS": "k"})
        consumer = house.client("me")
        await consumer.heartbeat("g")
        ext = {"consumerGroup": "g", "clientId": "me", "msgId": sent.fields()["msgId"]}
        asked = asyncio.create_task(client.ask(CONSUME_DIRECTLY, ext))
        push = await answer(consumer, CONSUME_DIRECTLY, b'{"consumeResult":"CR_SUCCESS"}')
        assert push.fields() == {**ext, "brokerName": "broker-a"}
        (message,) = decode_records(push.body)
        assert (message.body, message.topic) == (b"this one", "t")
        assert json.loads((await asked).body) == {"consumeResult": "CR_SUCCESS"}

        for msg_id in ("", "nonsense", "7F00000100002A9F" + "0" * 15 + "1", "7F00000100002A9F" + "F" * 16):
            assert (await client.ask(CONSUME_DIRECTLY, {**ext, "msgId": msg_id})).code == 1


@in_loop
async def test_clients_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_clients, "CLIENT_SECONDS", 0.01)
    async with serving(tmp_path) as (house, client):
        consumer, old = house.client("me"), house.client("old")
        await consumer.heartbeat("g")
        await old.pool.request(old.address, Command(34, body=heartbeat("old", ["g"]), version=61), SECONDS)
        ext = {"consumerGroup": "g", "clientId": "me"}
        late = await client.ask(RUNNING_INFO, ext)
        assert (late.code, "did not answer" in (late.remark or "")) == (207, True)
        assert "too old" in ((await client.ask(RUNNING_INFO, {**ext, "clientId": "old"})).remark or "")
        for missing in ({**ext, "clientId": "you"}, {**ext, "consumerGroup": "h"}, {"consumerGroup": "g"}):
            assert (await client.ask(RUNNING_INFO, missing)).code == 1
        asked = asyncio.create_task(client.ask(RUNNING_INFO, ext))
        await pushed(consumer, RUNNING_INFO)
        await consumer.close()
        assert (await asked).code in (1, 207)


@in_loop
async def test_all_producers(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        assert await client.json(PRODUCERS) == {"data": {}}
        producer = house.client("me")
        await producer.ok(34, body=heartbeat("me", producers=["p", "q"]))
        table = (await client.json(PRODUCERS))["data"]
        assert sorted(table) == ["p", "q"]
        (one,) = table["p"]
        assert (one["clientId"], one["language"], one["version"]) == ("me", "PYTHON", 407)
        assert one["remoteIP"].startswith("/127.0.0.1:")
        assert 0 <= house.broker.clock.now_ms() - one["lastUpdateTimestamp"] < 60_000


# -- copying and comparing ------------------------------------------------------------------------------


@in_loop
async def test_offsets_of_one_group_for_another(tmp_path: Path) -> None:
    async with serving(tmp_path, "t", "u") as (house, client):
        await commit(client, 5, topic="t")
        await commit(client, 6, topic="t", queue_id=1)
        await commit(client, 7, topic="u")
        await commit(client, 9, topic="gone")
        offsets = house.broker.offsets
        await client.ok(CLONE, {"srcGroup": "g", "destGroup": "h", "topic": "t", "offline": "true"})
        assert (offsets.get("h", "t", 0), offsets.get("h", "t", 1), offsets.get("h", "u", 0)) == (5, 6, None)
        stored = json.loads((tmp_path / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
        assert stored["t@h"] == {"0": 5, "1": 6}
        await client.ok(CLONE, {"srcGroup": "g", "destGroup": "i"})
        assert (offsets.get("i", "t", 0), offsets.get("i", "u", 0), offsets.get("i", "gone", 0)) == (5, 7, None)
        await client.heartbeat("g", topics=("u",))
        await client.ok(CLONE, {"srcGroup": "g", "destGroup": "j", "offline": "false"})
        assert (offsets.get("j", "t", 0), offsets.get("j", "u", 0)) == (None, 7)


@in_loop
async def test_the_least_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await commit(client, 3, "slow")
        await commit(client, 5, "fast")
        await commit(client, 9, "fast", queue_id=1)
        ask = {"topic": "t", "compareGroup": "nobody"}
        assert (await client.json(CORRECTION, ask))["correctionOffsets"] == {"0": 3, "1": 9}
        filtered = {**ask, "filterGroups": "slow,other", "compareGroup": "slow"}
        assert (await client.json(CORRECTION, filtered))["correctionOffsets"] == {"0": 2**63 - 1, "1": 9}
        assert house.broker.offsets.get("slow", "t", 0) == 3
