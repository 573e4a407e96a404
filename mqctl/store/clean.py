"""Which old files of a store may go, and when messages are refused because the disk is too full.

The commit log decides: its files go whole, the oldest first, and consume queues and index follow its new begin.
Nothing here waits. `Cleaner.forget_next` makes the log forget one file and hands out its path; deleting a file
of a gigabyte takes the kernel a while, so the caller does that wherever it disturbs nobody.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Final

import msgspec

from mqctl.errors import StoreError
from mqctl.store.consumequeue import ConsumeQueue
from mqctl.store.store import MessageStore

log = logging.getLogger(__name__)

# As in Apache's store: a round that has this much to do leaves the rest to the next one.
MAX_FILES_PER_ROUND: Final = 10

# For how many rounds a request to delete expired files holds: enough for 200 files.
MANUAL_ROUNDS: Final = 20


class Allowed(Enum):
    """What may be deleted at this moment."""

    NOTHING = auto()
    EXPIRED = auto()
    ANYTHING = auto()


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios are parts of 1. `hours` are those of the local day in which expired files go anyway."""

    reserved_seconds: float
    hours: frozenset[int]
    max_used: float
    forcible_used: float
    may_force: bool
    warning_used: float

    def allowed(self, used: float, now: float, *, manual: bool) -> Allowed:
        if self.may_force and used > self.forcible_used:
            return Allowed.ANYTHING
        if manual or used > self.max_used or time.localtime(now).tm_hour in self.hours:
            return Allowed.EXPIRED
        return Allowed.NOTHING


def used_ratio(path: Path) -> float:
    """How full the disk of `path` is, in whole percent rounded up, without what is reserved for root: the
    number that Apache's tools show. Raises StoreError."""
    while not path.exists() and path != path.parent:
        path = path.parent  # a log folder on a disk of its own is made with the first message
    try:
        usage = shutil.disk_usage(path)
    except OSError as error:
        raise StoreError(f"cannot ask how full the disk of {path} is: {error.strerror}") from error
    return -(-usage.used * 100 // max(1, usage.used + usage.free)) / 100


class Cleaner:
    """Owned by the store's thread. `rules` is asked every time: an operator may change them any day."""

    def __init__(
        self,
        store: MessageStore,
        rules: Callable[[], Rules],
        clock: Callable[[], float] = time.time,
        disk_usage: Callable[[Path], float] = used_ratio,
    ) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._disk_usage = disk_usage
        self._manual_rounds = 0

    # -- the disk -----------------------------------------------------------------------------------

    def check_disk(self) -> float:
        """How full the fuller one of the store's disks is. Lets the store refuse messages from the warning
        level on, while there still is room for what consuming writes, and accept them again below it."""
        store, warning = self._store, self._rules().warning_used
        used = max(map(self._disk_usage, {store.config.commitlog_dir, store.queue_root}))
        if used > warning:
            remark = f"the disk is {used:.0%} full, messages are accepted up to {warning:.0%}"
            if not store.refusing:
                log.error("store %s: %s", store.config.root, remark)
            store.refusing = remark
        elif store.refusing:
            log.warning("store %s: the disk is %.0f%% full, messages are accepted again", store.config.root, used * 100)
            store.refusing = ""
        return used

    # -- the log ------------------------------------------------------------------------------------

    def ask_for_rounds(self) -> None:
        """An operator wants expired files gone now, whatever the hour."""
        self._manual_rounds = MANUAL_ROUNDS

    def begin_round(self) -> bool:
        """Whether this round is one an operator asked for."""
        manual = self._manual_rounds > 0
        self._manual_rounds -= manual
        return manual

    def forget_next(self, *, manual: bool) -> Path | None:
        """Makes the log forget its oldest file and returns the path, for the caller to delete; None if that
        file must stay, and so every younger one. The disk is looked at each time: Apache's store, once the
        disk is too full, deletes ten files where one might do."""
        allowed = self._rules().allowed(self.check_disk(), self._clock(), manual=manual)
        path = self._store.log.oldest_removable()
        if path is None or allowed is Allowed.NOTHING:
            return None
        age = self._clock() - _modified(path)
        if allowed is Allowed.EXPIRED and age < self._rules().reserved_seconds:
            return None
        log.info("commit log %s: deleted, last written %.1f hours ago (%s)", path.name, age / 3600, allowed.name)
        self._store.forget_oldest_log_file()
        return path


def _modified(path: Path) -> float:
    """A file that somebody else removed is as old as can be: only the log still counts on it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    except OSError as error:
        raise StoreError(f"cannot look at {path}: {error.strerror}") from error


def is_outlived(queue: ConsumeQueue) -> bool:
    """All that ever was in the queue went with the log, and nothing is on its way into it. Ask only after the
    queue has followed the log."""
    return 0 < queue.max_offset <= queue.min_offset and queue.next_offset == queue.max_offset
