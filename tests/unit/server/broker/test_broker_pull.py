"""Pulling: offsets and codes, checks, filters, limits, and pulls that wait for a message."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.command import BINARY, JSON, Command
from mqctl.remoting.message import Message
from mqctl.store.javahash import java_hash
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import (
    COMMIT_OFFSET,
    SUSPEND,
    Client,
    House,
    heartbeat,
    pull_ext,
    running,
    serving,
    subscription,
)


async def stored_offset(client: Client, group: str = "g", topic: str = "t", queue_id: int = 0) -> int | None:
    answer = await client.ask(
        14, {"consumerGroup": group, "topic": topic, "queueId": queue_id, "setZeroIfNotFound": "false"}
    )
    return int(answer.fields()["offset"]) if answer.code == 0 else None


# -- offsets and codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])
@pytest.mark.parametrize("code", [11, 361], ids=["PULL_MESSAGE", "LITE_PULL_MESSAGE"])
@in_loop
async def test_found(tmp_path: Path, code: int, codec: int) -> None:
    async with serving(tmp_path) as (_, client):
        for number in range(3):
            await client.sent(b"%d" % number)
        pulled = await client.pull(1, code=code, codec=codec)
        assert pulled[:4] == (0, 3, 0, 3)
        assert (pulled.bodies, pulled.remark) == ([b"1", b"2"], "FOUND")


@pytest.mark.parametrize(
    ("queue_offset", "code", "next_offset", "remark"),
    [
        (3, 19, 3, "OFFSET_OVERFLOW_ONE"),
        (4, 21, 3, "OFFSET_OVERFLOW_BADLY"),
        (2**62, 21, 3, "OFFSET_OVERFLOW_BADLY"),
        (-1, 21, 0, "OFFSET_TOO_SMALL"),
        (-(2**63), 21, 0, "OFFSET_TOO_SMALL"),
    ],
)
@in_loop
async def test_outside(tmp_path: Path, queue_offset: int, code: int, next_offset: int, remark: str) -> None:
    async with serving(tmp_path) as (_, client):
        for _ in range(3):
            await client.sent()
        pulled = await client.pull(queue_offset)
        assert pulled[:4] == (code, next_offset, 0, 3)
        assert (pulled.messages, pulled.remark) == ([], remark)


@pytest.mark.parametrize(("queue_offset", "code"), [(0, 19), (1, 21), (-1, 21)])
@in_loop
async def test_a_queue_nobody_wrote_to(tmp_path: Path, queue_offset: int, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        pulled = await client.pull(queue_offset)
        assert pulled[:4] == (code, 0, 0, 0)
        assert pulled.remark == "NO_MATCHED_LOGIC_QUEUE"


@in_loop
async def test_the_answer_never_sends_to_another_broker(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.ask(11, pull_ext())
        assert answer.fields()["suggestWhichBrokerId"] == "0"


@in_loop
async def test_a_moved_offset_is_recorded(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        await client.pull(7, consumerGroup="lost")
        (event,) = (await client.pull(topic="OFFSET_MOVED_EVENT")).messages
        assert json.loads(event.body) == {
            "consumerGroup": "lost",
            "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "t"},
            "offsetNew": 1,
            "offsetRequest": 7,
        }
        assert (event.tags, event.keys, event.properties["DELAY"]) == ("lost", ["lost"], "0")


# -- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "got"), [(1, 1), (5, 5), (32, 32), (1000, 32), (0, 1), (-1, 1)])
@in_loop
async def test_so_many_messages(tmp_path: Path, asked: int, got: int) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.send_batch([Message("t", b"%d" % n) for n in range(40)])).code == 0
        pulled = await client.pull(maxMsgNums=asked)
        assert (len(pulled.messages), pulled.next_offset) == (got, got)


@in_loop
async def test_so_many_bytes(tmp_path: Path) -> None:
    async with serving(tmp_path, max_transfer_bytes_on_message_in_memory=10_000) as (_, client):
        for _ in range(4):
            await client.sent(bytes(4000))
        assert len((await client.pull()).messages) == 2
        assert len((await client.pull(maxMsgBytes=5000)).messages) == 1
        assert len((await client.pull(maxMsgBytes=1)).messages) == 1
        assert len((await client.pull(maxMsgBytes=2**31 - 1)).messages) == 2


@in_loop
async def test_the_first_message_whatever_its_size(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for _ in range(2):
            await client.sent(bytes(1_000_000))
        assert [len(body) for body in (await client.pull()).bodies] == [1_000_000]


@in_loop
async def test_less_from_the_disk(tmp_path: Path) -> None:
    """With a ratio of 0 only the very last message counts as being in memory."""
    async with serving(tmp_path, access_message_in_memory_max_ratio=0) as (_, client):
        await client.send_batch([Message("t", b"x") for _ in range(40)])
        assert len((await client.pull()).messages) == 8


# -- checks ---------------------------------------------------------------------------------------------


@in_loop
async def test_checks_and_their_codes(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t")
        await client.create_topic("unreadable", perm=2)
        assert (await client.pull(topic="nowhere")).code == 17
        assert (await client.pull(topic="unreadable")).code == 16
        assert (await client.pull(queue_id=1)).code == 1
        assert (await client.pull(queue_id=-1)).code == 1
        assert (await client.pull(expressionType="SQL92")).code == 1
        assert (await client.pull(tags="||")).code == 23
        assert (await client.pull(expressionType="TAG")).code == 19
        assert (await client.pull(expressionType="")).code == 19
        house.broker.groups.find("g").consume_enable = False
        assert (await client.pull()).code == 16


@in_loop
async def test_a_broker_that_may_not_be_read(tmp_path: Path) -> None:
    async with serving(tmp_path, broker_permission=2) as (_, client):
        assert (await client.pull()).code == 16


@in_loop
async def test_groups_that_are_not_made(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_subscription_group=False) as (_, client):
        assert (await client.pull()).code == 26
        assert (await client.pull(consumerGroup="TOOLS_CONSUMER")).code == 19
        assert (await client.pull(consumerGroup="CID_RMQ_SYS_x")).code == 19


@pytest.mark.parametrize("name", ["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"])
@in_loop
async def test_a_missing_field(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as (_, client):
        ext = pull_ext()
        del ext[name]
        answer = await client.ask(11, ext)
        assert answer.code == 1
        assert f"`{name}`" in (answer.remark or "")


# -- subscriptions of heartbeats ------------------------------------------------------------------------


@in_loop
async def test_without_a_subscription_in_the_request(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_house, client):
        await client.sent(properties={"TAGS": "a"})
        await client.sent(properties={"TAGS": "b"})
        assert (await client.pull(sysFlag=0)).code == 24
        await client.ok(34, body=heartbeat("me", ["g"], subscriptions=[subscription("t", "b", version=5)]))
        pulled = await client.pull(sysFlag=0, subVersion=5)
        assert [message.tags for message in pulled.messages] == ["b"]
        assert (await client.pull(sysFlag=0, topic="TBW102")).code == 24


@in_loop
async def test_a_subscription_newer_than_the_heartbeat_filters_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for tags in ("a", "b"):
            await client.sent(properties={"TAGS": tags})
        await client.ok(34, body=heartbeat("me", ["g"], subscriptions=[subscription("t", "b", version=5)]))
        pulled = await client.pull(sysFlag=0, subVersion=6)
        assert [message.tags for message in pulled.messages] == ["a", "b"]


@in_loop
async def test_broadcasting_can_be_forbidden(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.heartbeat("g", messageModel="BROADCASTING")
        assert (await client.pull(sysFlag=0)).code == 19
        house.broker.groups.find("g").consume_broadcast_enable = False
        assert (await client.pull(sysFlag=0)).code == 16


# -- filters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("*", ["a", "TagB10", "", "é"]),
        ("", ["a", "TagB10", "", "é"]),
        ("a", ["a"]),
        ("TagB10", ["TagB10"]),
        ("a || TagB10", ["a", "TagB10"]),
        ("é||||a", ["a", "é"]),
    ],
)
@in_loop
async def test_tags(tmp_path: Path, tags: str, found: list[str]) -> None:
    assert java_hash("TagB10") < 0
    async with serving(tmp_path) as (_, client):
        for each in ("a", "TagB10", "", "é"):
            await client.sent(properties={"TAGS": each} if each else {})
        pulled = await client.pull(tags=tags)
        assert [message.tags for message in pulled.messages] == found
        assert pulled.next_offset == 4


@in_loop
async def test_nothing_matches(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for _ in range(3):
            await client.sent(properties={"TAGS": "a"})
        pulled = await client.pull(tags="b")
        assert pulled[:4] == (20, 3, 0, 3)
        assert pulled.remark == "NO_MATCHED_MESSAGE"


# -- waiting --------------------------------------------------------------------------------------------


async def parked(house: House, client: Client, count: int = 1, **fields: Any) -> asyncio.Task[Any]:
    """A pull that waits at the broker; `count` of them do then."""
    task = asyncio.create_task(client.pull(**{"flags": SUSPEND, **fields}))
    await until(lambda: house.parked == count)
    return task


@pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])
@in_loop
async def test_the_very_message_wakes_it(tmp_path: Path, codec: int) -> None:
    async with serving(tmp_path) as (house, client):
        task = await parked(house, client, codec=codec)
        began = time.monotonic()
        await client.sent(b"at last")
        pulled = await task
        assert time.monotonic() - began < 1
        assert (pulled.code, pulled.bodies, pulled.next_offset) == (0, [b"at last"], 1)
        assert house.parked == 0


@in_loop
async def test_it_waits_at_the_end_of_a_queue_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent(b"old")
        task = await parked(house, client, queue_offset=1)
        await client.sent(b"new")
        assert (await task).bodies == [b"new"]


@pytest.mark.parametrize(("queue_offset", "code"), [(5, 21), (-1, 21), (0, 0)])
@in_loop
async def test_only_a_pull_that_is_up_to_date_waits(tmp_path: Path, queue_offset: int, code: int) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent()
        assert (await client.pull(queue_offset, flags=SUSPEND)).code == code
        assert house.parked == 0


@in_loop
async def test_another_tag_does_not_wake_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        task = await parked(house, client, tags="b")
        await client.sent(properties={"TAGS": "a"})
        await client.max_offset()
        assert not task.done()
        assert house.parked == 1
        await client.sent(b"mine", properties={"TAGS": "b"})
        pulled = await task
        assert (pulled.bodies, pulled.next_offset) == ([b"mine"], 2)


@in_loop
async def test_another_queue_does_not_wake_it(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", queues=2)
        task = await parked(house, client, queue_id=0)
        await client.sent(queue_id=1)
        await client.max_offset()
        assert not task.done()
        await client.sent(queue_id=0)
        assert (await task).code == 0


@in_loop
async def test_a_match_far_behind_wakes_it(tmp_path: Path) -> None:
    """A filter looks at so many messages at a time. When more than that come at once, it must go on until it
    has seen the last of them: nothing else would wake it."""
    async with serving(tmp_path, mapped_file_size_consume_queue=20 * 5000) as (house, client):
        task = await parked(house, client, tags="b")
        crowd = [Message("t", b"", tags="a")] * 1700
        assert (await client.send_batch([*crowd, Message("t", b"mine", tags="b")])).code == 0
        async with asyncio.timeout(2):
            pulled = await task
        # An answer that sends the client to look again at once would do as well.
        assert pulled.bodies == [b"mine"] or (pulled.code == 20 and pulled.next_offset > 0)


@in_loop
async def test_a_match_in_the_next_file_wakes_it(tmp_path: Path) -> None:
    async with serving(tmp_path, mapped_file_size_consume_queue=20 * 200) as (house, client):
        task = await parked(house, client, tags="b")
        crowd = [Message("t", b"", tags="a")] * 210
        assert (await client.send_batch([*crowd, Message("t", b"mine", tags="b")])).code == 0
        async with asyncio.timeout(2):
            pulled = await task
        assert pulled.bodies == [b"mine"] or (pulled.code == 20 and pulled.next_offset > 0)


@in_loop
async def test_several_wait_for_one_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        everything = [await parked(house, client, count) for count in (1, 2, 3)]
        only_b = await parked(house, client, 4, tags="b")
        other = house.client("other")
        everything.append(await parked(house, other, 5))
        await client.sent(b"a", properties={"TAGS": "a"})
        assert [(await task).bodies for task in everything] == [[b"a"]] * 4
        assert house.parked == 1
        await client.sent(b"b", properties={"TAGS": "b"})
        assert (await only_b).bodies == [b"b"]


@in_loop
async def test_the_time_is_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        began = time.monotonic()
        pulled = await client.pull(flags=SUSPEND, suspendTimeoutMillis=150)
        assert 0.14 < time.monotonic() - began < 1.5
        assert pulled[:4] == (19, 0, 0, 0)
        assert house.parked == 0


@pytest.mark.parametrize("hold", [0, -5, -(2**63)])
@in_loop
async def test_no_time_at_all(tmp_path: Path, hold: int) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.pull(flags=SUSPEND, suspendTimeoutMillis=hold)).code == 19


@in_loop
async def test_a_wait_without_end_has_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        task = await parked(house, client, suspendTimeoutMillis=2**63 - 1)
        await client.sent()
        assert (await task).code == 0


@in_loop
async def test_the_time_is_up_after_others_messages(tmp_path: Path) -> None:
    """The next pull begins behind what was passed over."""
    async with serving(tmp_path) as (house, client):
        task = await parked(house, client, tags="b", suspendTimeoutMillis=200)
        await client.sent(properties={"TAGS": "a"})
        pulled = await task
        assert (pulled.code, pulled.next_offset) == (20, 1)


@in_loop
async def test_short_polling(tmp_path: Path) -> None:
    async with serving(tmp_path, long_polling_enable=False, short_polling_time_mills=50) as (_, client):
        began = time.monotonic()
        assert (await client.pull(flags=SUSPEND)).code == 19
        assert time.monotonic() - began < 2


@in_loop
async def test_a_client_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        gone = house.client("gone")
        task = await parked(house, gone)
        await gone.close()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: len(house.broker.server.connections) == 1)
        await client.sent()
        assert house.parked == 0


@in_loop
async def test_a_stop_answers_all_that_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t")
        task = await parked(house, client)
        await house.broker.stop()
        assert (await task).code == 19
        house.broker.stop = _nothing  # type: ignore[method-assign]


async def _nothing() -> None:
    pass


@in_loop
async def test_a_oneway_pull_is_never_answered(tmp_path: Path) -> None:
    """Not even later, when a message comes."""
    async with serving(tmp_path) as (_house, client):
        connection = await client.pool.connect(client.address)
        answers: list[Command] = []
        resolve = connection._resolve
        connection._resolve = lambda answer: (answers.append(answer), resolve(answer))[1]  # type: ignore[method-assign]
        await client.oneway(11, pull_ext(flags=SUSPEND))
        await client.oneway(11, pull_ext(queueOffset=5))
        await client.sent()
        await client.max_offset()
        assert len(answers) == 2


@in_loop
async def test_one_failing_read_does_not_cost_the_others_their_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, "t", "u") as (house, client):
        failing = await parked(house, client, 1, topic="t")
        others = [await parked(house, client, count, topic="u") for count in (2, 3)]
        real = os.pread
        reads = 0

        def first_fails(descriptor: int, size: int, at: int) -> bytes:
            nonlocal reads
            reads += 1
            if reads == 1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(descriptor, size, at)

        with monkeypatch.context() as broken, contextlib.suppress(AssertionError):
            broken.setattr(os, "pread", first_fails)
            await asyncio.gather(client.sent(b"1", topic="t"), client.sent(b"2", topic="u"))
        async with asyncio.timeout(2):
            answers = [await task for task in others]
            failed = await failing
        assert sorted(len(answer.messages) for answer in [*answers, failed]) in ([0, 1, 1], [1, 1, 1])


# -- committing with a pull -----------------------------------------------------------------------------


@in_loop
async def test_the_commit_flag(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent()
        await client.pull(commitOffset=7)
        assert await stored_offset(client) is None
        await client.pull(flags=COMMIT_OFFSET, commitOffset=7)
        assert await stored_offset(client) == 7
        await client.pull(flags=COMMIT_OFFSET, commitOffset=3)
        assert await stored_offset(client) == 3


@in_loop
async def test_a_waiting_pull_commits_at_once_and_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        task = await parked(house, client, flags=SUSPEND | COMMIT_OFFSET, commitOffset=5)
        assert await stored_offset(client) == 5
        await client.ok(15, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 9})
        await client.sent()
        await task
        assert await stored_offset(client) == 9


@in_loop
async def test_a_refused_pull_commits_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.pull(queue_id=5, flags=COMMIT_OFFSET, commitOffset=7)).code == 1
        assert await stored_offset(client, queue_id=5) is None


@in_loop
async def test_a_negative_offset_is_no_offset(tmp_path: Path) -> None:
    """UPDATE_CONSUMER_OFFSET refuses it; a pull must not bring it in by the back door."""
    async with serving(tmp_path) as (_, client):
        await client.pull(flags=COMMIT_OFFSET, commitOffset=-1)
        assert await stored_offset(client) is None


# -- files that are gone --------------------------------------------------------------------------------


@in_loop
async def test_a_queue_file_that_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, mapped_file_size_consume_queue=200) as (house, client):
        await client.send_batch([Message("t", b"%d" % n) for n in range(25)])
        house.broker.store.flush_queues()
        house.broker.store.queues["t", 0]._segments.remove(200)
        pulled = await client.pull(12)
        assert (pulled.code, pulled.next_offset, pulled.remark) == (19, 20, "OFFSET_FOUND_NULL")
        assert (await client.pull(20)).bodies == [b"20", b"21", b"22", b"23", b"24"]


@in_loop
async def test_a_log_file_that_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, mapped_file_size_commit_log=4096) as (house, client):
        for _ in range(20):
            await client.sent(bytes(500))
        house.broker.store.log.segments.remove(0)
        pulled = await client.pull(0, maxMsgNums=2)
        assert (pulled.code, pulled.next_offset, pulled.remark) == (20, 2, "MESSAGE_WAS_REMOVING")


@in_loop
async def test_what_survives_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path / "store") as (house, client):
        for number in range(5):
            await client.sent(b"%d" % number)
        shutil.copytree(tmp_path / "store", tmp_path / "killed")
    for root in ("store", "killed"):
        async with running(tmp_path / root) as house:
            client = house.client()
            assert (await client.pull()).bodies == [b"0", b"1", b"2", b"3", b"4"]
            assert await client.sent() == 5


# -- messages that are on disk only ---------------------------------------------------------------------


@in_loop
async def test_cold_messages_are_read_all_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path, access_message_in_memory_max_ratio=0) as (_, client):
        for number in range(12):
            await client.sent(b"%d" % number, properties={"TAGS": "ab"[number % 2]})
        pulled = await client.pull(2)
        assert pulled.bodies == [b"%d" % number for number in range(2, 10)], "eight at a time, from the disk"
        assert (await client.pull(0, tags="b")).bodies == [b"%d" % number for number in (1, 3, 5, 7, 9, 11)]
        assert (await client.pull(12)).code == 19


@in_loop
async def test_a_slow_disk_holds_up_only_who_reads_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, go_on, real = threading.Event(), threading.Event(), os.pread

    def slow(descriptor: int, size: int, at: int) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            arrived.set()
            go_on.wait(5)
        return real(descriptor, size, at)

    async with serving(tmp_path, access_message_in_memory_max_ratio=0) as (_, client):
        await client.sent(b"old")
        await client.sent(b"new")
        monkeypatch.setattr(os, "pread", slow)
        lagging = asyncio.create_task(client.pull(0))
        await until(arrived.is_set)
        assert await client.sent(b"meanwhile") == 2
        assert not lagging.done()
        go_on.set()
        assert (await lagging).bodies == [b"old", b"new", b"meanwhile"]
