"""Does it grow? Samples of a process, and a verdict about each of its lives between two starts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import psutil

MIB: Final = 1024 * 1024

# Caches fill and queues open their files in the beginning; what comes after tells.
WARM_UP: Final = 0.25
# A life with fewer seconds behind its warm-up says nothing.
LEAST_SECONDS: Final = 45.0

# What may come between the first and the last quarter: one garbage collection more or less, a few clients more.
MEMORY_SHARE, LEAST_MEMORY = 0.06, 4 * MIB
FILES_SHARE, LEAST_FILES = 0.1, 20


class Sample(NamedTuple):
    second: float
    rss: int
    files: int


def sample(pid: int, second: float) -> Sample:
    process = psutil.Process(pid)
    return Sample(second, process.memory_info().rss, process.num_fds())


def connections(pid: int) -> int:
    found = psutil.Process(pid).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED for each in found)


@dataclass(frozen=True, slots=True)
class Trend:
    """Medians of the first and the last quarter behind the warm-up, and the slope of all of it."""

    first: float
    last: float
    per_minute: float
    allowed: float

    @property
    def grows(self) -> bool:
        return self.last - self.first > self.allowed and self.per_minute > 0


@dataclass(frozen=True, slots=True)
class Life:
    seconds: float
    memory: Trend
    files: Trend
    judged: bool  # long enough

    @property
    def grows(self) -> bool:
        return self.judged and (self.memory.grows or self.files.grows)


def judge(samples: Sequence[Sample]) -> Life | None:
    """None where there is nothing to see at all."""
    warm = samples[int(len(samples) * WARM_UP) :]
    if len(warm) < 4:
        return None
    seconds = warm[-1].second - warm[0].second
    times = [each.second / 60 for each in warm]
    memory = _trend(times, [each.rss for each in warm], MEMORY_SHARE, LEAST_MEMORY)
    files = _trend(times, [each.files for each in warm], FILES_SHARE, LEAST_FILES)
    return Life(seconds, memory, files, seconds >= LEAST_SECONDS)


def _trend(minutes: Sequence[float], values: Sequence[int], share: float, least: float) -> Trend:
    quarter = max(1, len(values) // 4)
    first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
    slope = statistics.linear_regression(minutes, values).slope
    return Trend(first, last, slope, max(least, share * first))
