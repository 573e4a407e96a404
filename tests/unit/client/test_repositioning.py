"""Moving groups when a broker goes away on the way: what it did not take is marked, the rest is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from mqctl.client.admin import Admin
from mqctl.client.admin.repositioning import (
    EARLIEST,
    Move,
    Plan,
    commit_offset,
    committed_offset,
    reset_running,
    write_offsets,
)
from mqctl.errors import ConnectionFailed
from mqctl.remoting.bodies import MessageQueue
from mqctl.testing import EmbeddedBroker
from tests.aio import in_loop

NOBODY = "127.0.0.1:1"


async def rest(admin: Admin, plan: Plan) -> None:
    await write_offsets(admin, plan.group, plan.moves)


async def running(admin: Admin, plan: Plan) -> None:
    await reset_running(admin, plan, EARLIEST)


@pytest.mark.parametrize("carry_out", [rest, running])
@pytest.mark.parametrize("before", [None, 3])
@in_loop
async def test_a_broker_that_goes_away(
    mq: EmbeddedBroker, carry_out: Callable[[Admin, Plan], Awaitable[None]], before: int | None
) -> None:
    mq.create_topic("t", queues=1)
    here, gone = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)
    moves = [Move(here, mq.address, 0, 5, before, 2), Move(gone, NOBODY, 0, 5, before, 2)]
    plan = Plan("g", moves, running=1)
    async with Admin(mq.namesrv) as admin:
        if before is not None:
            await commit_offset(admin, mq.address, "g", here, before)
        await carry_out(admin, plan)
        assert plan.possible == moves[:1]
        assert isinstance(moves[1].error, ConnectionFailed)
        assert plan.skipped == (0 if before else 2)
        assert await committed_offset(admin, mq.address, "g", here) == 2
