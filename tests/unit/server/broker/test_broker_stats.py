"""Rates over the last 10, 60 and 600 seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqctl.server.broker.stats import Rate
from mqctl.server.clock import MovableClock
from tests.aio import in_loop
from tests.unit.server.broker.harness import running


class Sampled:
    def __init__(self) -> None:
        self.now = 0.0
        self.total = 0
        self.rate = Rate(lambda: self.total, lambda: self.now)

    def pass_time(self, seconds: int, per_second: int) -> None:
        for _ in range(seconds // 10):
            self.now += 10
            self.total += 10 * per_second
            self.rate.sample()


def test_a_young_broker_reports_over_its_age() -> None:
    it = Sampled()
    assert it.rate.per_second() == [0.0, 0.0, 0.0]
    it.now, it.total = 2.0, 10
    assert it.rate.per_second() == [5.0, 5.0, 5.0]


def test_each_window_has_its_own_rate() -> None:
    it = Sampled()
    it.pass_time(540, per_second=1)
    it.pass_time(50, per_second=10)
    it.pass_time(10, per_second=100)
    assert it.rate.per_second() == pytest.approx([100.0, 25.0, (540 + 500 + 1000) / 600])


def test_what_is_long_ago_is_forgotten() -> None:
    it = Sampled()
    it.pass_time(6000, per_second=7)
    it.pass_time(600, per_second=0)
    assert it.rate.per_second() == [0.0, 0.0, 0.0]
    assert len(it.rate._samples) == 61


def test_as_text() -> None:
    it = Sampled()
    it.now, it.total = 10.0, 5
    assert it.rate.text() == "0.500000 0.500000 0.500000"


@in_loop
async def test_totals_at_midnight(tmp_path: Path) -> None:
    """What came before the last midnight, and before the one before it."""
    clock = MovableClock()
    async with running(tmp_path, clock) as house:
        client = house.client()
        await client.create_topic()

        async def totals() -> tuple[int, int, int]:
            await house.broker.stats.sample()
            table = (await client.json(28))["table"]
            days = ("YesterdayMorning", "TodayMorning", "TodayNow")
            puts, gets = ([int(table[f"msg{way}Total{day}"]) for day in days] for way in ("Put", "Get"))
            assert puts == gets
            return puts[0], puts[1], puts[2]

        for number in range(3):
            await client.sent()
            await client.pull(number)
        assert await totals() == (0, 0, 3)
        clock.advance(24 * 3600)
        assert await totals() == (0, 3, 3)
        await client.sent()
        await client.pull(3)
        assert await totals() == (0, 3, 4)
        clock.advance(24 * 3600)
        assert await totals() == (3, 4, 4)
