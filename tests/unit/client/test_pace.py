"""Senders that wait for a spool to empty."""

from __future__ import annotations

import asyncio

from mqctl.client.pace import Pace
from tests.aio import in_loop


async def waiting(pace: Pace, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(pace.wait(60)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def ended(tasks: list[asyncio.Task[None]]) -> list[bool]:
    return [task.done() for task in tasks]


@in_loop
async def test_two_leave_for_each_that_is_added() -> None:
    pace = Pace()
    await pace.wait(60)  # none leave: nothing to wait for
    pace.one_left()
    tasks = await waiting(pace, 3)
    for expected in ([False] * 3, [True, False, False], [True, False, False], [True, True, False]):
        pace.one_left()
        await asyncio.gather(*(task for task, done in zip(tasks, expected, strict=True) if done))
        assert ended(tasks) == expected
    pace.stop()
    await asyncio.gather(*tasks)
    await pace.wait(60)


@in_loop
async def test_nobody_waits_longer_than_he_wants_to() -> None:
    pace = Pace()
    pace.one_left()
    await pace.wait(0.0)
    (task,) = await waiting(pace, 1)
    task.cancel()
    await asyncio.wait([task])
    for _ in range(4):
        pace.one_left()
