"""Waiting for moments: never early, and without delay when the clock is moved."""

from __future__ import annotations

import asyncio
import time

import pytest

from mqctl.server.clock import Clock, MovableClock
from tests.aio import in_loop

HOUR_MS = 3_600_000

both = pytest.mark.parametrize("kind", [Clock, MovableClock])


@both
@in_loop
async def test_a_moment_is_never_early(kind: type[Clock]) -> None:
    clock = kind()
    for wait_ms in (0, 1, 2, 7, 20):
        moment = clock.now_ms() + wait_ms
        await clock.until(moment)
        assert clock.now_ms() >= moment


@both
@in_loop
async def test_who_waits_can_be_woken(kind: type[Clock]) -> None:
    clock, wake = kind(), asyncio.Event()
    for moment in (None, clock.now_ms() + HOUR_MS):
        waiting = asyncio.create_task(clock.until(moment, wake))
        await asyncio.sleep(0)
        wake.set()
        await waiting
        assert wake.is_set()
        wake.clear()


@both
@in_loop
async def test_a_passed_moment_needs_no_waiting(kind: type[Clock]) -> None:
    clock = kind()
    await clock.until(clock.now_ms() - HOUR_MS)
    await clock.until(0, asyncio.Event())


@in_loop
async def test_moving_wakes_those_whose_time_has_come() -> None:
    clock = MovableClock()
    begin = clock.now_ms()
    sleeping = asyncio.create_task(clock.sleep(3600))
    soon = asyncio.create_task(clock.until(begin + HOUR_MS))
    late = asyncio.create_task(clock.until(begin + 2 * HOUR_MS))
    never = asyncio.create_task(clock.until(None))
    await asyncio.sleep(0)
    clock.advance(1800)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not sleeping.done()
    assert not soon.done()
    clock.advance(1801)
    await asyncio.gather(sleeping, soon)
    assert not late.done()
    assert clock.time() - time.time() == pytest.approx(3601, abs=5)
    clock.advance(3600)
    await late
    assert not never.done()
    never.cancel()
    await asyncio.wait((never,))
