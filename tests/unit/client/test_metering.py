"""Rates over the last minute."""

from __future__ import annotations

from mqctl.client.held import HeldQueue
from mqctl.client.metering import Meter
from mqctl.remoting.bodies import MessageQueue
from tests.aio import in_loop

HELD = HeldQueue(MessageQueue("t", "broker-a", 0), 0)


@in_loop
async def test_only_the_last_minute_counts() -> None:
    now = 0.0
    meter = Meter(lambda: now)
    meter.pulled("t", 32, 5)
    meter.consumed(HELD, 1, 0, failed=True)
    for _ in range(6):
        now += 10
        await meter.sample()
    assert meter.status("t").pull_tps == 0
    meter.pulled("t", 100, 30)
    meter.pulled("t", 100, 10)
    meter.consumed(HELD, 50, 0, failed=False)
    status = meter.status("t")
    assert (status.pull_tps, status.pull_rt) == (200 / 50, 20)
    assert (status.consume_ok_tps, status.consume_failed_tps, status.consume_failed_msgs) == (1, 0, 1)
    assert meter.status("other").pull_tps == 0


def test_how_long_a_listener_took() -> None:
    meter = Meter(lambda: 0.0)
    meter.consumed(HELD, 2, 1000, failed=False)
    assert meter.status("t").consume_rt > 1_000_000
    assert HELD.last_consume_ms > 1_000_000
