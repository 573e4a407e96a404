"""Opening a store again: after a clean stop, after a kill at any moment, after damage."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.store import MessageStore
from tests.unit.store.stores import (
    FILE,
    HOST,
    Clock,
    bodies,
    crash_copy,
    drop_without_close,
    files_below,
    message,
    new_store,
    numbered,
    opened,
    put_all,
    records,
    save,
    store_config,
)

RECORD = 100  # what each of the messages below takes
TEN = [each.body for each in numbered(10)]


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def crashed(root: Path, messages: int = 10, *, flushed: bool = False, prepared: bool = False) -> Path:
    """A store that was killed after so many messages."""
    store = new_store(root)
    put_all(store, numbered(messages))
    if flushed:
        store.flush_queues()
    if prepared:
        store.log.prepare_next_file()
    drop_without_close(store)
    return root


def ends(store: MessageStore) -> dict[tuple[str, int], tuple[int, int, int]]:
    return {
        key: (queue.min_offset, queue.max_offset, queue.next_offset)
        for key, queue in store.queues.items()
        if queue.max_offset
    }


# -- clean stops ----------------------------------------------------------------------------------------


def test_a_clean_stop_keeps_everything(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, [*numbered(23), *numbered(5, queue_id=1, tags="TagB10"), *numbered(1, topic="other")])
        before = (ends(store), store.log.begin, store.log.end)
        stored = [records(store, *key) for key in store.queues]
    with opened(tmp_path) as store:
        assert (ends(store), store.log.begin, store.log.end) == before
        assert [records(store, *key) for key in (("t", 0), ("t", 1), ("other", 0))] == stored
        assert store.queues["t", 1].entry(0)[2] == -1797403609  # type: ignore[index]
        assert store.put(message()).queue_offset == 23


def test_the_mark_of_an_unclean_stop(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert (tmp_path / "abort").read_bytes() == b""
    store.close()
    assert not (tmp_path / "abort").exists()


def test_an_empty_store(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path) as store:
            assert (store.log.begin, store.log.end, store.queues) == (0, 0, {})
    assert files_below(tmp_path) == ["checkpoint", "lock"]


def test_the_file_made_ahead_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(3))
        store.log.prepare_next_file()
        assert log_file(tmp_path, FILE).exists()
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [log_file(tmp_path).name]
    with opened(tmp_path) as store:
        assert bodies(store) == TEN[:3]
        assert store.log.end == 300


@pytest.mark.parametrize("messages", [9, 10, 11, 20, 21])
def test_going_on_after_a_stop_at_the_edge_of_a_file(tmp_path: Path, messages: int) -> None:
    for start in range(0, 3 * messages, messages):
        with opened(tmp_path) as store:
            put_all(store, numbered(messages, start=start))
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(3 * messages)]


def test_queues_deleted_after_a_clean_stop_are_rebuilt(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(25))
    shutil.rmtree(tmp_path / "consumequeue")
    with opened(tmp_path) as store:
        assert len(bodies(store)) == 25


# -- kills ----------------------------------------------------------------------------------------------


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    put_all(store, numbered(4))
    store.flush_queues()
    put_all(store, [*numbered(3, start=4), *numbered(2, topic="other")])
    for each in numbered(2, start=100):
        store.put(each)  # not committed, so nobody was told
    copy = crash_copy(store, tmp_path / "copy")
    store.close()
    assert (copy / "abort").exists()
    with opened(copy) as store:
        assert bodies(store) == [each.body for each in numbered(7)]
        assert bodies(store, "other") == TEN[:2]
        assert store.log.end == 7 * RECORD + 2 * (RECORD + 4)
        assert store.put(message()).queue_offset == 7


@pytest.mark.parametrize("flushed", [True, False])
def test_queues_deleted_are_rebuilt(tmp_path: Path, flushed: bool) -> None:
    crashed(tmp_path, 25, flushed=flushed)
    shutil.rmtree(tmp_path / "consumequeue", ignore_errors=True)
    with opened(tmp_path) as store:
        assert len(bodies(store)) == 25
        assert store.queues["t", 0].entry(24) is not None


def log_and_queues(root: Path) -> dict[str, bytes]:
    names = [name for name in files_below(root) if name.startswith(("commitlog/", "consumequeue/"))]
    return {name: (root / name).read_bytes() for name in names}


def test_rebuilt_entries_are_the_same_bytes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, [*numbered(12, tags="TagA"), *numbered(3, tags="TagB10"), *numbered(4)])
    before = log_and_queues(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "abort").touch()
    with opened(tmp_path):
        pass
    assert log_and_queues(tmp_path) == before


def test_a_second_kill_while_recovering_changes_nothing(tmp_path: Path) -> None:
    crashed(tmp_path, 15)
    for _ in range(3):
        drop_without_close(new_store(tmp_path))
    with opened(tmp_path) as store:
        assert len(bodies(store)) == 15


def test_a_kill_after_the_next_file_was_made(tmp_path: Path) -> None:
    crashed(tmp_path, 10, prepared=True)
    with opened(tmp_path) as store:
        assert (bodies(store), store.log.end) == (TEN, 1000)
        put_all(store, numbered(5, start=10))
        assert len(bodies(store)) == 15


def test_a_kill_between_the_blank_and_the_next_file(tmp_path: Path) -> None:
    """The blank is there, what was to follow is not: the place of the blank is used again."""
    crashed(tmp_path, 10)
    overwrite(log_file(tmp_path), 1000, record.BLANK.pack(24, record.MAGIC_BLANK))
    with opened(tmp_path) as store:
        assert bodies(store) == TEN
        put_all(store, numbered(5, start=10))
        assert len(bodies(store)) == 15


def test_a_kill_between_the_blank_and_the_first_record_of_the_next_file(tmp_path: Path) -> None:
    crashed(tmp_path, 10, prepared=True)
    overwrite(log_file(tmp_path), 1000, record.BLANK.pack(24, record.MAGIC_BLANK))
    for start in (10, 12):
        with opened(tmp_path) as store:
            put_all(store, numbered(2, start=start))
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(14)]


@pytest.mark.parametrize("kept", [*range(0, 97, 7), 97])  # the last two bytes of these records are zero anyway
def test_a_torn_last_record_is_cut(tmp_path: Path, kept: int) -> None:
    crashed(tmp_path)
    overwrite(log_file(tmp_path), 900 + kept, bytes(FILE - 900 - kept))
    with opened(tmp_path) as store:
        assert bodies(store) == TEN[:9]
        assert (store.log.end, store.put(message(b"anew")).queue_offset) == (900, 9)
        store.commit()
        assert bodies(store) == [*TEN[:9], b"anew"]
    with opened(tmp_path) as store:
        assert bodies(store) == [*TEN[:9], b"anew"]


def test_a_torn_last_record_whose_entry_was_flushed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    crashed(tmp_path, flushed=True)
    overwrite(log_file(tmp_path), 850, bytes(FILE - 850))
    with opened(tmp_path) as store:
        assert bodies(store) == TEN[:8]
        assert store.put(message()).queue_offset == 8
    assert "2 entries past the log's end cut" in caplog.text


@pytest.mark.parametrize("seed", range(5))
def test_garbage_behind_the_last_record(tmp_path: Path, seed: int) -> None:
    crashed(tmp_path)
    overwrite(log_file(tmp_path), 1000, random.Random(seed).randbytes(24))
    with opened(tmp_path) as store:
        assert (bodies(store), store.log.end) == (TEN, 1000)


@pytest.mark.parametrize("size", [0x7FFFFFFF, 0xFFFFFFFF, 91, 0])
def test_a_size_that_lies(tmp_path: Path, size: int) -> None:
    crashed(tmp_path)
    overwrite(log_file(tmp_path), 500, size.to_bytes(4, "big"))
    with opened(tmp_path) as store:
        assert (bodies(store), store.log.end) == (TEN[:5], 500)


def test_a_record_larger_than_is_read_at_once(tmp_path: Path) -> None:
    size = 9 * 1024 * 1024
    store = new_store(tmp_path, file_size=16 * 1024 * 1024)
    put_all(store, [message(b"small"), message(bytes(size)), message(b"behind")])
    drop_without_close(store)
    with opened(tmp_path, file_size=16 * 1024 * 1024) as store:
        assert [len(body) for body in bodies(store)] == [5, size, 6]


# -- damage in the middle -------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = path.read_bytes()
    overwrite(path, at, bytes([data[at] ^ 0x40]))


@pytest.mark.parametrize("flushed", [True, False])
def test_the_log_ends_before_the_first_bad_record(
    tmp_path: Path, flushed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    crashed(tmp_path, 25, flushed=flushed)
    flip(log_file(tmp_path), 5 * RECORD + 90)  # in the sixth body
    with opened(tmp_path) as store:
        assert (bodies(store), store.log.end) == (TEN[:5], 500)
        put_all(store, numbered(1, start=77))
        assert bodies(store) == [*TEN[:5], b"00000077"]


def test_the_operator_hears_where_and_why_the_log_was_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Twenty acknowledged messages are given up here: that must not happen in silence."""
    crashed(tmp_path, 25)
    flip(log_file(tmp_path), 5 * RECORD + 90)
    with opened(tmp_path):
        pass
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert any("500" in text and "CRC" in text for text in warnings), warnings


