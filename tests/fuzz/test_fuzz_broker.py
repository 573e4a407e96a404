"""Mutated requests thrown at a live broker, while a healthy client must not notice anything.

How long is up to MQCTL_FUZZ_SECONDS (8); MQCTL_FUZZ_SEED repeats the mutations of an earlier run, which
prints its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import BINARY, JSON, Command, decode_frame
from mqctl.remoting.frames import FrameSplitter, join_frame
from mqctl.remoting.message import Message, encode_batch
from tests.aio import in_loop
from tests.unit.server.broker.harness import (
    House,
    heartbeat,
    pull_ext,
    running,
    send_ext,
    subscription,
    topic_ext,
)

SECONDS: Final = float(os.environ.get("MQCTL_FUZZ_SECONDS", "8"))
SEED: Final = int(os.environ.get("MQCTL_FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
ATTACKERS: Final = 5

TOPICS: Final = ["fuzz", "fuzz-2", "%RETRY%fuzz", "TBW102", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "nowhere"]
GROUPS: Final = ["fuzz-group", "fuzz-group-2", "CID_RMQ_SYS_fuzz"]
NASTY: Final[list[Any]] = [
    "", " ", "0", "-1", "1", "2147483647", "-2147483648", "2147483648", "9223372036854775807", "9" * 40, "1e3", "0x1",
    "NaN", "true", "null", "x" * 128, "x" * 5000, "../../../etc", "a/b", "a\x00b", "a\x01b\x02c", "@", "😀",
    "\x7f" * 300,
    "TAGS\x01a\x02WAIT\x01false\x02DELAY\x013", "\x02\x02\x01\x01", None, 0, -1, 2**31, 2**63, 2**70, 1.5, True, [], {},
    [[[]]], {"a": [1]},
]  # fmt: skip


JSON_BODIES: Final = (
    RequestCode.HEART_BEAT,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.QUERY_ASSIGNMENT,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
)
# What a broker sends to consumers on its own.
ASKED_OF_CLIENTS: Final = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
LONG_NAMES: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
}


# -- good requests --------------------------------------------------------------------------------------


def good_requests(rng: random.Random) -> list[tuple[int, dict[str, Any], bytes]]:
    """One of each kind the broker knows, with whatever values."""
    topic, group = rng.choice(TOPICS), rng.choice(GROUPS)
    queue = {"topic": topic, "queueId": rng.randrange(-1, 5)}
    body = rng.randbytes(rng.choice([0, 1, 10, 1000, 50_000]))
    send = send_ext(topic=topic, queue_id=rng.randrange(-1, 5), properties={"TAGS": rng.choice("abc"), "KEYS": "k"})
    pull = pull_ext(
        topic=topic,
        queue_id=rng.randrange(3),
        tags=rng.choice(["*", "a", "a||b"]),
        flags=rng.choice([0, 1, 2, 3]),
        consumerGroup=group,
        queueOffset=rng.choice([0, 1, 5, 10**6, -1]),
        suspendTimeoutMillis=rng.choice([0, 50, 500]),
    )
    beat = heartbeat(
        rng.choice("abc"),
        [group],
        producers=[group],
        subscriptions=[subscription(topic, rng.choice(["*", "a"]), rng.randrange(5))],
    )
    batch = encode_batch([Message(topic, rng.randbytes(20), tags="a") for _ in range(rng.randrange(4))])
    assignment = json.dumps({"clientId": "a", "consumerGroup": group, "strategyName": "AVG", "topic": topic}).encode()
    return [
        (RequestCode.SEND_MESSAGE, {LONG_NAMES[name]: value for name, value in send.items()}, body),
        (RequestCode.SEND_MESSAGE_V2, send, body),
        (RequestCode.SEND_BATCH_MESSAGE, {**send, "m": "true"}, batch),
        (RequestCode.PULL_MESSAGE, pull, b""),
        (RequestCode.LITE_PULL_MESSAGE, pull, b""),
        (RequestCode.GET_MAX_OFFSET, queue, b""),
        (RequestCode.GET_MIN_OFFSET, queue, b""),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, queue, b""),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**queue, "timestamp": rng.choice([0, -1, 2**60])}, b""),
        (RequestCode.QUERY_CONSUMER_OFFSET, {**queue, "consumerGroup": group}, b""),
        (RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "consumerGroup": group, "commitOffset": 1}, b""),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, {}, b""),
        (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": rng.randrange(5000)}, b""),
        (RequestCode.HEART_BEAT, {}, beat),
        (RequestCode.UNREGISTER_CLIENT, {"clientID": "a", "consumerGroup": group, "producerGroup": group}, b""),
        (RequestCode.CHECK_CLIENT_CONFIG, {}, b'{"subscriptionData":{"expressionType":"TAG","topic":"fuzz"}}'),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}, b""),
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}, b""),
        (RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group}, b""),
        (RequestCode.QUERY_ASSIGNMENT, {}, assignment),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, topic_ext(topic, rng.randrange(4), rng.randrange(8)), b""),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, b""),
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}, b""),
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}, b""),
        (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}, b""),
        (RequestCode.GET_BROKER_RUNTIME_INFO, {}, b""),
        (RequestCode.GET_BROKER_CONFIG, {}, b""),
        *admin_requests(rng, topic, group),
    ]


def admin_requests(rng: random.Random, topic: str, group: str) -> list[tuple[int, dict[str, Any], bytes]]:
    both = {"topic": topic, "group": group}
    reset = {**both, "timestamp": rng.choice([-1, 0, 2**60]), "isForce": rng.choice(["true", "false"]), "queueId": -1}
    entries = {"topic": topic, "queueId": rng.randrange(3), "index": rng.choice([-1, 0, 5]), "count": 10}
    client = {"consumerGroup": group, "clientId": rng.choice("abc")}
    one_group = json.dumps({"groupName": group, "retryQueueNums": rng.randrange(4)}).encode()
    stats = {"statsName": rng.choice(["TOPIC_PUT_NUMS", "GROUP_GET_SIZE"]), "statsKey": rng.choice([topic, group])}
    return [
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, b'{"topicConfigList":[{"topicName":"fuzz"}]}'),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, one_group),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, b'{"groupConfigList":[%s]}' % one_group),
        (RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}, b""),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "removeOffset": "true"}, b""),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": group, "topic": rng.choice([topic, ""])}, b""),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, b""),
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}, b""),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, both, b""),
        (RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, both, b""),
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset, b""),
        (RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, both, b""),
        (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": group, "destGroup": "other", "topic": topic}, b""),
        (RequestCode.QUERY_CORRECTION_OFFSET, {"topic": topic, "compareGroup": group, "filterGroups": "a,b"}, b""),
        (RequestCode.GET_CONSUMER_RUNNING_INFO, client, b""),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, {**client, "msgId": "7F00000100002A9F" + "0" * 16}, b""),
        (RequestCode.GET_ALL_PRODUCER_INFO, {}, b""),
        (RequestCode.VIEW_BROKER_STATS_DATA, stats, b""),
        (RequestCode.QUERY_CONSUME_QUEUE, {**entries, "consumerGroup": group}, b""),
        (RequestCode.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=70\n"),
        (RequestCode.GET_BROKER_CLUSTER_ACL_INFO, {}, b""),
    ]


# -- mutations ------------------------------------------------------------------------------------------


def mutated_request(rng: random.Random, others: list[int]) -> bytes:
    """A frame that is well formed and says something strange."""
    code, ext, body = rng.choice(good_requests(rng))
    ext = dict(ext)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        name = rng.choice([*ext, "topic", "consumerGroup", "new"])
        if rng.random() < 0.2:
            ext.pop(name, None)
        else:
            ext[name] = rng.choice(NASTY)
    if code in JSON_BODIES and rng.random() < 0.5:
        body = json.dumps(mutated_json(rng, json.loads(body))).encode()
    elif rng.random() < 0.2:
        body = mutated_bytes(rng, body)
    if rng.random() < 0.1:
        code = rng.choice(others)
    flag = rng.choice([0, 0, 0, 0, 2, 1, 3, rng.getrandbits(31)])
    opaque, language = rng.getrandbits(31), rng.choice([0, 3, 9, 13, 77])
    if rng.random() < 0.3:
        texts = {name: str(value) for name, value in ext.items()}
        with contextlib.suppress(ValueError):
            return Command(code, texts, body, None, flag, opaque, 407, language, BINARY).encode()
    header = {"code": code, "flag": flag, "opaque": opaque, "version": rng.choice([0, 407, 513]), "extFields": ext}
    if rng.random() < 0.05:
        header[rng.choice(list(header))] = rng.choice(NASTY)
    return join_frame(JSON, json.dumps(header).encode(), body)


def mutated_json(rng: random.Random, value: Any) -> Any:
    """The same shape with one of its values replaced, at any depth."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        return {**value, name: mutated_json(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        return [mutated_json(rng, value[0]), *value[1:]]
    return rng.choice(NASTY)


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Any bytes, with some likeness to `data`."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(changed):
            changed[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            del changed[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            changed[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif kind == 4:
            changed[at : at + 4] = rng.choice([0, 1, 8, 2**31 - 1, 2**32 - 1, 16 * 2**20]).to_bytes(4, "big")
        else:
            changed[at:at] = changed[: rng.randrange(50)]
    return bytes(changed)


def frames(rng: random.Random, others: list[int]) -> bytes:
    """What goes out in one go."""
    data = b"".join(mutated_request(rng, others) for _ in range(rng.choice([1, 1, 3, 10])))
    return mutated_bytes(rng, data) if rng.random() < 0.3 else data


# -- those who attack and the one who does not ----------------------------------------------------------


class Attacker:
    def __init__(self, house: House, number: int) -> None:
        self._house = house
        self._rng = random.Random(f"{SEED}-{number}")
        self._others = [*house.broker.server._handlers, 0, -1, 99, 32767, 200_050]
        self.sent = self.answered = self.connections = 0

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            self.connections += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", self._house.port)
            reading = asyncio.create_task(self._read(reader))
            try:
                with contextlib.suppress(OSError):
                    await self._attack(writer, reading, until)
            finally:
                writer.transport.abort()
                reading.cancel()
                (result,) = await asyncio.gather(reading, return_exceptions=True)
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result

    async def _attack(self, writer: asyncio.StreamWriter, reading: asyncio.Task[None], until: float) -> None:
        rng = self._rng
        for _ in range(rng.choice([1, 20, 200])):
            if reading.done() or time.monotonic() > until:
                return
            data = frames(rng, self._others)
            while data:
                cut = len(data) if rng.random() < 0.8 else rng.randrange(1, len(data) + 1)
                writer.write(data[:cut])
                data = data[cut:]
                await writer.drain()
                await asyncio.sleep(0)
            self.sent += 1

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Whatever comes back is sound, even if nobody knows to what it is the answer."""
        splitter = FrameSplitter()
        while data := await reader.read(1 << 16):
            for frame in splitter.feed(data):
                answer = decode_frame(frame)
                if answer.is_response:
                    ResponseCode(answer.code)
                    answer.fields()
                    self.answered += 1
                else:
                    assert answer.code in ASKED_OF_CLIENTS
            if self._rng.random() < 0.01:
                await asyncio.sleep(0.02)  # sometimes slow to read


async def healthy(house: House, until: float) -> int:
    """Sends, pulls, commits and asks, and knows every answer before it comes. How many rounds it did."""
    client = house.client("healthy")
    await client.create_topic("healthy", queues=2)
    rounds = 0
    queue = {"topic": "healthy", "queueId": 1, "consumerGroup": "healthy-group"}
    while time.monotonic() < until:
        waiting = asyncio.create_task(client.pull(rounds, topic="healthy", queue_id=1, flags=2))
        body = b"%d" % rounds * (rounds % 500)
        tags = "even" if rounds % 2 == 0 else "odd"
        assert await client.sent(body, topic="healthy", queue_id=1, properties={"TAGS": tags}) == rounds
        pulled = await waiting
        assert (pulled.code, pulled.next_offset, pulled.bodies) == (0, rounds + 1, [body])
        assert pulled.messages[0].tags == tags
        filtered = await client.pull(rounds, topic="healthy", queue_id=1, tags="even")
        assert filtered.bodies == ([body] if tags == "even" else [])
        await client.ok(15, {**queue, "commitOffset": rounds})
        assert (await client.ok(14, queue)).fields() == {"offset": str(rounds)}
        assert await client.max_offset("healthy", 1) == rounds + 1
        rounds += 1
    return rounds


def unexpected(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Errors that are ours: a request that is wrong is no reason for one."""
    formatter = logging.Formatter("%(name)s: %(message)s")
    return [formatter.format(record) for record in caplog.records if record.levelno >= logging.ERROR]


async def gathered(work: list[Callable[[], Any]]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each()) for each in work]
    return [task.result() for task in tasks]


@pytest.mark.timeout(60 + 2 * SECONDS)
@functools.partial(in_loop, limit_seconds=50 + SECONDS)
async def test_a_healthy_client_among_attackers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    print(f"MQCTL_FUZZ_SEED={SEED}")
    caplog.set_level(logging.ERROR)
    root = tmp_path / "store"
    until = time.monotonic() + SECONDS
    # Small files, so that all boundaries are crossed; either way of flushing.
    settings = {
        "max_message_size": 100_000,
        "mapped_file_size_commit_log": 1024 * 1024,
        "mapped_file_size_consume_queue": 20 * 150,
        "flush_disk_type": "SYNC_FLUSH" if SEED % 2 else "ASYNC_FLUSH",
    }
    async with running(root, **settings) as house:
        attackers = [Attacker(house, number) for number in range(ATTACKERS)]
        rounds, *_ = await gathered(
            [lambda: healthy(house, until), *(lambda each=each: each.run(until) for each in attackers)]
        )
        assert (await house.client().ask(4242)).code == 3
    counts = {name: sum(getattr(each, name) for each in attackers) for name in ("connections", "sent", "answered")}
    print(f"healthy rounds {rounds}, attackers' {counts}")
    assert rounds > SECONDS
    assert counts["answered"] > 0
    problems = unexpected(caplog)
    assert not problems, f"seed {SEED}: {len(problems)} errors, the first:\n{problems[0]}"
    assert os.listdir(tmp_path) == ["store"]  # noqa: PTH208
    assert not (root / "abort").exists()
    async with running(root, **settings) as house:
        client = house.client()
        assert await client.max_offset("healthy", 1) == rounds
        last = await client.pull(rounds - 1, topic="healthy", queue_id=1)
        assert last.bodies == [b"%d" % (rounds - 1) * ((rounds - 1) % 500)]
