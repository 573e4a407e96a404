"""Sequences of files: names, sizes, reads and writes at their edges, and disks that refuse."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.store.files import FileHandles, Segments

SIZE = 100


@pytest.fixture
def handles() -> Iterator[FileHandles]:
    handles = FileHandles(limit=8)
    yield handles
    handles.close()


@pytest.fixture
def segments(tmp_path: Path, handles: FileHandles) -> Segments:
    return Segments(tmp_path / "log", SIZE, handles)


def name(start: int) -> str:
    return f"{start:020d}"


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# -- files ----------------------------------------------------------------------------------------------


def test_a_file_is_named_by_its_offset_and_full_size(segments: Segments) -> None:
    segments.create(300)
    assert [path.name for path in segments.directory.iterdir()] == ["00000000000000000300"]
    assert (segments.directory / name(300)).stat().st_size == SIZE
    assert (segments.directory / name(300)).read_bytes() == bytes(SIZE)
    assert (segments.begin, segments.end, segments.starts) == (300, 400, [300])


def test_no_files_yet(segments: Segments) -> None:
    segments.load()
    assert (segments.begin, segments.end, segments.starts) == (0, 0, [])
    assert segments.read(0, 10) == b""
    assert not segments.directory.exists()


def test_load_finds_what_is_there(segments: Segments, handles: FileHandles) -> None:
    for start in (300, 100, 200):
        segments.write(start, b"%d" % start)
    again = Segments(segments.directory, SIZE, handles)
    again.load()
    assert again.starts == [100, 200, 300]
    assert [again.read(start, 3) for start in again.starts] == [b"100", b"200", b"300"]


@pytest.mark.parametrize("other", ["readme", "00000000000000000100.bak", "100", "0000000000000000010a", "lost+found"])
def test_other_names_are_passed_over(segments: Segments, other: str) -> None:
    segments.directory.mkdir()
    (segments.directory / other).write_bytes(b"not ours")
    segments.load()
    assert segments.starts == []


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1, 1])
def test_another_size_is_refused(segments: Segments, size: int) -> None:
    segments.create(0)
    (segments.directory / name(100)).write_bytes(bytes(size))
    with pytest.raises(StoreError, match=f"{name(100)} has {size} bytes where the configuration says 100") as caught:
        segments.load()
    assert caught.value.hint == "set the mapped file size with which this store was written"


def test_a_file_whose_creation_was_cut_short_is_taken(segments: Segments) -> None:
    """A process killed between making a file and giving it its size leaves it empty. It holds nothing, so
    it must not keep the store from opening."""
    segments.create(0)
    (segments.directory / name(100)).touch()
    segments.load()
    segments.write(100, b"fine")
    assert segments.read(100, 4) == b"fine"
    assert (segments.directory / name(100)).stat().st_size == SIZE


def test_remove(segments: Segments) -> None:
    for start in (0, 100, 200):
        segments.write(start, b"x")
    before = open_descriptors()
    segments.remove(100)
    assert open_descriptors() == before - 1
    assert segments.starts == [0, 200]
    assert not segments.has(100)
    assert segments.read(100, 1) == b""
    assert not (segments.directory / name(100)).exists()


# -- bytes ----------------------------------------------------------------------------------------------


def test_writing_creates_the_file(segments: Segments) -> None:
    segments.write(250, b"abc")
    assert segments.starts == [200]
    assert (segments.directory / name(200)).read_bytes() == bytes(50) + b"abc" + bytes(47)


def test_reads_stop_at_the_end_of_the_file(segments: Segments) -> None:
    segments.write(90, b"0123456789")
    segments.write(100, b"next")
    assert segments.read(90, 5) == b"01234"
    assert segments.read(95, 50) == b"56789"
    assert segments.read(99, 1) == b"9"
    assert segments.read(100, 4) == b"next"


@pytest.mark.parametrize("at", [-1, -100, 100, 250, 10**18])
def test_reads_where_no_file_is(segments: Segments, at: int) -> None:
    segments.create(0)
    assert segments.read(at, 10) == b""


def test_a_write_in_pieces_is_completed(segments: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take less than it is given, on a disk that is almost full for one."""
    whole = os.pwrite

    def three_at_most(descriptor: int, data: bytes, at: int) -> int:
        return whole(descriptor, bytes(data)[:3], at)

    monkeypatch.setattr(os, "pwrite", three_at_most)
    segments.write(10, b"0123456789")
    assert segments.read(10, 10) == b"0123456789"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_says_which_file(segments: Segments, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    segments.create(0)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreError, match=f"{name(0)}: {os.strerror(number)}"):
        segments.write(0, b"x")


def test_a_read_that_fails_says_which_file(segments: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    segments.create(0)

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(StoreError, match=f"{name(0)} at 7: Input/output error"):
        segments.read(7, 1)


def test_a_file_that_vanished(segments: Segments) -> None:
    segments.create(0)
    (segments.directory / name(0)).unlink()
    with pytest.raises(StoreError, match="No such file"):
        segments.read(0, 1)


def test_a_file_that_cannot_be_made_leaves_nothing_behind(
    segments: Segments, handles: FileHandles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another size would keep the store from opening the next time."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", refuse)
        with pytest.raises(StoreError, match=r"cannot create .*: File too large"):
            segments.create(0)
    assert segments.starts == []
    assert list(segments.directory.iterdir()) == []
    Segments(segments.directory, SIZE, handles).load()


def test_a_directory_that_cannot_be_made(tmp_path: Path, handles: FileHandles) -> None:
    (tmp_path / "log").write_bytes(b"a file")
    with pytest.raises(StoreError, match="cannot create"):
        Segments(tmp_path / "log", SIZE, handles).write(0, b"x")


# -- descriptors ----------------------------------------------------------------------------------------


def test_only_so_many_descriptors(tmp_path: Path) -> None:
    before = open_descriptors()
    handles = FileHandles(limit=3)
    segments = Segments(tmp_path, SIZE, handles)
    for start in range(0, 1000, SIZE):
        segments.write(start, b"%d" % start)
        assert open_descriptors() <= before + 3
    assert [segments.read(start, 3) for start in (0, 500, 900)] == [b"0\0\0", b"500", b"900"]
    assert open_descriptors() == before + 3
    handles.close()
    assert open_descriptors() == before


def test_the_least_recently_used_is_closed(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.touch()
    handles = FileHandles(limit=2)
    a, b = handles.get(paths[0]), handles.get(paths[1])
    assert handles.get(paths[0]) == a
    handles.get(paths[2])
    os.fstat(a)
    assert handles.get(paths[0]) == a
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(b)
    handles.close()


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    handles = FileHandles(limit=2)
    (tmp_path / "a").touch()
    assert not os.get_inheritable(handles.get(tmp_path / "a"))
    handles.close()
