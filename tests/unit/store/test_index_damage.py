"""The key index among damaged files, full disks, kills, and a log that is cut at either end."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import (
    BEGIN,
    FOREVER,
    SMALL,
    Message,
    PlainFiles,
    add_all,
    contents,
    drop_without_close,
    files,
    find,
    finds_all,
    messages,
    opened,
)

from mqctl.errors import StoreError
from mqctl.store import indexfile
from mqctl.store.indexfile import Geometry

# -- damage -------------------------------------------------------------------------------------------------


def filled(directory: Path, count: int = 20) -> list[Message]:
    index = opened(directory)
    known = messages(count, keys=("shared",))
    add_all(index, known)
    index.close()
    return known


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize(
    ("position", "data", "reason"),
    [
        (36, pack(">i", 10), "next entry 10 is not within 1 and 9"),
        (36, pack(">i", -1), "next entry -1"),
        (16, pack(">q", 1 << 40), "are no range"),
        (16, pack(">q", -1), "are no range"),
        (0, pack(">q", -1), "a negative number"),
        (32, pack(">i", -1), "a negative number"),
    ],
)
def test_a_file_with_an_impossible_header_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, position: int, data: bytes, reason: str
) -> None:
    filled(tmp_path)
    victim = files(tmp_path)[1]
    overwrite(victim, position, data)
    before = victim.read_bytes()
    index = opened(tmp_path)
    assert victim.with_name(victim.name + ".bad").read_bytes() == before
    assert reason in caplog.text
    assert victim not in files(tmp_path)
    index.close()


@pytest.mark.parametrize("size", [0, 39, 40, 100, SMALL.file_size - 1, SMALL.file_size + 1])
def test_a_file_of_another_size_is_set_aside(tmp_path: Path, size: int) -> None:
    known = filled(tmp_path)
    last = files(tmp_path)[-1]
    os.truncate(last, size)
    last.with_name(last.name + ".bad").write_bytes(b"an older one")
    index = opened(tmp_path)
    assert last.with_name(last.name + ".bad2").stat().st_size == size
    assert last.with_name(last.name + ".bad").read_bytes() == b"an older one"
    add_all(index, [m for m in known if m.phys_offset >= index.last_indexed_offset])
    assert finds_all(index, known)
    index.close()


def test_other_things_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "20240101000000000").mkdir()
    index = opened(tmp_path)
    index.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20240101000000000", "notes.txt"]


def test_a_new_file_of_java_counts_as_empty(tmp_path: Path) -> None:
    """Its next entry number is 0 in the file until there is an entry."""
    path = tmp_path / "20240101000000000"
    path.write_bytes(pack(">qqqqii", BEGIN, BEGIN, 500, 500, 0, 0) + bytes(SMALL.file_size - 40))
    index = opened(tmp_path)
    assert index.last_indexed_offset == 500
    add_all(index, messages(3, start=6))
    assert finds_all(index, messages(3, start=6))
    index.close()
    assert files(tmp_path) == [path]


def test_links_in_a_circle_end_a_lookup(tmp_path: Path) -> None:
    index = opened(tmp_path)
    add_all(index, [Message(number, BEGIN, "t", ("k",)) for number in range(8)])
    index.close()
    for number, previous in ((1, 8), (4, 6)):
        overwrite(files(tmp_path)[0], SMALL.entry_at(number) + 16, pack(">i", previous))
    index = opened(tmp_path)
    assert index.query("t", "k", 64, 0, FOREVER) == [3, 4, 5, 6, 7]
    index.close()


def test_a_lookup_does_not_follow_a_chain_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(indexfile, "MAX_CHAIN", 3)
    index = opened(tmp_path)
    add_all(index, [Message(number, BEGIN, "t", ("k",)) for number in range(8)])
    index.settle()
    assert index.query("t", "k", 64, 0, FOREVER) == [5, 6, 7]
    assert "more than 3 entries" in caplog.text
    index.close()


def test_an_empty_file_left_by_a_crash_becomes_like_new(tmp_path: Path) -> None:
    """Half a header, a slot, an entry: whatever reached it of a batch that was never whole."""
    known = filled(tmp_path, 4)
    path = tmp_path / "99990101000000000"
    path.write_bytes(pack(">qqqqii", BEGIN, BEGIN, 7, 1 << 40, 3, 0) + b"\1" * (SMALL.file_size - 40))
    index = opened(tmp_path, was_clean=False, flushed_timestamp=BEGIN + 3000)
    assert index.last_indexed_offset == 300
    assert path.read_bytes()[:60] == pack(">qqqqii", BEGIN + 3000, BEGIN + 3000, 300, 300, 0, 1) + bytes(20)
    add_all(index, messages(5, start=4))
    assert finds_all(index, known + messages(5, start=4))
    index.close()


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, SMALL.file_size - 4), st.binary(min_size=1, max_size=4)), max_size=6),
    st.booleans(),
)
def test_no_damage_breaks_a_lookup(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, bytes]], was_clean: bool
) -> None:
    directory = tmp_path_factory.mktemp("index")
    known = filled(directory, 6)
    for position, data in damage:
        overwrite(files(directory)[position % 2], position, data)
    index = opened(directory, was_clean=was_clean)
    for key in ("shared", "k0", "k5"):
        find(index, known, "t", key)
    more = messages(20, start=10)
    add_all(index, [m._replace(phys_offset=m.phys_offset + (1 << 41)) for m in more])
    index.settle()
    index.close()


def test_after_an_unclean_stop_lost_pages_are_found_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A loss of power can keep a header and lose entries and slots."""
    known = filled(tmp_path)
    second = files(tmp_path)[1]
    overwrite(second, SMALL.entry_at(4), bytes(20))
    overwrite(second, SMALL.slot_at(0), bytes(4 * SMALL.hash_slots))
    index = opened(tmp_path, was_clean=False)
    assert "5 of 8 entries cut" in caplog.text
    assert second == files(tmp_path)[-1], "what came after it is set aside, for the gap to be filled"
    add_all(index, [m for m in known if m.phys_offset >= index.last_indexed_offset])
    assert finds_all(index, known)
    index.close()


