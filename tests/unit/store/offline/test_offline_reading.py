"""Reading stores from outside: whole, cut, empty, in use, and with nothing changed by it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from mqctl.errors import NotFound, StoreError
from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, LOST_SIZE
from mqctl.store.offline import logscan
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.offline.queuefiles import usage, usage_by_tag
from mqctl.store.offline.search import Query, search
from tests.unit.store.stores import Clock, files_below, message, new_store, numbered, opened, put_all


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three log files, two topics; queue 0 of t has 15 messages, in two files."""
    clock = Clock()
    with opened(tmp_path / "store", clock) as store:
        put_all(store, numbered(15))
        clock.now_ms = 2_000_000
        put_all(store, numbered(3, topic="u", queue_id=2, tags="paid"))
        put_all(store, numbered(2, start=90, topic="u", queue_id=2))
    return tmp_path / "store"


def no_damage(start: int, end: int, what: str) -> None:
    raise AssertionError(f"{start} to {end}: {what}")


def scanned(root: Path, damages: list[int] | None = None) -> list[bytes]:
    """The bodies of all records."""

    def on_damage(start: int, end: int, what: str) -> None:
        assert damages is not None, (start, what)
        damages.append(start)

    return [raw.buffer[raw.body_at : raw.body_at + raw.fields[-1]] for raw in StoreFolder(root).scan(on_damage)]


def places(root: Path) -> list[int]:
    return [raw.fields[6] for raw in StoreFolder(root).scan(no_damage)]


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


# -- what there is --------------------------------------------------------------------------------------


def test_info(root: Path) -> None:
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text("{}")
    info = StoreFolder(root).info()
    last = places(root)[-1]
    assert (info.log_files, info.log_file_size, info.log_begin, info.size_bytes) == (3, 1024, 0, 3 * 1024)
    assert info.log_end == last + StoreFolder(root).record_at(last).size
    assert (info.first_store_timestamp, info.last_store_timestamp) == (1_000_000, 2_000_000)
    assert (info.clean, info.topics, info.queues, info.messages) == (True, 2, 2, 20)
    assert info.config_files == ["topics.json"]
    assert info.disk_bytes > 0


def test_places_of_lost_messages_hold_nothing(root: Path) -> None:
    """Recovery marks them with a size that no message has."""
    before = usage(StoreFolder(root).queues[0])
    path = root / "consumequeue/t/0" / f"{0:020d}"
    entry = ENTRY.unpack(path.read_bytes()[ENTRY.size : 2 * ENTRY.size])
    overwrite(path, ENTRY.size, ENTRY.pack(entry[0], LOST_SIZE, 0))
    store = StoreFolder(root)
    assert usage(store.queues[0]) == (before.messages - 1, before.size_bytes - entry[1])
    assert usage_by_tag(store.queues[0])[0] == usage(store.queues[0])
    assert list(store.messages(store.queues[0], 1, 2)) == ["t/0@1: the message is lost"]


def test_info_without_queues_finds_the_end_in_the_log(root: Path) -> None:
    before = StoreFolder(root).info()
    shutil.rmtree(root / "consumequeue")
    info = StoreFolder(root).info()
    assert (info.log_end, info.last_store_timestamp) == (before.log_end, before.last_store_timestamp)
    assert (info.queues, info.messages) == (0, 0)


def test_queues(root: Path) -> None:
    queues = StoreFolder(root).queues
    assert [(q.topic, q.queue_id, q.min_offset, q.max_offset) for q in queues] == [("t", 0, 0, 15), ("u", 2, 0, 5)]


def test_min_offset_follows_the_log(root: Path) -> None:
    log_file(root).unlink()
    queue = StoreFolder(root).queues[0]
    first = next(iter(StoreFolder(root).scan(no_damage)))
    assert queue.min_offset == first.fields[5] > 0


def test_messages_of_a_queue(root: Path) -> None:
    store = StoreFolder(root)
    found = list(store.messages(store.queues[0], 8, 12))
    assert [each.body for each in found if isinstance(each, record.Record)] == [b"%08d" % n for n in range(8, 12)]
    assert list(store.messages(store.queues[0], 15, 20)) == []


