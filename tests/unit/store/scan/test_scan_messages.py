"""Messages as columns, compared with what the plain reader of records finds in the same log."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mqctl.remoting.compression import Compression, compress
from mqctl.store import record
from mqctl.store.offline.folder import StoreFolder as OfflineFolder
from mqctl.store.properties import get_property, parse_properties
from mqctl.store.scan import logreader
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.messages import Wanted
from mqctl.store.scan.plan import LogPlan, LogRange, message_parts
from mqctl.store.scan.schema import MESSAGES
from tests.unit.store.stores import Clock, message, opened, put_all

V6 = record.pack_host("2001:db8::7", 1234)


def read(root: Path, wanted: Wanted = Wanted(), part_bytes: int = 700) -> list[dict[str, Any]]:
    store = StoreFolder("s", str(root))
    batches = [batch for part in message_parts(store, wanted, part_bytes) for batch in part.batches(wanted)]
    rows = pa.Table.from_batches(batches, _schema(wanted)).to_pylist()
    return sorted(rows, key=lambda row: row["phys_offset"])


def _schema(wanted: Wanted) -> pa.Schema:
    return pa.schema([MESSAGES.field(name) for name in wanted.columns])


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
    rows = read(varied_store, Wanted().with_body("full"))
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
