"""Which records are read: by topic, time and place; of logs that are damaged, torn, cleaned or being written."""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mqctl.store.scan.logreader import LogRange, read_places, read_range
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import LogPart, LogPlan, QueuePart, message_parts
from mqctl.store.scan.records import HEADS
from tests.unit.store.scan.reading import EVERYTHING, bodies, folder, read
from tests.unit.store.stores import FILE, Clock, drop_without_close, message, new_store, numbered, opened, put_all


def names(first: int, stop: int) -> list[bytes]:
    return [b"%08d" % number for number in range(first, stop)]


def log_file(root: Path, number: int = 0) -> Path:
    return root / "commitlog" / f"{number * FILE:020d}"


def test_an_empty_store_has_no_messages(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert read(tmp_path) == []
    assert read(tmp_path, replace(EVERYTHING, topics=frozenset({"t"}))) == []


def test_one_message(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(1))
    assert bodies(tmp_path) == names(0, 1)


@pytest.fixture
def two_topics(tmp_path: Path) -> Path:
    """Forty messages of t and u in turn, a second apart, in files of ten."""
    clock = Clock(1_000_000)
    with opened(tmp_path, clock) as store:
        for number in range(40):
            clock.now_ms = 1_000_000 + 1000 * number
            put_all(store, [message(b"%08d" % number, topic="tu"[number % 2], queue_id=number // 2 % 2)])
    return tmp_path


def test_topics_are_read_through_their_queues(two_topics: Path) -> None:
    wanted = replace(EVERYTHING, topics=frozenset({"u"}))
    assert all(isinstance(part, QueuePart) for part in message_parts(folder(two_topics), wanted))
    assert bodies(two_topics, wanted) == names(0, 40)[1::2]
    assert bodies(two_topics, replace(wanted, queue_id=1)) == names(0, 40)[3::4]
    assert bodies(two_topics, replace(wanted, from_log=True)) == names(0, 40)[1::2]
    assert bodies(two_topics, replace(wanted, topics=frozenset({"t", "u"}))) == names(0, 40)
    assert bodies(two_topics, replace(wanted, topics=frozenset({"unknown"}))) == []


def test_without_queues_topics_are_read_from_the_log(two_topics: Path) -> None:
    (two_topics / "consumequeue").rename(two_topics / "lost")
    wanted = replace(EVERYTHING, topics=frozenset({"u"}))
    assert bodies(two_topics, wanted) == names(0, 40)[1::2]
    assert bodies(two_topics) == names(0, 40)


def test_bounds_of_time_and_place(two_topics: Path) -> None:
    def between(since: int | None, until: int | None) -> list[bytes]:
        wanted = replace(EVERYTHING, since_ms=since, until_ms=until)
        found = bodies(two_topics, wanted)
        assert bodies(two_topics, replace(wanted, topics=frozenset({"t", "u"}))) == found
        return found

    assert between(1_010_000, 1_020_000) == names(10, 20)
    assert between(None, 1_000_001) == names(0, 1)
    assert between(1_039_000, None) == names(39, 40)
    assert between(2_000_000, None) == []
    places = [row["phys_offset"] for row in read(two_topics)]
    for first, stop in ((0, 40), (3, 12), (10, 10), (39, 40)):
        low, high = places[first], (*places, places[-1] + 1)[stop]
        assert bodies(two_topics, replace(EVERYTHING, from_offset=low, to_offset=high)) == names(first, stop)
        assert bodies(two_topics, replace(EVERYTHING, from_offset=low - 1, to_offset=high)) == names(first, stop)


def test_times_far_apart_leave_parts_unread(tmp_path: Path) -> None:
    clock = Clock(0)
    with opened(tmp_path, clock) as store:
        for number in range(100):
            clock.now_ms = 3_600_000 * number
            put_all(store, numbered(1, number))
    wanted = replace(EVERYTHING, since_ms=3_600_000 * 50, until_ms=3_600_000 * 52)
    parts = message_parts(folder(tmp_path), wanted, 500)
    assert len(parts) < 5 < len(message_parts(folder(tmp_path), EVERYTHING, 500))
    assert bodies(tmp_path, wanted) == names(50, 52)


def test_the_first_files_were_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(40))
    log_file(tmp_path, 0).unlink()
    log_file(tmp_path, 1).unlink()
    for wanted in (EVERYTHING, replace(EVERYTHING, topics=frozenset({"t"}))):
        assert bodies(tmp_path, wanted) == names(20, 40)


def test_a_file_that_vanishes_while_it_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(40))
    found = read_range(folder(tmp_path), LogRange(0, 4 * FILE))
    next(found)
    log_file(tmp_path, 2).unlink()
    with caplog.at_level(logging.WARNING):
        rest = [len(records) for _, records in found]
    assert rest == [10, 10]
    assert "was deleted while it was read" in caplog.text


def test_a_file_that_vanishes_while_queue_entries_are_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(20))
    places = np.array([row["phys_offset"] for row in read(tmp_path)])
    found = read_places(folder(tmp_path), places, np.full(20, 100))
    assert len(next(found).records) == 10
    log_file(tmp_path, 1).unlink()
    with caplog.at_level(logging.WARNING):
        assert list(found) == []
    assert f"{log_file(tmp_path, 1)} was deleted while it was read" in caplog.text


@pytest.mark.parametrize("part_bytes", [100, 1 << 20])
def test_damage_is_skipped(tmp_path: Path, part_bytes: int) -> None:
    """Two records are overwritten, the size of a third is, and the magic of a fourth."""
    with opened(tmp_path) as store:
        put_all(store, numbered(40))
    size = read(tmp_path)[0]["size"]
    with log_file(tmp_path, 1).open("r+b") as file:
        file.seek(3 * size + 20)
        file.write(b"?" * size)
    with log_file(tmp_path, 2).open("r+b") as file:
        file.write(b"\x7f\xff")
        file.seek(9 * size + 4)
        file.write(b"zero")
    expected = [name for number, name in enumerate(names(0, 40)) if number not in (13, 14, 20, 29)]
    assert bodies(tmp_path, part_bytes=part_bytes) == expected


def test_what_lies_behind_the_end_is_no_message(tmp_path: Path) -> None:
    """A record left from before a crash, behind a log that was cut and written anew."""
    store = new_store(tmp_path)
    put_all(store, numbered(5))
    drop_without_close(store)
    size = read(tmp_path)[0]["size"]
    with log_file(tmp_path).open("r+b") as file:
        old = bytearray(file.read(size))
        place = 7 * size
        at = HEADS[0].fields["phys_offset"][1]
        old[at : at + 8] = place.to_bytes(8, "big")
        file.seek(place)
        file.write(old)
    assert bodies(tmp_path) == names(0, 5)


@pytest.mark.parametrize("kept", [3, 7, 40, 91, 98])
def test_a_record_that_is_half_written_is_none(tmp_path: Path, kept: int) -> None:
    """The rest of it is still zero, as a broker that maps its files may leave it for a moment."""
    store = new_store(tmp_path)
    put_all(store, numbered(5))
    put_all(store, [message(b"12345678", properties=b"a\x01b")])
    drop_without_close(store)
    rows = read(tmp_path)
    assert len(rows) == 6
    with log_file(tmp_path).open("r+b") as file:
        file.seek(rows[-1]["phys_offset"] + kept)
        file.write(bytes(rows[-1]["size"] - kept))
    assert bodies(tmp_path) == names(0, 5)
    assert LogPlan(folder(tmp_path)).end(0) == rows[-1]["phys_offset"]


def test_what_the_queues_do_not_list_yet_is_found(tmp_path: Path) -> None:
    """Our broker keeps the last entries in memory for a while."""
    store = new_store(tmp_path)
    put_all(store, numbered(3) + numbered(3, 3, topic="u"))
    store.flush_queues()
    put_all(store, numbered(2, 6) + numbered(2, 8, topic="new"))
    (tmp_path / "abort").touch()
    try:
        assert bodies(tmp_path, replace(EVERYTHING, topics=frozenset({"t"}))) == names(0, 3) + names(6, 8)
        assert bodies(tmp_path, replace(EVERYTHING, topics=frozenset({"t", "new"}))) == (
            names(0, 3) + names(6, 8) + names(8, 10)
        )
        assert bodies(tmp_path) == names(0, 10)
    finally:
        store.close()


def test_a_record_larger_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqctl.store.scan.logreader.WINDOW", 256)
    monkeypatch.setattr("mqctl.store.scan.logreader.PROBE", 128)
    large = [message(b"%d" % number * 400) for number in range(4)]
    with opened(tmp_path, file_size=4096) as store:
        put_all(store, [*numbered(3), *large, *numbered(3, 3)])
    expected = [*names(0, 3), *(b"%d" % number * 400 for number in range(4)), *names(3, 6)]
    for part_bytes in (100, 1000, 1 << 20):
        assert bodies(tmp_path, part_bytes=part_bytes) == expected


def test_a_body_that_holds_a_record(tmp_path: Path) -> None:
    """Copies of records say that they belong elsewhere."""
    with opened(tmp_path / "first") as store:
        put_all(store, numbered(9))
    copy = log_file(tmp_path / "first").read_bytes()[:600]
    with opened(tmp_path / "second", file_size=8192) as store:
        put_all(store, [message(b"x"), *(message(copy) for _ in range(3)), message(b"y")])
    assert bodies(tmp_path / "second", part_bytes=50) == [b"x", copy, copy, copy, b"y"]


def test_stores_behind_a_uri_read_alike(two_topics: Path) -> None:
    uri = two_topics.as_uri()
    assert bodies(uri) == names(0, 40)
    assert bodies(uri, replace(EVERYTHING, topics=frozenset({"u"}))) == names(0, 40)[1::2]


def test_only_what_is_asked_for_is_made(two_topics: Path) -> None:
    wanted = Wanted(columns=("size", "phys_offset"))
    assert set(read(two_topics, wanted)[0]) == {"size", "phys_offset"}


def test_parts_are_plain_values(two_topics: Path) -> None:
    parts = message_parts(folder(two_topics), EVERYTHING, 500)
    assert pickle.loads(pickle.dumps(parts)) == parts
    assert all(isinstance(part, LogPart) for part in parts)
