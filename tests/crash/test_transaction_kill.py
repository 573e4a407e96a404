"""The whole chain under kills: transactional Java producer, our broker with SYNC_FLUSH, a consumer that retries.

The producer's local transactions decide what is true: what it committed is stored once and processed, what it rolled
back, or never got to execute, is not. The broker is killed with SIGKILL while transactions are in all their states.
MQCTL_CRASH_ROUNDS (6) says how often, twice over; MQCTL_CRASH_SEED repeats the random choices of an earlier run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.aio import in_loop
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, JavaDriver, Message
from tests.peers.ours import OurBroker, OurNamesrv
from tests.unit.server.broker.harness import Client

pytestmark = pytest.mark.interop

ROUNDS: Final = max(1, int(os.environ.get("MQCTL_CRASH_ROUNDS", "6")) // 2)
SEED: Final = int(os.environ.get("MQCTL_CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)

TOPIC: Final = "orders"
QUEUES: Final = 4
PER_ROUND: Final = 300
# A kill comes this long after the first transactions of its round.
SENDING_S: Final = (0.02, 0.5)
SETTLE_S: Final = 60.0
CONF: Final = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": 256 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 200,
    "transactionTimeOut": 500,
    "transactionCheckInterval": 300,
    "transactionCheckMax": 1000,
}
# What the producer says at first, and what is true; taken in turn.
OUTCOMES: Final = ["commit", "rollback", "unknown", "unknown"]
TRUTH: Final = ["commit", "rollback", "commit", "rollback"]


def send_round(producer: ClientDriver, number: int) -> dict[str, Any]:
    properties = {"outcome": OUTCOMES, "checked": TRUTH, "ifExecuted": "yes"}
    template = {"topic": TOPIC, "body": b"order-", "keys": "order-{i}", "properties": properties}
    start = number * PER_ROUND
    return producer.call("send_many", name="p", count=PER_ROUND, start=start, concurrency=8, template=template)


def committed_in(report: dict[str, Any]) -> set[bytes]:
    """The orders whose local transaction was executed and says that they count."""
    assert set(report["statuses"]) <= {"SEND_OK"}
    return {b"order-%d" % row[0] for row in report["results"] if TRUTH[row[0] % len(TRUTH)] == "commit"}


def kill_while_sending(broker: OurBroker, producer: ClientDriver, number: int, rng: random.Random) -> set[bytes]:
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send_round, producer, number)
        in_loop(asyncio.sleep)(rng.uniform(*SENDING_S))  # the moment itself is what is tested
        broker.kill()
        broker.start()
        return committed_in(sending.result())


@in_loop
async def make_topic(address: str) -> None:
    client = Client(address)
    await client.create_topic(TOPIC, queues=QUEUES)
    await client.close()


async def settled(address: str) -> None:
    """Returns when the broker knows of no open transaction any more."""
    client = Client(address)
    half = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0}
    try:
        async with asyncio.timeout(SETTLE_S):
            while True:
                done = await client.ok(14, {**half, "consumerGroup": "CID_RMQ_SYS_TRANS"})
                if int(done.fields()["offset"]) == await client.max_offset("RMQ_SYS_TRANS_HALF_TOPIC"):
                    return
                await asyncio.sleep(0.1)
    finally:
        await client.close()


def accepted(messages: list[Message]) -> Counter[bytes]:
    return Counter(each.body for each in messages if each.accepted)


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_no_committed_order_is_lost(tmp_path: Path) -> None:
    print(f"MQCTL_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    committed: set[bytes] = set()
    with (
        require(JavaDriver, "4.9.7") as driver,
        OurNamesrv(tmp_path / "namesrv") as namesrv,
        OurBroker(tmp_path / "broker", namesrv.address, conf=CONF) as broker,
    ):
        make_topic(broker.address)
        quick = {"heartbeatBrokerInterval": 300, "pollNameServerInterval": 500}
        common: dict[str, Any] = {"namesrv": namesrv.address, "java": quick}
        # A send that is tried again would be a second transaction under the same key.
        driver.call("producer_start", name="p", group="sellers", transactional=True, retryTimes=0, **common)
        reading = {**common, "topic": TOPIC, "from": "first"}
        buying = {**reading, "group": "buyers", "failFirst": 1, "retryDelayLevel": 1}
        driver.call("consumer_start", name="before", **buying)
        for number in range(ROUNDS):
            committed |= kill_while_sending(broker, driver, number, rng)
        in_loop(settled, SETTLE_S)(broker.address)
        driver.call("consumer_start", name="all", group="auditors", **reading)
        stored = Counter(each.body for each in driver.wait_messages("all", len(committed)))
        assert stored == Counter(committed)
        # A pull that was under way to a killed broker keeps a Java consumer waiting for 30 s; another takes over.
        driver.call("consumer_stop", name="before")
        processed = accepted(driver.messages("before"))
        driver.call("consumer_start", name="after", **buying)
        left = committed - set(processed)
        processed += accepted(driver.wait_messages("after", predicate=lambda got: left <= set(accepted(got))))
        assert set(processed) == committed
    again = sum(processed.values()) - len(processed)
    print(f"{ROUNDS} kills: {len(committed)} orders committed, all processed; {again} deliveries were repeats")
    assert len(committed) > 10 * ROUNDS, "the kills came before anything happened"
