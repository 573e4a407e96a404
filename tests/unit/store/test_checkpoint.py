"""The checkpoint: its bytes, what it promises, and what a start makes of it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.store.checkpoint import FILE_SIZE, LAYOUT, Checkpoint, IndexPosition, read_checkpoint, write_checkpoint
from mqctl.store.consumequeue import ENTRY_SIZE
from mqctl.store.index import key_hash
from mqctl.store.indexfile import Geometry, IndexFile
from mqctl.store.store import MessageStore, NewMessage
from tests.unit.store.stores import (
    FILE,
    HOST,
    Clock,
    bodies,
    drop_without_close,
    message,
    new_store,
    numbered,
    opened,
    put_all,
    save,
    store_config,
)

RECORD = 100
WHOLE = Checkpoint(11_000, 12_000, 13, 14, 15, IndexPosition(20261118120000123, 16, 12))

# -- the file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "checkpoint",
    [
        WHOLE,
        WHOLE._replace(index_position=None),
        Checkpoint(1, 2, 3),
        Checkpoint(0, 0, 0, 0, -1, IndexPosition(0, 0, 0)),
    ],
)
def test_written_and_read(tmp_path: Path, checkpoint: Checkpoint) -> None:
    write_checkpoint(tmp_path / "checkpoint", WHOLE)
    write_checkpoint(tmp_path / "checkpoint", checkpoint)
    assert read_checkpoint(tmp_path / "checkpoint") == checkpoint


def test_java_finds_its_numbers(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "checkpoint", WHOLE)
    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == FILE_SIZE
    assert data[:40].hex() == f"{11_000:016x}{12_000:016x}{13:016x}" + 16 * "00"


def test_what_java_wrote_since_voids_our_part(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(path, WHOLE)
    data = bytearray(path.read_bytes())
    LAYOUT.pack_into(data, 0, 11_000, 12_001, 13)
    path.write_bytes(data)
    assert read_checkpoint(path) == Checkpoint(11_000, 12_001, 13)


@pytest.mark.parametrize("at", range(64, 140))
def test_a_damaged_seal_is_none(tmp_path: Path, at: int) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(path, WHOLE)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    assert read_checkpoint(path) == Checkpoint(*WHOLE[:3])


@pytest.mark.parametrize("size", [0, 1, 23])
def test_a_file_cut_short_promises_nothing(tmp_path: Path, size: int) -> None:
    (tmp_path / "checkpoint").write_bytes(bytes(range(size)))
    assert read_checkpoint(tmp_path / "checkpoint") == Checkpoint()


# -- starts after a kill --------------------------------------------------------------------------------


def keyed(count: int, start: int = 0, topic: str = "t") -> list[NewMessage]:
    return [
        message(b"%08d" % number, topic=topic, properties=f"KEYS\x01k{number}".encode())
        for number in range(start, start + count)
    ]


def damage(root: Path, at: int) -> None:
    path = root / "commitlog" / f"{at - at % FILE:020d}"
    data = bytearray(path.read_bytes())
    data[at % FILE] ^= 0xFF
    path.write_bytes(data)


def saved_and_killed(root: Path, *, before: int = 25, after: int = 8) -> Path:
    """Some messages, a checkpoint, more messages, a kill."""
    store = new_store(root)
    put_all(store, numbered(before))
    save(store)
    put_all(store, numbered(after, start=before))
    drop_without_close(store)
    return root


def test_only_what_came_after_the_checkpoint_is_looked_at(tmp_path: Path) -> None:
    """Damage before it goes unnoticed: nobody looked."""
    saved_and_killed(tmp_path)
    damage(tmp_path, 90)
    with opened(tmp_path) as store:
        assert store.queues["t", 0].max_offset == 33
        assert store.log.end == 3 * FILE + 3 * RECORD


@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_messages_after_the_checkpoint_are_found(tmp_path: Path, after: int) -> None:
    saved_and_killed(tmp_path, before=10, after=after)
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(10 + after)]
        assert store.put(message()).queue_offset == 10 + after


def test_queue_entries_behind_the_checkpoint_are_not_believed(tmp_path: Path) -> None:
    """A loss of power left a hole and garbage where entries were written but not synced."""
    store = new_store(tmp_path)
    put_all(store, numbered(4))
    save(store)
    put_all(store, numbered(5, start=4))
    store.flush_queues()
    drop_without_close(store)
    path = tmp_path / "consumequeue/t/0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[5 * ENTRY_SIZE : 6 * ENTRY_SIZE] = bytes(ENTRY_SIZE)
    data[7 * ENTRY_SIZE : 8 * ENTRY_SIZE] = (1 << 40).to_bytes(8, "big") + (77).to_bytes(4, "big") + bytes(8)
    path.write_bytes(data)
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(9)]


def test_a_log_that_lost_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    put_all(store, numbered(4))
    save(store)
    put_all(store, [*numbered(5, start=4), *numbered(3, topic="other")])
    store.flush_queues()
    drop_without_close(store)
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[: 4 * RECORD] + bytes(FILE - 4 * RECORD))
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(4)]
        assert store.log.end == 4 * RECORD
        assert store.put(message()).queue_offset == 4
        assert store.queue("other", 0).max_offset == 0


def test_a_torn_record_right_behind_the_checkpoint(tmp_path: Path) -> None:
    saved_and_killed(tmp_path, before=14, after=3)
    damage(tmp_path, FILE + 4 * RECORD + 90)
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(14)]


def test_queues_removed_by_hand_are_made_anew(tmp_path: Path) -> None:
    saved_and_killed(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(33)]


def test_a_kill_while_queues_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint vouched for queues that are gone: half of them again must not pass for all."""
    saved_and_killed(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    real, calls = os.pwrite, 0

    def killed(descriptor: int, data: bytes, at: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return real(descriptor, data, at)

    with monkeypatch.context() as deadly:
        deadly.setattr(os, "pwrite", killed)
        store = MessageStore(store_config(tmp_path), HOST, Clock())
        with pytest.raises(KeyboardInterrupt):
            store.open()
        drop_without_close(store)
        store._lock.release()
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(33)]


@pytest.mark.parametrize("more_before", [0, 2])
@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "in memory"])
def test_a_topic_deleted_and_made_again_after_the_checkpoint(tmp_path: Path, flushed: bool, more_before: int) -> None:
    store = new_store(tmp_path)
    put_all(store, [*numbered(5), *numbered(5, topic="other")])
    save(store)
    put_all(store, numbered(more_before, start=5))
    store.drop_topic("t")
    put_all(store, numbered(3, start=50))
    if flushed:
        store.flush_queues()
    drop_without_close(store)
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(3, start=50)]
        assert bodies(store, "other") == [each.body for each in numbered(5)]


