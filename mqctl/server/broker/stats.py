"""Counting what passes through, and the rates seen lately."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

from mqctl.server.broker.traffic import Traffic
from mqctl.server.broker.writetimes import WriteTimes
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


@dataclass(slots=True)
class DayTotals:
    """A total as it was at the last two midnights; 0 before the broker saw one."""

    yesterday_morning: int = 0
    today_morning: int = 0

    def at_midnight(self, total: int) -> None:
        self.yesterday_morning, self.today_morning = self.today_morning, total


class BrokerStats:
    """What one broker has done since it started. The counts are plain attributes, since every request adds
    to one of them."""

    def __init__(
        self,
        store: MessageStore,
        cluster: str,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall_clock = wall_clock
        self._today = self._date()
        self.pulls_found = 0
        self.pulls_missed = 0
        self.messages_pulled = 0
        self.slowest_fetch_s = 0.0
        self.put_days = DayTotals()
        self.pulled_days = DayTotals()
        self.write_times = WriteTimes()
        self.traffic = Traffic(cluster, clock)
        self.put_rate = Rate(lambda: store.messages_put, clock)
        self.found_rate = Rate(lambda: self.pulls_found, clock)
        self.missed_rate = Rate(lambda: self.pulls_missed, clock)
        self.pulled_rate = Rate(lambda: self.messages_pulled, clock)

    def _date(self) -> date:
        return date.fromtimestamp(self._wall_clock())

    async def sample(self) -> None:
        if self._date() != self._today:
            self._today = self._date()
            self.put_days.at_midnight(self._store.messages_put)
            self.pulled_days.at_midnight(self.messages_pulled)
        for rate in (self.put_rate, self.found_rate, self.missed_rate, self.pulled_rate):
            rate.sample()
        self.write_times.sample(self._clock())
        await self.traffic.sample()
