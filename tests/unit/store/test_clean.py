"""Cleaning: the rules against a clock and a disk of our own, then what happens to real small files."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqctl.errors import StoreError
from mqctl.store import clean
from mqctl.store.clean import MANUAL_ROUNDS, Allowed, Cleaner, Rules, is_outlived, used_ratio
from mqctl.store.fetch import FetchStatus, fetch
from mqctl.store.store import MessageStore
from tests.unit.store.stores import (
    EVERYTHING,
    FILE,
    Clock,
    bodies,
    crash_copy,
    drop_without_close,
    message,
    new_store,
    numbered,
    opened,
    put_all,
)

HOUR = 3600
NOON = time.mktime((2024, 5, 6, 12, 30, 0, 0, 0, -1))
FOUR = time.mktime((2024, 5, 6, 4, 0, 0, 0, 0, -1))
# What one file of the log holds, see stores.BODY.
PER_FILE = 10


def rules(**changes: Any) -> Rules:
    return Rules(
        **{
            "reserved_seconds": 72 * HOUR,
            "hours": frozenset({4}),
            "max_used": 0.75,
            "forcible_used": 0.85,
            "may_force": True,
            "warning_used": 0.90,
            **changes,
        }
    )


# -- rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "now", "manual", "may_force", "allowed"),
    [
        (0.10, NOON, False, True, Allowed.NOTHING),
        (0.75, NOON, False, True, Allowed.NOTHING),
        (0.76, NOON, False, True, Allowed.EXPIRED),
        (0.85, NOON, False, True, Allowed.EXPIRED),
        (0.86, NOON, False, True, Allowed.ANYTHING),
        (0.86, NOON, False, False, Allowed.EXPIRED),
        (0.99, FOUR, True, False, Allowed.EXPIRED),
        (0.10, NOON, True, True, Allowed.EXPIRED),
        (0.10, FOUR, False, True, Allowed.EXPIRED),
        (0.10, FOUR + HOUR - 1, False, True, Allowed.EXPIRED),
        (0.10, FOUR + HOUR, False, True, Allowed.NOTHING),
        (0.10, FOUR - 1, False, True, Allowed.NOTHING),
    ],
)
def test_what_is_allowed(used: float, now: float, manual: bool, may_force: bool, allowed: Allowed) -> None:
    assert rules(may_force=may_force).allowed(used, now, manual=manual) is allowed


@pytest.mark.parametrize(
    ("used", "free", "ratio"), [(0, 100, 0.0), (1, 999, 0.01), (50, 50, 0.5), (501, 499, 0.51), (7, 0, 1.0), (0, 0, 0)]
)
def test_used_is_rounded_up(monkeypatch: pytest.MonkeyPatch, used: int, free: int, ratio: float) -> None:
    """What is reserved for root counts neither as used nor as free."""
    usage = type("usage", (), {"used": used, "free": free, "total": 10_000})
    monkeypatch.setattr(clean.shutil, "disk_usage", lambda path: usage)
    assert used_ratio(Path("/")) == ratio


def test_the_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert used_ratio(tmp_path / "not" / "yet") == used_ratio(tmp_path)


def test_a_disk_that_does_not_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(clean.shutil, "disk_usage", refuse)
    with pytest.raises(StoreError, match="Input/output error"):
        used_ratio(tmp_path)


# -- a store --------------------------------------------------------------------------------------------


class House:
    """A store of five log files, last written at NOON, with a clock and a disk that obey."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock(int(NOON * 1000))
        self.store = new_store(root, self.clock)
        self.used = 0.1
        self.rules = rules()
        self.cleaner = Cleaner(self.store, lambda: self.rules, self.clock, lambda path: self.used)
        self.fill(5 * PER_FILE)

    def fill(self, count: int, **fields: Any) -> None:
        queue = self.store.queues.get(("t", 0))
        put_all(self.store, numbered(count, queue.max_offset if queue else 0, **fields))
        self.store.log.synced(self.store.log.unsynced())
        for path in self.store.config.commitlog_dir.iterdir():
            os.utime(path, (NOON, NOON))

    def pass_hours(self, hours: float) -> None:
        self.clock.now_ms += int(hours * HOUR * 1000)

    def clean(self, *, manual: bool = False, limit: int = 100) -> list[int]:
        """Deletes all that may go; where the deleted files began."""
        deleted = []
        while len(deleted) < limit and (path := self.cleaner.forget_next(manual=manual)) is not None:
            path.unlink()
            deleted.append(int(path.name))
        return deleted

    def follow(self) -> None:
        for queue in self.store.queues.values():
            queue.follow_log_begin(self.store.log.begin)

    def log_files(self) -> list[int]:
        return sorted(int(path.name) // FILE for path in self.store.config.commitlog_dir.iterdir())

    def queue_files(self) -> list[int]:
        directory = self.store.queue_root / "t" / "0"
        return sorted(int(path.name) // (PER_FILE * 20) for path in directory.iterdir())


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "store")
    yield house
    house.store.close()


def test_nothing_goes_while_there_is_room_and_it_is_not_the_hour(house: House) -> None:
    house.pass_hours(100 * 24)
    assert house.clean() == []


def test_expired_files_go_at_the_hour(house: House) -> None:
    """15.5 hours after noon it is the hour, but too early; three days later it is not."""
    house.pass_hours(15.5)
    assert house.clean() == []
    house.pass_hours(72)
    assert house.clean() == [0, FILE, 2 * FILE, 3 * FILE]
    assert house.log_files() == [4]
    assert house.store.log.begin == 4 * FILE


@pytest.mark.parametrize(("hours", "count"), [(71.99, 0), (72, 4), (100, 4)])
def test_expired_files_go_when_the_disk_fills(house: House, hours: float, count: int) -> None:
    house.used = 0.80
    house.pass_hours(hours)
    assert len(house.clean()) == count


def test_the_first_file_that_is_too_young_stops_it(house: House) -> None:
    house.pass_hours(80)
    os.utime(house.store.config.commitlog_dir / f"{FILE:020d}", (NOON + 10 * HOUR, NOON + 10 * HOUR))
    assert house.clean(manual=True) == [0]


def test_young_files_go_when_the_disk_is_almost_full(house: House) -> None:
    """One at a time, until there is room again."""
    house.used = 0.86
    assert house.clean(limit=2) == [0, FILE]
    house.used = 0.85
    assert house.clean() == []
    house.used = 0.99
    house.rules = rules(may_force=False)
    assert house.clean() == []


def test_a_request_holds_for_some_rounds(house: House) -> None:
    assert not house.cleaner.begin_round()
    house.cleaner.ask_for_rounds()
    assert [house.cleaner.begin_round() for _ in range(MANUAL_ROUNDS + 2)] == [True] * MANUAL_ROUNDS + [False] * 2


def test_the_file_in_use_stays(house: House) -> None:
    house.used = 1.0
    house.clean()
    assert house.log_files() == [4]
    house.store.log.prepare_next_file()
    assert house.clean() == []
    assert house.log_files() == [4, 5]


def test_a_store_without_files(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert Cleaner(store, rules, Clock(), lambda path: 1.0).forget_next(manual=True) is None


def test_what_a_sync_may_be_working_on_stays(house: House) -> None:
    house.used = 1.0
    house.store.log.flushed = 2 * FILE + 5
    under_way = house.store.log.unsynced()
    assert house.clean() == [0, FILE]
    under_way.sync()
    house.store.log.synced(under_way)
    assert house.clean() == [2 * FILE, 3 * FILE]


def test_a_file_that_somebody_removed(house: House) -> None:
    house.used = 0.80
    (house.store.config.commitlog_dir / f"{0:020d}").unlink()
    path = house.cleaner.forget_next(manual=False)
    assert path is not None and path.name == f"{0:020d}"
    assert house.store.log.begin == FILE


def test_the_descriptor_is_closed(house: House) -> None:
    """Else the room would not be free before the broker stops."""
    house.used = 1.0
    descriptor = house.store.log.segments.descriptor(0)
    house.clean(limit=1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# -- the flag -------------------------------------------------------------------------------------------


def test_messages_are_refused_above_the_warning_level(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for used in (0.90, 0.91, 0.95):
        house.used = used
        assert house.cleaner.check_disk() == used
    assert house.store.refusing == "the disk is 95% full, messages are accepted up to 90%"
    house.used = 0.90
    house.cleaner.check_disk()
    assert house.store.refusing == ""
    assert [each.levelname for each in caplog.records] == ["ERROR", "WARNING"]


def test_the_fuller_disk_counts(house: House) -> None:
    usage = {house.store.config.commitlog_dir: 0.2, house.store.queue_root: 0.97}
    assert Cleaner(house.store, rules, house.clock, usage.__getitem__).check_disk() == 0.97
    assert house.store.refusing


# -- queues ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "in memory"])
def test_queues_follow_the_log(house: House, flushed: bool) -> None:
    if flushed:
        house.store.flush_queues()
    queue = house.store.queues["t", 0]
    house.used = 1.0
    house.clean(limit=2)
    house.follow()
    assert (queue.min_offset, queue.max_offset) == (2 * PER_FILE, 5 * PER_FILE)
    assert bodies(house.store) == [b"%08d" % number for number in range(20, 50)]
    if flushed:
        assert house.queue_files() == [2, 3, 4]
    moved = fetch(house.store, "t", 0, 3, EVERYTHING)
    assert (moved.status, moved.next_offset) == (FetchStatus.OFFSET_TOO_SMALL, 20)


def test_a_queue_file_stays_while_one_entry_counts(tmp_path: Path) -> None:
    """Log files and queue files end at different messages: two queues share the log."""
    house = House(tmp_path)
    put_all(house.store, [message(topic=topic) for _ in range(25) for topic in ("a", "b")])
    house.store.log.synced(house.store.log.unsynced())
    house.store.flush_queues()
    house.used = 1.0
    house.clean(limit=6)
    house.follow()
    queue = house.store.queues["a", 0]
    assert queue.min_offset == 5
    assert len(queue._segments.starts) == 3
    assert queue.entry(5) is not None
    house.store.close()


def test_a_queue_whose_messages_are_all_gone(house: House) -> None:
    """It remembers where it ended, over a restart as well."""
    house.store.flush_queues()
    put_all(house.store, numbered(10, topic="other"))
    house.store.log.synced(house.store.log.unsynced())
    queue, other = house.store.queues["t", 0], house.store.queues["other", 0]
    assert not is_outlived(queue)
    house.used = 1.0
    house.clean()
    house.follow()
    assert (queue.min_offset, queue.max_offset) == (50, 50)
    assert house.queue_files() == [4]
    assert fetch(house.store, "t", 0, 50, EVERYTHING).status is FetchStatus.OFFSET_OVERFLOW_ONE
    assert is_outlived(queue) and not is_outlived(other)
    house.store.put(message())
    assert not is_outlived(queue)
    house.store.commit()
    assert len(bodies(house.store)) == 1
    assert house.store.queues["t", 0].min_offset == 50


def test_an_empty_queue_is_not_outlived(house: House) -> None:
    queue = house.store.queue("new", 0)
    queue.follow_log_begin(FILE)
    assert not is_outlived(queue)


def test_a_queue_file_that_cannot_be_deleted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    house.store.flush_queues()
    house.used = 1.0
    house.clean(limit=2)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(StoreError, match="Operation not permitted"):
            house.follow()
    assert len(bodies(house.store)) == 30
    house.follow()
    assert house.queue_files() == [2, 3, 4]


# -- starting again -------------------------------------------------------------------------------------


@pytest.mark.parametrize("followed", [True, False], ids=["followed", "not yet followed"])
@pytest.mark.parametrize("clean_stop", [True, False], ids=["stopped", "killed"])
def test_a_start_after_cleaning(tmp_path: Path, clean_stop: bool, followed: bool) -> None:
    house = House(tmp_path / "store")
    house.store.flush_queues()
    house.used = 1.0
    house.clean(limit=3)
    if followed:
        house.follow()
    root = house.store.config.root
    if clean_stop:
        house.store.close()
    else:
        root = crash_copy(house.store, tmp_path / "copy")
        drop_without_close(house.store)
    with opened(root) as again:
        check_start(again)


def check_start(store: MessageStore) -> None:
    assert store.log.begin == 3 * FILE
    assert bodies(store) == [b"%08d" % number for number in range(30, 50)]
    put_all(store, numbered(1, 50))
    assert bodies(store)[-1] == b"%08d" % 50
    assert store.queues["t", 0].min_offset == 30