def test_an_entry_that_leads_nowhere_is_told(root: Path) -> None:
    place = StoreFolder(root).queues[0].entry(1)
    assert place is not None
    overwrite(log_file(root), place[0] + 4, b"\0\0\0\0")
    store = StoreFolder(root)
    found = list(store.messages(store.queues[0], 0, 3))
    assert [isinstance(each, str) for each in found] == [False, True, False]
    assert found[1] == f"t/0@1: no record at log offset {place[0]}"


def test_usage(root: Path) -> None:
    queue = StoreFolder(root).queues[1]
    sizes = [size for _, size, _ in queue.entries(0, 5)]
    assert usage(queue) == (5, sum(sizes))
    by_tag = usage_by_tag(queue)
    assert {code: used.messages for code, used in by_tag.items()} == {3433164: 3, 0: 2}  # "paid".hashCode()
    assert sum(used.size_bytes for used in by_tag.values()) == sum(sizes)


def test_ipv6_hosts(tmp_path: Path) -> None:
    born = record.pack_host("2001:db8::1", 5)
    with opened(tmp_path / "s") as store:
        put_all(store, [message(b"six", born_host=born), message(b"four")])
    assert scanned(tmp_path / "s") == [b"six", b"four"]


# -- the scan -------------------------------------------------------------------------------------------


def test_scan_of_a_whole_log(root: Path) -> None:
    bodies = [b"%08d" % n for n in (*range(15), 0, 1, 2, 90, 91)]
    assert scanned(root) == bodies


