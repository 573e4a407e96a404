"""The key index: bytes as RocketMQ writes them, and lookups that find what was added, whatever happened since."""

from __future__ import annotations

import time
from pathlib import Path
from struct import pack, unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
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

from mqctl.store import index as index_module
from mqctl.store.index import KeyIndex, indexed_keys
from mqctl.store.indexfile import Geometry, dump

# -- bytes --------------------------------------------------------------------------------------------------


def test_a_file_that_a_java_broker_filled(tmp_path: Path) -> None:
    """The numbers are of a real file with 100 slots and maxIndexNum 400. Of its messages only the first and
    the place of the last are known; the ones between decide nothing but the middle."""
    geometry = Geometry(100, 400)
    index = opened(tmp_path, geometry)
    first_timestamp, last_timestamp, last_offset = 0x1A1ED46E94D, 0x1A1ED4C908F, 779046
    properties = "KEYS\x01k1 k2\x02UNIQ_KEY\x017F00000100000000000000000000AB01\x02CLUSTER\x01FxCluster\x02TAGS\x01TagA"
    index.add(0, first_timestamp, "fx_t1", indexed_keys(properties))
    index.add(182, first_timestamp, "fx_t1", [f"key{number}" for number in range(395)])
    index.add(last_offset, last_timestamp, "fx_t1", ["last"])
    index.close()
    (data,) = contents(tmp_path)
    assert len(data) == 40 + 400 + 8000
    assert (
        data[:40].hex(" ", -8) == "000001a1ed46e94d 000001a1ed4c908f 0000000000000000 00000000000be326 0000006400000190"
    )
    assert data[440:460] == bytes(20)
    assert data[460:480].hex() == "5712c7d5" + "00" * 16
    assert data[480:484].hex() == "27c67881"
    assert data[500:504].hex() == "27c67880"


KEYS = st.sampled_from(["Aa", "BB", "AaAa", "BBBB", "AaBB", "k", "schlüssel", "7F0000010A2B18B4AAC20000000000AB"])
STEPS = st.lists(st.tuples(st.integers(0, 3000), st.lists(KEYS, max_size=4)), max_size=30)


def as_messages(steps: list[tuple[int, list[str]]]) -> list[Message]:
    found, timestamp = [], BEGIN
    for number, (later, keys) in enumerate(steps):
        timestamp += later
        found.append(Message(100 * number, timestamp, "ab"[number % 2], tuple(keys)))
    return found


@given(STEPS, st.integers(1, 12), st.integers(1, 7), st.none() | st.integers(1, 5), st.booleans())
def test_bytes_do_not_depend_on_how_the_work_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, list[str]]],
    tail_keys: int,
    hash_slots: int,
    limit: int | None,
    settles: bool,
) -> None:
    geometry = Geometry(hash_slots, 9)
    directory = tmp_path_factory.mktemp("index")
    index = opened(directory, geometry, tail_keys=tail_keys)
    plain = PlainFiles(geometry)
    for message in as_messages(steps):
        index.add(*message)
        plain.add(message)
        if settles:
            index.settle(limit)
        else:
            index.drain(limit)
    index.close()
    assert contents(directory) == plain.contents


def test_the_clock_set_back_counts_as_no_time(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(0, BEGIN, "t", ["a"])
    index.add(1, BEGIN - 5000, "t", ["b"])
    index.add(2, BEGIN + (1 << 50), "t", ["c"])
    assert index.query("t", "b", 9, BEGIN, BEGIN) == [1]
    index.close()
    (data,) = contents(tmp_path)
    seconds = [unpack_from(">iqii", data, SMALL.entry_at(number))[2] for number in (1, 2, 3)]
    assert seconds == [0, 0, 0x7FFFFFFF]


def test_names_are_local_times_that_ascend(tmp_path: Path) -> None:
    now = [1_700_000_000.123]
    index = opened(tmp_path, clock=lambda: now[0])
    add_all(index, messages(8))
    index.settle()
    now[0] -= 3600
    add_all(index, messages(8, start=8))
    index.close()
    first, second = (path.name for path in files(tmp_path))
    assert first == time.strftime("%Y%m%d%H%M%S", time.localtime(1_700_000_000)) + "123"
    assert int(second) == int(first) + 1


def test_a_dump_shows_header_entries_and_slots(tmp_path: Path) -> None:
    index = opened(tmp_path)
    add_all(index, [Message(7, BEGIN, "t", ("Aa",)), Message(9, BEGIN + 2500, "t", ("BB",))])
    index.close()
    assert list(dump(files(tmp_path)[0], SMALL)) == [
        "Header(begin_timestamp=1700000000000, end_timestamp=1700000002500, begin_phys_offset=7, end_phys_offset=9,"
        " used_slots=1, next_entry=3)",
        "entry 1: hash=3491503 slot=3 offset=7 +0s previous=0",
        "entry 2: hash=3491503 slot=3 offset=9 +2s previous=1",
        "slot 3: newest=2",
    ]


# -- adding and looking up ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("", []),
        ("TAGS\x01x", []),
        ("KEYS\x01a", ["a"]),
        ("KEYS\x01 a  b \x02UNIQ_KEY\x01u\x02", ["u", "a", "b"]),
        ("UNIQ_KEY\x01u\x02KEYS\x01a\tb", ["u", "a\tb"]),
    ],
)
def test_which_keys_a_message_has(properties: str, expected: list[str]) -> None:
    assert indexed_keys(properties) == expected


