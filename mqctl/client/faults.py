"""Which brokers to leave alone for a while: sendLatencyFaultEnable of Java's producers.

A broker that was slow is not used for a time that grows with how slow it was; one that failed counts as if it
had taken 30 s. Numbers and rules are those of MQFaultStrategy and LatencyFaultToleranceImpl.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Final, NamedTuple

# From the slowest on: a send that took so many ms keeps its broker out of use for so many ms.
_PENALTIES: Final = (
    (15_000, 600_000),
    (3_000, 180_000),
    (2_000, 120_000),
    (1_000, 60_000),
    (550, 30_000),
)
_FAILURE_COUNTS_AS_MS: Final = 30_000


class _Fault(NamedTuple):
    latency_ms: float
    until: float  # on the clock, in s


class FaultTable:
    """Loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._turn = itertools.count()

    def update(self, broker_name: str, latency_ms: float, *, failed: bool = False) -> None:
        measured = _FAILURE_COUNTS_AS_MS if failed else latency_ms
        penalty_ms = next((penalty for limit, penalty in _PENALTIES if measured >= limit), 0)
        self._faults[broker_name] = _Fault(latency_ms, self._clock() + penalty_ms / 1000)

    def available(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or self._clock() >= fault.until

    def least_bad(self) -> str | None:
        """One of the better half, in turn; None when nothing is known."""
        ranked = sorted(self._faults, key=lambda name: (not self.available(name), *self._faults[name]))
        if not ranked:
            return None
        return ranked[next(self._turn) % max(1, len(ranked) // 2)]
