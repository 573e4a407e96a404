"""Ends of queues and times of records, compared with what the store itself says."""

from __future__ import annotations

from pathlib import Path

from mqctl.store.scan.bounds import Bounds, QueueBounds, StoredAt
from mqctl.store.scan.folder import StoreFolder
from tests.unit.store.stores import FILE, Clock, numbered, opened, put_all


def bounds(root: Path) -> Bounds:
    return Bounds(StoreFolder("a", str(root)))


def test_queues_begin_and_end_where_the_store_says(tmp_path: Path) -> None:
    """Files of ten entries and ten records each: 37 and 10 messages, so one file is full and one is not begun."""
    with opened(tmp_path) as store:
        put_all(store, numbered(37))
        put_all(store, numbered(10, topic="u", queue_id=3))
        assert set(bounds(tmp_path).queues()) == set()  # nothing has reached the files yet
        store.flush_queues()
        expected = {
            QueueBounds(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset)
            for queue in store.queues.values()
        }
        assert set(bounds(tmp_path).queues()) == expected
    assert expected == {QueueBounds("t", 0, 0, 37), QueueBounds("u", 3, 0, 10)}
    assert list(bounds(tmp_path).queues(frozenset({"u"}))) == [QueueBounds("u", 3, 0, 10)]


def test_entries_of_deleted_records_are_before_the_begin(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(37))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with opened(tmp_path) as store:
        begin = store.queues["t", 0].min_offset
    assert begin > 0
    assert list(bounds(tmp_path).queues()) == [QueueBounds("t", 0, begin, 37)]


def test_a_queue_that_begins_anew_in_the_middle_of_a_file(tmp_path: Path) -> None:
    """The places before its first message hold fillers."""
    with opened(tmp_path) as store:
        put_all(store, numbered(37))
        store.queues["t", 0].start_at(14)
        put_all(store, numbered(3))
        store.flush_queues()
        assert list(bounds(tmp_path).queues()) == [QueueBounds("t", 0, 14, 17)]


def test_times(tmp_path: Path) -> None:
    clock = Clock(1_000_000)
    with opened(tmp_path, clock) as store:
        put_all(store, numbered(12))
        clock.now_ms = 2_000_000
        put_all(store, numbered(3))
        end = store.log.end
    found = bounds(tmp_path)
    assert [found.message_stored_at("t", 0, at) for at in (0, 11, 12, 14)] == [1_000_000] * 2 + [2_000_000] * 2
    assert found.message_stored_at("t", 0, 15) is None
    assert found.message_stored_at("t", 7, 0) is None
    assert found.stored_at(1) is None
    assert found.log_times() == [StoredAt(0, 1_000_000), StoredAt(FILE, 1_000_000), StoredAt(end, 2_000_000)]


def test_a_deleted_message_has_no_time(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(20))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    assert bounds(tmp_path).message_stored_at("t", 0, 0) is None
    assert bounds(tmp_path).message_stored_at("t", 0, 10) == 1_000_000


def test_a_store_with_nothing_in_it(tmp_path: Path) -> None:
    assert list(bounds(tmp_path).queues()) == []
    assert bounds(tmp_path).log_times() == []
    assert bounds(tmp_path).queue("t", 0) == QueueBounds("t", 0, 0, 0)
    (tmp_path / "consumequeue" / "t" / "0").mkdir(parents=True)
    assert list(bounds(tmp_path).queues()) == [QueueBounds("t", 0, 0, 0)]