def test_nothing_is_made_before_the_first_key(tmp_path: Path) -> None:
    index = opened(tmp_path / "index")
    index.add(0, BEGIN, "t", [])
    index.close()
    assert not (tmp_path / "index").exists()


def test_added_is_found_before_and_after_every_step(tmp_path: Path) -> None:
    index = opened(tmp_path, Geometry(5, 100), tail_keys=4)
    known = messages(10, keys=("shared",))
    add_all(index, known)
    assert index.backlog == 10
    while index.drain(1):
        assert finds_all(index, known)
    assert index.backlog == 0
    while index.settle(1):
        assert finds_all(index, known)
    assert finds_all(index, known)
    index.close()


def test_drain_keeps_the_tail_in_memory_and_settle_writes_it(tmp_path: Path) -> None:
    index = opened(tmp_path, tail_keys=4)
    add_all(index, messages(3))
    assert not index.drain()
    assert contents(tmp_path)[0][36:40] == pack(">i", 1)
    assert not index.settle()
    assert contents(tmp_path)[0][36:40] == pack(">i", 4)
    index.close()


def test_equal_hashes_do_not_count_against_the_limit(tmp_path: Path) -> None:
    index = opened(tmp_path)
    known = [Message(number, BEGIN, "t", ("Aa" if number < 2 else "BB",)) for number in range(20)]
    add_all(index, known)
    assert find(index, known, "t", "Aa", max_count=2) == [0, 1]
    assert index.query("t", "Aa", 2, 0, FOREVER) == [18, 19]
    index.close()


def test_too_many_equal_hashes_end_a_lookup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index_module, "MAX_REJECTED", 5)
    index = opened(tmp_path)
    known = [Message(number, BEGIN, "t", ("Aa" if number < 2 else "BB",)) for number in range(20)]
    add_all(index, known)
    assert find(index, known, "t", "Aa") == []
    assert "gave up on key 'Aa'" in caplog.text
    index.close()


def test_the_newest_win_and_no_more_than_asked_for(tmp_path: Path) -> None:
    index = opened(tmp_path, max_results=4)
    known = messages(10, keys=("k",))
    add_all(index, known)
    assert index.query("t", "k", 3, 0, FOREVER) == [700, 800, 900]
    assert index.query("t", "k", 99, 0, FOREVER) == [600, 700, 800, 900]
    assert index.query("t", "k", 0, 0, FOREVER) == []
    assert index.query("other", "k", 9, 0, FOREVER) == []
    index.close()


