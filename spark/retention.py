"""How fast a store grows, what its cleaning will delete and when, and how long the disk will last.

A timeline for each store: what the log grew by on each day, when each of its files will go, and when the disk is as
full as each of RocketMQ's thresholds says, if it goes on growing as in the seven days before its last message.

The disk is the one the log is on here. It fills up with the logs of all stores that are on it and were named. There is
none for a store behind a URI.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mqctl.errors import ConfigError
from spark.cleaning import DAY_MS, HORIZON_H, THRESHOLDS, Disk, Forecast, Rules, forecast
from spark.growth import Growth
from spark.result import Plot, Result

if TYPE_CHECKING:
    from pathlib import Path

    from spark.result import Ask
    from spark.stores import Stores

_SCHEMA: Final = (
    "store string, time timestamp, days double, event string, what string, "
    "bytes bigint, log_bytes bigint, disk_used double"
)

Row = tuple[str, datetime | None, float | None, str, str, int | None, int | None, float | None]


def run(stores: Stores, ask: Ask) -> Result:
    """`days` is the distance from now. All days that the log holds are told, whatever `top` says."""
    rules = _rules(ask)
    grown = [Growth(folder) for folder in stores.folders()]
    told = [each for sharing in _by_disk(grown) for each in _timelines(sharing, rules, ask.now_ms)]
    frame = stores.spark.createDataFrame([row for each in told for row in each.rows()], _SCHEMA)
    notes = [f"{each.growth.name}: {each.summary()}" for each in told]
    return Result("Growth and cleaning", frame, notes, plot=Plot("bars", "time", "bytes", "event", "Bytes"))


def _rules(ask: Ask) -> Rules:
    hours = [hour.strip() for hour in ask.delete_when.split(";") if hour.strip()]
    if not all(hour.isdecimal() and int(hour) < 24 for hour in hours):
        raise ConfigError(f"deleteWhen is hours of the day with ; between them, not {ask.delete_when}")
    return Rules(ask.reserved_h, frozenset(map(int, hours)))


def _by_disk(grown: Sequence[Growth]) -> list[list[Growth]]:
    """Those whose disk is not known have none in common."""
    found: dict[object, list[Growth]] = {}
    for each in grown:
        found.setdefault(each if each.place is None else each.place.stat().st_dev, []).append(each)
    return list(found.values())


def _timelines(sharing: Sequence[Growth], rules: Rules, now_ms: int) -> Iterator[_Timeline]:
    place = sharing[0].place
    disk = None if place is None else _disk_of(place)
    foretold = forecast(rules, [each.log for each in sharing], disk, now_ms)
    for growth, future in zip(sharing, foretold, strict=True):
        others = tuple(each.name for each in sharing if each is not growth)
        yield _Timeline(growth, future, disk, others, now_ms)


def _disk_of(place: Path) -> Disk:
    """Without what is reserved for root, as brokers count."""
    usage = shutil.disk_usage(place)
    return Disk(usage.used + usage.free, usage.used)


@dataclass(frozen=True)
class _Timeline:
    growth: Growth
    forecast: Forecast
    disk: Disk | None
    others: tuple[str, ...]  # on the same disk
    now_ms: int

    def rows(self) -> Iterator[Row]:
        for day_ms, size in self.growth.days().items():
            yield self._row(day_ms, "grew", "the log", size=size)
        for each in self.forecast.deleted:
            yield self._row(each.at_ms, "delete", each.file.name, size=each.file.size_bytes, log_bytes=each.log_bytes)
        for threshold, what in THRESHOLDS.items() if self.disk is not None else ():
            yield self._row(self.forecast.reached.get(threshold), "disk", what, disk_used=threshold)

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
        days = round((at_ms - self.now_ms) / DAY_MS, 2) if at_ms is not None else None
        return self.growth.name, time, days, event, what, size, log_bytes, disk_used

    def summary(self) -> str:
        log = self.growth.log
        held = sum(file.size_bytes for file in log.full) + log.last_bytes
        since, until = self.growth.measured_ms
        text = f"the log holds {held} bytes and grows by {log.bytes_per_hour * 24:.0f} a day"
        if until - since < DAY_MS:
            text = f"{text}, going by {(until - since) / 1000:.0f} s only"
        if self.disk is None:
            return f"{text}; how full its disk is cannot be asked from here"
        used = self.disk.used_bytes / self.disk.total_bytes
        shared = f" (with {', '.join(self.others)} on it)" if self.others else ""
        text = f"{text}; its disk{shared} is {used:.0%} full"
        if not self.forecast.reached:
            days, most = HORIZON_H // 24, self.forecast.most_log_bytes
            text = f"{text} and stays below {min(THRESHOLDS):.0%} for {days} days, with {most} bytes of log at most"
        return text
