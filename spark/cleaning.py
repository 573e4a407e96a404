"""What a broker's cleaning will do to a log that goes on growing as it did: played through hour by hour.

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
    """`reached` has the time at which the disk is as full as a threshold says, without those it does not come to."""

    deleted: list[Deleted] = field(default_factory=list)
    reached: dict[float, int] = field(default_factory=dict)
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


def forecast(rules: Rules, log: Log, disk: Disk | None, now_ms: int) -> Forecast:
    """The steps are the hours of the clock, since that of deleting is one of them."""
    found = Forecast()
    waiting = deque(log.full)
    last = float(log.last_bytes)
    log_bytes = sum(file.size_bytes for file in waiting) + last
    others = disk.used_bytes - log_bytes if disk is not None else 0.0
    at_ms = now_ms
    for _ in range(HORIZON_H):
        used = (others + log_bytes) / disk.total_bytes if disk is not None else 0.0
        for threshold in THRESHOLDS:
            if used > threshold:
                found.reached.setdefault(threshold, at_ms)
        may_delete = rules.is_hour(at_ms) or used > EXPIRED_AT_ANY_TIME
        while may_delete and waiting and rules.expires_ms(waiting[0]) <= at_ms:
            gone = waiting.popleft()
            log_bytes -= gone.size_bytes
            if gone.name:
                found.deleted.append(Deleted(gone, at_ms, round(log_bytes)))
        found.most_log_bytes = max(found.most_log_bytes, round(log_bytes))
        next_ms = at_ms - at_ms % HOUR_MS + HOUR_MS
        grown = log.bytes_per_hour * (next_ms - at_ms) / HOUR_MS
        log_bytes += grown
        last += grown
        at_ms = next_ms
        if last >= log.file_bytes:  # those of one hour expire together
            whole = int(last // log.file_bytes) * log.file_bytes
            waiting.append(LogFile("", whole, at_ms))
            last -= whole
    return found
