"""How long messages took to be written, over the last whole minute, as Apache's broker reports it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

# Apache's thirteen classes, in ms: what took less than a millisecond is in the first, a class holds its lower bound.
CLASS_BOUNDS_MS: Final = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
CLASS_NAMES: Final = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)
# Finer ones for percentiles, each about a quarter wider than the one before; the last is open.
FINE_BOUNDS_MS: Final = tuple(0.05 * 1.25**step for step in range(60))

MINUTE_SECONDS: Final = 60.0


class WriteTimes:
    """Loop only."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._now = self._last = [0] * len(CLASS_NAMES)
        self._fine_now = self._fine_last = [0] * (len(FINE_BOUNDS_MS) + 1)
        self.longest_ms = 0.0
        self._clear()

    def add(self, messages: int, seconds: float) -> None:
        """So many messages were written together and took so long."""
        took_ms = seconds * 1000
        self._now[bisect_right(CLASS_BOUNDS_MS, took_ms)] += messages
        self._fine_now[bisect_left(FINE_BOUNDS_MS, took_ms)] += messages
        self.longest_ms = max(self.longest_ms, took_ms)

    def sample(self, now: float) -> None:
        """To be called often; once in a minute the one that ended becomes the last one."""
        if self._began is not None and now - self._began < MINUTE_SECONDS:
            return
        self._began = now
        self._last, self._fine_last = self._now, self._fine_now
        self._clear()

    def _clear(self) -> None:
        self._now = [0] * len(CLASS_NAMES)
        self._fine_now = [0] * (len(FINE_BOUNDS_MS) + 1)

    def distribution(self) -> str:
        return "".join(f"{name}:{count} " for name, count in zip(CLASS_NAMES, self._last, strict=True))

    def percentile_ms(self, share: float) -> float:
        """How long the slowest of the fastest `share` took, at most; 0 when nothing was written."""
        left = sum(self._fine_last) * share
        if not left:
            return 0.0
        for bound, count in zip(FINE_BOUNDS_MS, self._fine_last, strict=False):
            left -= count
            if left <= 0:
                return bound
        return self.longest_ms