def test_a_checkpoint_beyond_the_log_is_not_believed(tmp_path: Path) -> None:
    """The last log files were lost, and the checkpoint speaks of a log that is no more."""
    saved_and_killed(tmp_path)
    for path in sorted((tmp_path / "commitlog").iterdir())[1:]:
        path.unlink()
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(10)]


def test_a_copy_whose_checkpoint_is_younger_than_its_log(tmp_path: Path) -> None:
    """As copying the folder of a running broker makes it. A hole in the log would one day end it."""
    store = new_store(tmp_path)
    put_all(store, numbered(4))
    save(store)
    older = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    put_all(store, numbered(3, start=4))
    save(store)
    drop_without_close(store)
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(older)
    with opened(tmp_path) as store:
        assert store.log.end == 4 * RECORD
        assert bodies(store) == [each.body for each in numbered(4)]


@pytest.mark.parametrize("topic", ["t", "other"])
def test_a_copy_whose_checkpoint_is_younger_than_its_queues(tmp_path: Path, topic: str) -> None:
    store = new_store(tmp_path)
    put_all(store, [*numbered(4), *numbered(1, topic="other")])
    save(store)
    path = tmp_path / "consumequeue" / topic / "0" / f"{0:020d}"
    older = path.read_bytes()
    put_all(store, [*numbered(3, start=4), *numbered(1, start=1, topic="other")])
    save(store)
    put_all(store, [*numbered(1, start=7), *numbered(1, start=2, topic="other")])
    drop_without_close(store)
    path.write_bytes(older)
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(8)]
        assert bodies(store, "other") == [each.body for each in numbered(3)]


