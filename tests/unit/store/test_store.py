"""The store: what put and commit promise, batches, topics that go, and disks that refuse."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqctl.errors import StoreError
from mqctl.store import record
from mqctl.store.store import MessageStore
from tests.unit.store.stores import (
    FILE,
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
    store_config,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path / "store") as store:
        yield store


# -- put and commit -------------------------------------------------------------------------------------


def test_where_messages_go(store: MessageStore) -> None:
    first = store.put(message(b"12345678"))
    second = store.put(message(b"1", queue_id=1))
    third = store.put(message(b"2"))
    assert (first.queue_offset, first.phys_offset, first.size) == (0, 0, 100)
    assert (second.queue_offset, second.phys_offset, second.size) == (0, 100, 93)
    assert (third.queue_offset, third.phys_offset) == (1, 193)


def test_a_put_is_readable_only_after_the_commit(store: MessageStore) -> None:
    store.put(message(b"a"))
    assert store.has_pending
    assert records(store) == []
    assert store.queues["t", 0].max_offset == 0
    assert store.log.read_record(0) is None
    assert {queue.topic for queue in store.commit()} == {"t"}
    assert not store.has_pending
    assert bodies(store) == [b"a"]
    assert store.commit() == set()


def test_commit_tells_which_queues_grew(store: MessageStore) -> None:
    for topic, queue_id in [("a", 0), ("a", 1), ("b", 0), ("a", 0)]:
        store.put(message(topic=topic, queue_id=queue_id))
    assert {(queue.topic, queue.queue_id) for queue in store.commit()} == {("a", 0), ("a", 1), ("b", 0)}


def test_everything_of_a_message_is_stored(tmp_path: Path) -> None:
    with opened(tmp_path, Clock(123_456)) as store:
        store.put(
            message(
                b"body",
                topic="topic",
                queue_id=7,
                properties="KEYS\x01é".encode(),
                flag=-5,
                sys_flag=record.SYS_COMPRESSED | 0x300,
                born_timestamp=99,
                reconsume_times=3,
                prepared_offset=2**40,
            )
        )
        store.commit()
        (back,) = records(store, "topic", 7)
    assert (back.body, back.topic, back.queue_id, back.properties) == (b"body", "topic", 7, "KEYS\x01é")
    assert (back.flag, back.sys_flag, back.reconsume_times, back.prepared_offset) == (-5, 0x301, 3, 2**40)
    assert (back.born_timestamp, back.born_host) == (99, ("10.1.2.3", 40000))
    assert (back.store_timestamp, back.store_host) == (123_456, ("127.0.0.1", 10911))
    assert (back.queue_offset, back.phys_offset) == (0, 0)


@pytest.mark.parametrize("claimed", [0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("born", ["10.0.0.1", "2001:db8::9"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_hosts_of_both_kinds(tmp_path: Path, host: str, born: str, claimed: int) -> None:
    """Which host is IPv6 follows from the hosts, whatever the client's flag says."""
    store = MessageStore(store_config(tmp_path), (host, 1), Clock())
    store.open()
    put_all(store, [message(b"b", born_host=record.pack_host(born, 2), sys_flag=claimed | 1)])
    (back,) = records(store)
    assert (back.store_host, back.born_host, back.body) == ((host, 1), (born, 2), b"b")
    assert back.sys_flag & 0xF == 1
    store.close()


def test_counts(store: MessageStore) -> None:
    put_all(store, numbered(25))
    assert store.messages_put == 25
    assert store.bytes_put == 25 * 100  # what the ends of files take is nobody's message


def test_a_message_too_large_for_any_file(store: MessageStore) -> None:
    store.put(message(b"before"))
    with pytest.raises(StoreError, match="does not fit into a file"):
        store.put(message(bytes(FILE)))
    store.put(message(b"after"))
    store.commit()
    assert bodies(store) == [b"before", b"after"]


def test_the_tail_reaches_the_file_by_itself(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=1 << 20, queue_entries=1000) as store:
        put_all(store, numbered(127))
        assert not (tmp_path / "consumequeue").exists()
        put_all(store, numbered(1))
        assert (tmp_path / "consumequeue/t/0/00000000000000000000").exists()


# -- batches --------------------------------------------------------------------------------------------


def test_a_batch_lies_side_by_side(store: MessageStore) -> None:
    appended = store.put_batch(numbered(3))
    store.commit()
    assert [(each.queue_offset, each.phys_offset) for each in appended] == [(0, 0), (1, 100), (2, 200)]
    assert len(bodies(store)) == 3


def test_a_batch_moves_as_a_whole(store: MessageStore) -> None:
    put_all(store, numbered(8))
    appended = store.put_batch(numbered(3))  # two of the three would still fit
    store.commit()
    assert [each.phys_offset for each in appended] == [1024, 1124, 1224]
    assert store.log.segments.read(800, 8) == bytes.fromhex("000000e0 cbd43194")
    assert len(bodies(store)) == 11