def test_what_lay_behind_the_damage_never_comes_back(tmp_path: Path) -> None:
    """New records of the same size overwrite the old ones one by one. A later recovery must not walk from
    the new ones into what is left of the old ones."""
    crashed(tmp_path, 25)
    flip(log_file(tmp_path), 5 * RECORD + 90)
    store = new_store(tmp_path)
    put_all(store, numbered(7, start=70))  # five in the first file, two at the start of the second
    drop_without_close(store)
    expected = [*TEN[:5], *(each.body for each in numbered(7, start=70))]
    with opened(tmp_path) as store:
        assert bodies(store) == expected


def test_no_room_for_what_is_cut_off(tmp_path: Path) -> None:
    """The store can be read. Nothing is written before the remains are safe: it might lead up to them."""
    crashed(tmp_path, 25)
    flip(log_file(tmp_path), 5 * RECORD + 90)
    (tmp_path / "damaged").write_bytes(b"")  # no folder can be made here
    with opened(tmp_path) as store:
        assert bodies(store) == TEN[:5]
        with pytest.raises(StoreError, match="cannot cut"):
            put_all(store, numbered(1, start=77))
        (tmp_path / "damaged").unlink()
        put_all(store, numbered(1, start=77))
        assert bodies(store) == [*TEN[:5], b"00000077"]
    with opened(tmp_path) as store:
        assert bodies(store) == [*TEN[:5], b"00000077"]
    assert (tmp_path / "damaged" / f"{500:020d}").exists()


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_kill_while_cutting(tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no moment may the files be such that the next start refuses them."""
    crashed(tmp_path, 25)
    flip(log_file(tmp_path), 5 * RECORD + 90)
    real, calls = os.truncate, 0

    def killed(path: Path, size: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        real(path, size)

    with monkeypatch.context() as deadly:
        deadly.setattr(os, "truncate", killed)
        store = MessageStore(store_config(tmp_path), HOST, Clock())
        with contextlib.suppress(KeyboardInterrupt):
            store.open()
        drop_without_close(store)
    with opened(tmp_path) as store:
        assert bodies(store) == TEN[:5]
        put_all(store, numbered(1, start=77))
    with opened(tmp_path) as store:
        assert bodies(store) == [*TEN[:5], b"00000077"]


def test_a_hole_in_a_queue_file_is_filled(tmp_path: Path) -> None:
    """After a power failure a page of a queue file may be missing while a later one was written."""
    crashed(tmp_path, 10, flushed=True)
    overwrite(tmp_path / "consumequeue/t/0/00000000000000000000", 3 * 20, bytes(2 * 20))
    with opened(tmp_path) as store:
        assert bodies(store) == TEN


def test_garbage_in_a_queue_file_is_replaced(tmp_path: Path) -> None:
    crashed(tmp_path, 10, flushed=True)
    overwrite(tmp_path / "consumequeue/t/0/00000000000000000000", 7 * 20, b"\x01" * 20)
    with opened(tmp_path) as store:
        assert bodies(store) == TEN


def test_a_topic_name_that_is_no_file_name(tmp_path: Path) -> None:
    """The sum covers the body alone: a damaged topic passes for a sound record."""
    crashed(tmp_path, 10)
    at = log_file(tmp_path).read_bytes().index(b"\x01t\x00\x00", 500) + 1
    overwrite(log_file(tmp_path), at, b"\x00")
    with opened(tmp_path) as store:
        assert len(records(store)) >= 5
        put_all(store, [message(topic="other")])
    with opened(tmp_path) as store:
        assert bodies(store, "other") == [bytes(8)]


# -- files of the wrong kind ----------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{"file_size": 2 * FILE}, {"queue_entries": 20}], ids=["log", "queue"])
def test_another_file_size_is_refused(tmp_path: Path, sizes: dict[str, int]) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(3))
    before = {name: (tmp_path / name).read_bytes() for name in files_below(tmp_path)}
    with pytest.raises(StoreError, match="where the configuration says"):
        new_store(tmp_path, **sizes)
    assert {name: (tmp_path / name).read_bytes() for name in files_below(tmp_path)} == before


def lose_a_log_file(root: Path) -> Path:
    log_file(root, FILE).unlink()
    return log_file(root, FILE)


def add_a_log_file_between_two(root: Path) -> Path:
    log_file(root, 3 * FILE + 24).write_bytes(bytes(FILE))
    return log_file(root, 3 * FILE + 24)


def make_the_log_a_file(root: Path) -> Path:
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").write_bytes(b"what?")
    return root / "commitlog"


def make_the_index_a_file(root: Path) -> Path:
    shutil.rmtree(root / "index")
    (root / "index").write_bytes(b"what?")
    return root / "index"


def add_a_link_to_nowhere(root: Path) -> Path:
    log_file(root, 3 * FILE).symlink_to(root / "nowhere")
    return log_file(root, 3 * FILE)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "spoil",
    [
        lose_a_log_file,
        add_a_log_file_between_two,
        make_the_log_a_file,
        make_the_index_a_file,
        add_a_link_to_nowhere,
    ],
)
def test_a_folder_that_cannot_be_a_store_is_left_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], Path], clean: bool
) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(25))
    if not clean:
        (tmp_path / "abort").touch()
    culprit = spoil(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in files_below(tmp_path)}
    descriptors = open_descriptors()
    with pytest.raises(StoreError) as refusal:
        new_store(tmp_path)
    assert str(culprit) in refusal.value.message
    assert refusal.value.hint
    assert open_descriptors() == descriptors
    assert {name: (tmp_path / name).read_bytes() for name in files_below(tmp_path)} == before


def test_a_store_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"what?")
    with pytest.raises(StoreError, match=str(tmp_path / "store")):
        new_store(tmp_path / "store")


def test_no_log_at_all_means_no_queues(tmp_path: Path) -> None:
    """What the queues point to is gone; new messages start from nothing."""
    with opened(tmp_path) as store:
        put_all(store, numbered(5))
    shutil.rmtree(tmp_path / "commitlog")
    with opened(tmp_path) as store:
        assert (store.log.begin, store.log.end, ends(store)) == (0, 0, {})
        assert store.put(message()).queue_offset == 0


def test_things_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(5))
    (tmp_path / "consumequeue/readme").write_bytes(b"a note")
    (tmp_path / "consumequeue/t/notes").mkdir()
    with opened(tmp_path) as store:
        assert bodies(store) == TEN[:5]
    assert (tmp_path / "consumequeue/readme").read_bytes() == b"a note"


# -- logs that begin late -------------------------------------------------------------------------------


def aged(root: Path) -> Path:
    """A store whose first log file was deleted because it was old."""
    crashed(root, 25, flushed=True)
    log_file(root).unlink()
    return root


def test_messages_before_the_log_are_gone(tmp_path: Path) -> None:
    with opened(aged(tmp_path)) as store:
        assert (store.log.begin, ends(store)) == (FILE, {("t", 0): (10, 25, 25)})
        assert bodies(store) == [each.body for each in numbered(15, start=10)]


def test_queues_rebuilt_from_a_log_that_begins_late(tmp_path: Path) -> None:
    shutil.rmtree(aged(tmp_path) / "consumequeue")
    with opened(tmp_path) as store:
        assert ends(store) == {("t", 0): (10, 25, 25)}
        assert bodies(store) == [each.body for each in numbered(15, start=10)]
        assert store.put(message()).queue_offset == 25
    with opened(tmp_path) as store:
        assert ends(store) == {("t", 0): (10, 25, 25)}


# -- transactions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "visible"), [(0x0, True), (0x4, False), (0x8, True), (0xC, False)])
def test_half_messages_are_not_for_consumers(tmp_path: Path, bits: int, visible: bool) -> None:
    crashed(tmp_path, 3)
    sys_flag = record._SYS_FLAG_AT
    overwrite(log_file(tmp_path), 200 + sys_flag, bits.to_bytes(4, "big"))
    with opened(tmp_path) as store:
        assert len(records(store)) == (3 if visible else 2)
        assert store.log.end == 300


# -- topics made again ----------------------------------------------------------------------------------


def remade(root: Path, *, flushed: bool) -> MessageStore:
    """Five messages, the topic deleted and made again, three more messages; then the process is killed."""
    store = new_store(root)
    put_all(store, numbered(5))
    store.flush_queues()
    store.drop_topic("t")
    put_all(store, numbered(3, start=50))
    if flushed:
        store.flush_queues()
    drop_without_close(store)
    return new_store(root)


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "in memory"])
def test_a_topic_made_again_keeps_its_new_messages(tmp_path: Path, flushed: bool) -> None:
    """The log still holds the old ones. They must neither come back nor take the place of the new ones."""
    store = remade(tmp_path, flushed=flushed)
    found = [each.body for each in records(store)]
    store.close()
    assert found == [each.body for each in numbered(3, start=50)]


# -- any sequence ---------------------------------------------------------------------------------------

QUEUES = [("a", 0), ("a", 1), ("b", 0)]


class AnyLife(RuleBasedStateMachine):
    """A store that is written, flushed, stopped and killed in any order, and what must be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(mkdtemp())
        self.store = new_store(self.root, Clock())
        self.expected: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.count = 0

    def _messages(self, key: tuple[str, int], sizes: list[int]) -> list[bytes]:
        self.count += 1
        return [b"%d:" % self.count + bytes(size) for size in sizes]

    @rule(key=st.sampled_from(QUEUES), sizes=st.lists(st.integers(0, 400), min_size=1, max_size=4), batch=st.booleans())
    def send(self, key: tuple[str, int], sizes: list[int], batch: bool) -> None:
        new = self._messages(key, sizes)
        messages = [message(body, topic=key[0], queue_id=key[1]) for body in new]
        if batch:
            try:
                self.store.put_batch(messages)
            except StoreError:
                return
        else:
            for each in messages:
                self.store.put(each)
        self.store.commit()
        self.expected[key] += new

    @rule()
    def flush(self) -> None:
        self.store.flush_queues()

    @rule()
    def checkpoint(self) -> None:
        save(self.store)

    @rule()
    def prepare(self) -> None:
        self.store.log.prepare_next_file()

    @rule()
    def stop(self) -> None:
        self.store.close()
        self.store = new_store(self.root, Clock())

    @rule(lose_queues=st.booleans())
    def kill(self, lose_queues: bool) -> None:
        drop_without_close(self.store)
        if lose_queues:
            shutil.rmtree(self.root / "consumequeue", ignore_errors=True)
        self.store = new_store(self.root, Clock())

    @rule(key=st.sampled_from(QUEUES))
    def killed_before_the_commit(self, key: tuple[str, int]) -> None:
        self.store.put(message(b"never acknowledged", topic=key[0], queue_id=key[1]))
        self.kill(lose_queues=False)

    @rule(noise=st.binary(min_size=1, max_size=60))
    def killed_while_writing(self, noise: bytes) -> None:
        """The last write left something that is not a record."""
        end, room = self.store.log.end, FILE - self.store.log.end % FILE
        if self.store.log.segments.has(end - end % FILE):
            self.store.log.segments.write(end, noise[:room])
        self.kill(lose_queues=False)

    @invariant()
    def all_there(self) -> None:
        for key, expected in self.expected.items():
            assert bodies(self.store, *key) == expected
            assert self.store.queues[key].next_offset == len(expected)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.root)


AnyLife.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
test_any_life = AnyLife.TestCase


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_open(tmp_path: Path) -> None:
    before = open_descriptors()
    for _ in range(3):
        with opened(tmp_path) as store:
            put_all(store, numbered(25))
    assert open_descriptors() == before
