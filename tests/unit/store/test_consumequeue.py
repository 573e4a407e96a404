"""Consume queues: entries in memory and in files, across every boundary, against a plain list."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mqctl.errors import StoreError
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, TAIL_ENTRIES, ConsumeQueue
from mqctl.store.files import FileHandles

PER_FILE = 10


@pytest.fixture
def handles() -> Iterator[FileHandles]:
    handles = FileHandles(limit=4)
    yield handles
    handles.close()


@pytest.fixture
def queue(tmp_path: Path, handles: FileHandles) -> ConsumeQueue:
    return ConsumeQueue(tmp_path, "t", 3, PER_FILE * ENTRY_SIZE, handles)


def reopened(queue: ConsumeQueue, handles: FileHandles, log_begin: int = 0) -> ConsumeQueue:
    root = queue._segments.directory.parents[1]
    again = ConsumeQueue(root, queue.topic, queue.queue_id, PER_FILE * ENTRY_SIZE, handles)
    again.load(log_begin)
    return again


def entry(number: int) -> tuple[int, int, int]:
    return number * 100, 100, -number


def fill(queue: ConsumeQueue, count: int) -> None:
    for _ in range(count):
        queue.append(*entry(queue.max_offset))


def contents(queue: ConsumeQueue) -> list[int]:
    """The numbers of the entries, read as a consumer does: whatever one read gives, then on from there."""
    found: list[int] = []
    queue_offset = queue.min_offset
    while data := queue.read(queue_offset, 1000):
        found += [phys_offset // 100 for phys_offset, _, _ in ENTRY.iter_unpack(data)]
        queue_offset += len(data) // ENTRY_SIZE
    return found


def files(queue: ConsumeQueue) -> list[int]:
    return sorted(int(path.name) // ENTRY_SIZE for path in queue._segments.directory.iterdir())


# -- writing and reading --------------------------------------------------------------------------------


def test_an_entry_as_java_writes_it(queue: ConsumeQueue) -> None:
    queue.append(0, 182, 2598919)
    assert queue.read(0, 1) == bytes.fromhex("0000000000000000 000000b6 000000000027a807")
    queue.flush()
    assert queue.read(0, 1) == bytes.fromhex("0000000000000000 000000b6 000000000027a807")


def test_a_negative_hash_is_sign_extended(queue: ConsumeQueue) -> None:
    queue.append(182, 100, -1797403609)
    assert queue.read(0, 1) == bytes.fromhex("00000000000000b6 00000064 ffffffff94ddcc27")
    assert queue.entry(0) == (182, 100, -1797403609)


def test_an_empty_queue(queue: ConsumeQueue) -> None:
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, 0, 0)
    assert queue.read(0, 10) == b""
    assert queue.entry(0) is None
    assert queue.end_of_log() == 0
    assert not queue.is_dirty
    queue.flush()
    assert not queue._segments.directory.exists()


def test_where_the_files_are(queue: ConsumeQueue, tmp_path: Path) -> None:
    fill(queue, 11)
    queue.flush()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "t/3/00000000000000000000",
        "t/3/00000000000000000200",
    ]


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25, 30])
def test_the_same_before_and_after_a_flush(queue: ConsumeQueue, count: int) -> None:
    fill(queue, count)
    assert contents(queue) == list(range(count))
    assert queue.is_dirty
    queue.flush()
    assert not queue.is_dirty
    assert contents(queue) == list(range(count))
    assert [queue.entry(number) for number in range(count)] == [entry(number) for number in range(count)]


def test_half_in_the_file_half_in_memory(queue: ConsumeQueue) -> None:
    fill(queue, 5)
    queue.flush()
    fill(queue, 4)
    assert contents(queue) == list(range(9))
    assert len(queue.read(3, 100)) == 2 * ENTRY_SIZE  # up to the boundary
    assert len(queue.read(5, 100)) == 4 * ENTRY_SIZE


def test_a_read_ends_with_its_file(queue: ConsumeQueue) -> None:
    fill(queue, 25)
    queue.flush()
    assert len(queue.read(7, 100)) == 3 * ENTRY_SIZE
    assert len(queue.read(10, 100)) == 10 * ENTRY_SIZE
    assert len(queue.read(20, 2)) == 2 * ENTRY_SIZE


@pytest.mark.parametrize("queue_offset", [-1, -10, 25, 26, 10**12])
def test_outside(queue: ConsumeQueue, queue_offset: int) -> None:
    fill(queue, 25)
    assert queue.entry(queue_offset) is None
    queue.flush()
    assert queue.entry(queue_offset) is None


def test_when_the_tail_wants_to_the_file(queue: ConsumeQueue) -> None:
    fill(queue, TAIL_ENTRIES - 1)
    assert not queue.wants_flush
    fill(queue, 1)
    assert queue.wants_flush


def test_the_next_file(queue: ConsumeQueue) -> None:
    assert [queue.next_file_offset(at) for at in (0, 9, 10, 19, 25)] == [10, 10, 20, 20, 30]


def test_where_the_last_record_ends(queue: ConsumeQueue) -> None:
    fill(queue, 12)
    assert queue.end_of_log() == 1200
    queue.flush()
    assert queue.end_of_log() == 1200


def test_a_flush_that_fails_loses_nothing(queue: ConsumeQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(queue, 25)
    calls = 0
    whole = os.pwrite

    def second_fails(descriptor: int, data: bytes, at: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", second_fails)
    with pytest.raises(StoreError):
        queue.flush()
    assert queue.is_dirty
    assert contents(queue) == list(range(25))
    queue.flush()
    assert contents(queue) == list(range(25))


# -- loading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 29, 30])
def test_reopened(queue: ConsumeQueue, handles: FileHandles, count: int) -> None:
    fill(queue, count)
    queue.flush()
    again = reopened(queue, handles)
    assert (again.min_offset, again.max_offset, again.next_offset) == (0, count, count)
    assert contents(again) == list(range(count))
    fill(again, 3)
    assert contents(again) == list(range(count + 3))


def test_what_was_not_flushed_is_gone(queue: ConsumeQueue, handles: FileHandles) -> None:
    fill(queue, 5)
    queue.flush()
    fill(queue, 5)
    assert contents(reopened(queue, handles)) == list(range(5))


def test_a_last_file_without_entries(queue: ConsumeQueue, handles: FileHandles) -> None:
    fill(queue, 10)
    queue.flush()
    queue._segments.create(200)
    again = reopened(queue, handles)
    assert (again.max_offset, contents(again)) == (10, list(range(10)))


@pytest.mark.parametrize(("log_begin", "minimum"), [(0, 0), (100, 1), (101, 2), (1550, 16), (2400, 24), (99999, 25)])
def test_the_first_entry_whose_record_still_exists(
    queue: ConsumeQueue, handles: FileHandles, log_begin: int, minimum: int
) -> None:
    fill(queue, 25)
    queue.flush()
    again = reopened(queue, handles, log_begin)
    assert (again.min_offset, again.max_offset) == (minimum, 25)
    assert again.entry(minimum - 1) is None
    assert contents(again) == list(range(minimum, 25))


def test_older_files_deleted(queue: ConsumeQueue, handles: FileHandles) -> None:
    fill(queue, 25)
    queue.flush()
    queue._segments.remove(0)
    again = reopened(queue, handles)
    assert (again.min_offset, again.max_offset) == (10, 25)
    assert contents(again) == list(range(10, 25))


# -- starting late, cutting, deleting -------------------------------------------------------------------


@pytest.mark.parametrize("start", [1, 7, 10, 13, 20])
def test_a_queue_that_starts_late(queue: ConsumeQueue, handles: FileHandles, start: int) -> None:
    """Entries before it in the same file are filled as Java fills them."""
    queue.start_at(start)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (start, start, start)
    fill(queue, 3)
    queue.flush()
    first = start - start % PER_FILE
    assert files(queue) == sorted({first, (start + 2) // PER_FILE * PER_FILE})
    head = (queue._segments.directory / f"{first * ENTRY_SIZE:020d}").read_bytes()[: (start - first) * ENTRY_SIZE]
    assert head == bytes.fromhex("0000000000000000 7fffffff 0000000000000000") * (start - first)
    again = reopened(queue, handles)
    assert (again.min_offset, again.max_offset) == (start, start + 3)
    assert contents(again) == [start, start + 1, start + 2]


def test_only_filler_was_written(queue: ConsumeQueue, handles: FileHandles) -> None:
    queue.start_at(7)
    queue.flush()
    again = reopened(queue, handles)
    assert (again.min_offset, again.max_offset) == (7, 7)
    assert again.end_of_log() == 0


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "in memory"])
@pytest.mark.parametrize("keep", [0, 1, 9, 10, 11, 20, 24, 25])
def test_truncate(queue: ConsumeQueue, handles: FileHandles, keep: int, flushed: bool) -> None:
    fill(queue, 25)
    if flushed:
        queue.flush()
    queue.truncate(keep)
    assert (queue.max_offset, queue.next_offset) == (keep, keep)
    assert contents(queue) == list(range(keep))
    queue.flush()
    assert contents(reopened(queue, handles)) == list(range(keep))
    fill(queue, 4)
    queue.flush()
    assert contents(reopened(queue, handles)) == list(range(keep + 4))


def test_truncate_leaves_no_file_without_entries(queue: ConsumeQueue) -> None:
    fill(queue, 25)
    queue.flush()
    queue.truncate(10)
    assert files(queue) == [0]


def test_destroy(queue: ConsumeQueue) -> None:
    fill(queue, 25)
    queue.flush()
    queue.destroy()
    assert files(queue) == []


# -- any sequence ---------------------------------------------------------------------------------------


class AnySequence(RuleBasedStateMachine):
    """A queue and what must be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(mkdtemp())
        self.handles = FileHandles(limit=2)
        self.queue = self.open()
        self.first = 0
        self.expected: list[int] = []
        self.flushed = 0

    def open(self) -> ConsumeQueue:
        queue = ConsumeQueue(self.root, "t", 0, PER_FILE * ENTRY_SIZE, self.handles)
        queue.load(0)
        return queue

    @property
    def end(self) -> int:
        return self.first + len(self.expected)

    @rule(count=st.integers(1, 23))
    def append(self, count: int) -> None:
        for _ in range(count):
            self.queue.append(*entry(self.end))
            self.expected.append(self.end)
        self.queue.next_offset = self.queue.max_offset

    @rule()
    def flush(self) -> None:
        self.queue.flush()
        self.flushed = self.end

    @precondition(lambda self: self.end == 0)
    @rule(start=st.integers(1, 25))
    def start_late(self, start: int) -> None:
        self.queue.start_at(start)
        self.first = self.flushed = start
        self.append(1)
        self.flush()

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        keep = data.draw(st.integers(self.first, self.end))
        self.queue.truncate(keep)
        self.expected = self.expected[: keep - self.first]
        self.flushed = min(self.flushed, keep)

    @rule()
    def crash(self) -> None:
        """What was not flushed is gone; the log would bring it back."""
        self.queue = self.open()
        self.expected = self.expected[: self.flushed - self.first]

    @invariant()
    def same(self) -> None:
        assert (self.queue.max_offset, self.queue.next_offset) == (self.end, self.end)
        if self.end:
            assert self.queue.min_offset == self.first
        assert contents(self.queue) == self.expected

    def teardown(self) -> None:
        self.handles.close()
        shutil.rmtree(self.root)


AnySequence.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_any_sequence = AnySequence.TestCase
