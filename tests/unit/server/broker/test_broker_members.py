"""Clients that come, stay and leave, and what the others of their group hear about it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.command import BINARY, Command
from mqctl.server.broker import clients as clients_module
from mqctl.server.broker.assignment import share
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import Client, House, heartbeat, running, send_ext, serving, subscription


async def members(client: Client, group: str = "g") -> list[str]:
    return sorted((await client.json(38, {"consumerGroup": group}))["consumerIdList"])


async def quiet(client: Client) -> bool:
    """Whether nothing was pushed before the answer to a request that follows."""
    await client.ok(30, {"topic": "t", "queueId": 0})
    return client.pushed.empty()


# -- coming ---------------------------------------------------------------------------------------------


@in_loop
async def test_a_heartbeat_is_answered_plainly(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.ok(34, body=heartbeat("me", ["g"]))
        assert (answer.code, answer.version, answer.fields(), answer.body) == (0, 407, {}, b"")


@in_loop
async def test_a_group_and_its_retry_topic_come_with_the_first_member(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.heartbeat("g")
        assert house.broker.groups.get("g") is not None
        retry = house.broker.topics.get("%RETRY%g")
        assert retry is not None
        assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)


@in_loop
async def test_a_group_that_may_not_be_made(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_subscription_group=False) as (house, client):
        assert (await client.ask(34, body=heartbeat("me", ["g"]))).code == 26
        assert house.broker.topics.get("%RETRY%g") is None


@in_loop
async def test_all_members_hear_of_a_new_one_the_new_one_included(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, one):
        await one.heartbeat("g")
        assert await one.notified() == "g"
        two = house.client("two")
        await two.heartbeat("g")
        assert [await one.notified(), await two.notified()] == ["g", "g"]
        assert await members(one) == ["client", "two"]


@in_loop
async def test_a_repeated_heartbeat_is_no_news(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.heartbeat("g")
        await client.notified()
        await client.heartbeat("g")
        await client.heartbeat("g")
        assert await quiet(client)
        assert await members(client) == ["client"]


@in_loop
async def test_topics_that_come_or_go_are_news(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for topics in (("t",), ("t", "u"), ("u",)):
            await client.heartbeat("g", topics=topics)
            assert await client.notified() == "g"
        await client.heartbeat("g", topics=("u",))
        assert await quiet(client)


@in_loop
async def test_only_newer_subscriptions_count(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        for tags, version in (("a", 5), ("b", 4), ("c", 5), ("d", 6)):
            body = heartbeat("me", ["g"], subscriptions=[subscription("t", tags, version)])
            await client.ok(34, body=body)
        group = house.broker.membership.clients.consumers["g"]
        assert group.subscriptions["t"].sub_string == "d"


@in_loop
async def test_one_client_in_several_groups(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.heartbeat("g1", "g2")
        assert {await client.notified(), await client.notified()} == {"g1", "g2"}
        assert await members(client, "g1") == await members(client, "g2") == ["client"]


@in_loop
async def test_a_client_that_came_back_counts_once(tmp_path: Path) -> None:
    """The broker may learn of the new connection before it knows that the old one is gone."""
    async with serving(tmp_path) as (house, client):
        await client.heartbeat("g")
        again = house.client("client")
        await again.heartbeat("g")
        assert await members(client) == ["client"]
        await client.close()
        await until(lambda: len(house.broker.server.connections) == 1)
        assert await members(again) == ["client"]


# -- leaving --------------------------------------------------------------------------------------------


async def two_members(house: House, one: Client) -> Client:
    two = house.client("two")
    await one.heartbeat("g")
    await two.heartbeat("g")
    for _ in range(2):
        await one.notified()
    await two.notified()
    return two


@in_loop
async def test_the_others_hear_of_one_that_unregisters(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, one):
        two = await two_members(house, one)
        answer = await two.ok(35, {"clientID": "two", "consumerGroup": "g"})
        assert answer.fields() == {}
        assert await one.notified() == "g"
        assert await quiet(two)
        assert await members(one) == ["client"]


@in_loop
async def test_the_others_hear_of_one_whose_connection_closes(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, one):
        two = await two_members(house, one)
        await two.close()
        assert await one.notified() == "g"
        assert await members(one) == ["client"]


@in_loop
async def test_the_others_hear_of_one_whose_connection_dies(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, one):
        two = await two_members(house, one)
        (await two.pool.connect(two.address)).abort()
        assert await one.notified() == "g"
        assert await members(one) == ["client"]


@in_loop
async def test_the_others_hear_of_one_that_sends_garbage(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, one):
        two = await two_members(house, one)
        (await two.pool.connect(two.address))._transport.write(b"\xff" * 8)  # type: ignore[union-attr]
        assert await one.notified() == "g"
        assert await members(one) == ["client"]


@in_loop
async def test_the_others_hear_of_one_that_fell_silent(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, one):
        two = await two_members(house, one)
        who = house.broker.membership.clients.consumers["g"].members
        for member in who.values():
            if member.client_id == "two":
                member.last_heartbeat -= clients_module.CLIENT_EXPIRY_SECONDS + 1
        house.broker.membership.clients.expire()
        assert await one.notified() == "g"
        assert await members(one) == ["client"]
        await until(lambda: len(house.broker.server.connections) == 1)
        assert two.pushed.empty()


@in_loop
async def test_a_group_without_members_is_offline(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.heartbeat("g")
        await client.ok(35, {"clientID": "client", "consumerGroup": "g"})
        assert (await client.ask(38, {"consumerGroup": "g"})).code == 1
        assert (await client.ask(203, {"consumerGroup": "g"})).code == 206


@in_loop
async def test_leaving_a_group_one_is_not_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.ok(35, {"clientID": "x", "consumerGroup": "nowhere", "producerGroup": "nobody"})
        await client.ok(35, {"clientID": "x"})
        assert (await client.ask(35, {"consumerGroup": "g"})).code == 1


# -- not being told -------------------------------------------------------------------------------------


@in_loop
async def test_a_broker_that_does_not_tell(tmp_path: Path) -> None:
    async with serving(tmp_path, notify_consumer_ids_changed_enable=False) as (_, client):
        await client.heartbeat("g")
        assert await quiet(client)


@in_loop
async def test_a_group_that_is_not_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        house.broker.groups.find("g").notify_consumer_ids_changed_enable = False
        await client.heartbeat("g", "other")
        assert await client.notified() == "other"
        assert await quiet(client)


# -- lists ----------------------------------------------------------------------------------------------


@in_loop
async def test_consumer_connections(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.heartbeat("g")
        connection = await client.pool.connect(client.address)
        host, port = connection._transport.get_extra_info("sockname")  # type: ignore[union-attr]
        assert await client.json(203, {"consumerGroup": "g"}) == {
            "connectionSet": [
                {"clientAddr": f"{host}:{port}", "clientId": "client", "language": "PYTHON", "version": 407}
            ],
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {"t": subscription("t")},
        }


@in_loop
async def test_producer_connections(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.ok(34, body=heartbeat("me", producers=["p"]))
        (one,) = (await client.json(204, {"producerGroup": "p"}))["connectionSet"]
        assert (one["clientId"], one["language"]) == ("me", "PYTHON")
        await client.ok(35, {"clientID": "me", "producerGroup": "p"})
        assert (await client.ask(204, {"producerGroup": "p"})).code == 1
        assert house.broker.membership.clients.producers == {}


@pytest.mark.parametrize("code", [203, 38])
@in_loop
async def test_a_client_with_a_language_nobody_knows_is_listed(tmp_path: Path, code: int) -> None:
    """One strange client must not make the list of its whole group unreadable."""
    async with serving(tmp_path) as (_, client):
        connection = await client.pool.connect(client.address)
        beat = Command(34, body=heartbeat("strange", ["g"]), codec=BINARY, language=77)
        assert (await connection.request(beat, 5)).code == 0
        assert b'"strange"' in (await client.ok(code, {"consumerGroup": "g"})).body


@pytest.mark.parametrize(("expression_type", "code"), [("TAG", 0), ("SQL92", 1)])
@in_loop
async def test_check_client_config(tmp_path: Path, expression_type: str, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        body = json.dumps(
            {"clientId": "c", "group": "g", "subscriptionData": {"topic": "t", "expressionType": expression_type}}
        )
        assert (await client.ask(46, body=body.encode())).code == code


@pytest.mark.parametrize("code", [34, 46, 400])
@in_loop
async def test_bodies_that_do_not_parse(tmp_path: Path, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        for body in (b"", b"{", b"[]", b"null", b"5", b"\xff", b'{"clientID":[],"clientId":[]}', b"[" * 100_000):
            answer = await client.ask(code, body=body)
            assert (answer.code, answer.remark is not None) == (1, True), body[:40]
        assert await client.max_offset() == 0


# -- names that are none --------------------------------------------------------------------------------

BAD_GROUPS = ["", " ", "a@b", "a/b", "../../../escaped", "a\x00b", "a b", "ü", "a\x01b", "a\x02b", "x" * 256]


@pytest.mark.parametrize("group", BAD_GROUPS)
@in_loop
async def test_names_that_no_group_may_have(tmp_path: Path, group: str) -> None:
    """A group's name becomes a topic's, and a topic's becomes a directory's."""
    async with serving(tmp_path / "store") as (house, client):
        assert (await client.ask(34, body=heartbeat("me", [group]))).code != 0
        assert house.broker.topics.get("%RETRY%" + group) is None
        assert house.broker.groups.get(group) is None


@pytest.mark.parametrize("group", ["a/../../../escaped", "a\x00b", "x" * 200, "x" * 255, "é" * 120])
@in_loop
async def test_a_strange_group_harms_nobody(tmp_path: Path, group: str) -> None:
    """Whatever becomes of its messages: nothing is written outside of the store, other producers get their
    answers, and the store stops cleanly and opens again."""
    async with serving(tmp_path / "store") as (house, client):
        await client.ask(34, body=heartbeat("me", [group]))
        topic = "%RETRY%" + group
        strange = [client.ask(310, send_ext(topic=topic), b"body") for _ in range(130)]
        honest = [client.sent(b"honest") for _ in range(130)]
        answers = await asyncio.gather(*strange, *honest)
        assert [int(offset) for offset in answers[130:]] == list(range(130))  # type: ignore[call-overload]
        assert len(topic) <= 127 or {answer.code for answer in answers[:130]} != {0}  # type: ignore[union-attr]
        house.broker.store.flush_queues()
        assert not house.broker.store.queues["t", 0].is_dirty
    assert os.listdir(tmp_path) == ["store"]  # noqa: PTH208
    assert not (tmp_path / "store/abort").exists()
    async with running(tmp_path / "store") as house:
        assert await house.client().max_offset() == 130


@in_loop
async def test_long_group_names_of_java_clients_are_welcome(tmp_path: Path) -> None:
    """Java's client allows 255 characters, of which a retry topic cannot be made."""
    async with serving(tmp_path) as (_, client):
        await client.heartbeat("x" * 200)
        assert await members(client, "x" * 200) == ["client"]


