"""Senders that are sent away when there is too much, and consumers that are stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mqctl.errors import RequestFailed
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.remoting.message import Message
from mqctl.server.broker.pressure import AFTER_SLOW_WRITE_SECONDS, LOOK_EVERY, Pressure
from mqctl.server.broker.ratelimit import RateLimits
from tests.aio import in_loop
from tests.unit.server.broker.harness import SECONDS, House, send_ext, serving

SYSTEM_BUSY = 2


class Time:
    """A clock that stands still, or goes on by `step` whenever it is looked at."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 1000.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def connection() -> Connection:
    return Connection(lambda connection, request: None)


# -- pressure -------------------------------------------------------------------------------------------


def test_a_long_turn_refuses_its_rest() -> None:
    clock = Time()
    pressure = Pressure(0.2, 1.0, clock)
    pressure.turn_begins()
    clock.now += 0.19
    pressure.look(256)
    assert not pressure.refusing
    clock.now += 0.025
    pressure.look(512)
    assert pressure.refusing == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 215ms, size of queue: 512"
    )
    clock.now += 100
    with pytest.raises(RequestFailed) as refused:
        pressure.check()
    assert refused.value.code == SYSTEM_BUSY
    pressure.write_begins()
    assert not pressure.refusing, "the next turn is another"


def test_a_slow_write_refuses_for_a_moment() -> None:
    clock = Time()
    pressure = Pressure(0.2, 1.0, clock)
    pressure.write_begins()
    clock.now += 1.0
    pressure.write_ends()
    assert not pressure.refusing
    pressure.write_begins()
    clock.now += 1.5
    pressure.write_ends()
    with pytest.raises(RequestFailed, match=r"PCBUSY_CLEAN_QUEUE.*1500ms"):
        pressure.check()
    clock.now += AFTER_SLOW_WRITE_SECONDS
    pressure.check()
    assert not pressure.refusing


def watch(house: House, clock: Time) -> None:
    house.broker.acks.pressure._clock = clock


async def flood(house: House, count: int) -> list[int]:
    """Sends very many at once; the codes of the answers."""
    client = house.client()
    requests = [client.ask(310, send_ext(), b"%d" % number) for number in range(count)]
    return [answer.code for answer in await asyncio.gather(*requests)]


@in_loop
async def test_a_flood(tmp_path: Path) -> None:
    """Those that were taken are stored, those that were refused are not, and the broker goes on."""
    async with serving(tmp_path, broker_fast_failure_enable=True) as (house, client):
        watch(house, Time(step=0.5))
        codes = await flood(house, 2000)
        assert set(codes) == {0, SYSTEM_BUSY}
        assert await client.max_offset() == codes.count(0) >= LOOK_EVERY
        assert await client.sent() == codes.count(0)


@pytest.mark.parametrize(
    "settings",
    [{}, {"broker_fast_failure_enable": True, "wait_time_mills_in_send_queue": 5000}],
    ids=["off", "patient"],
)
@in_loop
async def test_a_flood_that_may_wait(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with serving(tmp_path, **settings) as (house, _):
        watch(house, Time(step=0.5))
        assert set(await flood(house, 2000)) == {0}


@in_loop
async def test_a_disk_that_is_slow_to_take_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, os_page_cache_busy_time_out_mills=700) as (house, client):
        clock = Time()
        watch(house, clock)
        write = house.broker.store.write

        def write_slowly() -> Any:
            clock.now += 0.8
            return write()

        monkeypatch.setattr(house.broker.store, "write", write_slowly)
        await client.sent(b"one")
        refused = await client.send(b"two")
        assert (refused.code, "PCBUSY_CLEAN_QUEUE" in str(refused.remark)) == (SYSTEM_BUSY, True)
        clock.now += AFTER_SLOW_WRITE_SECONDS
        assert await client.sent(b"three") == 1


# -- limits ---------------------------------------------------------------------------------------------


def passes(limits: RateLimits, sender: Connection, topic: str = "t", count: int = 1) -> bool:
    try:
        limits.check(sender, topic, count)
    except RequestFailed as error:
        assert error.code == SYSTEM_BUSY
        return False
    return True


