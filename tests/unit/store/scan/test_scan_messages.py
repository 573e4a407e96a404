"""Messages as columns, compared with what the plain reader of records finds in the same log."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from mqctl.remoting.compression import Compression, compress
from mqctl.store import record
from mqctl.store.offline.folder import StoreFolder as OfflineFolder
from mqctl.store.properties import get_property, parse_properties
from tests.unit.store.scan.reading import EVERYTHING, bodies, read
from tests.unit.store.stores import message, opened, put_all

V6 = record.pack_host("2001:db8::7", 1234)


def expected(root: Path) -> list[record.Record]:
    folder = OfflineFolder(root)
    return [record.parse(raw.buffer, raw.position) for raw in folder.scan(lambda start, end, what: None)]


def varied(count: int, seed: int = 1) -> Iterator[Any]:
    chance = random.Random(seed)
    for number in range(count):
        properties = {
            "TAGS": chance.choice(["", "red", "grün", "x" * 70]),
            "KEYS": chance.choice(["", "one", "one two"]),
            "UNIQ_KEY": f"{number:032X}",
            "NOTTAGS": "TAGS",
        }
        names = chance.sample(list(properties), 4)
        text = "\x02".join(f"{name}\x01{properties[name]}" for name in names)
        if chance.random() < 0.2:
            text += "\x02TAGS\x01last\x02"
        wide = chance.random() < 0.3
        yield message(
            chance.randbytes(chance.choice([0, 1, 50, 200])),
            topic=chance.choice(["t", "another", "ü" * 20]),
            queue_id=number % 3,
            properties=text.encode(),
            born_host=V6 if wide else record.pack_host("10.0.0.1", number % 5),
            sys_flag=record.SYS_BORN_HOST_V6 if wide else 0,
            born_timestamp=chance.choice([0, 1_700_000_000_123, (1 << 63) - 1, -(1 << 63)]),
            flag=chance.choice([0, 7, -1]),
        )


@pytest.fixture
def varied_store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with opened(root, file_size=4096) as store:
        for each in varied(200):
            put_all(store, [each])
    return root


def test_every_field_of_every_record(varied_store: Path) -> None:
    rows = read(varied_store)
    records = expected(varied_store)
    assert [row["phys_offset"] for row in rows] == [each.phys_offset for each in records]
    for row, each in zip(rows, records, strict=True):
        assert row["store"] == "s"
        assert (row["topic"], row["queue_id"], row["queue_offset"]) == (each.topic, each.queue_id, each.queue_offset)
        assert (row["size"], row["version"], row["flag"]) == (each.size, 1, each.flag)
        assert (row["sys_flag"], row["body_crc"]) == (each.sys_flag, each.body_crc)
        assert (row["reconsume_times"], row["prepared_offset"]) == (each.reconsume_times, each.prepared_offset)
        assert (row["body"], row["body_size"]) == (each.body, len(each.body))
        assert dict(row["properties"]) == parse_properties(each.properties)
        assert row["tags"] == get_property(each.properties, "TAGS")
        assert row["keys"] == get_property(each.properties, "KEYS")
        assert row["uniq_key"] == get_property(each.properties, "UNIQ_KEY")
        assert row["msg_id"] == record.encode_msg_id(record.pack_host(*each.store_host), each.phys_offset)
        assert row["store_host"] == "127.0.0.1:10911"
        address, port = each.born_host
        assert row["born_host"] == (f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        assert int(row["file"]) <= row["phys_offset"] < int(row["file"]) + 4096
        assert row["store_time"].timestamp() * 1000 == each.store_timestamp


@pytest.mark.parametrize("part_bytes", [17, 4000, 1 << 30])
def test_parts_of_any_size_hold_each_record_once(varied_store: Path, part_bytes: int) -> None:
    rows = read(varied_store, part_bytes=part_bytes)
    assert [row["phys_offset"] for row in rows] == [each.phys_offset for each in expected(varied_store)]


def test_times_that_no_calendar_has_are_the_first_and_the_last(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, [message(born_timestamp=1 << 62), message(born_timestamp=-(1 << 62))])
    assert [row["born_time"].year for row in read(tmp_path)] == [9999, 1]


@pytest.mark.parametrize("kind", Compression)
def test_compressed_bodies_are_expanded(tmp_path: Path, kind: Compression) -> None:
    packed, flags = compress(b"much" * 100, kind)
    with opened(tmp_path) as store:
        put_all(store, [message(packed, sys_flag=flags), message(b"plain"), message(b"broken", sys_flag=flags)])
    assert bodies(tmp_path) == [b"much" * 100, b"plain", b"broken"]
    assert bodies(tmp_path, replace(EVERYTHING, body_bytes=6)) == [b"muchmu", b"plain", b"broken"]
    assert [row["body_size"] for row in read(tmp_path)] == [len(packed), 5, 6]
    assert bodies(tmp_path, replace(EVERYTHING, body_bytes=0)) == [None, None, None]


def test_text_that_is_not_utf8_reads_as_java_reads_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, [message(properties=b"TAGS\x01\xff\x02a\x01\xfe"), message(tags="fine")])
    rows = read(tmp_path)
    assert [row["tags"] for row in rows] == ["\ufffd", "fine"]
    assert dict(rows[0]["properties"]) == {"TAGS": "\ufffd", "a": "\ufffd"}


def test_properties_that_are_none(tmp_path: Path) -> None:
    texts = [b"", b"\x02", b"\x01x", b"TAGS\x01", b"TAGS", b"a\x01b\x02a\x01c\x02", b"k\x01v\x01w"]
    with opened(tmp_path) as store:
        put_all(store, [message(properties=text) for text in texts])
    rows = read(tmp_path)
    assert [dict(row["properties"]) for row in rows] == [parse_properties(text.decode()) for text in texts]
    assert [row["tags"] for row in rows] == [None] * len(texts)


def test_records_of_version_2_have_longer_topics(tmp_path: Path) -> None:
    """Written by 5.x for topics of more than 127 bytes."""
    topic, place, log = "t" * 300, 0, b""
    for number in range(3):
        body = b"%d" % number
        size = record.encoded_size(0, len(topic), len(body), 0) + 1
        host, crc = record.pack_host("127.0.0.1", 1), crc32(body) & record.CRC_MASK
        head = record.HEADS[0].pack(
            size, record.MAGIC_V2, crc, 0, 0, number, place, 0, 1, host, 2, host, 0, 0, len(body)
        )  # fmt: skip
        log += head + body + len(topic).to_bytes(2, "big") + topic.encode() + bytes(2)
        place += size
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(log.ljust(4096, b"\0"))
    found = [(row["topic"], row["version"], row["body"]) for row in read(tmp_path)]
    assert found == [(topic, 2, b"0"), (topic, 2, b"1"), (topic, 2, b"2")]
