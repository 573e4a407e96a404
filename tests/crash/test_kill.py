"""Our broker killed with SIGKILL while producers send: an acknowledgement outlives the process that gave it.

Round after round on one store, so that every recovery begins with what earlier ones left; every other round the
broker is killed a second time while it recovers. MQCTL_CRASH_ROUNDS (6) says how many, MQCTL_CRASH_SEED repeats
the random choices of an earlier run, which prints its seed (when the kill strikes within a send stays chance).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mqctl.errors import ConnectionFailed, RequestTimeout
from mqctl.remoting.message import Message, ReceivedMessage
from tests.aio import in_loop
from tests.peers.ours import OurBroker
from tests.unit.server.broker.harness import Client

ROUNDS: Final = int(os.environ.get("MQCTL_CRASH_ROUNDS", "6"))
SEED: Final = int(os.environ.get("MQCTL_CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)

# Small files: a round fills several, so that kills also strike while one is being made or rolled over.
LOG_FILE: Final = 256 * 1024
QUEUE_FILE: Final = 20 * 200
TOPICS: Final = ("kill-a", "kill-b")
QUEUES: Final = 3
# More than one per queue, so that one write of the broker carries several messages.
SENDERS: Final = 12
# A kill comes this long after the first acknowledgement of its round, and this long into a recovery.
SENDING_S: Final = (0.02, 0.6)
RECOVERING_S: Final = (0.05, 0.4)

Queue = tuple[str, int]


class Place(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int


@dataclass
class Journal:
    """What producers know: each body is unique, and names its sender and its number there."""

    sent: dict[bytes, Queue] = field(default_factory=dict)
    acked: dict[Place, tuple[bytes, str, str]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_body(self, rng: random.Random, sender: int, queue: Queue) -> bytes:
        filling = rng.randbytes(rng.choice([0, 10, 300, 3000, 20_000]))
        body = b"%d:%d:" % (sender, next(self.numbers)) + filling
        self.sent[body] = queue
        return body

    def acknowledge(self, place: Place, body: bytes, tags: str, keys: str) -> None:
        before = self.acked.setdefault(place, (body, tags, keys))
        assert before == (body, tags, keys), f"{place} was given twice"


class Sender:
    """Sends one message, or a batch, after the other to one queue until the broker is gone."""

    def __init__(self, number: int, seed: int, journal: Journal, first_ack: asyncio.Event) -> None:
        self.number = number
        self.queue: Queue = (TOPICS[number % 2], number // 2 % QUEUES)
        self._rng = random.Random(seed)
        self._journal = journal
        self._first_ack = first_ack

    async def run(self, address: str) -> None:
        client = Client(address)
        try:
            while True:
                await (self._send_batch(client) if self._rng.random() < 0.2 else self._send(client))
        except (ConnectionFailed, RequestTimeout):
            pass
        finally:
            await client.close()

    async def _send(self, client: Client) -> None:
        topic, queue_id = self.queue
        body = self._journal.new_body(self._rng, self.number, self.queue)
        tags, keys = self._rng.choice(["", "A", "B"]), f"k{len(body)}"
        properties = {"KEYS": keys} | ({"TAGS": tags} if tags else {})
        answer = await client.send(body, topic=topic, queue_id=queue_id, properties=properties)
        assert answer.code == 0, answer.remark
        self._acknowledge(int(answer.fields()["queueOffset"]), [(body, tags, keys)])

    async def _send_batch(self, client: Client) -> None:
        topic, queue_id = self.queue
        bodies = [self._journal.new_body(self._rng, self.number, self.queue) for _ in range(self._rng.randrange(1, 5))]
        messages = [Message(topic, body, tags="batch", keys="k") for body in bodies]
        answer = await client.send_batch(messages, topic=topic, queue_id=queue_id)
        assert answer.code == 0, answer.remark
        first = int(answer.fields()["queueOffset"])
        self._acknowledge(first, [(body, "batch", "k") for body in bodies])

    def _acknowledge(self, first: int, messages: list[tuple[bytes, str, str]]) -> None:
        for queue_offset, message in enumerate(messages, first):
            self._journal.acknowledge(Place(*self.queue, queue_offset), *message)
        self._first_ack.set()


async def send_until_killed(broker: OurBroker, rng: random.Random, journal: Journal) -> None:
    first_ack = asyncio.Event()
    senders = [Sender(number, rng.getrandbits(32), journal, first_ack) for number in range(SENDERS)]
    async with asyncio.TaskGroup() as tasks:
        for sender in senders:
            tasks.create_task(sender.run(broker.address))
        await first_ack.wait()
        await asyncio.sleep(rng.uniform(*SENDING_S))  # the moment itself is what is tested
        broker.kill()


async def read_all(address: str) -> dict[Queue, list[ReceivedMessage]]:
    client = Client(address)
    try:
        return {
            (topic, queue_id): await _read(client, topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)
        }
    finally:
        await client.close()


async def _read(client: Client, topic: str, queue_id: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    end = await client.max_offset(topic, queue_id)
    while len(found) < end:
        pulled = await client.pull(len(found), topic=topic, queue_id=queue_id)
        assert pulled.messages, f"{topic}-{queue_id} ends at {end} and has nothing at {len(found)}: {pulled.remark}"
        assert pulled.min_offset == 0
        found += pulled.messages
    return found


def check(journal: Journal, queues: dict[Queue, list[ReceivedMessage]]) -> None:
    there: Counter[bytes] = Counter()
    for queue, messages in queues.items():
        assert [each.queue_offset for each in messages] == list(range(len(messages))), queue
        numbers: defaultdict[bytes, list[int]] = defaultdict(list)
        for each in messages:
            assert journal.sent.get(each.body) == queue == (each.topic, each.queue_id), "nobody sent this here"
            sender, number, _ = each.body.split(b":", 2)
            numbers[sender].append(int(number))
            there[each.body] += 1
        for sender, order in numbers.items():
            assert order == sorted(order), f"{queue}: sender {sender.decode()}'s messages changed places"
    assert not {body[:20]: count for body, count in there.items() if count > 1}, "stored twice"
    for place, acknowledged in journal.acked.items():
        messages = queues[place.topic, place.queue_id]
        assert place.queue_offset < len(messages), f"{place} was acknowledged and is lost"
        each = messages[place.queue_offset]
        assert (each.body, each.tags, " ".join(each.keys)) == acknowledged, f"{place} holds another message"


async def crash_again_while_recovering(broker: OurBroker, rng: random.Random) -> None:
    broker.launch()
    await asyncio.sleep(rng.uniform(*RECOVERING_S))
    broker.kill()


@in_loop
async def _one_round(number: int, broker: OurBroker, rng: random.Random, journal: Journal) -> None:
    await send_until_killed(broker, rng, journal)
    broker.conf["flushDiskType"] = ("ASYNC_FLUSH", "SYNC_FLUSH")[(number + 1) % 2]
    if number % 2:
        await crash_again_while_recovering(broker, rng)
    broker.start()
    queues = await read_all(broker.address)
    check(journal, queues)
    unacknowledged = sum(map(len, queues.values())) - len(journal.acked)
    print(f"round {number}: {len(journal.acked)} acknowledged, {unacknowledged} more are there")


async def _make_topics(address: str) -> None:
    client = Client(address)
    for topic in TOPICS:
        await client.create_topic(topic, queues=QUEUES)
    await client.close()


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    print(f"MQCTL_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    journal = Journal()
    sizes = {"mappedFileSizeCommitLog": LOG_FILE, "mappedFileSizeConsumeQueue": QUEUE_FILE}
    with OurBroker(tmp_path, "", conf={**sizes, "flushDiskType": "ASYNC_FLUSH"}) as broker:
        in_loop(_make_topics)(broker.address)
        for number in range(ROUNDS):
            _one_round(number, broker, rng, journal)
        broker.restart()
        after_clean_stop: dict[Queue, list[ReceivedMessage]] = {}

        async def read_again() -> None:
            after_clean_stop.update(await read_all(broker.address))

        in_loop(read_again)()
        check(journal, after_clean_stop)
    assert not (tmp_path / "store" / "abort").exists()
    assert len(journal.acked) > 10 * ROUNDS, "the kills came before anything happened"