# -- assignments ----------------------------------------------------------------------------------------


def assignment_request(client_id: str, strategy: str = "AVG", model: str = "CLUSTERING", topic: str = "t") -> bytes:
    return json.dumps(
        {
            "clientId": client_id,
            "consumerGroup": "g",
            "messageModel": model,
            "strategyName": strategy,
            "topic": topic,
        }
    ).encode()


async def assigned(client: Client, **request: Any) -> list[int]:
    answer = await client.json(400, body=assignment_request(client.name, **request))
    for each in answer["messageQueueAssignments"]:
        assert each["mode"] == "PULL"
        assert (each["messageQueue"]["topic"], each["messageQueue"]["brokerName"]) == ("t", "broker-a")
    return [each["messageQueue"]["queueId"] for each in answer["messageQueueAssignments"]]


@in_loop
async def test_assignments(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        a, b, c = (house.client(name) for name in "abc")
        await a.create_topic("t", queues=8)
        for client in (c, a, b):
            await client.heartbeat("g")
        assert [await assigned(client) for client in (a, b, c)] == [[0, 1, 2], [3, 4, 5], [6, 7]]
        assert [await assigned(client, strategy="AVG_BY_CIRCLE") for client in (a, b, c)] == [
            [0, 3, 6],
            [1, 4, 7],
            [2, 5],
        ]
        assert await assigned(a, model="BROADCASTING") == list(range(8))
        assert await assigned(house.client("stranger")) == []


@in_loop
async def test_assignments_of_a_topic_nobody_knows(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.heartbeat("g")
        assert await client.json(400, body=assignment_request("client", topic="nowhere")) == {
            "messageQueueAssignments": []
        }


@pytest.mark.parametrize("circle", [True, False])
@pytest.mark.parametrize("members", [1, 2, 3, 5, 7, 20])
@pytest.mark.parametrize("queues", [0, 1, 4, 7, 16])
def test_every_queue_goes_to_exactly_one_member(queues: int, members: int, circle: bool) -> None:
    names = [f"client-{number:02d}" for number in range(members)]
    shares = [share(queues, names, name, circle=circle) for name in names]
    assert sorted(queue for each in shares for queue in each) == list(range(queues))
    sizes = [len(each) for each in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