@given(STEPS, st.integers(-2, 60), st.integers(-2, 60), st.integers(1, 12), KEYS)
def test_the_time_window(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, list[str]]],
    begin: int,
    end: int,
    max_count: int,
    key: str,
) -> None:
    """Whole seconds, so that nothing is rounded."""
    known = as_messages([(later // 1000 * 1000, keys) for later, keys in steps])
    index = opened(tmp_path_factory.mktemp("index"), tail_keys=4)
    add_all(index, known)
    begin_ms, end_ms = BEGIN + 1000 * begin, BEGIN + 1000 * end
    right = [m.phys_offset for m in known if m.topic == "a" and key in m.keys and begin_ms <= m.timestamp <= end_ms]
    matching = {m.phys_offset for m in known if m.topic == "a" and key in m.keys}
    assert index.query("a", key, max_count, begin_ms, end_ms, matching.__contains__) == right[-max_count:]
    index.close()


def test_times_are_rounded_down_to_seconds_after_the_files_begin(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(0, BEGIN + 300, "t", ["a"])
    index.add(1, BEGIN + 1900, "t", ["b"])
    assert index.query("t", "b", 9, BEGIN + 1300, BEGIN + 1300) == [1]
    assert index.query("t", "b", 9, BEGIN + 1301, FOREVER) == []
    index.close()


def test_the_first_entry_of_a_later_file_is_found_at_its_own_time(tmp_path: Path) -> None:
    """Its seconds in the file count from the end of the file before: an hour, here."""
    index = opened(tmp_path)
    add_all(index, messages(8))
    later = BEGIN + 3_600_000
    index.add(5000, later, "t", ["x"])
    assert index.query("t", "x", 9, later, later) == [5000]
    index.close()


def test_a_message_added_again_shows_once(tmp_path: Path) -> None:
    index = opened(tmp_path)
    add_all(index, messages(3, keys=("k",)))
    index.close()
    index = opened(tmp_path)
    add_all(index, messages(3, keys=("k",)))
    assert index.backlog == 1, "those before the newest are passed over"
    assert index.query("t", "k", 64, 0, FOREVER) == [0, 100, 200]
    index.close()


# -- a model ------------------------------------------------------------------------------------------------


class IndexMachine(RuleBasedStateMachine):
    """Adds, writes in pieces, stops in clean and unclean ways, cuts, deletes; after each step every key finds
    the messages that have it."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[Message] = []
        self.next_offset = 0
        self.timestamp = BEGIN
        self.log_begin = 0

    @initialize(slots=st.integers(1, 6), entries=st.integers(3, 9), tail_keys=st.integers(1, 6))
    def start(self, slots: int, entries: int, tail_keys: int) -> None:
        self.geometry = Geometry(slots, entries)
        self.tail_keys = tail_keys
        self.directory = self.base / str(time.monotonic_ns())
        self.index = self.open(was_clean=True)

    base: Path

    def open(self, was_clean: bool) -> KeyIndex:
        return opened(
            self.directory, self.geometry, was_clean, tail_keys=self.tail_keys, flushed_timestamp=self.flushed()
        )

    def flushed(self) -> int:
        return self.index.flushed_timestamp if hasattr(self, "index") else 0

    @rule(keys=st.lists(KEYS, max_size=4), later=st.integers(0, 3), topic=st.sampled_from(["t", "u"]))
    def add(self, keys: list[str], later: int, topic: str) -> None:
        self.timestamp += 1000 * later
        message = Message(self.next_offset, self.timestamp, topic, tuple(keys))
        self.next_offset += 10
        self.known.append(message)
        self.index.add(*message)

    @rule(limit=st.none() | st.integers(1, 9))
    def drain(self, limit: int | None) -> None:
        self.index.drain(limit)

    @rule(limit=st.none() | st.integers(1, 9))
    def settle(self, limit: int | None) -> None:
        self.index.settle(limit)

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @rule()
    def restart(self) -> None:
        self.index.close()
        self.index = self.open(was_clean=True)

    @rule()
    def crash(self) -> None:
        drop_without_close(self.index)
        self.index = self.open(was_clean=False)
        add_all(self.index, [m for m in self.known if m.phys_offset >= self.index.last_indexed_offset])

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from(self.known)).phys_offset
        self.index.truncate_after(end)
        self.known = [m for m in self.known if m.phys_offset < end]
        assert self.index.last_indexed_offset < max(end, 1)
        self.next_offset = end

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        self.log_begin = data.draw(st.sampled_from(self.known)).phys_offset
        self.index.remove_before(self.log_begin)
        self.known = [m for m in self.known if m.phys_offset >= self.log_begin]

    @invariant()
    def finds_what_is_known(self) -> None:
        if not hasattr(self, "index"):
            return
        for topic in ("t", "u"):
            for key in ("Aa", "BB", "AaAa", "k"):
                right = [m.phys_offset for m in self.known if m.topic == topic and key in m.keys]
                assert find(self.index, self.known, topic, key, 3) == right[-3:]

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.close()
            assert not list(self.directory.glob("*.bad*")) if self.directory.exists() else True


def test_the_model(tmp_path: Path) -> None:
    class Machine(IndexMachine):
        base = tmp_path

    run_state_machine_as_test(Machine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))
