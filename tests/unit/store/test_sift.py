"""Choosing messages by their properties: what is found, where the next pull begins, and how far one pull goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqctl.store import record, sift
from mqctl.store.fetch import CHEAP_CONDITIONS, SCAN_ENTRIES, Fetched, FetchStatus, Limits, fetch, places
from mqctl.store.properties import format_properties, get_property
from mqctl.store.store import MessageStore, NewMessage
from tests.unit.store.stores import EVERYTHING, message, opened, parse_all, put_all


class Multiples:
    """Lets every n-th message through; counts how many it was asked about."""

    def __init__(self, of: int, size: int = 1) -> None:
        self.of = of
        self.size = size
        self.asked = 0

    def matches(self, properties: str) -> bool:
        self.asked += 1
        return int(get_property(properties, "n") or "1") % self.of == 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path / "store", file_size=1 << 20, queue_entries=1000) as store:
        yield store


def numbered(count: int, body: bytes = b"body", topic: str = "t") -> list[NewMessage]:
    texts = [format_properties({"TAGS": "x", "n": str(number)}).encode() for number in range(count)]
    return [message(body, topic=topic, properties=text) for text in texts]


def pull(store: MessageStore, queue_offset: int, wanted: Multiples, limits: Limits = EVERYTHING) -> Fetched:
    return fetch(store, "t", 0, queue_offset, limits, wanted)


def offsets(fetched: Fetched) -> list[int]:
    found = [each.queue_offset for each in parse_all(fetched.records)]
    assert len(found) == fetched.found
    return found


def test_only_what_matches(store: MessageStore) -> None:
    put_all(store, numbered(20))
    fetched = pull(store, 3, Multiples(5))
    assert fetched[:5] == (FetchStatus.FOUND, 20, 0, 20, 3)
    assert offsets(fetched) == [5, 10, 15]


def test_records_between_others_are_found_as_well(store: MessageStore) -> None:
    for own, other in zip(numbered(20), numbered(20, topic="other"), strict=True):
        put_all(store, [own, other])
    assert offsets(pull(store, 0, Multiples(7))) == [0, 7, 14]


def test_nothing_matches(store: MessageStore) -> None:
    put_all(store, numbered(20)[1:])
    assert pull(store, 0, Multiples(100)) == Fetched(FetchStatus.NO_MATCHED_MESSAGE, 19, 0, 19)


def test_the_next_pull_begins_at_the_first_that_was_too_many(store: MessageStore) -> None:
    put_all(store, numbered(20))
    wanted = Multiples(5)
    fetched = pull(store, 0, wanted, Limits(2, 1 << 20))
    assert (offsets(fetched), fetched.next_offset) == ([0, 5], 10)
    assert offsets(pull(store, fetched.next_offset, wanted)) == [10, 15]


def test_the_first_comes_whatever_its_size(store: MessageStore) -> None:
    put_all(store, numbered(20))
    fetched = pull(store, 0, Multiples(5), Limits(10, 1))
    assert (offsets(fetched), fetched.next_offset) == ([0], 5)


def test_one_pull_looks_at_so_many_messages(store: MessageStore) -> None:
    put_all(store, numbered(SCAN_ENTRIES + 10)[1:])
    wanted = Multiples(10_000)
    fetched = pull(store, 0, wanted)
    assert (fetched.status, fetched.next_offset) == (FetchStatus.NO_MATCHED_MESSAGE, SCAN_ENTRIES)
    assert wanted.asked == SCAN_ENTRIES


def test_at_fewer_the_more_there_is_to_check(store: MessageStore) -> None:
    put_all(store, numbered(SCAN_ENTRIES + 10)[1:])
    assert pull(store, 0, Multiples(10_000, size=CHEAP_CONDITIONS * 4)).next_offset == SCAN_ENTRIES // 4
    assert pull(store, 0, Multiples(10_000, size=10**9)).next_offset == 1


def test_at_fewer_the_larger_they_are(tmp_path: Path) -> None:
    body = bytes(sift.SIFT_BYTES // 5)
    with opened(tmp_path / "large", file_size=16 << 20, queue_entries=1000) as store:
        put_all(store, numbered(10, body)[1:])
        wanted = Multiples(10_000)
        assert pull(store, 0, wanted).next_offset == wanted.asked == 4
        put_all(store, [message(bytes(sift.SIFT_BYTES), properties=b"n\x0111")])
        assert pull(store, 9, wanted).next_offset == 10


def test_deleted_records(tmp_path: Path) -> None:
    with opened(tmp_path / "small", file_size=1024, queue_entries=1000) as store:
        put_all(store, numbered(30))
        segments = store.log.segments
        segments.remove(segments.starts[0])
        fetched = pull(store, 0, Multiples(1))
        assert fetched.status is FetchStatus.FOUND
        assert offsets(fetched)[0] > 0 and offsets(fetched)[-1] == fetched.next_offset - 1 == 29
        while len(segments.starts) > 1:
            segments.remove(segments.starts[0])
        assert pull(store, 0, Multiples(100), Limits(1, 1)).next_offset == 30


def test_places_hold_all_that_a_pull_looks_at(store: MessageStore) -> None:
    for own, other in zip(numbered(20), numbered(20, topic="other"), strict=True):
        put_all(store, [own, own, other])
    found = places(store, "t", 0, 10, EVERYTHING, Multiples(5))
    entries = [store.queues["t", 0].entry(each) for each in range(10, 40)]
    assert sum(place.size for place in found) == sum(entry[1] for entry in entries if entry is not None)


@pytest.mark.parametrize("hosts", [0, 0x10, 0x20, 0x30])
def test_properties_alone(hosts: int) -> None:
    wide = [bytes(20) if hosts & bit else bytes(8) for bit in (0x10, 0x20)]
    properties = "n\x015\x02käse\x01ja".encode()
    size = record.encoded_size(hosts, 1, 4, len(properties))
    data = record.encode(size, b"t", 0, 0, 0, 0, hosts, 0, wide[0], 0, wide[1], 0, 0, b"body", properties)
    assert record.properties_of(b"xx" + data + b"yy", 2, 2 + size) == properties.decode()
    for end in (0, 10, size - 1, size + 1):
        with pytest.raises(record.RecordError):
            record.properties_of(data, 0, end)
    with pytest.raises(record.RecordError):
        record.properties_of(data[: size // 2], 0, size)


def test_damaged_records_match_nothing(store: MessageStore) -> None:
    put_all(store, numbered(3))
    entry = store.queues["t", 0].entry(1)
    assert entry is not None
    path = store.log.segments.path(0)
    with path.open("r+b") as file:
        file.seek(entry[0])
        file.write(b"\xff" * entry[1])
    assert offsets(pull(store, 0, Multiples(1))) == [0, 2]
