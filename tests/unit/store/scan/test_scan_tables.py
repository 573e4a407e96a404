"""The tables beside messages, and which folders a location means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from mqctl.errors import NotFound, StoreError
from mqctl.store.indexfile import Geometry
from mqctl.store.javahash import java_hash
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.indexes import index_parts
from mqctl.store.scan.locate import locate
from mqctl.store.scan.schema import TABLES
from mqctl.store.scan.tables import ConfigPart, queue_parts
from mqctl.store.store import MessageStore
from tests.unit.store.scan.reading import folder, read
from tests.unit.store.stores import HOST, Clock, message, numbered, opened, put_all, store_config


def rows(table: str, parts: Any) -> list[dict[str, Any]]:
    names = TABLES[table].names
    batches = [batch for part in parts for batch in part.batches(names)]
    return [dict(row) for row in pa.Table.from_batches(batches, TABLES[table]).to_pylist()]


def test_entries_of_queues(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, [*numbered(25), message(tags="a", topic="u", queue_id=1), message(tags="B" * 9, topic="u")])
    found = rows("queues", queue_parts(folder(tmp_path), frozenset(), None))
    assert [row["queue_offset"] for row in found if row["topic"] == "t"] == list(range(25))
    by_tags = [(row["queue_id"], row["queue_offset"], row["tags_code"]) for row in found if row["topic"] == "u"]
    assert by_tags == [(0, 0, java_hash("B" * 9)), (1, 0, java_hash("a"))]
    assert {row["size"] for row in found if row["topic"] == "t"} == {found[0]["size"]}
    assert len(rows("queues", queue_parts(folder(tmp_path), frozenset({"u"}), 1))) == 1


def test_entries_whose_records_are_gone_are_left_out(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_all(store, numbered(40))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    found = rows("queues", queue_parts(folder(tmp_path), frozenset(), None))
    assert [row["queue_offset"] for row in found] == list(range(10, 40))


@pytest.mark.parametrize("geometry", [Geometry(), Geometry(50, 200)])
def test_entries_of_the_index(tmp_path: Path, geometry: Geometry) -> None:
    """Where they begin is not told by a size that is not RocketMQ's; the first record's keys tell."""
    clock = Clock(5_000_000)
    store = MessageStore(structs.replace(store_config(tmp_path), index=geometry), HOST, clock)
    store.open()
    for number in range(30):
        clock.now_ms = 5_000_000 + 500 * number
        put_all(store, [message(properties=b"KEYS\x01a%d b\x02UNIQ_KEY\x01u%d" % (number, number))])
    store.close()
    found = rows("index", index_parts(folder(tmp_path)))
    expected = [abs(java_hash(f"t#{key}")) for number in range(30) for key in (f"u{number}", f"a{number}", "b")]
    assert [row["key_hash"] for row in found] == expected
    assert [row["entry"] for row in found] == list(range(1, 91))
    places = [row["phys_offset"] for row in read(tmp_path)]
    assert [row["phys_offset"] for row in found] == [place for place in places for _ in range(3)]
    assert [row["store_time"].timestamp() for row in found] == [
        5000 + number // 2 for number in range(30) for _ in "123"
    ]


def config(root: Path, name: str, text: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_text(text)


def test_config_files_as_java_writes_them(tmp_path: Path) -> None:
    config(tmp_path, "consumerOffset.json", '{"offsetTable":{"T@G":{0:4,1:0},"U@G":{3:9}}}')
    config(tmp_path, "delayOffset.json", '{"offsetTable":{1:1,3:17}}')
    config(tmp_path, "topics.json", '{"topicConfigTable":{"T":{"perm":4,"readQueueNums":3,"writeQueueNums":2}}}')
    config(tmp_path, "subscriptionGroup.json", '{"subscriptionGroupTable":{"G":{"consumeEnable":false}}}')

    def table(name: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values())[1:] for row in rows(name, [ConfigPart(folder(tmp_path), name)])]

    assert table("offsets") == [("G", "T", 0, 4), ("G", "T", 1, 0), ("G", "U", 3, 9)]
    assert table("delay_offsets") == [(1, 1), (3, 17)]
    assert table("topics") == [("T", 3, 2, 4, 0, False)]
    assert table("groups") == [("G", False, True, 1, 16)]


def test_a_config_file_that_is_cut_off_gives_way_to_its_backup(tmp_path: Path) -> None:
    config(tmp_path, "delayOffset.json", '{"offsetTable":{1:')
    with pytest.raises(StoreError, match=r"delayOffset\.json"):
        rows("delay_offsets", [ConfigPart(folder(tmp_path), "delay_offsets")])
    config(tmp_path, "delayOffset.json.bak", '{"offsetTable":{1:5}}')
    assert rows("delay_offsets", [ConfigPart(folder(tmp_path), "delay_offsets")])[0]["queue_offset"] == 5


def test_a_config_file_of_another_shape_is_named(tmp_path: Path) -> None:
    config(tmp_path, "consumerOffset.json", '{"offsetTable":{"T@G":[1]}}')
    with pytest.raises(StoreError, match=r"consumerOffset\.json is not what it should be"):
        rows("offsets", [ConfigPart(folder(tmp_path), "offsets")])


def make_store(path: Path) -> Path:
    (path / "commitlog").mkdir(parents=True)
    return path


def test_locations(tmp_path: Path) -> None:
    a, b = make_store(tmp_path / "a" / "store"), make_store(tmp_path / "b" / "store")
    one = make_store(tmp_path / "stores" / "one")
    assert locate(f"x={a};y={b}") == [StoreFolder("x", str(a)), StoreFolder("y", str(b))]
    assert locate(f"{tmp_path}/*/store") == [StoreFolder("a", str(a)), StoreFolder("b", str(b))]
    assert locate(str(tmp_path / "stores")) == [StoreFolder("one", str(one))]
    assert locate(f"{one}/") == [StoreFolder("one", str(one))]
    assert locate(one.parent.as_uri()) == [StoreFolder("one", one.as_uri())]
    for nothing in (str(tmp_path), f"{tmp_path}/none", f"x={tmp_path}", "", f"{tmp_path}/z*"):
        with pytest.raises(NotFound):
            locate(nothing)
    with pytest.raises(NotFound, match="two stores are called x"):
        locate(f"x={a};x={b}")
    with pytest.raises(StoreError, match="cannot open"):
        locate("nosuchscheme://x/y")
