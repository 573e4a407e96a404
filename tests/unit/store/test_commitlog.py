"""The commit log: places, visibility, the change to the next file, and writes that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.commitlog import CommitLog

SIZE = 500
HOST = record.pack_host("127.0.0.1", 10911)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = CommitLog(tmp_path / "commitlog", SIZE)
    log.open_at(0)
    yield log
    log._handles.close()


def a_record(log: CommitLog, size: int = 100, store_timestamp: int = 5) -> bytes:
    """A record of `size` bytes at the place where the log will put it."""
    place = log.place(size)
    body = bytes(size - 92)
    return record.encode(size, b"t", 0, 0, place, 0, 0, 1, HOST, store_timestamp, HOST, 0, 0, body, b"")


def append(log: CommitLog, size: int = 100) -> int:
    data = a_record(log, size)
    log.append(data)
    return log.next_offset - len(data)


def file_bytes(log: CommitLog, start: int) -> bytes:
    return (log.segments.directory / f"{start:020d}").read_bytes()


def test_records_lie_side_by_side(log: CommitLog) -> None:
    assert [append(log, 100), append(log, 120), append(log, 95)] == [0, 100, 220]
    assert log.write() == 315
    assert (log.begin, log.end, log.next_offset) == (0, 315, 315)


def test_nothing_is_there_before_it_is_written(log: CommitLog) -> None:
    append(log)
    assert (log.end, log.next_offset) == (0, 100)
    assert log.read(0, 100) is None
    assert log.read_record(0) is None
    log.write()
    assert log.read(0, 100) is not None
    assert log.read_record(0) == log.read(0, 100)
    append(log)
    assert log.read(100, 100) is None
    assert log.read(50, 100) is None


def test_writing_nothing(log: CommitLog) -> None:
    assert log.write() == 0
    assert log.segments.starts == []


# -- the change to the next file ------------------------------------------------------------------------


def test_a_record_that_leaves_room_for_a_blank_fits(log: CommitLog) -> None:
    assert [append(log, 392), append(log, 100)] == [0, 392]
    log.write()
    assert log.segments.starts == [0]


def test_one_byte_more_does_not_fit(log: CommitLog) -> None:
    """The blank says how much is left of the file, as Java writes it; the record opens the next file."""
    append(log, 393)
    second = append(log, 100)
    log.write()
    assert second == 500
    assert log.segments.starts == [0, 500]
    assert file_bytes(log, 0)[393:] == bytes.fromhex("0000006b cbd43194") + bytes(99)
    assert file_bytes(log, 500)[:8] == bytes.fromhex("00000064 daa320a7")
    assert log.end == 600


def test_a_blank_of_exactly_its_own_size(log: CommitLog) -> None:
    append(log, 492)
    assert append(log, 100) == 500
    log.write()
    assert file_bytes(log, 0)[492:] == bytes.fromhex("00000008 cbd43194")


def test_several_files_in_one_write(log: CommitLog) -> None:
    places = [append(log, 300) for _ in range(5)]
    assert places == [0, 500, 1000, 1500, 2000]
    log.write()
    for place in places:
        assert len(log.read_record(place) or b"") == 300
    assert [file_bytes(log, start)[300:308].hex() for start in (0, 500, 1000, 1500)] == ["000000c8cbd43194"] * 4
    assert log.end == 2300


def test_asking_twice_for_a_place_rolls_once(log: CommitLog) -> None:
    append(log, 450)
    assert log.place(100) == 500
    assert log.place(100) == 500
    assert append(log, 100) == 500
    log.write()
    assert log.end == 600


@pytest.mark.parametrize("size", [493, 501, 10_000])
def test_a_record_too_large_for_any_file(log: CommitLog, size: int) -> None:
    append(log, 100)
    with pytest.raises(StoreError, match=f"a record of {size} bytes does not fit into a file of 500"):
        log.place(size)
    assert append(log, 100) == 100
    log.write()
    assert log.end == 200


def test_the_largest_record(log: CommitLog) -> None:
    append(log, 100)
    assert append(log, 492) == 500
    log.write()
    assert len(log.read_record(500) or b"") == 492


def test_the_next_file_is_made_ahead(log: CommitLog) -> None:
    append(log)
    log.write()
    log.prepare_next_file()
    assert log.segments.starts == [0, 500]
    log.prepare_next_file()
    assert log.segments.starts == [0, 500]
    log.close()
    assert log.segments.starts == [0]


def test_a_file_in_use_survives_closing(log: CommitLog) -> None:
    for _ in range(6):
        append(log)
    log.write()
    log.prepare_next_file()
    log.close()
    assert log.segments.starts == [0, 500]


# -- writes that fail -----------------------------------------------------------------------------------


def test_a_failed_write_gives_the_places_back(log: CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log)
    log.write()
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", _refuse)
        append(log)
        append(log)
        with pytest.raises(StoreError, match="No space left"):
            log.write()
    assert (log.end, log.next_offset) == (100, 100)
    assert append(log, 95) == 100
    assert log.write() == 95
    assert len(log.read_record(100) or b"") == 95
    assert log.read_record(200) is None


def test_a_write_that_fails_in_its_second_file(log: CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, 300)
    log.write()
    calls = iter([True, False])
    whole = os.pwrite

    def second_fails(descriptor: int, data: bytes, at: int) -> int:
        return whole(descriptor, data, at) if next(calls) else _refuse()

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", second_fails)
        append(log, 100)
        assert append(log, 200) == 500
        with pytest.raises(StoreError):
            log.write()
    assert (log.end, log.next_offset) == (300, 300)
    assert append(log, 150) == 300
    assert append(log, 200) == 500
    log.write()
    assert len(log.read_record(300) or b"") == 150
    assert len(log.read_record(500) or b"") == 200
    assert file_bytes(log, 0)[450:458] == bytes.fromhex("00000032 cbd43194")


def _refuse(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# -- reading by offset ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [-1, -(2**62), 1, 99, 101, 150, 300, 499, 500, 2**62])
def test_no_record_begins_there(log: CommitLog, place: int) -> None:
    append(log)
    append(log)
    log.write()
    assert log.read_record(place) is None


def test_bytes_inside_a_body_are_not_believed(log: CommitLog) -> None:
    """A peer may ask for any offset: a body that looks like a record must not be served as one."""
    inner = record.encode(100, b"t", 0, 0, 0, 0, 0, 1, HOST, 5, HOST, 0, 0, bytes(8), b"")
    place = log.place(200)
    log.append(record.encode(200, b"t", 0, 0, place, 0, 0, 1, HOST, 5, HOST, 0, 0, inner + bytes(8), b""))
    log.write()
    assert log.read_record(0) is not None
    assert log.read_record(88) is None


def test_a_record_that_claims_more_than_there_is(log: CommitLog) -> None:
    append(log)
    log.write()
    log.segments.write(0, (101).to_bytes(4, "big"))
    assert log.read_record(0) is None


def test_the_blank_is_not_a_record(log: CommitLog) -> None:
    append(log, 393)
    append(log, 100)
    log.write()
    assert log.read_record(393) is None
    assert log.store_timestamp(393) is None


def test_store_timestamps(log: CommitLog) -> None:
    log.append(a_record(log, 100, store_timestamp=1234))
    log.write()
    assert log.store_timestamp(0) == 1234
    assert log.store_timestamp(1) is None
    assert log.store_timestamp(100) is None
