"""Reading a queue: every status, filters, limits, and looking up by time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqctl.store import record
from mqctl.store.fetch import NEAR_BYTES, SCAN_ENTRIES, Fetched, FetchStatus, Limits, fetch, search_by_time, stored_at
from mqctl.store.javahash import java_hash
from mqctl.store.store import MessageStore
from tests.unit.store.stores import EVERYTHING, Clock, message, new_store, numbered, opened, parse_all, put_all


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[MessageStore]:
    with opened(tmp_path / "store", clock) as store:
        yield store


def pull(store: MessageStore, queue_offset: int, limits: Limits = EVERYTHING, *tags: str) -> Fetched:
    return fetch(store, "t", 0, queue_offset, limits, {java_hash(tag) for tag in tags} or None)


def offsets(fetched: Fetched) -> list[int]:
    found = [each.queue_offset for each in parse_all(fetched.records)]
    assert len(found) == fetched.found
    return found


# -- statuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue_offset", [-1, 0, 5, 2**62])
def test_no_such_queue(store: MessageStore, queue_offset: int) -> None:
    assert pull(store, queue_offset) == Fetched(FetchStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)


@pytest.mark.parametrize("queue_offset", [-1, 0, 5, 2**62])
def test_an_empty_queue(store: MessageStore, queue_offset: int) -> None:
    store.queue("t", 0)
    assert pull(store, queue_offset) == Fetched(FetchStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


def test_found(store: MessageStore) -> None:
    put_all(store, numbered(5))
    fetched = pull(store, 0)
    assert fetched[:5] == (FetchStatus.FOUND, 5, 0, 5, 5)
    assert [each.body for each in parse_all(fetched.records)] == [each.body for each in numbered(5)]
    assert offsets(pull(store, 3)) == [3, 4]


def test_at_the_end(store: MessageStore) -> None:
    put_all(store, numbered(5))
    assert pull(store, 5) == Fetched(FetchStatus.OFFSET_OVERFLOW_ONE, 5, 0, 5)


@pytest.mark.parametrize("queue_offset", [6, 7, 2**62])
def test_past_the_end(store: MessageStore, queue_offset: int) -> None:
    put_all(store, numbered(5))
    assert pull(store, queue_offset) == Fetched(FetchStatus.OFFSET_OVERFLOW_BADLY, 5, 0, 5)


@pytest.mark.parametrize("queue_offset", [-1, -(2**62)])
def test_below_zero(store: MessageStore, queue_offset: int) -> None:
    put_all(store, numbered(5))
    assert pull(store, queue_offset) == Fetched(FetchStatus.OFFSET_TOO_SMALL, 0, 0, 5)


def test_below_the_minimum(store: MessageStore) -> None:
    put_all(store, numbered(5))
    store.queues["t", 0].min_offset = 3
    assert pull(store, 2) == Fetched(FetchStatus.OFFSET_TOO_SMALL, 3, 3, 5)
    assert offsets(pull(store, 3)) == [3, 4]


def test_nothing_matches(store: MessageStore) -> None:
    put_all(store, numbered(5, tags="a"))
    assert pull(store, 1, EVERYTHING, "b") == Fetched(FetchStatus.NO_MATCHED_MESSAGE, 5, 0, 5)


def test_the_log_file_is_gone(store: MessageStore) -> None:
    put_all(store, numbered(25))
    store.log.segments.remove(0)
    fetched = pull(store, 0, Limits(4, 1 << 20))
    assert fetched == Fetched(FetchStatus.MESSAGE_WAS_REMOVING, 4, 0, 25)


def test_the_log_file_is_gone_for_some(store: MessageStore) -> None:
    """What is counted is what is returned."""
    put_all(store, numbered(15))
    per_file = next(n for n in range(15) if store.queues["t", 0].entry(n)[0] >= 1024)  # type: ignore[index]
    store.log.segments.remove(0)
    fetched = fetch(store, "t", 0, per_file - 2, Limits(5, 1 << 20))
    assert fetched.status is FetchStatus.FOUND
    assert next(each.queue_offset for each in parse_all(fetched.records)) == per_file
    assert fetched.found == len(parse_all(fetched.records))


def test_the_queue_file_is_gone(store: MessageStore) -> None:
    put_all(store, numbered(25))
    store.flush_queues()
    store.queues["t", 0]._segments.remove(10 * 20)
    assert pull(store, 12) == Fetched(FetchStatus.OFFSET_FOUND_NULL, 20, 0, 25)
    assert offsets(pull(store, 20)) == [20, 21, 22, 23, 24]


def test_what_is_not_committed_is_not_there(store: MessageStore) -> None:
    store.put(message())
    assert pull(store, 0).status is FetchStatus.NO_MESSAGE_IN_QUEUE
    store.commit()
    assert pull(store, 0).status is FetchStatus.FOUND
    store.put(message())
    assert pull(store, 1) == Fetched(FetchStatus.OFFSET_OVERFLOW_ONE, 1, 0, 1)


# -- boundaries -----------------------------------------------------------------------------------------


def test_a_pull_ends_with_the_queue_file(store: MessageStore) -> None:
    put_all(store, numbered(25))
    store.flush_queues()
    assert offsets(pull(store, 7)) == [7, 8, 9]
    assert offsets(pull(store, 10)) == list(range(10, 20))


def test_a_pull_ends_where_memory_begins(store: MessageStore) -> None:
    put_all(store, numbered(5))
    store.flush_queues()
    put_all(store, numbered(4, start=5))
    fetched = pull(store, 3)
    assert (offsets(fetched), fetched.next_offset) == ([3, 4], 5)
    assert offsets(pull(store, 5)) == [5, 6, 7, 8]


def test_a_pull_across_log_files(store: MessageStore) -> None:
    put_all(store, numbered(30))
    assert len(store.log.segments.starts) > 2
    assert offsets(pull(store, 0)) == list(range(30))


def test_messages_of_other_queues_between(store: MessageStore) -> None:
    for number in range(6):
        store.put(message(b"%d" % number, queue_id=number % 2))
    store.commit()
    fetched = pull(store, 0)
    assert [each.body for each in parse_all(fetched.records)] == [b"0", b"2", b"4"]


@settings(max_examples=60)
@given(
    sent=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0, 10, NEAR_BYTES - 1000, NEAR_BYTES, NEAR_BYTES + 1000])),
        min_size=1,
        max_size=25,
    ),
    limits=st.builds(Limits, st.integers(1, 30), st.integers(1, 10 * NEAR_BYTES)),
)
def test_however_the_records_lie(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[int, int]], limits: Limits
) -> None:
    with opened(tmp_path_factory.mktemp("lie") / "store", file_size=4 * NEAR_BYTES) as store:
        put_all(store, [message(bytes(size), queue_id=queue_id) for queue_id, size in sent])
        for queue in store.queues.values():
            next_offset, got = 0, b""
            while next_offset < queue.max_offset:
                fetched = fetch(store, "t", queue.queue_id, next_offset, limits)
                assert 0 < fetched.found == fetched.next_offset - next_offset <= limits.messages
                got += fetched.records
                next_offset = fetched.next_offset
            wanted = [store.log.read_record(queue.entry(number)[0]) for number in range(queue.max_offset)]
            assert got == b"".join(wanted)


def test_a_place_named_twice(store: MessageStore) -> None:
    """What takes the place of lost entries: the next message, once more."""
    put_all(store, numbered(3))
    queue = store.queue("t", 0)
    entries = [queue.entry(number) for number in (0, 1, 1, 0, 2)]
    again = store.queue("t", 7)
    for entry in entries:
        again.append(*entry)
    again.flush()
    fetched = fetch(store, "t", 7, 0, EVERYTHING)
    assert offsets(fetched) == [0, 1, 1, 0, 2]


# -- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
def test_so_many_messages(store: MessageStore, count: int) -> None:
    put_all(store, numbered(5))
    fetched = pull(store, 0, Limits(count, 1 << 20))
    assert (offsets(fetched), fetched.next_offset) == (list(range(count)), count)


def test_so_many_bytes(store: MessageStore) -> None:
    put_all(store, numbered(5))
    size = store.queues["t", 0].entry(0)[1]  # type: ignore[index]
    assert offsets(pull(store, 0, Limits(32, 3 * size))) == [0, 1, 2]
    assert offsets(pull(store, 0, Limits(32, 3 * size - 1))) == [0, 1]
    assert pull(store, 0, Limits(32, 3 * size - 1)).next_offset == 2


@pytest.mark.parametrize("size_bytes", [0, 1, 50])
def test_the_first_message_whatever_its_size(store: MessageStore, size_bytes: int) -> None:
    put_all(store, [message(bytes(500)), message(bytes(10))])
    fetched = pull(store, 0, Limits(32, size_bytes))
    assert (offsets(fetched), fetched.next_offset) == ([0], 1)


# -- filters --------------------------------------------------------------------------------------------


def test_one_tag_of_several(store: MessageStore) -> None:
    put_all(store, [message(b"%d" % n, tags=tag) for n, tag in enumerate(["a", "b", "", "a", "c", "b"])])
    fetched = pull(store, 0, EVERYTHING, "a")
    assert (offsets(fetched), fetched.next_offset) == ([0, 3], 6)
    assert offsets(pull(store, 0, EVERYTHING, "a", "c")) == [0, 3, 4]
    assert offsets(pull(store, 4, EVERYTHING, "b")) == [5]


def test_tags_with_negative_hashes(store: MessageStore) -> None:
    """Stored as 64 bits, compared as 32."""
    assert java_hash("TagB10") < 0
    put_all(store, [message(b"0", tags="TagA"), message(b"1", tags="TagB10")])
    assert offsets(pull(store, 0, EVERYTHING, "TagB10")) == [1]
    assert offsets(pull(store, 0, EVERYTHING, "TagA")) == [0]


def test_only_the_low_bits_count(store: MessageStore) -> None:
    put_all(store, [message(b"0", tags_code=(7 << 32) + 5), message(b"1", tags_code=-1)])
    assert offsets(fetch(store, "t", 0, 0, EVERYTHING, {5})) == [0]
    assert offsets(fetch(store, "t", 0, 0, EVERYTHING, {-1})) == [1]


def test_a_filter_stops_behind_the_last_one_it_takes(store: MessageStore) -> None:
    put_all(store, [message(b"%d" % n, tags=tag) for n, tag in enumerate(["a", "b", "b", "a", "b", "a"])])
    fetched = pull(store, 0, Limits(2, 1 << 20), "a")
    assert offsets(fetched) == [0, 3]
    assert fetched.next_offset in (4, 5)  # the entry behind may have been looked at, the next match not
    assert offsets(pull(store, fetched.next_offset, Limits(2, 1 << 20), "a")) == [5]


def test_a_filter_looks_only_so_far(tmp_path: Path) -> None:
    with opened(tmp_path / "s", file_size=1 << 20, queue_entries=5000) as store:
        put_all(store, [*numbered(SCAN_ENTRIES + 5, tags="a"), message(tags="b")])
        first = pull(store, 0, Limits(32, 1 << 20), "b")
        assert first[:2] == (FetchStatus.NO_MATCHED_MESSAGE, SCAN_ENTRIES)
        assert offsets(pull(store, first.next_offset, Limits(32, 1 << 20), "b")) == [SCAN_ENTRIES + 5]


# -- by time --------------------------------------------------------------------------------------------


@pytest.fixture
def timed(store: MessageStore, clock: Clock) -> MessageStore:
    """Stored at 1000, 2000, 3000, 3000, 3000, 5000."""
    for at in (1000, 2000, 3000, 3000, 3000, 5000):
        clock.now_ms = at
        put_all(store, [message()])
    return store


@pytest.mark.parametrize(
    ("timestamp", "queue_offset"),
    [
        (-(2**62), 0),
        (0, 0),
        (999, 0),
        (1000, 0),  # exact
        (1001, 0),
        (1499, 0),
        (1500, 0),  # as near to both: the earlier
        (1501, 1),
        (2000, 1),
        (2499, 1),
        (2501, 2),
        (3000, 2),  # the first of several
        (3001, 4),
        (4000, 4),
        (4001, 5),
        (5000, 5),
        (5001, 5),  # after all: the last, not the end
        (2**62, 5),
    ],
)
def test_nearest_in_time(timed: MessageStore, timestamp: int, queue_offset: int) -> None:
    assert search_by_time(timed, timed.queues["t", 0], timestamp) == queue_offset
    timed.flush_queues()
    assert search_by_time(timed, timed.queues["t", 0], timestamp) == queue_offset


def test_time_starts_at_the_minimum(timed: MessageStore) -> None:
    timed.queues["t", 0].min_offset = 2
    assert search_by_time(timed, timed.queues["t", 0], 0) == 2
    assert search_by_time(timed, timed.queues["t", 0], 3000) == 2


def test_an_empty_queue_has_no_times(store: MessageStore) -> None:
    assert search_by_time(store, store.queue("t", 0), 1000) == 0
    assert stored_at(store, store.queue("t", 0), 0) is None


def test_when_each_was_stored(timed: MessageStore) -> None:
    queue = timed.queues["t", 0]
    assert [stored_at(timed, queue, n) for n in range(-1, 7)] == [None, 1000, 2000, 3000, 3000, 3000, 5000, None]


def test_times_of_messages_from_ipv6_clients(tmp_path: Path) -> None:
    clock = Clock(777)
    store = new_store(tmp_path / "s", clock)
    put_all(store, [message(born_host=record.pack_host("2001:db8::1", 5))])
    assert stored_at(store, store.queues["t", 0], 0) == 777
    store.close()
