"""How fast a store grows, what its cleaning will delete and when, and how long the disk will last.

A timeline for each store: what the log grew by on each day, when each of its files will go, and when the disk is as
full as each of RocketMQ's thresholds says, if it goes on growing as in the seven days before its last message.

Only the first record of each file is read, and the last of the log: between them growth is taken to be even. When the
next file begins, a file was written last; unlike the file's own time, which cleaning goes by, this outlives a copy. The
disk is the one the store is on here; there is none for a store behind a URI.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from mqctl.errors import ConfigError
from mqctl.store.scan.bounds import Bounds
from spark.cleaning import DAY_MS, HORIZON_H, HOUR_MS, THRESHOLDS, Disk, Forecast, Log, LogFile, Rules, forecast
from spark.result import Plot, Result

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder
    from spark.result import Ask
    from spark.stores import Stores

_SCHEMA: Final = (
    "store string, time timestamp, days double, event string, what string, "
    "bytes bigint, log_bytes bigint, disk_used double"
)
_MEASURED_MS: Final = 7 * DAY_MS

Row = tuple[str, datetime | None, float | None, str, str, int | None, int | None, float | None]


def run(stores: Stores, ask: Ask) -> Result:
    """`days` is the distance from now. All days that the log holds are told, whatever `top` says."""
    rules = _rules(ask)
    rows: list[Row] = []
    notes: list[str] = []
    for folder in stores.folders():
        told = _Store(folder, rules, ask.now_ms)
        rows += told.rows()
        notes.append(f"{folder.name}: {told.summary()}")
    frame = stores.spark.createDataFrame(rows, _SCHEMA)
    return Result("Growth and cleaning", frame, notes, plot=Plot("bars", "time", "bytes", "event", "Bytes"))


def _rules(ask: Ask) -> Rules:
    hours = [hour.strip() for hour in ask.delete_when.split(";") if hour.strip()]
    if not all(hour.isdecimal() and int(hour) < 24 for hour in hours):
        raise ConfigError(f"deleteWhen is hours of the day with ; between them, not {ask.delete_when}")
    return Rules(ask.reserved_h, frozenset(map(int, hours)))


class _Store:
    def __init__(self, folder: StoreFolder, rules: Rules, now_ms: int) -> None:
        bounds = Bounds(folder)
        self._name = folder.name
        self._rules = rules
        self._now_ms = now_ms
        self._times = bounds.log_times()
        self._log = self._log_of(bounds)
        self._disk = _disk_of(folder)
        self._forecast: Forecast = forecast(rules, self._log, self._disk, now_ms)

    def _log_of(self, bounds: Bounds) -> Log:
        files = bounds.log_files
        begun = {point.phys_offset: point.store_ms for point in self._times}
        full = [
            LogFile(file.path.rpartition("/")[2], file.size, begun[after.start])
            for file, after in pairwise(files)
            if after.start in begun
        ]
        end = self._times[-1].phys_offset if self._times else 0
        last_bytes = max(0, end - files[len(full)].start) if files else 0
        return Log(full, last_bytes, files[0].size if files else 1, self._bytes_per_hour())

    def _measured(self) -> tuple[int, int]:
        """The time that growth is taken from, in ms; as long as 0 if the log holds less than two times."""
        if not self._times:
            return 0, 0
        last = self._times[-1].store_ms
        return max(self._times[0].store_ms, last - _MEASURED_MS), last

    def _bytes_per_hour(self) -> float:
        since, until = self._measured()
        return (self._offset_at(until) - self._offset_at(since)) / (until - since) * HOUR_MS if until > since else 0.0

    def _offset_at(self, at_ms: float) -> float:
        """Where the log ended at that time."""
        return float(
            np.interp(at_ms, [each.store_ms for each in self._times], [each.phys_offset for each in self._times])
        )

    # -- what is told -------------------------------------------------------------------------------

    def rows(self) -> Iterator[Row]:
        yield from self._grown()
        yield from self._deleted()
        yield from self._thresholds()

    def _grown(self) -> Iterator[Row]:
        if not self._times:
            return
        first, last = self._times[0].store_ms, self._times[-1].store_ms
        for day in range(first // DAY_MS, last // DAY_MS + 1):
            begin, end = self._offset_at(day * DAY_MS), self._offset_at((day + 1) * DAY_MS)
            yield self._row(day * DAY_MS, "grew", "the log", size=round(end - begin))

    def _deleted(self) -> Iterator[Row]:
        for each in self._forecast.deleted:
            yield self._row(each.at_ms, "delete", each.file.name, size=each.file.size_bytes, log_bytes=each.log_bytes)

    def _thresholds(self) -> Iterator[Row]:
        if self._disk is None:
            return
        for threshold, what in THRESHOLDS.items():
            yield self._row(self._forecast.reached.get(threshold), "disk", what, disk_used=threshold)

    def _row(
        self,
        at_ms: int | None,
        event: str,
        what: str,
        size: int | None = None,
        log_bytes: int | None = None,
        disk_used: float | None = None,
    ) -> Row:
        time = datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms is not None else None
        days = round((at_ms - self._now_ms) / DAY_MS, 2) if at_ms is not None else None
        return self._name, time, days, event, what, size, log_bytes, disk_used

    def summary(self) -> str:
        log = self._log
        held = sum(file.size_bytes for file in log.full) + log.last_bytes
        since, until = self._measured()
        text = f"the log holds {held} bytes and grows by {log.bytes_per_hour * 24:.0f} a day"
        if until - since < DAY_MS:
            text = f"{text}, going by {(until - since) / 1000:.0f} s only"
        if self._disk is None:
            return f"{text}; how full its disk is cannot be asked from here"
        used = self._disk.used_bytes / self._disk.total_bytes
        text = f"{text}; its disk is {used:.0%} full"
        if not self._forecast.reached:
            days, most = HORIZON_H // 24, self._forecast.most_log_bytes
            text = f"{text} and stays below {min(THRESHOLDS):.0%} for {days} days, with {most} bytes of log at most"
        return text


def _disk_of(folder: StoreFolder) -> Disk | None:
    """Without what is reserved for root, as brokers count."""
    if "://" in folder.root:
        return None
    usage = shutil.disk_usage(folder.root)
    return Disk(usage.used + usage.free, usage.used)