def test_a_batch_that_just_fits(store: MessageStore) -> None:
    appended = store.put_batch(numbered(10))
    store.commit()
    assert appended[-1].phys_offset == 900
    assert store.log.segments.starts == [0]


def test_a_batch_too_large_for_any_file(store: MessageStore) -> None:
    with pytest.raises(StoreError, match="does not fit into a file"):
        store.put_batch(numbered(11))
    assert not store.has_pending
    put_all(store, numbered(1))
    assert bodies(store) == [b"00000000"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=5), max_size=20), st.data())
def test_no_batch_is_ever_split(tmp_path_factory: pytest.TempPathFactory, batches: Any, data: st.DataObject) -> None:
    with opened(tmp_path_factory.mktemp("store")) as store:
        expected: list[bytes] = []
        for number, sizes in enumerate(batches):
            messages = [message(bytes([number]) * size) for size in sizes]
            try:
                appended = store.put_batch(messages)
            except StoreError:
                assert sum(92 + size for size in sizes) + 8 > FILE
                continue
            expected += [each.body for each in messages]
            assert len({each.phys_offset // FILE for each in appended}) == 1
            for one, two in itertools.pairwise(appended):
                assert two.phys_offset == one.phys_offset + one.size
            assert appended[-1].phys_offset % FILE + appended[-1].size + 8 <= FILE
            if data.draw(st.booleans()):
                store.commit()
        store.commit()
        assert bodies(store) == expected


# -- topics that go -------------------------------------------------------------------------------------


def test_dropping_a_topic_deletes_its_queues(store: MessageStore) -> None:
    put_all(store, [*numbered(3), *numbered(2, queue_id=1), *numbered(1, topic="other")])
    store.flush_queues()
    store.drop_topic("t")
    assert set(store.queues) == {("other", 0)}
    assert files_below(store.queue_root) == ["other/0/00000000000000000000"]
    assert bodies(store, "other") == [b"00000000"]


def test_a_topic_made_again_starts_at_zero(store: MessageStore) -> None:
    put_all(store, numbered(3))
    store.flush_queues()
    store.drop_topic("t")
    put_all(store, numbered(2, start=50))
    assert bodies(store) == [b"00000050", b"00000051"]


def test_dropping_a_topic_between_put_and_commit(store: MessageStore) -> None:
    """A delete may come in the same turn as a send. The queue must not come back from the dead: it would
    write its entries into the files of a topic made again under the same name."""
    store.put(message(b"late"))
    store.drop_topic("t")
    store.commit()
    put_all(store, numbered(1, start=50))
    store.flush_queues()
    assert bodies(store) == [b"00000050"]


def test_a_dropped_topic_leaves_nothing_to_flush(store: MessageStore) -> None:
    store.put(message(b"late"))
    store.drop_topic("t")
    store.commit()
    store.flush_queues()
    assert files_below(store.queue_root) == []


# -- disks that refuse ----------------------------------------------------------------------------------


def refuse_writes(number: int, where: str = "") -> Callable[..., int]:
    """pwrite for a disk that fails, for files whose path contains `where`."""
    whole = os.pwrite

    def pwrite(descriptor: int, data: bytes, at: int) -> int:
        if where in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(number, os.strerror(number))
        return whole(descriptor, data, at)

    return pwrite


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_commit_that_fails_stores_nothing(store: MessageStore, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    put_all(store, [message(b"first")])
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", refuse_writes(number))
        lost = store.put(message(b"lost"))
        store.put(message(b"lost too", queue_id=1))
        with pytest.raises(StoreError, match=os.strerror(number)):
            store.commit()
    assert not store.has_pending
    assert bodies(store) == [b"first"]
    assert bodies(store, queue_id=1) == []
    again = store.put(message(b"second"))
    store.commit()
    assert (again.queue_offset, again.phys_offset) == (lost.queue_offset, lost.phys_offset)
    assert bodies(store) == [b"first", b"second"]
    assert store.messages_put == 2


def test_a_refused_message_does_not_come_back_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what was refused may be on the disk. The producer was told no: what it sends next takes that
    place, and nothing behind it may be mistaken for a message."""
    store = new_store(tmp_path / "store")
    whole = os.pwrite

    def written_but_failed(descriptor: int, data: bytes, at: int) -> int:
        whole(descriptor, data, at)
        raise OSError(errno.EIO, "Input/output error")

    for each in numbered(3, start=90):
        store.put(each)
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", written_but_failed)
        with pytest.raises(StoreError):
            store.commit()
    put_all(store, numbered(1))
    crashed = crash_copy(store, tmp_path / "crashed")
    store.close()
    with opened(crashed) as store:
        assert bodies(store) == [b"00000000"]


def can_mount() -> bool:
    return os.geteuid() == 0 and Path("/bin/mount").exists()


@contextmanager
def small_disk(at: Path, kibibytes: int) -> Iterator[Path]:
    at.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(at)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("cannot mount a small disk here")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@pytest.mark.skipif(not can_mount(), reason="needs root")
def test_a_full_disk(tmp_path: Path) -> None:
    """Sends fail while it is full, work again when there is room, and all that was accepted is there."""
    with small_disk(tmp_path / "disk", 256) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(64 * 1024))
        store = new_store(disk / "store", file_size=64 * 1024, queue_entries=1000)
        accepted, refused = [], 0
        for number in range(600):
            each = message(b"%08d" % number * 60)
            store.put(each)
            try:
                store.commit()
                accepted.append(each.body)
            except StoreError as error:
                assert "No space left on device" in error.message
                refused += 1
                if refused == 5:
                    ballast.unlink()
                if refused > 100:
                    break
        assert refused > 5
        assert len(accepted) > 200
        assert bodies(store) == accepted
        drop_without_close(store)
        with opened(disk / "store", file_size=64 * 1024, queue_entries=1000) as again:
            assert bodies(again) == accepted


def test_queues_that_cannot_be_written_hold_no_send_up(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", refuse_writes(errno.ENOSPC, "consumequeue"))
        for _ in range(2):
            put_all(store, numbered(150))
            store.flush_queues()
        assert len(records(store)) == 300
    store.flush_queues()
    assert len(records(store)) == 300


def test_a_queue_that_cannot_be_written_does_not_hold_up_the_others(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(store, [each for n in range(20) for each in numbered(1, topic=f"t{n}")])
    monkeypatch.setattr(os, "pwrite", refuse_writes(errno.EIO, "consumequeue/t7/"))
    store.flush_queues()
    dirty = [queue.topic for queue in store.queues.values() if queue.is_dirty]
    assert dirty == ["t7"]


def test_a_disk_that_refuses_is_complained_of_once(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", refuse_writes(errno.ENOSPC, "consumequeue"))
        put_all(store, [each for n in range(7) for each in numbered(1, topic=f"t{n}")])
        store.flush_queues()
        store.flush_queues()
    store.flush_queues()
    assert len(caplog.records) == 1
    assert store.dirty_queues == []


def test_a_stop_on_a_disk_that_refuses_is_not_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries that could not be written have to be rebuilt by the next start."""
    store = new_store(tmp_path / "store")
    put_all(store, [*numbered(3), *numbered(3, topic="other")])
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", refuse_writes(errno.ENOSPC, "consumequeue/t/"))
        try:
            store.close()
        except StoreError:
            drop_without_close(store)
    with opened(tmp_path / "store") as store:
        assert bodies(store) == [each.body for each in numbered(3)]
        assert bodies(store, "other") == [each.body for each in numbered(3)]


def test_dropping_a_topic_between_write_and_publish(store: MessageStore) -> None:
    """With SYNC_FLUSH that is as long as the disk takes."""
    store.put(message(b"late"))
    entries = store.write()
    store.drop_topic("t")
    store.publish(entries)
    put_all(store, numbered(1, start=50))
    store.flush_queues()
    assert bodies(store) == [b"00000050"]


# -- written, then published ----------------------------------------------------------------------------


def test_what_is_written_is_not_readable_before_it_is_published(store: MessageStore) -> None:
    first = [store.put(message(b"1")), store.put(message(b"2"))]
    one = store.write()
    third = store.put(message(b"3"))
    two = store.write()
    assert [each.queue_offset for each in (*first, third)] == [0, 1, 2]
    assert bodies(store) == []
    assert {queue.topic for queue in store.publish(one)} == {"t"}
    assert bodies(store) == [b"1", b"2"]
    store.publish(two)
    assert bodies(store) == [b"1", b"2", b"3"]


def test_a_write_that_fails_behind_one_that_is_not_published(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(message(b"1"))
    one = store.write()
    for body in (b"lost", b"lost too"):
        store.put(message(body))
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", refuse_writes(errno.ENOSPC))
        with pytest.raises(StoreError):
            store.write()
    assert store.put(message(b"2")).queue_offset == 1
    two = store.write()
    store.publish(one)
    store.publish(two)
    assert bodies(store) == [b"1", b"2"]


def test_killed_between_write_and_publish(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    put_all(store, [message(b"1")])
    store.flush_queues()
    store.put(message(b"2"))
    store.write()
    drop_without_close(store)
    with opened(tmp_path) as store:
        assert bodies(store) == [b"1", b"2"]


def test_stopped_between_write_and_publish(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    put_all(store, [message(b"1")])
    store.put(message(b"2", topic="other"))
    store.write()
    store.close()
    with opened(tmp_path) as store:
        assert bodies(store) == [b"1"]
        assert bodies(store, "other") == [b"2"]
