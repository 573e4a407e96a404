"""Draining a broker: what keeps it from being quiet is named, and a name server that is away does not end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from mqctl.client import Message, Producer
from mqctl.client.admin import Admin
from mqctl.client.admin.draining import GROWTH_INTERVAL_S, Drained, drain
from mqctl.errors import ConnectionFailed
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop

NOBODY = "127.0.0.1:1"


class Time:
    """Passes only while somebody sleeps, and something happens each time."""

    def __init__(self, happens: Callable[[], Awaitable[object]]) -> None:
        self._now = 0.0
        self._happens = happens

    def clock(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await self._happens()


async def nothing() -> None:
    return


async def drained(admin: Admin, time: Time, tell: Callable[[Drained], None], wait_seconds: float | None) -> Drained:
    return await drain(
        admin,
        "broker-a",
        quiet_seconds=35.0,
        until_consumed=False,
        wait_seconds=wait_seconds,
        tell=tell,
        dry_run=False,
        clock=time.clock,
        sleep=time.sleep,
    )


@in_loop
async def test_quiet_for_long_enough(mq: EmbeddedBroker) -> None:
    mq.create_topic("t")
    time = Time(nothing)
    async with Admin(mq.namesrv) as admin:
        state = await drained(admin, time, lambda state: None, None)
        assert (state.done, state.quiet_seconds, time.clock(), state.growing, state.untold) == (
            True,
            35.0,
            35.0,
            {},
            {},
        )
        [queues] = (await admin.topic_route("t")).queue_datas
        assert queues.perm == 4


@pytest.mark.parametrize("wait_seconds", [GROWTH_INTERVAL_S / 2, GROWTH_INTERVAL_S * 1.5, GROWTH_INTERVAL_S * 3])
@in_loop
async def test_what_still_writes_is_named(mq: EmbeddedBroker, wait_seconds: float) -> None:
    """A producer that does not look at routes any more, say."""
    mq.create_topic("idle")
    mq.create_topic("busy")
    numbers = count()
    told: list[Drained] = []
    async with Producer("p", mq.namesrv) as producer, Admin(mq.namesrv) as admin:
        await producer.send(Message("busy", b"the route is known"))
        time = Time(lambda: producer.send(Message("busy", b"%d" % next(numbers))))
        state = await drained(admin, time, told.append, wait_seconds)
    assert (state.done, time.clock(), state.growing) == (False, wait_seconds, {"busy": 1.0})
    assert told[-1] == state
    assert state.put_total == 1 + wait_seconds


@in_loop
async def test_a_name_server_that_is_away(mq: EmbeddedBroker) -> None:
    async with Admin(f"{mq.namesrv};{NOBODY}") as admin:
        state = await drained(admin, Time(nothing), lambda state: None, None)
    assert state.done
    assert isinstance(state.untold[NOBODY], ConnectionFailed)
