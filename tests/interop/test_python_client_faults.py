"""Our producer while brokers die and come back: nothing acknowledged is lost, order holds, nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from mqctl.client import Message, MqError, Producer
from tests.aio import in_loop
from tests.interop.acting import make_topic, start_consumer
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

MESSAGES = 3000
SENDERS = 16


@in_loop
async def test_a_broker_killed_and_restarted_under_load(
    own_broker: OurBroker, java49: ClientDriver, unique: Unique
) -> None:
    topic = unique("killed")
    make_topic(own_broker, topic, 4)
    acknowledged: dict[bytes, str] = {}
    numbers = iter(range(MESSAGES))

    async def keep_sending(producer: Producer) -> None:
        for number in numbers:
            body = b"%d" % number
            while body not in acknowledged:
                with contextlib.suppress(MqError):
                    acknowledged[body] = (await producer.send(Message(topic, body))).msg_id
                    continue
                await asyncio.sleep(0.05)

    async with Producer(unique("pg"), own_broker.namesrv, timeout=2) as producer:
        senders = [asyncio.create_task(keep_sending(producer)) for _ in range(SENDERS)]
        for share in (1, 2):
            while len(acknowledged) < share * MESSAGES // 3:
                await asyncio.sleep(0.001)
            await asyncio.to_thread(own_broker.kill)
            await asyncio.to_thread(own_broker.start)
        await asyncio.gather(*senders)
    start_consumer(java49, own_broker, topic, unique("cg"))
    got = await asyncio.to_thread(
        java49.wait_messages, "c", MESSAGES, lambda seen: {each.body for each in seen} == acknowledged.keys()
    )
    ids: dict[bytes, set[str]] = {}
    for each in got:
        ids.setdefault(each.body, set()).add(each.msg_id)
    assert all(msg_id in ids[body] for body, msg_id in acknowledged.items())


@in_loop
async def test_order_holds_over_a_kill(own_broker: OurBroker, java49: ClientDriver, unique: Unique) -> None:
    topic = unique("ordered")
    make_topic(own_broker, topic, 4)
    async with Producer(unique("pg"), own_broker.namesrv, timeout=2) as producer:
        for number in range(60):
            if number == 30:
                await asyncio.to_thread(own_broker.kill)
                restarting = asyncio.create_task(asyncio.to_thread(own_broker.start))
            for _ in range(100):
                with contextlib.suppress(MqError):
                    await producer.send(Message(topic, b"%d" % number), order_key="k")
                    break
                await asyncio.sleep(0.05)
        await restarting
    start_consumer(java49, own_broker, topic, unique("cg"), orderly=True)
    got = await asyncio.to_thread(java49.wait_messages, "c", 60)
    first_seen = list(dict.fromkeys(int(each.body) for each in got))
    assert first_seen == list(range(60))
