"""What cleaning will do to the logs on one disk that go on growing as they did: played through hour by hour.

The rules are RocketMQ's. A file of the log expires `reserved_h` hours after it was written last. Expired files go in
the hours of `delete_when`, and at any time while the disk is more than 75 % full. Nothing is played of what happens
from 85 % on, where files go before they expire: the question is when that would begin.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

# How far ahead it is worth looking: nothing grows for longer as it does today.
HORIZON_H: Final = 365 * 24

EXPIRED_AT_ANY_TIME: Final = 0.75
# What happens when the disk is so full: diskMaxUsedSpaceRatio, diskSpaceCleanForciblyRatio, diskSpaceWarningLevelRatio.
THRESHOLDS: Final = {
    EXPIRED_AT_ANY_TIME: "expired files go at any hour",
    0.85: "the oldest files go before they expire",
    0.90: "messages are refused",
}


@dataclass(frozen=True, slots=True)
class LogFile:
    """`written_ms` is when it was written last. Files of the future have no name."""

    name: str
    size_bytes: int
    written_ms: int


@dataclass(frozen=True, slots=True)
class Disk:
    total_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Deleted:
    file: LogFile
    at_ms: int
    log_bytes: int  # what is left then


@dataclass(slots=True)
class Forecast:
    """Of one log. `reached` has the time at which its disk is as full as a threshold says, without those it does not
    come to."""

    reached: dict[float, int]
    deleted: list[Deleted] = field(default_factory=list)
    most_log_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    reserved_h: int
    hours: frozenset[int]  # those of the local day in which expired files go anyway

    def expires_ms(self, file: LogFile) -> int:
        return file.written_ms + self.reserved_h * HOUR_MS

    def is_hour(self, at_ms: int) -> bool:
        return time.localtime(at_ms / 1000).tm_hour in self.hours


@dataclass(frozen=True, slots=True)
class Log:
    """`full` are its files but for the one being written, which always stays; the oldest first."""

    full: Sequence[LogFile]
    last_bytes: int
    file_bytes: int
    bytes_per_hour: float


def forecast(rules: Rules, logs: Sequence[Log], disk: Disk | None, now_ms: int) -> list[Forecast]:
    """One for each of the logs, which share the disk. The steps are the hours of the clock, since that of deleting is
    one of them."""
    reached: dict[float, int] = {}
    growing = [_Growing(log, Forecast(reached)) for log in logs]
    others = disk.used_bytes - sum(log.size_bytes for log in growing) if disk is not None else 0.0
    at_ms = now_ms
    for _ in range(HORIZON_H):
        used = (others + sum(log.size_bytes for log in growing)) / disk.total_bytes if disk is not None else 0.0
        for threshold in THRESHOLDS:
            if used > threshold:
                reached.setdefault(threshold, at_ms)
        next_ms = at_ms - at_ms % HOUR_MS + HOUR_MS
        for log in growing:
            if rules.is_hour(at_ms) or used > EXPIRED_AT_ANY_TIME:
                log.delete_expired(rules, at_ms)
            log.grow(at_ms, next_ms)
        at_ms = next_ms
    return [log.forecast for log in growing]


class _Growing:
    """A log on its way through time."""

    def __init__(self, log: Log, forecast: Forecast) -> None:
        self.forecast = forecast
        self.size_bytes = sum(file.size_bytes for file in log.full) + float(log.last_bytes)
        self._log = log
        self._waiting = deque(log.full)
        self._last_bytes = float(log.last_bytes)

    def delete_expired(self, rules: Rules, at_ms: int) -> None:
        while self._waiting and rules.expires_ms(self._waiting[0]) <= at_ms:
            gone = self._waiting.popleft()
            self.size_bytes -= gone.size_bytes
            if gone.name:
                self.forecast.deleted.append(Deleted(gone, at_ms, round(self.size_bytes)))

    def grow(self, at_ms: int, until_ms: int) -> None:
        self.forecast.most_log_bytes = max(self.forecast.most_log_bytes, round(self.size_bytes))
        grown = self._log.bytes_per_hour * (until_ms - at_ms) / HOUR_MS
        self.size_bytes += grown
        self._last_bytes += grown
        if self._last_bytes >= self._log.file_bytes:  # those of one hour expire together
            whole = int(self._last_bytes // self._log.file_bytes) * self._log.file_bytes
            self._waiting.append(LogFile("", whole, until_ms))
            self._last_bytes -= whole
