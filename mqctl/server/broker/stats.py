"""Counting what passes through, and the rates seen lately."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from mqctl.store.store import MessageStore

SAMPLE_SECONDS: Final = 10.0
# Rates are reported over these windows; the longest decides how many samples are kept.
WINDOWS_SECONDS: Final = (10, 60, 600)


class Rate:
    """How fast a total that only grows has grown over the last 10, 60 and 600 s."""

    def __init__(self, total: Callable[[], int], clock: Callable[[], float]) -> None:
        self._total = total
        self._clock = clock
        keep = int(WINDOWS_SECONDS[-1] / SAMPLE_SECONDS) + 1
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)], maxlen=keep)

    def sample(self) -> None:
        self._samples.append((self._clock(), self._total()))

    def per_second(self) -> list[float]:
        """Per second, for each window; a broker younger than a window reports over its age."""
        return [self._rate(seconds) for seconds in WINDOWS_SECONDS]

    def _rate(self, seconds: float) -> float:
        now = self._clock()
        since, total = self._samples[0]
        for when, count in reversed(self._samples):
            if now - when >= seconds:
                since, total = when, count
                break
        return (self._total() - total) / (now - since) if now > since else 0.0

    def text(self) -> str:
        return " ".join(f"{rate:.6f}" for rate in self.per_second())


class BrokerStats:
    """What one broker has done since it started. The counts are plain attributes, since every request adds
    to one of them."""

    def __init__(self, store: MessageStore, clock: Callable[[], float] = time.monotonic) -> None:
        self.pulls_found = 0
        self.pulls_missed = 0
        self.messages_pulled = 0
        self.put_rate = Rate(lambda: store.messages_put, clock)
        self.found_rate = Rate(lambda: self.pulls_found, clock)
        self.missed_rate = Rate(lambda: self.pulls_missed, clock)
        self.pulled_rate = Rate(lambda: self.messages_pulled, clock)

    def sample(self) -> None:
        for rate in (self.put_rate, self.found_rate, self.missed_rate, self.pulled_rate):
            rate.sample()