@in_loop
async def test_a_topic_takes_so_many_a_second() -> None:
    clock = Time()
    limits = RateLimits(3, 0, clock)
    one, two = connection(), connection()
    assert [passes(limits, sender) for sender in (one, two, one, two)] == [True, True, True, False]
    assert passes(limits, one, "other")
    clock.now += 0.34
    assert [passes(limits, one), passes(limits, one)] == [True, False]
    clock.now += 3600
    assert [passes(limits, one) for _ in range(4)] == [True, True, True, False], (
        "no more than a second's worth piles up"
    )


@in_loop
async def test_a_client_sends_so_many_a_second() -> None:
    limits = RateLimits(0, 2, Time())
    one, two = connection(), connection()
    assert [passes(limits, one, topic) for topic in ("a", "b", "c")] == [True, True, False]
    assert passes(limits, two, "a")


@in_loop
async def test_what_one_limit_refuses_costs_nothing_of_the_other() -> None:
    limits = RateLimits(2, 1, Time())
    one, two = connection(), connection()
    assert [passes(limits, sender) for sender in (one, one, one, two)] == [True, False, False, True]


@in_loop
async def test_a_batch_counts_its_messages() -> None:
    clock = Time()
    limits = RateLimits(10, 0, clock)
    sender = connection()
    assert passes(limits, sender, count=25)
    clock.now += 1.5
    assert not passes(limits, sender), "it is in debt"
    clock.now += 0.19
    assert passes(limits, sender)


@in_loop
async def test_clients_that_left_are_forgotten() -> None:
    limits = RateLimits(0, 1, Time())
    passes(limits, connection())
    assert len(limits._clients) == 0


@pytest.mark.parametrize("key", ["topic_send_rate_limit", "client_send_rate_limit"])
@in_loop
async def test_limits_over_the_wire(tmp_path: Path, key: str) -> None:
    async with serving(tmp_path, **{key: 3}) as (house, client):
        limits = house.broker.sending._limits
        assert limits is not None
        limits._clock = Time()
        await client.sent()
        assert (await client.send_batch([Message("t", b"1"), Message("t", b"2")])).code == 0
        refused = await client.send()
        assert (refused.code, "[FLOW_CONTROL]" in str(refused.remark)) == (SYSTEM_BUSY, True)
        assert await client.max_offset() == 3


@in_loop
async def test_a_batch_that_is_none_under_a_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, topic_send_rate_limit=3) as (_, client):
        assert (await client.ask(320, send_ext(m="true"), b"\x00\x00\x00\xffrubbish")).code != 0
        await client.sent()


# -- consumers far behind -------------------------------------------------------------------------------


async def consume(house: House, group: str = "g") -> Command:
    client = house.client()
    await client.heartbeat(group)
    await client.ok(15, {"consumerGroup": group, "topic": "t", "queueId": 0, "commitOffset": 0})
    async with asyncio.timeout(SECONDS):
        return await client.ask(
            11,
            {
                "consumerGroup": group,
                "topic": "t",
                "queueId": 0,
                "queueOffset": 0,
                "maxMsgNums": 1,
                "sysFlag": 0,
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "subVersion": 0,
            },
        )


@pytest.mark.parametrize(("behind", "code"), [(0, 16), (10**9, 0)])
@in_loop
async def test_a_group_far_behind_is_stopped(tmp_path: Path, behind: int, code: int) -> None:
    settings = {"disable_consume_if_consumer_read_slowly": True, "consumer_fallbehind_threshold": behind}
    async with serving(tmp_path, **settings) as (house, client):
        await client.sent()
        assert (await consume(house)).code == 0
        house.broker.slow_consumers.round()
        answer = await consume(house)
        assert answer.code == code
        assert (await consume(house, "newcomers")).code == 0


@in_loop
async def test_nobody_is_stopped_unless_the_operator_wants_it(tmp_path: Path) -> None:
    async with serving(tmp_path, consumer_fallbehind_threshold=0) as (house, client):
        await client.sent()
        await consume(house)
        house.broker.slow_consumers.round()
        assert (await consume(house)).code == 0