def test_java_s_checkpoint_goes_by_files(tmp_path: Path) -> None:
    """Without our part: from the newest file whose first record is three seconds older than the checkpoint."""
    clock = Clock()
    store = new_store(tmp_path, clock)
    for start in range(0, 36, 9):
        put_all(store, keyed(9, start=start))  # one file each
        clock.now_ms += 10_000
    assert store.index is not None
    store.index.settle()
    store.flush_queues()
    drop_without_close(store)
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(1_023_500, 1_023_000, 0))
    damage(tmp_path, FILE + 90)  # not looked at: the third file's first record is from 1,020,000
    with opened(tmp_path) as store:
        assert store.queues["t", 0].max_offset == 36
    (tmp_path / "abort").touch()
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(1_023_500, 1_022_999, 0))
    with opened(tmp_path) as store:
        assert store.queues["t", 0].max_offset == 9


# -- the index ------------------------------------------------------------------------------------------


def found(store: MessageStore, number: int) -> int:
    assert store.index is not None
    return len(store.index.query("t", f"k{number}", 10, 0, 1 << 60))


@pytest.mark.parametrize("settled", [True, False], ids=["in the file", "in memory"])
def test_keys_after_the_checkpoint_are_filed(tmp_path: Path, settled: bool) -> None:
    with_keys(tmp_path, settled=settled)
    with opened(tmp_path) as store:
        assert [found(store, number) for number in range(22)] == [1] * 21 + [0]


def with_keys(root: Path, *, settled: bool = True) -> Path:
    """Twelve keys, a checkpoint, nine more, a kill. Returns the index file."""
    store = new_store(root)
    put_all(store, keyed(12))
    save(store)
    put_all(store, keyed(9, start=12))
    assert store.index is not None
    if settled:
        store.index.settle()
    drop_without_close(store)
    return next(each for each in (root / "index").iterdir())


def slot_of(number: int) -> int:
    return key_hash("t", f"k{number}") % Geometry().hash_slots


@pytest.mark.parametrize("value", [0, 5, 99], ids=["not written", "of another", "beyond the end"])
def test_slots_that_a_crash_left_behind(tmp_path: Path, value: int) -> None:
    """The entries behind the checkpoint are there; what their slots hold is put right, in one way or another."""
    path = with_keys(tmp_path)
    file = IndexFile.open(path, Geometry())
    for number in (13, 20):
        file.set_newest([slot_of(number)], {slot_of(number): value})
    file.close()
    with opened(tmp_path) as store:
        assert [found(store, number) for number in range(22)] == [1] * 21 + [0]


def test_entries_that_a_crash_left_behind_are_not_believed(tmp_path: Path) -> None:
    path = with_keys(tmp_path)
    file = IndexFile.open(path, Geometry())
    file.write(Geometry().entry_at(15), bytes(2 * 20))
    file.close()
    with opened(tmp_path) as store:
        assert [found(store, number) for number in range(22)] == [1] * 21 + [0]


def test_an_index_removed_by_hand_is_made_anew(tmp_path: Path) -> None:
    with_keys(tmp_path)
    shutil.rmtree(tmp_path / "index")
    with opened(tmp_path) as store:
        assert [found(store, number) for number in range(22)] == [1] * 21 + [0]
        assert bodies(store) == [each.body for each in numbered(21)]


# -- disks that refuse ----------------------------------------------------------------------------------


def test_after_a_failed_sync_nothing_more_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    put_all(store, numbered(4))
    save(store)
    put_all(store, numbered(4, start=4))
    store.flush_queues()
    saving = store.saver.begin(store.published, with_index=False)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", refuse)
        with pytest.raises(StoreError, match=r"cannot sync .*consumequeue"):
            saving.sync()
    store.close()
    assert (tmp_path / "abort").exists()
    assert read_checkpoint(tmp_path / "checkpoint").safe_offset == 4 * RECORD
    with opened(tmp_path) as store:
        assert bodies(store) == [each.body for each in numbered(8)]


# -- queue offsets --------------------------------------------------------------------------------------


def test_offsets_never_go_back_when_their_log_files_are_gone(tmp_path: Path) -> None:
    """The entries of a quiet queue were only in memory when the log files with its messages were cleaned away."""
    store = new_store(tmp_path)
    put_all(store, numbered(5, topic="quiet"))
    put_all(store, numbered(30))
    store.log.flushed = store.log.end
    path = store.forget_oldest_log_file()
    path.unlink()
    drop_without_close(store)
    with opened(tmp_path) as store:
        assert store.log.begin == FILE
        assert store.queues["quiet", 0].max_offset == 5
        assert store.put(message(topic="quiet")).queue_offset == 5
