"""Replies on their way to the client that asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker import reply as reply_module
from mqctl.store.properties import parse_properties
from tests.aio import in_loop
from tests.unit.server.broker.harness import Client, House, heartbeat, send_ext, serving

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
PUSH = 326


class Asker(Client):
    """A client with a producer that takes pushed replies and answers them with `code`."""

    code = 0

    def _on_request(self, connection: Connection, request: Command) -> None:
        super()._on_request(connection, request)
        if request.code == PUSH and self.code >= 0:
            connection.send(request.reply(self.code, remark="as told"))

    async def introduce(self, *groups: str) -> None:
        await self.ok(34, body=heartbeat(self.name, producers=groups or ("askers",)))


async def asker(house: House, name: str = "asker") -> Asker:
    client = Asker(house.address, name)
    house._clients.append(client)
    await client.introduce()
    return client


def reply_ext(to: str | None = "asker", **fields: Any) -> dict[str, Any]:
    properties = {"CORRELATION_ID": "c-1", "MSG_TYPE": "reply", **({"REPLY_TO_CLIENT": to} if to else {})}
    return send_ext(**{"topic": REPLY_TOPIC, "properties": properties, **fields})


@in_loop
async def test_it_is_pushed_with_all_its_fields(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, replier):
        asking, other = await asker(house), await asker(house, "other")
        answer = await replier.ok(325, reply_ext(h=5, f=0), b"the answer")
        push = asking.pushed.get_nowait()
        fields = push.fields()
        assert (push.code, push.body, push.is_oneway) == (PUSH, b"the answer", False)
        assert (fields["topic"], fields["producerGroup"], fields["queueId"]) == (REPLY_TOPIC, "producers", "0")
        assert (fields["flag"], fields["sysFlag"], fields["reconsumeTimes"], fields["unitMode"]) == (
            "5",
            "0",
            "0",
            "false",
        )
        assert (fields["defaultTopic"], fields["defaultTopicQueueNums"]) == ("TBW102", "4")
        assert fields["storeHost"] == house.address
        assert fields["bornHost"].startswith("127.0.0.1:")
        properties = parse_properties(fields["properties"])
        assert properties.pop("PUSH_REPLY_TIME").isdecimal()
        assert properties == {"CORRELATION_ID": "c-1", "MSG_TYPE": "reply", "REPLY_TO_CLIENT": "asker"}
        assert other.pushed.empty()

        (kept,) = (await replier.pull(topic=REPLY_TOPIC)).messages
        assert (kept.body, kept.properties["CORRELATION_ID"]) == (b"the answer", "c-1")
        assert answer.fields()["msgId"] == kept.offset_msg_id


@in_loop
async def test_the_long_form(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, replier):
        asking = await asker(house)
        names = dict(zip("abcdefghi", LONG_NAMES, strict=True))
        await replier.ok(324, {names[short]: value for short, value in reply_ext().items()}, b"long")
        assert asking.pushed.get_nowait().body == b"long"


LONG_NAMES = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
)


@in_loop
async def test_not_stored_if_not_wanted(tmp_path: Path) -> None:
    async with serving(tmp_path, store_reply_message_enable=False) as (house, replier):
        await asker(house)
        answer = await replier.ok(325, reply_ext())
        fields = answer.fields()
        assert (fields["msgId"], fields["queueId"], fields["queueOffset"]) == ("0", "0", "0")
        assert await replier.max_offset(REPLY_TOPIC) == 0


@pytest.mark.parametrize(
    ("to", "remark"),
    [("stranger", "channel of <stranger> not found"), (None, "properties[REPLY_TO_CLIENT] is null")],
)
@in_loop
async def test_nobody_to_push_it_to(tmp_path: Path, to: str | None, remark: str) -> None:
    async with serving(tmp_path) as (_, replier):
        for _attempt in range(3):
            answer = await replier.ask(325, reply_ext(to))
            assert (answer.code, remark in str(answer.remark)) == (1, True)
        assert await replier.max_offset(REPLY_TOPIC) == 0, "each attempt would store it once more"


@in_loop
async def test_the_asker_refuses_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, replier):
        asking = await asker(house)
        asking.code = 1
        assert (await replier.ask(325, reply_ext())).code == 1


@in_loop
async def test_the_asker_leaves_before_it_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, replier):
        asking = await asker(house)
        asking.code = -1
        waiting = asyncio.create_task(replier.ask(325, reply_ext()))
        await asking.pushed.get()
        await asking.close()
        assert (await waiting).code == 1
        assert (await replier.ask(325, reply_ext())).code == 1


@in_loop
async def test_the_asker_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_module, "PUSH_SECONDS", 0.05)
    async with serving(tmp_path) as (house, replier):
        asking = await asker(house)
        asking.code = -1
        answer = await replier.ask(325, reply_ext())
        assert (answer.code, "did not answer" in str(answer.remark)) == (1, True)


@in_loop
async def test_a_client_is_found_until_its_last_producer_leaves(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, replier):
        asking = await asker(house)
        await asking.introduce("askers", "others")
        await asking.ok(35, {"clientID": "asker", "producerGroup": "others"})
        assert (await replier.ask(325, reply_ext())).code == 0
        await asking.ok(35, {"clientID": "asker", "producerGroup": "askers"})
        assert (await replier.ask(325, reply_ext())).code == 1


@pytest.mark.parametrize(
    ("fields", "code"), [({"topic": "nowhere"}, 17), ({"queue_id": 9}, 1), ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16)]
)
@in_loop
async def test_where_it_cannot_go(tmp_path: Path, fields: dict[str, Any], code: int) -> None:
    async with serving(tmp_path) as (house, replier):
        asking = await asker(house)
        assert (await replier.ask(325, reply_ext(**fields))).code == code
        assert asking.pushed.empty()
