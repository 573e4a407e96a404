"""export, diff and sql: the messages themselves."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from mqctl.errors import ConfigError, StoreError
from mqctl.store.scan.folder import StoreFolder
from spark import diff, export, sql
from spark.onlyone import LOCK, claimed, only_one
from spark.place import Place
from spark.result import Ask
from spark.stores import Stores
from tests.spark.storing import Keeper, keeping

DAY_MS = 86_400_000


def keep(keeper: Keeper, *numbers: int) -> None:
    for number in numbers:
        topic = ("orders", "audit")[number % 2]
        keeper.put(topic, 0, b"body-%d" % number, UNIQ_KEY=f"id-{number}", KEYS=f"k{number}", TAGS="t")


def exported(out: Path) -> list[tuple[str, bytes]]:
    table = pq.read_table(out, columns=["uniq_key", "body"])  # pyarrow, too, passes over names that begin with _
    return sorted(zip(table["uniq_key"].to_pylist(), table["body"].to_pylist(), strict=True))


def sent(*numbers: int) -> list[tuple[str, bytes]]:
    return sorted((f"id-{number}", b"body-%d" % number) for number in numbers)


def test_export(spark: SparkSession, tmp_path: Path) -> None:
    root, out = tmp_path / "store", tmp_path / "out"
    stores, ask = None, Ask(out=str(out))
    with keeping(root) as keeper:
        keep(keeper, *range(10))
        keeper.clock.now_ms += DAY_MS
        keep(keeper, *range(10, 13))
    stores = Stores(spark, f"broker-a={root}")
    rows = export.run(stores, ask).frame.collect()
    assert [(row["topic"], str(row["day"]), row["messages"]) for row in rows] == [
        ("audit", "2025-10-09", 5),
        ("audit", "2025-10-10", 1),
        ("orders", "2025-10-09", 5),
        ("orders", "2025-10-10", 2),
    ]
    assert exported(out) == sent(*range(13))
    assert (out / "run=000001" / "topic=orders" / "day=2025-10-10").is_dir()

    nothing = export.run(stores, ask)
    assert (nothing.frame.count(), list(nothing.notes)) == (0, ["there was nothing new"])

    with keeping(root) as keeper:
        keep(keeper, *range(13, 20))
    # A run that was killed left what readers do not see, or, if at its very end, what is not counted as a run.
    shutil.copytree(out / "run=000001", out / f"{export.STAGING}1234")
    assert exported(out) == sent(*range(13))
    shutil.copytree(out / "run=000001", out / "run=000002")
    (out / "run=000002" / export.PROGRESS).unlink()
    assert sum(row["messages"] for row in export.run(stores, ask).frame.collect()) == 7
    assert exported(out) == sent(*range(20))
    assert sorted(each.name for each in out.iterdir()) == ["run=000001", "run=000002"]
    progress = json.loads((out / "run=000002" / export.PROGRESS).read_text())
    assert progress["topics"] == []
    assert progress["stores"].keys() == {"broker-a"}
    assert progress["places"] == {"broker-a": str(root)}

    with pytest.raises(ConfigError, match="holds an export of all topics"):
        export.run(stores, Ask(out=str(out), topic=("orders",)))
    shutil.rmtree(root)
    with keeping(root) as keeper:
        keep(keeper, 1)
    (out / "run=000002" / export.PROGRESS).write_text(json.dumps({"topics": [], "stores": {"broker-a": 1 << 40}}))
    (out / "run=000002" / f".{export.PROGRESS}.crc").unlink(missing_ok=True)
    with pytest.raises(StoreError, match="ends before"):
        export.run(stores, ask)


def test_an_export_knows_its_stores(spark: SparkSession, tmp_path: Path) -> None:
    """By their places, not by names alone: each of these is called `store`, and both together are `a` and `b`."""
    ask = Ask(out=str(tmp_path / "out"))
    for name in ("a", "b"):
        with keeping(tmp_path / name / "store") as keeper:
            keep(keeper, 1)
    export.run(Stores(spark, str(tmp_path / "a")), ask)
    with pytest.raises(ConfigError, match=f"store was exported from {tmp_path}/a/store, and is {tmp_path}/b/store now"):
        export.run(Stores(spark, str(tmp_path / "b")), ask)
    with pytest.raises(ConfigError, match=f"{tmp_path}/a/store was exported as store") as refused:
        export.run(Stores(spark, f"{tmp_path}/*/store"), ask)
    assert refused.value.hint == f"--store store={tmp_path}/a/store"
    assert exported(tmp_path / "out") == sent(1)


def test_what_was_deleted_before_it_was_exported(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for start in (2000, 3000):
        (tmp_path / "commitlog" / f"{start:020d}").write_bytes(bytes(1000))
    store = StoreFolder("a", str(tmp_path))
    for reached in ({}, {"a": 2000}, {"a": 4000}):
        assert list(export.deleted([store], reached)) == []
    assert list(export.deleted([store], {"a": 500})) == [
        "a: 1500 bytes of the log were deleted before they were exported"
    ]
    with pytest.raises(StoreError, match="the log of a ends before 4001"):
        list(export.deleted([store], {"a": 4001}))


def test_one_export_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """On a disk the lock ends with its process; elsewhere a file says whose it is."""
    with keeping(tmp_path / "store") as keeper:
        keep(keeper, 1)
    out = Place(spark, str(tmp_path / "out"))
    with only_one(out), pytest.raises(StoreError, match=f"another export is writing to {out.text}"):
        export.run(Stores(spark, f"a={tmp_path / 'store'}"), Ask(out=out.text))
    assert out.names() == []
    (tmp_path / "out" / LOCK).touch()  # of a process that was killed
    with only_one(out):
        pass
    with claimed(out):
        with pytest.raises(StoreError, match=f"process {os.getpid()} on") as refused, claimed(out):
            pass
        assert refused.value.hint is not None and f"remove {out.text}/{LOCK}" in refused.value.hint
    assert out.names() == []


def test_diff(spark: SparkSession, tmp_path: Path) -> None:
    master, slave = tmp_path / "master", tmp_path / "slave"
    with keeping(master) as keeper:
        keep(keeper, *range(300))
        keeper.write_topics("orders", "audit")
    shutil.copytree(master, slave)
    same = compare(spark, master, slave)
    assert (same.exit_code, same.frame.count()) == (0, 0)
    assert list(same.notes) == ["master and slave hold the same records"]

    with keeping(master) as keeper:
        keep(keeper, *range(300, 310))
        keeper.write_topics("orders", "audit", "new")
    first = sorted((slave / "commitlog").iterdir())[0]
    data = first.read_bytes()
    first.write_bytes(data.replace(b"body-17\x05", b"body-71\x05"))
    result = compare(spark, master, slave)
    assert result.exit_code == 1
    found = {
        (row["what"], row["topic"]): (row["messages"], row["first_offset"], row["last_offset"])
        for row in result.frame.collect()
    }
    assert found == {
        ("missing", "orders"): (5, 150, 154),
        ("missing", "audit"): (5, 150, 154),
        ("different", "audit"): (1, 8, 8),
    }
    assert list(result.notes) == ["1 topics are only in the first: new"]
    with pytest.raises(ConfigError, match="compared with one other"):
        diff.run(Stores(spark, f"a={master};b={slave}"), Ask(other=str(slave)))


def test_stores_of_one_name_are_told_apart() -> None:
    first, second = StoreFolder("store", "/mnt/a/store"), StoreFolder("store", "/mnt/b/store")
    assert [folder.name for folder in diff.told_apart(first, second)] == ["/mnt/a/store", "/mnt/b/store"]
    assert diff.told_apart(first, StoreFolder("b", "/b")) == (first, StoreFolder("b", "/b"))


def compare(spark: SparkSession, master: Path, slave: Path) -> Any:
    return diff.run(Stores(spark, f"master={master}"), Ask(other=f"slave={slave}"))


def test_sql(spark: SparkSession, tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        keep(keeper, *range(10))
        keeper.write_topics("orders", "audit")
    stores = Stores(spark, f"broker-a={tmp_path}")

    def answer(query: str) -> list[Any]:
        return [tuple(row) for row in sql.run(stores, Ask(query=query)).frame.collect()]

    assert answer("SELECT topic, count(*) FROM messages GROUP BY topic ORDER BY 1") == [("audit", 5), ("orders", 5)]
    assert answer("SELECT count(*) FROM messages") == [(10,)]
    assert answer("SELECT Body FROM messages WHERE keys = 'k3';") == [(b"body-3",)]
    view = "CREATE TEMP VIEW mine AS SELECT keys, body FROM messages; -- a ; b\n"
    assert answer(f"{view} SELECT keys FROM mine WHERE body = 'body-4'") == [("k4",)]
    assert answer("SELECT m.topic FROM messages m JOIN topics USING (topic) WHERE uniq_key = 'id-2'") == [("orders",)]
    assert "body" not in sql.run(stores, Ask(query="SELECT * FROM messages")).frame.columns
    with pytest.raises(AnalysisException, match="nope"):
        answer("SELECT nope FROM messages")
    with pytest.raises(ConfigError, match="no query"):
        answer(" ; -- nothing")


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("SELECT count(*) FROM messages", ["phys_offset"]),
        ("SELECT size, Topic FROM messages -- body", ["topic", "size"]),
        ("SELECT size FROM messages WHERE topic = 'the body'", ["topic", "size"]),
        ("SELECT length(body) FROM messages", ["body"]),
        ("SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY n DESC", ["topic"]),
        ("SELECT 8*size, (queue_id) * 2, flag\n* 3 FROM messages", ["queue_id", "size", "flag"]),
    ],
)
def test_columns_of_a_statement(statement: str, columns: list[str]) -> None:
    assert sql.message_columns(statement) == columns


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM messages",
        "SELECT DISTINCT\n*, size*8 FROM messages",
        "SELECT /*+ COALESCE(2) */ * FROM messages",
        "SELECT m.* FROM messages m",
        "SELECT topic, * FROM messages ORDER BY size DESC",
        "SELECT count(DISTINCT *), struct( * ) FROM messages",
        "TABLE messages",
        "-- all\n DESC messages",
        "DESCRIBE TABLE messages",
    ],
)
def test_all_columns_but_the_body(statement: str) -> None:
    assert "body" not in sql.message_columns(statement)
    assert len(sql.message_columns(statement)) > 20


def test_statements_end_at_semicolons() -> None:
    assert sql.statements("SELECT ';' ; /* ; */ SELECT 2; -- ;\n ;") == ["SELECT ';'", "/* ; */ SELECT 2"]
