"""A total that only grows, and how fast it has grown over the last minute, hour and day."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mqctl.remoting.bodies_admin import StatsData, StatsItem


class Window(NamedTuple):
    """So many steps of so long: how far back one looks, and how exactly."""

    step_s: float
    steps: int


# As Apache's StatsItem samples.
MINUTE: Final = Window(10, 6)
HOUR: Final = Window(600, 6)
DAY: Final = Window(3600, 24)


class Sample(NamedTuple):
    when: float
    total: int
    times: int


class Series:
    """`times` counts how often something was added: a total of bytes has a size per message."""

    __slots__ = ("_samples", "times", "total")

    def __init__(self, now: float) -> None:
        self.total = 0
        self.times = 0
        # Apache's pretends as well that nothing happened for a step before the first: three messages in the first
        # millisecond are not three thousand a second.
        self._samples = {
            window: deque([Sample(now - window.step_s, 0, 0)], window.steps + 1) for window in (MINUTE, HOUR, DAY)
        }

    def add(self, amount: int, times: int = 1) -> None:
        self.total += amount
        self.times += times

    def sample(self, now: float) -> None:
        """To be called every step of the smallest window."""
        for window, samples in self._samples.items():
            if now - samples[-1].when >= window.step_s:
                samples.append(Sample(now, self.total, self.times))

    @property
    def is_idle(self) -> bool:
        """Nothing was added for a day."""
        return self._samples[DAY][0].times == self.times

    def over(self, window: Window, now: float) -> StatsItem:
        since = self._samples[window][0]
        total, times, seconds = self.total - since.total, self.times - since.times, now - since.when
        return StatsItem(
            sum=total,
            tps=total / seconds if seconds > 0 else 0.0,
            avgpt=total / times if times else 0.0,
        )

    def view(self, now: float) -> StatsData:
        return StatsData(
            stats_minute=self.over(MINUTE, now),
            stats_hour=self.over(HOUR, now),
            stats_day=self.over(DAY, now),
        )