def test_an_unsound_file_is_kept_as_it_was(tmp_path: Path) -> None:
    known = filled(tmp_path)
    first = files(tmp_path)[0]
    overwrite(first, SMALL.entry_at(1), b"\xff" * 20)
    before = first.read_bytes()
    index = opened(tmp_path, was_clean=False)
    assert first.with_name(first.name + ".bad").read_bytes() == before
    assert index.last_indexed_offset == 0
    add_all(index, known)
    assert finds_all(index, known)
    index.close()


def test_files_that_were_flushed_are_not_checked_again(tmp_path: Path) -> None:
    filled(tmp_path)
    overwrite(files(tmp_path)[0], SMALL.entry_at(1), b"\xff" * 20)
    index = opened(tmp_path, was_clean=False, flushed_timestamp=BEGIN + 5000)
    assert len(files(tmp_path)) == 5
    index.close()


def test_a_sound_file_is_not_written_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    monkeypatch.setattr(os, "pwrite", refuse)
    index = opened(tmp_path, was_clean=False)
    monkeypatch.undo()
    index.close()


# -- a disk that refuses ------------------------------------------------------------------------------------


def refuse(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refuse_after(calls: int) -> Callable[..., int]:
    """Writes half of what it is asked for in each of the calls it lets pass, and then nothing."""
    left = [calls]
    real = os.pwrite

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        if left[0] == 0:
            return refuse()
        left[0] -= 1
        return real(descriptor, memoryview(data)[: (len(data) + 1) // 2], position)

    return pwrite


@pytest.mark.parametrize("calls", range(60))
def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Wherever the writing stops: all is found, and in the end the bytes are as if nothing had happened."""
    geometry = Geometry(20_000, 9)  # several groups of slots
    known = messages(12, keys=("shared",))
    plain = PlainFiles(geometry)
    for message in known + messages(3, start=12):
        plain.add(message)
    index = opened(tmp_path, geometry, tail_keys=5)
    add_all(index, known)
    monkeypatch.setattr(os, "pwrite", refuse_after(calls))
    try:
        index.settle()
    except StoreError as error:
        assert "No space left" in str(error)
    assert finds_all(index, known)
    more = messages(3, start=12)
    add_all(index, more)
    assert finds_all(index, known + more)
    monkeypatch.undo()
    index.close()
    assert contents(tmp_path) == plain.contents


@pytest.mark.parametrize("calls", range(0, 60, 3))
def test_a_kill_at_any_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    geometry = Geometry(20_000, 9)
    known = messages(12, keys=("shared",))
    index = opened(tmp_path, geometry, tail_keys=5)
    add_all(index, known)
    monkeypatch.setattr(os, "pwrite", refuse_after(calls))
    with suppress(StoreError):
        index.settle()
    monkeypatch.undo()
    drop_without_close(index)
    index = opened(tmp_path, geometry, was_clean=False)
    add_all(index, [m for m in known if m.phys_offset >= index.last_indexed_offset])
    assert finds_all(index, known)
    index.close()


def test_a_file_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = opened(tmp_path)
    add_all(index, messages(2))
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(StoreError, match="cannot create"):
        index.drain()
    assert files(tmp_path) == []
    assert index.query("t", "k1", 9, 0, FOREVER) == [100]
    monkeypatch.undo()
    index.close()
    assert len(files(tmp_path)) == 1


def test_close_says_when_something_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = opened(tmp_path)
    add_all(index, messages(2))
    index.drain()
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreError):
        index.close()


def test_a_disk_that_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    index = opened(tmp_path)
    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(StoreError, match="cannot read"):
        index.query("t", "k1", 9, 0, FOREVER)
    monkeypatch.undo()
    index.close()


# -- in step with the log -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", range(0, 2100, 50))
def test_truncated_entries_are_gone_and_the_bytes_are_those_of_a_shorter_history(tmp_path: Path, end: int) -> None:
    known = filled(tmp_path)
    index = opened(tmp_path)
    index.truncate_after(end)
    kept = [m for m in known if m.phys_offset < end]
    assert finds_all(index, kept)
    assert all(offset < end for offset in index.query("t", "shared", 64, 0, FOREVER))
    index.close()
    plain = PlainFiles(SMALL)
    for message in kept:
        plain.add(message)
    headers_end = 40
    assert [data[headers_end : SMALL.entry_at(0)] for data in contents(tmp_path)] == [
        data[headers_end : SMALL.entry_at(0)] for data in plain.contents
    ]
    assert [data[:40] for data in contents(tmp_path)] == [data[:40] for data in plain.contents]


def test_truncate_forgets_what_is_pending_too(tmp_path: Path) -> None:
    index = opened(tmp_path)
    add_all(index, messages(6))
    index.truncate_after(300)
    assert index.query("t", "k3", 9, 0, FOREVER) == []
    assert index.query("t", "k2", 9, 0, FOREVER) == [200]
    index.add(300, BEGIN + 9000, "t", ["again"])
    assert index.query("t", "again", 9, 0, FOREVER) == [300]
    index.close()


def test_files_before_the_log_are_deleted_but_never_the_last(tmp_path: Path) -> None:
    filled(tmp_path)
    index = opened(tmp_path)
    first, second, *rest = files(tmp_path)
    assert index.remove_before(300) == 0, "the first file ends at 300, whose message is still there"
    assert index.remove_before(301) == 1
    assert files(tmp_path) == [second, *rest]
    later: list[Path] = []
    assert index.remove_before(1 << 40, later.append) == 3
    assert later == [second, *rest[:-1]]
    assert index.query("t", "k19", 9, 0, FOREVER) == [1900]
    index.close()
    assert not first.exists()


def test_flush_tells_the_checkpoint_of_full_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = opened(tmp_path)
    add_all(index, messages(7))
    index.settle()
    index.flush()
    assert index.flushed_timestamp == 0
    add_all(index, messages(2, start=7))
    index.settle()
    assert index.flushed_timestamp == 0
    index.flush()
    assert index.flushed_timestamp == BEGIN + 7000
    monkeypatch.setattr(os, "fdatasync", refuse)
    index.flush()  # nothing was written since
    add_all(index, messages(8, start=9))
    index.settle()
    with pytest.raises(StoreError, match="cannot sync"):
        index.flush()
    monkeypatch.undo()
    index.flush()
    assert index.flushed_timestamp == BEGIN + 15000
    index.close()


def test_flush_from_another_thread_while_files_come_and_go(tmp_path: Path) -> None:
    index = opened(tmp_path, tail_keys=3)
    stop = threading.Event()
    failures: list[BaseException] = []

    def flush() -> None:
        while not stop.is_set():
            try:
                index.flush()
            except BaseException as error:
                failures.append(error)

    thread = threading.Thread(target=flush)
    thread.start()
    for start in range(0, 200, 4):
        add_all(index, messages(4, start=start))
        index.settle()
        index.remove_before(100 * start - 1500)
    stop.set()
    thread.join(30)
    index.close()
    assert not failures
