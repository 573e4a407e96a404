"""Sending: the three forms, what is stored, what is refused and with which code."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mqctl.remoting.command import BINARY, JSON, Command
from mqctl.remoting.message import Message, encode_batch
from mqctl.server.broker import configfile
from mqctl.store import record
from mqctl.store.javahash import java_hash
from mqctl.store.smallfiles import replace_file
from tests.aio import in_loop, until
from tests.unit.server.broker.harness import Client, running, send_ext, serving

LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
}


# -- what is accepted -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])
@in_loop
async def test_the_answer_says_where_it_went(tmp_path: Path, codec: int) -> None:
    async with serving(tmp_path) as (house, client):
        for number in range(2):
            answer = await client.send(b"%d" % number, codec=codec)
            ext = answer.fields()
            (host, port), phys_offset = record.decode_msg_id(ext.pop("msgId"))
            assert (host, port) == ("127.0.0.1", house.port)
            assert house.broker.store.log.read_record(phys_offset) is not None
            assert ext == {
                "queueId": "0",
                "queueOffset": str(number),
                "MSG_REGION": "DefaultRegion",
                "TRACE_ON": "true",
            }
            assert (answer.code, answer.remark, answer.body, answer.codec) == (0, None, b"", codec)


@in_loop
async def test_the_long_form_is_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        short = send_ext(properties={"KEYS": "k"}, h=7, j=2)
        await client.ok(310, short, b"short")
        await client.ok(10, {LONG_NAMES[name]: value for name, value in short.items()}, b"long")
        one, two = (await client.pull()).messages
        assert (one.body, two.body) == (b"short", b"long")
        assert (one.properties, one.flag, one.reconsume_times) == (two.properties, two.flag, two.reconsume_times)
        assert (one.flag, one.reconsume_times) == (7, 2)


@in_loop
async def test_everything_sent_is_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        before = int(time.time() * 1000)
        await client.sent(b"body", properties={"KEYS": "k1 k2", "mine": "ü"}, f=0x301, g=12345, h=-9, j=3)
        (stored,) = (await client.pull()).messages
        connection = await client.pool.connect(client.address)
        own = connection._transport.get_extra_info("sockname")  # type: ignore[union-attr]
        assert (stored.stored_body, stored.topic, stored.queue_id, stored.queue_offset) == (b"body", "t", 0, 0)
        assert (stored.sys_flag, stored.born_timestamp, stored.flag, stored.reconsume_times) == (0x301, 12345, -9, 3)
        assert (stored.born_host, stored.store_host) == (own, ("127.0.0.1", house.port))
        assert before <= stored.store_timestamp <= int(time.time() * 1000)
        assert stored.properties == {"KEYS": "k1 k2", "mine": "ü", "CLUSTER": "DefaultCluster"}


@in_loop
async def test_an_empty_body(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent(b"")
        assert (await client.pull()).bodies == [b""]


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),  # as 5.x clients end it
        ("a\x01b\x02WAIT\x01true", {"a": "b"}),
        ("WAIT\x01true\x02a\x01b\x02", {"a": "b"}),
        ("WAIT\x01false", {}),
        ("CLUSTER\x01liar\x02a\x01b", {"a": "b"}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
        ("\x02\x02nonsense\x02a\x01b", {"a": "b"}),
    ],
)
@in_loop
async def test_properties(tmp_path: Path, sent: str, stored: dict[str, str]) -> None:
    """WAIT is for the broker, CLUSTER is its own to say."""
    async with serving(tmp_path) as (_, client):
        await client.sent(i=sent)
        (message,) = (await client.pull()).messages
        assert message.properties == {**stored, "CLUSTER": "DefaultCluster"}


@pytest.mark.parametrize("tags", ["TagA", "TagB10", "", "é中"])
@in_loop
async def test_the_tags_code(tmp_path: Path, tags: str) -> None:
    async with serving(tmp_path) as (house, client):
        await client.sent(properties={"TAGS": tags} if tags else {})
        entry = house.broker.store.queues["t", 0].entry(0)
        assert entry is not None
        assert entry[2] == java_hash(tags)


@in_loop
async def test_a_negative_queue_id_means_any(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", queues=3)
        used = {int((await client.send(queue_id=-1)).fields()["queueId"]) for _ in range(60)}
        assert used == {0, 1, 2}


@in_loop
async def test_queues_are_counted_apart(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", queues=2)
        offsets = [await client.sent(queue_id=queue_id) for queue_id in (0, 0, 1, 0, 1)]
        assert offsets == [0, 1, 0, 2, 1]


@in_loop
async def test_many_at_once_keep_their_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answers = await asyncio.gather(*(client.sent(b"%d" % number) for number in range(200)))
        assert answers == list(range(200))
        pulled, queue_offset = [], 0
        while queue_offset < 200:
            part = await client.pull(queue_offset)
            pulled += part.bodies
            queue_offset = part.next_offset
        assert pulled == [b"%d" % number for number in range(200)]


@in_loop
async def test_oneway(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for number in range(3):
            await client.oneway(310, send_ext(), b"%d" % number)
        assert (await client.sent(b"3")) == 3
        assert (await client.pull()).bodies == [b"0", b"1", b"2", b"3"]


@in_loop
async def test_the_other_port(tmp_path: Path) -> None:
    """Clients with the VIP channel on send to listenPort - 2."""
    async with serving(tmp_path) as (house, client):
        vip = Client(f"127.0.0.1:{house.port - 2}")
        assert await vip.sent(b"vip") == 0
        await vip.close()
        assert (await client.pull()).bodies == [b"vip"]


# -- batches --------------------------------------------------------------------------------------------


@in_loop
async def test_a_batch(tmp_path: Path) -> None:
    messages = [Message("t", b"%d" % number, tags=f"Tag{number}", properties={"n": str(number)}) for number in range(3)]
    async with serving(tmp_path) as (house, client):
        await client.sent(b"before")
        answer = await client.send_batch(messages, properties={"shared": "s", "WAIT": "true"})
        ids = answer.fields()["msgId"].split(",")
        assert (answer.code, answer.fields()["queueOffset"], len(ids)) == (0, "1", 3)
        stored = (await client.pull(1)).messages
        assert [each.body for each in stored] == [b"0", b"1", b"2"]
        assert [each.offset_msg_id for each in stored] == ids
        assert [each.queue_offset for each in stored] == [1, 2, 3]
        for number, each in enumerate(stored):
            assert each.properties["n"] == str(number)
            assert each.properties["shared"] == "s"
            assert each.properties["CLUSTER"] == "DefaultCluster"
            assert each.tags == f"Tag{number}"
        queue = house.broker.store.queues["t", 0]
        assert [queue.entry(n)[2] for n in (1, 2, 3)] == [java_hash(f"Tag{n}") for n in range(3)]  # type: ignore[index]


@pytest.mark.parametrize("name", ["UNIQ_KEY", "KEYS"])
@in_loop
async def test_the_keys_of_a_batch_are_not_its_messages(tmp_path: Path, name: str) -> None:
    """5.5 clients put them into the properties of the batch itself."""
    messages = [Message("t", b"1", properties={name: "K1"}), Message("t", b"2", properties={name: "K2"})]
    async with serving(tmp_path) as (_, client):
        assert (await client.send_batch(messages, properties={name: "BATCH"})).code == 0
        assert [each.properties[name] for each in (await client.pull()).messages] == ["K1", "K2"]


@in_loop
async def test_the_flag_decides_not_the_code(tmp_path: Path) -> None:
    body = encode_batch([Message("t", b"1"), Message("t", b"2")])
    async with serving(tmp_path) as (_, client):
        await client.ok(310, send_ext(m="true"), body)
        await client.ok(320, send_ext(m="false"), body)
        assert (await client.pull()).bodies == [b"1", b"2", body]


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        ({}, b"", 13),
        ({}, b"not a batch", 1),
        ({}, encode_batch([Message("t", b"1")])[:-1], 1),
        ({"f": 4}, encode_batch([Message("t", b"1")]), 13),
        ({"f": 8}, encode_batch([Message("t", b"1")]), 13),
        ({"properties": {"DELAY": "3"}}, encode_batch([Message("t", b"1")]), 13),
        ({"properties": {"TIMER_DELAY_SEC": "9"}}, encode_batch([Message("t", b"1")]), 13),
        ({}, encode_batch([Message("t", b"1"), Message("t", b"2", properties={"DELAY": "3"})]), 13),
        ({}, encode_batch([Message("t", b"1", properties={"TIMER_DELAY_MS": "99999"})]), 13),
    ],
    ids=["empty", "garbage", "cut", "half message", "transaction", "delayed", "timer", "one delayed", "one timer"],
)
@in_loop
async def test_batches_that_are_refused(tmp_path: Path, fields: dict[str, Any], body: bytes, code: int) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.ask(320, send_ext(m="true", **fields), body)).code == code
        assert await client.max_offset() == 0


@in_loop
async def test_one_message_too_large_refuses_the_batch(tmp_path: Path) -> None:
    async with serving(tmp_path, max_message_size=1000) as (_, client):
        assert (await client.send_batch([Message("t", b"1"), Message("t", bytes(1001))])).code == 13
        assert (await client.send_batch([Message("t", bytes(600)), Message("t", bytes(600))])).code == 13
        assert await client.max_offset() == 0


# -- what is refused ------------------------------------------------------------------------------------


async def refused(client: Client, code: int, body: bytes = b"body", **fields: Any) -> str:
    answer = await client.send(body, **fields)
    assert (answer.code, answer.body) == (code, b"")
    return answer.remark or ""


@in_loop
async def test_an_unknown_topic_without_auto_creation(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_topic_enable=False) as (house, client):
        remark = await refused(client, 17, topic="nowhere")
        assert "the topic 'nowhere' does not exist" in remark
        assert house.broker.topics.get("nowhere") is None


@pytest.mark.parametrize("topic", ["", " ", "a b", "a/b", "../x", "a.b", "ü", "a\x00b", "x" * 128, "a\n"])
@in_loop
async def test_names_that_no_topic_may_have(tmp_path: Path, topic: str) -> None:
    async with serving(tmp_path) as (house, client):
        await refused(client, 1, topic=topic)
        assert house.broker.topics.get(topic) is None


@in_loop
async def test_the_longest_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        topic = "x" * 127
        assert await client.sent(topic=topic) == 0
        assert [message.topic for message in (await client.pull(topic=topic)).messages] == [topic]


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ],
)
@in_loop
async def test_topics_of_the_broker_itself(tmp_path: Path, topic: str) -> None:
    async with serving(tmp_path) as (_, client):
        await refused(client, 16, topic=topic)
        await refused(client, 16, topic=topic, queue_id=-1)
        assert await client.max_offset(topic) == 0


@pytest.mark.parametrize("perm", [0, 4, 5])
@in_loop
async def test_a_topic_that_may_not_be_written(tmp_path: Path, perm: int) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", perm=perm)
        assert "sending to topic 't' on this broker is forbidden" in await refused(client, 16)


@in_loop
async def test_a_broker_that_may_not_be_written(tmp_path: Path) -> None:
    async with serving(tmp_path, broker_permission=4) as (_, client):
        await refused(client, 16)


@pytest.mark.parametrize("queue_id", [2, 3, 2**31 - 1])
@in_loop
async def test_a_queue_that_does_not_exist(tmp_path: Path, queue_id: int) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", queues=2)
        assert f"queue {queue_id} of topic 't' does not exist" in await refused(client, 1, queue_id=queue_id)


@in_loop
async def test_the_larger_of_the_two_queue_counts_holds(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", readQueueNums=3, writeQueueNums=1)
        assert await client.sent(queue_id=2) == 0
        await refused(client, 1, queue_id=3)


@in_loop
async def test_a_topic_without_queues(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.create_topic("t", queues=0)
        remark = await refused(client, 1, queue_id=-1)
        assert "randrange" not in remark


@in_loop
async def test_bodies_over_the_maximum(tmp_path: Path) -> None:
    async with serving(tmp_path, max_message_size=1000) as (_, client):
        assert await client.sent(bytes(1000)) == 0
        assert "1001 bytes" in await refused(client, 13, bytes(1001))
        assert await client.max_offset() == 1


@in_loop
async def test_properties_over_the_maximum(tmp_path: Path) -> None:
    """Java keeps their length in a short."""
    async with serving(tmp_path) as (_, client):
        own = len("\x02CLUSTER\x01DefaultCluster")
        room = 32767 - own - len("k\x01")
        assert await client.sent(properties={"k": "v" * room}) == 0
        await refused(client, 13, properties={"k": "v" * (room + 1)})
        await refused(client, 13, properties={"k": "é" * (room // 2 + 1)})
        assert [len(each.properties["k"]) for each in (await client.pull()).messages] == [room]


@in_loop
async def test_a_message_no_file_can_hold(tmp_path: Path) -> None:
    async with serving(tmp_path, mapped_file_size_commit_log=4096) as (_, client):
        await refused(client, 13, bytes(5000))
        assert await client.sent(bytes(3000)) == 0


@in_loop
async def test_a_broker_that_does_not_accept_messages_yet(tmp_path: Path) -> None:
    soon = int(time.time() * 1000) + 60_000
    async with serving(tmp_path, start_accept_send_request_time_stamp=soon) as (_, client):
        assert "does not accept messages yet" in await refused(client, 1)


@pytest.mark.parametrize("name", list("abcdefgh"))
@in_loop
async def test_a_missing_field(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as (_, client):
        ext = send_ext()
        del ext[name]
        answer = await client.ask(310, ext, b"body")
        assert answer.code == 1
        assert f"`{name}`" in (answer.remark or "")


@in_loop
async def test_refusals_of_oneway_sends_are_silent(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_topic_enable=False) as (_, client):
        for fields in (
            {"topic": "nowhere"},
            {"topic": "a b"},
            {"queue_id": 9},
            {"e": "x"},
            {"topic": "SELF_TEST_TOPIC"},
        ):
            await client.oneway(310, send_ext(**fields), b"body")
        connection = await client.pool.connect(client.address)
        unasked: list[Command] = []
        connection._resolve = unasked.append  # type: ignore[method-assign]
        waiting = asyncio.create_task(client.max_offset())
        while not unasked:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert [answer.fields() for answer in unasked] == [{"offset": "0"}]


# -- topics that come with their first message ----------------------------------------------------------


@pytest.mark.parametrize(("asked", "queues"), [(4, 4), (1, 1), (100, 8), (0, 1), (-3, 1)])
@in_loop
async def test_auto_creation(tmp_path: Path, asked: int, queues: int) -> None:
    """As many queues as the client asks for, at most as many as the default topic has."""
    async with running(tmp_path) as house:
        client = house.client()
        assert await client.sent(topic="fresh", d=asked) == 0
        made = house.broker.topics.get("fresh")
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (queues, queues, 6)
        assert "fresh" in (tmp_path / "config/topics.json").read_text()


@in_loop
async def test_auto_creation_checks_the_queue_too(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await refused(client, 1, topic="fresh", queue_id=4)
        assert await client.sent(topic="fresh", queue_id=3) == 0


@in_loop
async def test_a_default_topic_that_does_not_lend_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await refused(client, 17, topic="fresh", c="t")
        await refused(client, 17, topic="fresh", c="nowhere")


@in_loop
async def test_retry_topics_are_always_made(tmp_path: Path) -> None:
    async with running(tmp_path, auto_create_topic_enable=False) as house:
        client = house.client()
        assert await client.sent(topic="%RETRY%g") == 0
        made = house.broker.topics.get("%RETRY%g")
        assert made is not None and made.write_queue_nums == 1


@in_loop
async def test_the_first_messages_of_a_topic_keep_their_order(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        await client.pool.connect(client.address)
        offsets = await asyncio.gather(*(client.sent(b"%d" % number, topic="fresh") for number in range(5)))
        assert offsets == [0, 1, 2, 3, 4]
        assert (await client.pull(topic="fresh")).bodies == [b"0", b"1", b"2", b"3", b"4"]


@in_loop
async def test_the_second_message_of_a_topic_waits_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the topic is on its way to the disk, a later message must neither overtake the first one nor be
    acknowledged: after a crash it would belong to a topic that nobody knows."""
    may_write = threading.Event()

    def slow_disk(path: Path, data: bytes) -> None:
        may_write.wait(5)
        replace_file(path, data)

    async with running(tmp_path) as house:
        client = house.client()
        await client.pool.connect(client.address)
        monkeypatch.setattr(configfile, "replace_file", slow_disk)
        first = asyncio.create_task(client.sent(b"first", topic="fresh"))
        await until(lambda: house.broker.topics.get("fresh"))
        second = asyncio.create_task(client.sent(b"second", topic="fresh"))
        stored_meanwhile = await client.max_offset("fresh")
        may_write.set()
        assert (await first, await second, stored_meanwhile) == (0, 1, 0)


@in_loop
async def test_a_topic_that_cannot_be_saved_takes_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as house:
        client = house.client()
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", _no_space)
            answer = await client.send(topic="fresh")
            assert answer.code != 0
            assert "No space left" in (answer.remark or "")
        assert await client.sent(topic="fresh") == 0


def _no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# -- a disk that refuses --------------------------------------------------------------------------------


@in_loop
async def test_a_full_disk_is_said_and_gets_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as (_, client):
        await client.sent(b"before")
        with monkeypatch.context() as broken:
            broken.setattr(os, "pwrite", _no_space)
            answers = await asyncio.gather(*(client.send(b"lost") for _ in range(5)), client.send_batch([Message("t")]))
            assert {answer.code for answer in answers} == {14}
            assert "No space left on device" in (answers[0].remark or "")
            await client.oneway(310, send_ext(), b"lost")
            assert (await client.pull()).bodies == [b"before"]
            assert await client.max_offset() == 1
        assert await client.sent(b"after") == 1
        assert (await client.pull()).bodies == [b"before", b"after"]
