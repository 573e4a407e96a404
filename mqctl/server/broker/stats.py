"""Counting what passes through, and the rates seen lately."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

SAMPLE_SECONDS: Final = 10.0
# Rates are reported over these windows; the longest decides how many samples are kept.
WINDOWS_SECONDS: Final = (10, 60, 600)


class Counter:
    """A number that only grows, with its rate over the last 10, 60 and 600 s."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.total = 0
        self._clock = clock
        keep = int(WINDOWS_SECONDS[-1] / SAMPLE_SECONDS) + 1
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)], maxlen=keep)

    def sample(self) -> None:
        self._samples.append((self._clock(), self.total))

    def rates(self) -> list[float]:
        """Per second, for each window; a broker younger than a window reports over its age."""
        return [self._rate(seconds) for seconds in WINDOWS_SECONDS]

    def _rate(self, seconds: float) -> float:
        now = self._clock()
        since, total = self._samples[0]
        for when, count in reversed(self._samples):
            if now - when >= seconds:
                since, total = when, count
                break
        return (self.total - total) / (now - since) if now > since else 0.0

    def rates_text(self) -> str:
        return " ".join(f"{rate:.6f}" for rate in self.rates())


class BrokerStats:
    """What one broker has done since it started."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.put = Counter(clock)
        self.put_bytes = Counter(clock)
        self.get_found = Counter(clock)
        self.get_miss = Counter(clock)
        self.transferred = Counter(clock)
        self._all = (self.put, self.put_bytes, self.get_found, self.get_miss, self.transferred)

    def sample(self) -> None:
        for counter in self._all:
            counter.sample()
