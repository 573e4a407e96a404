"""Our broker killed with SIGKILL while delayed messages come in and go out: none is lost, none is early, and none
that was taken back comes after all. Some come twice: those delivered after the last time the broker wrote down how
far it was. MQCTL_CRASH_ROUNDS and MQCTL_CRASH_SEED as in test_kill.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from mqctl.errors import ConnectionFailed, RequestTimeout
from mqctl.remoting.message import ReceivedMessage
from tests.aio import in_loop
from tests.crash.test_kill import ROUNDS, SEED
from tests.peers.ours import OurBroker
from tests.unit.server.broker.harness import SUSPEND, Client

CONF: Final = {
    "mappedFileSizeCommitLog": 256 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 200,
    "messageDelayLevel": "0s 1s",
    "flushDelayOffsetInterval": 300,
}
LEVELS_MS: Final = (0, 1000)
LONGEST_MS: Final = 1500
SENDERS: Final = 6
KILLS: Final = max(1, ROUNDS // 2)  # a round takes longer here
RUNNING_S: Final = (0.1, 1.5)
RECALL_MESSAGE: Final = 370
TOO_LATE: Final = 604


@dataclass
class Journal:
    """What producers know: bodies that were acknowledged, with their least delay, and those that were taken back."""

    acked: dict[bytes, int] = field(default_factory=dict)
    taken_back: set[bytes] = field(default_factory=set)
    in_doubt: set[bytes] = field(default_factory=set)  # the answer to that never came
    numbers: itertools.count[int] = field(default_factory=itertools.count)


async def send(client: Client, rng: random.Random, journal: Journal) -> None:
    body = b"%d" % next(journal.numbers)
    if rng.random() < 0.5:
        level = rng.randrange(len(LEVELS_MS))
        delay_ms, wish = LEVELS_MS[level], {"DELAY": str(level + 1)}
    else:
        delay_ms = rng.randrange(LONGEST_MS)
        wish = {"TIMER_DELAY_MS": str(delay_ms)}
    properties = {**wish, "UNIQ_KEY": body.decode()}
    answer = await client.send(body, properties=properties, g=int(time.time() * 1000))
    assert answer.code == 0, answer.remark
    journal.acked[body] = delay_ms
    handle = answer.fields().get("recallHandle")
    if handle is not None and rng.random() < 0.1:
        journal.in_doubt.add(body)
        recalled = await client.ask(RECALL_MESSAGE, {"topic": "t", "recallHandle": handle})
        assert recalled.code in (0, TOO_LATE), recalled.remark
        journal.in_doubt.remove(body)
        if recalled.code == 0:
            journal.taken_back.add(body)


async def keep_sending(address: str, rng: random.Random, journal: Journal) -> None:
    client = Client(address)
    try:
        while True:
            await send(client, rng, journal)
    except (ConnectionFailed, RequestTimeout):
        return
    finally:
        await client.close()


async def send_until_killed(broker: OurBroker, rng: random.Random, journal: Journal) -> None:
    async with asyncio.TaskGroup() as tasks:
        for _ in range(SENDERS):
            tasks.create_task(keep_sending(broker.address, random.Random(rng.getrandbits(32)), journal))
        await asyncio.sleep(rng.uniform(*RUNNING_S))  # the moment itself is what is tested
        broker.kill()


async def make_topic(address: str) -> None:
    client = Client(address)
    await client.create_topic()
    await client.close()


async def read_until(address: str, wanted: set[bytes]) -> list[ReceivedMessage]:
    """All messages of the topic, once all that is wanted is there."""
    client = Client(address)
    found: list[ReceivedMessage] = []
    try:
        while wanted:
            pulled = await client.pull(len(found), flags=SUSPEND, suspendTimeoutMillis=3000)
            assert pulled.messages, f"{len(wanted)} are missing, such as {sorted(wanted)[:5]}"
            found += pulled.messages
            wanted = wanted - set(pulled.bodies)
    finally:
        await client.close()
    return found


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_delayed_messages_survive_kills(tmp_path: Path) -> None:
    print(f"MQCTL_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    journal = Journal()
    with OurBroker(tmp_path, "", conf=CONF) as broker:
        in_loop(make_topic)(broker.address)
        for _ in range(KILLS):
            in_loop(send_until_killed)(broker, rng, journal)
            broker.start()
        found: list[ReceivedMessage] = []

        async def read() -> None:
            wanted = set(journal.acked) - journal.taken_back - journal.in_doubt
            found.extend(await read_until(broker.address, wanted))

        in_loop(read)()
    print(f"{len(journal.acked)} acknowledged, {len(journal.taken_back)} taken back, {len(found)} delivered")
    arrived = {each.body for each in found}
    assert not arrived & journal.taken_back
    delays = {each.body: each.store_timestamp - each.born_timestamp for each in reversed(found)}
    early = {body: delay for body, delay in delays.items() if delay < journal.acked.get(body, 0)}
    assert not early
    assert len(journal.acked) > 20 * KILLS