@pytest.mark.parametrize("chunk", [100, 128, 300, 1024])
def test_scan_in_small_pieces(root: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    whole = scanned(root)
    monkeypatch.setattr(logscan, "CHUNK", chunk)
    assert scanned(root) == whole


@pytest.mark.parametrize("at", [0, 4, 31, 87, 99], ids=["size", "magic", "offset", "body length", "topic length"])
def test_one_broken_record_costs_one_record(root: Path, at: int) -> None:
    whole, third = scanned(root), places(root)[3]
    overwrite(log_file(root), third + at, b"\x7f")
    damages: list[int] = []
    assert scanned(root, damages) == whole[:3] + whole[4:]
    assert damages == [third]


def test_zeros_in_the_middle(root: Path) -> None:
    whole, begins = scanned(root), places(root)
    overwrite(log_file(root), begins[2], bytes(begins[5] - begins[2]))
    damages: list[int] = []
    assert scanned(root, damages) == whole[:2] + whole[5:]
    assert damages == [begins[2]]


def test_a_file_that_ends_in_zeros_before_another(root: Path) -> None:
    whole, begins = scanned(root), places(root)
    overwrite(log_file(root), begins[2], bytes(1024 - begins[2]))
    damages: list[int] = []
    later = sum(place < 1024 for place in begins)
    assert scanned(root, damages) == whole[:2] + whole[later:]
    assert damages == [begins[2]]


@pytest.mark.parametrize("keep", [1, 8, 50, 96])
def test_a_record_cut_at_the_end(root: Path, keep: int) -> None:
    whole, last = scanned(root), places(root)[-1]
    overwrite(log_file(root, 2048), last - 2048 + keep, bytes(2048 + 1024 - last - keep))
    damages: list[int] = []
    assert scanned(root, damages) == whole[:-1]
    assert len(damages) == (0 if keep == 1 else 1)  # the first byte of a size is zero


def test_the_file_made_ahead_is_no_damage(root: Path) -> None:
    whole = scanned(root)
    log_file(root, 3072).write_bytes(bytes(1024))
    assert scanned(root) == whole
    log_file(root, 3072).write_bytes(b"")
    assert scanned(root) == whole


def test_a_file_deleted_meanwhile_is_passed_over(root: Path) -> None:
    whole, begins = scanned(root), places(root)
    store = StoreFolder(root)
    log_file(root).unlink()
    left = [raw.fields[6] for raw in store.scan(no_damage)]
    assert left == [place for place in begins if place >= 1024]
    assert len(left) < len(whole)


# -- searching ------------------------------------------------------------------------------------------


def found(root: Path, query: Query) -> list[bytes]:
    return [each.body for each in search(StoreFolder(root), query, lambda each: each.body, no_damage)]


def test_search(tmp_path: Path) -> None:
    clock = Clock(1_000)
    with opened(tmp_path / "s", clock) as store:
        for number in range(30):
            clock.now_ms = 1_000 + number
            text = f"KEYS\x01k{number} all\x02UNIQ_KEY\x01u{number}\x02parity\x01{number % 2}".encode()
            put_all(store, [message(b"body %d" % number, topic="t" if number < 20 else "tt", properties=text)])
    root = tmp_path / "s"
    assert found(root, Query(key="k7")) == [b"body 7"]
    assert found(root, Query(key="u7")) == [b"body 7"]
    assert found(root, Query(key="k")) == []
    assert len(found(root, Query(key="all"))) == 30
    assert len(found(root, Query(topic="t"))) == 20
    assert len(found(root, Query(topic="t", properties=[("parity", "1")]))) == 10
    assert found(root, Query(body=re.compile(rb"y 2[12]$"))) == [b"body 21", b"body 22"]
    assert found(root, Query(since=1_025, until=1_027)) == [b"body 25", b"body 26"]
    assert len(found(root, Query(since=5_000))) == 0
    assert len(found(root, Query(since=0))) == 30


def test_search_starts_at_the_right_file(root: Path) -> None:
    store = StoreFolder(root)
    assert store.file_from(0) == 0
    assert store.file_from(1_000_000) == 0
    assert store.file_from(2_000_000) == 1024
    assert store.file_from(9_000_000) == 2048


# -- folders of all kinds -------------------------------------------------------------------------------


def test_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(NotFound):
            StoreFolder(path)


def test_a_store_without_messages(tmp_path: Path) -> None:
    with opened(tmp_path / "s"):
        pass
    info = StoreFolder(tmp_path / "s").info()
    assert (info.log_files, info.log_end, info.messages, info.first_store_timestamp) == (0, 0, 0, None)
    assert scanned(tmp_path / "s") == []


def test_foreign_files_are_passed_over(root: Path) -> None:
    (root / "commitlog" / "notes.txt").write_text("x")
    (root / "consumequeue" / "t" / "old").mkdir()
    (root / "consumequeue" / "stray").write_text("x")
    assert len(StoreFolder(root).queues) == 2
    assert len(scanned(root)) == 20


def test_what_cannot_be_read_is_an_error_of_ours(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> bytes:
        raise OSError(5, "Input/output error")

    store = StoreFolder(root)
    monkeypatch.setattr("os.pread", refuse)
    with pytest.raises(StoreError, match=r"cannot read .*: Input/output error"):
        store.log.read(0, 8)


def test_beside_an_open_store(tmp_path: Path) -> None:
    """It is read as far as it is written, nothing is changed, and the store goes on."""
    store = new_store(tmp_path / "s")
    try:
        put_all(store, numbered(12))
        before = files_below(tmp_path / "s")
        folder = StoreFolder(tmp_path / "s")
        scan = iter(folder.scan(no_damage))
        next(scan)
        info = folder.info()
        assert not info.clean
        assert info.log_end == store.log.end
        put_all(store, numbered(1, start=12))
        store.flush_queues()
        assert files_below(tmp_path / "s")[: len(before)]
        assert len(list(scan)) >= 11
        assert StoreFolder(tmp_path / "s").queues[0].max_offset == 13
        put_all(store, numbered(1, start=13))
    finally:
        store.close()


def test_nothing_is_opened_for_writing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    real = os.open

    def watched(path: Path, flags: int, *args: int) -> int:
        assert flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) == 0
        return real(path, flags, *args)

    monkeypatch.setattr("os.open", watched)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    store = StoreFolder(root)
    store.info()
    assert len(scanned(root)) == 20
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
