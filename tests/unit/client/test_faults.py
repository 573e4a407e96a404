"""Keeping slow brokers out of use, with Java's numbers."""

from __future__ import annotations

import pytest

from mqctl.client.faults import FaultTable


@pytest.mark.parametrize(
    ("latency_ms", "seconds"), [(549, 0), (550, 30), (999, 30), (1000, 60), (2000, 120), (3000, 180), (15_000, 600)]
)
def test_the_slower_the_longer(latency_ms: int, seconds: int) -> None:
    now = 0.0
    faults = FaultTable(clock=lambda: now)
    faults.update("a", latency_ms)
    assert faults.available("a") is (seconds == 0)
    now = max(0.0, seconds - 0.001)
    assert faults.available("a") is (seconds == 0)
    now = seconds
    assert faults.available("a")


def test_a_failure_counts_as_the_slowest() -> None:
    now = 0.0
    faults = FaultTable(clock=lambda: now)
    faults.update("a", 1, failed=True)
    now = 599
    assert not faults.available("a")
    faults.update("a", 10)
    assert faults.available("a"), "a success forgives"


def test_the_better_half_is_used_in_turn_when_all_are_bad() -> None:
    faults = FaultTable(clock=lambda: 0.0)
    assert faults.least_bad() is None
    for name, latency_ms in (("a", 4000), ("b", 600), ("c", 5000), ("d", 700)):
        faults.update(name, latency_ms)
    assert [faults.least_bad() for _ in range(3)] == ["b", "d", "b"]
