"""How a log has grown: when each of its files was begun, and where it ended at any time in between.

Only the first record of each file is read, and the last of the log: between them growth is taken to be even. When the
next file begins, a file was written last; unlike the file's own time, which cleaning goes by, this outlives a copy.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mqctl.store.scan.bounds import Bounds
from spark.cleaning import DAY_MS, HOUR_MS, Log, LogFile

if TYPE_CHECKING:
    from mqctl.store.scan.folder import StoreFolder

_MEASURED_MS: Final = 7 * DAY_MS


class Growth:
    """Of one store. `log` is what cleaning has to know of it, `place` its folder on this machine, which may be a link
    to another disk; None behind a URI."""

    def __init__(self, folder: StoreFolder) -> None:
        bounds = Bounds(folder)
        self.name = folder.name
        self.place = _place_of(folder)
        self._times = bounds.log_times()
        self.log = self._log_of(bounds)

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

    def _bytes_per_hour(self) -> float:
        since, until = self.measured_ms
        return (self._offset_at(until) - self._offset_at(since)) / (until - since) * HOUR_MS if until > since else 0.0

    @property
    def measured_ms(self) -> tuple[int, int]:
        """The time that growth is taken from: the last week; as long as 0 if the log holds less than two times."""
        if not self._times:
            return 0, 0
        last = self._times[-1].store_ms
        return max(self._times[0].store_ms, last - _MEASURED_MS), last

    def days(self) -> dict[int, int]:
        """By the beginning of each day that the log holds: what was stored on it."""
        if not self._times:
            return {}
        first, last = self._times[0].store_ms // DAY_MS, self._times[-1].store_ms // DAY_MS
        ends = [self._offset_at(day * DAY_MS) for day in range(first, last + 2)]
        return {day * DAY_MS: round(ends[at + 1] - ends[at]) for at, day in enumerate(range(first, last + 1))}

    def _offset_at(self, at_ms: float) -> float:
        """Where the log ended at that time."""
        return float(
            np.interp(at_ms, [each.store_ms for each in self._times], [each.phys_offset for each in self._times])
        )


def _place_of(folder: StoreFolder) -> Path | None:
    if "://" in folder.root:
        return None
    log = Path(folder.root, "commitlog")
    return log if log.exists() else Path(folder.root)
