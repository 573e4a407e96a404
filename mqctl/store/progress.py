"""Saying how far a long piece of work is, once it turns out to be one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
REPORT_SECONDS: Final = 1.0


class Progress:
    """Of a walk through bytes [begin, end). `end` may be further than there is anything to be found."""

    def __init__(self, subject: str, begin: int, end: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._subject = subject
        self._begin = begin
        self._end = end
        self._clock = clock
        self._next_report = clock() + REPORT_SECONDS

    def at(self, position: int) -> None:
        """A line in the log whenever another second has passed: a warning, so that whoever waits for the broker
        sees it."""
        if self._clock() < self._next_report:
            return
        self._next_report = self._clock() + REPORT_SECONDS
        done, most = (position - self._begin) / MIB, (self._end - self._begin) / MIB
        log.warning("%s: %.0f MiB of the log looked through, %.0f at most are left", self._subject, done, most - done)
